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

"""The chunks of a run that already was, computed again from the very frames it used.

A step record says by stamp which frames and which state its step looked at. The same messages out
of the bag, through the same decoding and the same engine, must give the same chunk, bit for bit.
Nothing is judged here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
import sys

import numpy as np
from numpy.typing import NDArray

from robot_infer.config import Config
from robot_infer.control import ManualClock, Runtime
from robot_infer.control.inference import Engine, EngineInfo
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag, BagMessage
from robot_infer.replay.errors import MessageError
from robot_infer.replay.sources import Sources, Wishes
from robot_infer.report.record import StepRecord
from robot_infer.types import ActionChunk, Observation, StepBudget


@dataclass(frozen=True)
class Again:
    """A step computed again.

    values: of its chunk; several where two instructions are possible, none where the bag does not
    hold what it looked at. since_ns, until_ns: the bag times between which what it looked at was
    the newest there was.
    """

    values: tuple[NDArray[np.float32], ...] = ()
    since_ns: int = 0
    until_ns: int = 0


_KEPT = 64  # messages of a topic among which a stamp is looked for
_AHEAD_NS = 300_000_000  # a recorder may have heard a frame this much later than the node
# An instruction that came this shortly before a step may not have been in force for it yet.
_UNSURE_NS = 1_000_000_000


class ShortenedEngine:
    """An engine whose chunks can be made as long as those of a run that is followed.

    The actions of a shorter chunk are the same numbers but for rounding: matrices of another shape
    are multiplied in another order. Bit for bit they are equal only at equal length.

    horizon: of the chunks to come, 0 for the policy's own.
    """

    def __init__(self, engine: Engine) -> None:
        self.horizon = 0
        self._engine = engine

    @property
    def info(self) -> EngineInfo:
        """The engine's own facts."""
        return self._engine.info

    def step(self, observation: Observation, budget: StepBudget) -> ActionChunk:
        """One inference step."""
        if self.horizon:
            budget = replace(budget, horizon=self.horizon)
        return self._engine.step(observation, budget)

    def forget(self) -> None:
        """Make the next step a cold one."""
        self._engine.forget()


class Reenactment:
    """Goes through a bag once, beside the steps of a run, both in the order of time."""

    def __init__(
        self, bag: Bag, sources: Sources, wishes: Wishes, config: Config, engine: Engine,
    ) -> None:
        self._bag, self._sources, self._engine = bag, sources, engine
        self._clock = ManualClock(1)
        self._shortened = ShortenedEngine(engine)
        self._runtime = Runtime(config, self._shortened, self._clock, lambda command: None)
        self._words = _instructions(bag, sources, wishes, config)
        self._held: dict[str, OrderedDict[int, BagMessage]] = {
            topic.name: OrderedDict() for topic in sources.fed.values()}
        self._put: dict[str, int] = {}

    def compute(self, steps: Sequence[StepRecord], *, chunks: bool = True) -> dict[int, Again]:
        """Compute every step again, by epoch.

        :param steps: their times and stamps are those of the bag.
        :param chunks: False only looks when what they looked at was the newest.
        """
        self._engine.reset()
        names = [*(topic.name for topic in self._sources.cameras.values()),
                 *([self._sources.state.name] if self._sources.state else [])]
        stream = self._bag.messages(names)
        return {step.epoch: self._again(step, stream, chunks) for step in steps}

    def _again(self, step: StepRecord, stream: Iterator[BagMessage], chunks: bool) -> Again:
        wanted = {topic.name: step.frame_stamps_ns.get(camera, 0)
                  for camera, topic in self._sources.cameras.items()}
        if self._sources.state is not None:
            wanted[self._sources.state.name] = step.state_stamp_ns
        self._read_until(stream, step.started_ns + _AHEAD_NS)
        if not all(stamp_ns in self._held[name] for name, stamp_ns in wanted.items()):
            return Again()
        self._clock.advance_ns(max(0, step.started_ns - self._clock.now_ns()))
        found = []
        self._shortened.horizon = step.horizon
        for words in self._possible_words(step.started_ns) if chunks else ():
            for name, stamp_ns in wanted.items():
                self._give(name, stamp_ns)
            self._runtime.put_instruction(words)
            pending = self._runtime.begin_inference()
            if pending is not None:
                found.append(pending.chunk.values)
        return Again(tuple(found), *self._window(wanted))

    def _window(self, wanted: Mapping[str, int]) -> tuple[int, int]:
        """From when, and until when, these messages were the newest of their topics."""
        since_ns = max(self._held[name][stamp_ns].time_ns for name, stamp_ns in wanted.items())
        newer = [message.time_ns for name, stamp_ns in wanted.items()
                 for message in self._held[name].values()
                 if message.time_ns > self._held[name][stamp_ns].time_ns]
        return since_ns, min(newer, default=sys.maxsize)

    def _read_until(self, stream: Iterator[BagMessage], time_ns: int) -> None:
        for message in stream:
            held = self._held[message.topic]
            try:
                held[self._stamp_ns(message)] = message
            except MessageError:  # counted and named by the replay itself
                continue
            if len(held) > _KEPT:
                held.popitem(last=False)
            if message.time_ns > time_ns:
                return

    def _stamp_ns(self, message: BagMessage) -> int:
        state = self._sources.state
        if state is not None and message.topic == state.name:
            return messages.joint_positions(message.cdr).stamp_ns
        return self._image(message, 0).stamp_ns

    def _image(self, message: BagMessage, now_ns: int):  # noqa: ANN202 - either kind of image
        kind = self._sources.fed[message.topic].type
        convert = messages.raw_image if kind == messages.IMAGE else messages.encoded_image
        return convert(message.cdr, now_ns, now_ns)

    def _give(self, name: str, stamp_ns: int) -> None:
        """Hand a message over, received now."""
        now_ns, message = self._clock.now_ns(), self._held[name][stamp_ns]
        state = self._sources.state
        if state is not None and name == state.name:
            joints = messages.joint_positions(message.cdr)
            self._runtime.put_state(joints.names, joints.positions, stamp_ns, now_ns, now_ns)
            return
        (camera,) = [camera for camera, topic in self._sources.cameras.items()
                     if topic.name == name]
        self._runtime.put_image(camera, self._image(message, now_ns))

    def _possible_words(self, time_ns: int) -> list[str]:
        """The instructions that may have been in force for a step at `time_ns`."""
        before = [words for at_ns, words in self._words if at_ns <= time_ns - _UNSURE_NS][-1:]
        lately = [words for at_ns, words in self._words
                  if time_ns - _UNSURE_NS < at_ns <= time_ns + _AHEAD_NS]
        return [words for words in dict.fromkeys([*before, *lately]) if words]


def _instructions(
    bag: Bag, sources: Sources, wishes: Wishes, config: Config,
) -> list[tuple[int, str]]:
    """Every instruction with the time from which on it was in force."""
    found = [(bag.start_ns - 2 * _UNSURE_NS, wishes.text or config.instruction.text)]
    topics = [topic.name for topic in (sources.instruction, sources.active) if topic]
    return found + [(message.time_ns, messages.text(message.cdr).strip())
                    for message in bag.messages(topics)]
