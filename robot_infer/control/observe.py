# Copyright 2026 The robot_infer authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""One observation out of the newest frames, the newest state and the instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from robot_infer.control.chunks import ChunkBuffer, InputTimes, Ticket
from robot_infer.control.clock import Clock
from robot_infer.control.instruction import InstructionStore
from robot_infer.control.stamps import StampClock
from robot_infer.control.state import StateStore
from robot_infer.errors import RobotInferError
from robot_infer.types import Frame, Observation


class FrameSource(Protocol):
    """What is needed of camera.FrameStore."""

    def newest(self, now_ns: int) -> dict[str, Frame]:
        """The newest frame of each camera; raises FrameError and StaleFrameError."""
        ...


@dataclass(frozen=True)
class Assembly:
    """An observation with its ticket, or every error that stands in its way."""

    observation: Observation | None
    ticket: Ticket
    errors: tuple[RobotInferError, ...]


class Observer:
    """Assembles observations; used by one thread, the inference worker.

    The ticket is taken first and everything else after it. So a change of instruction in between
    voids the ticket, and an action consumed while a frame is decoded counts as consumed since the
    observation.
    """

    def __init__(
        self, frames: FrameSource, state: StateStore, instruction: InstructionStore,
        stamps: StampClock, buffer: ChunkBuffer, clock: Clock,
    ) -> None:
        self._frames = frames
        self._state = state
        self._instruction = instruction
        self._stamps = stamps
        self._buffer = buffer
        self._clock = clock

    def observe(self) -> Observation:
        """The newest observation.

        :raises RobotInferError: the first of what is missing: time, instruction, state, frames.
        """
        assembly = self.assemble()
        if assembly.observation is None:
            raise assembly.errors[0]
        return assembly.observation

    def assemble(self, before: Assembly | None = None) -> Assembly:
        """The newest observation, or all the named errors at once, so that all can be shown.

        before: take its frames in place of the newest; state and instruction are the newest.
        """
        ticket = self._buffer.ticket()
        now_ns = self._clock.now_ns()
        errors: list[RobotInferError] = []
        _collect(self._stamps.check, errors)  # first: what is wrong with stamps follows from it
        instruction = _collect(self._instruction.current, errors)
        state = _collect(lambda: self._state.newest(now_ns), errors)
        if before is None:
            frames = _collect(lambda: self._frames.newest(now_ns), errors)
        else:
            frames = before.observation.frames
        if errors:
            return Assembly(None, ticket, tuple(errors))
        inputs = self._input_times(frames) if before is None else before.ticket.inputs
        ticket = Ticket(ticket.consumed, ticket.generation, inputs)
        return Assembly(Observation(frames, state, instruction, now_ns), ticket, ())

    def _input_times(self, frames: dict[str, Frame]) -> InputTimes | None:
        if not frames:
            return None
        captured_ns = None
        if all(frame.stamp_trusted for frame in frames.values()):
            captured_ns = self._stamps.steady_ns(
                min(frame.stamp_ns for frame in frames.values()))
        return InputTimes(min(frame.received_ns for frame in frames.values()), captured_ns)


def _collect(get: Callable[[], object], errors: list[RobotInferError]):  # noqa: ANN202
    """`get()`, or None with its named error added to `errors`."""
    try:
        return get()
    except RobotInferError as error:
        errors.append(error)
        return None
