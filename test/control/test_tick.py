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

"""ControlTick: the action of a valid chunk, or the configured fallback with its reason."""

from __future__ import annotations

import numpy as np
import pytest

from robot_infer.config import ControlSettings
from robot_infer.control.chunks import ChunkBuffer, InputTimes, Reason
from robot_infer.control.clock import ManualClock
from robot_infer.control.faults import FaultBoard
from robot_infer.control.limits import ActionLimits
from robot_infer.control.tick import ControlTick
from robot_infer.types import ActionChunk, Command, Source

VALIDITY_NS = 600_000_000


class Arm:
    """A buffer, a tick over it, and a robot whose measured position the test sets."""

    def __init__(self, clock: ManualClock, **values: object) -> None:
        settings = ControlSettings(**values)
        self.clock = clock
        self.position: np.ndarray | None = np.array([0.25, -0.25])
        self.buffer = ChunkBuffer(VALIDITY_NS / 1e9)
        self.board = FaultBoard(clock)
        limits = ActionLimits(settings, ('x', 'y'), 2)
        self.control = ControlTick(
            settings, self.buffer, limits, lambda now_ns: self.position, self.board)

    def put(self, *rows: tuple[float, float], epoch: int = 1) -> None:
        self.buffer.put(
            ActionChunk(np.array(rows, np.float32), 0.02, epoch, self.clock.now_ns(),
                        {'a': 77}, 0),
            self.buffer.ticket(InputTimes(1, None)))

    def tick(self) -> Command:
        return self.control.tick(self.clock.now_ns())

    def ticks(self, number: int) -> list[tuple]:
        """(source, reason, values) of some ticks."""
        commands = [self.tick() for _ in range(number)]
        return [(command.source, command.reason,
                 None if command.values is None else command.values.tolist())
                for command in commands]


def test_an_action_of_a_chunk_goes_out_with_its_epoch_and_stamp(clock: ManualClock) -> None:
    arm = Arm(clock)
    arm.put((0.5, 0.75), epoch=9)
    command = arm.tick()
    assert command.values.tolist() == [0.5, 0.75] and command.values.dtype == np.float64
    assert (command.source, command.reason, command.epoch, command.stamp_ns) == (
        Source.CHUNK, '', 9, 77)
    assert arm.control.inputs == InputTimes(1, None)


def test_hold_before_any_action_sends_the_measured_position_once_measured_for_good(
    clock: ManualClock,
) -> None:
    arm = Arm(clock)
    held = (Source.HOLD, 'no_chunk_yet', [0.25, -0.25])
    assert arm.ticks(1) == [held]
    arm.position = np.array([0.2, -0.3])  # it sags; following it would be a motion
    assert arm.ticks(2) == [held] * 2
    command = arm.tick()
    assert (command.epoch, command.stamp_ns, arm.control.inputs) == (-1, 0, None)


def test_hold_without_any_known_position_sends_no_values(clock: ManualClock) -> None:
    arm = Arm(clock)
    arm.position = None
    assert arm.ticks(2) == [(Source.HOLD, 'no_chunk_yet', None)] * 2
    arm.position = np.array([1.0, 2.0])
    assert arm.ticks(1) == [(Source.HOLD, 'no_chunk_yet', [1.0, 2.0])]


def test_hold_after_actions_repeats_the_last_position_sent(clock: ManualClock) -> None:
    arm = Arm(clock)
    arm.put((0.5, 0.5), (0.75, 0.5))
    arm.ticks(2)
    arm.position = np.array([0.6, 0.5])
    assert arm.ticks(2) == [(Source.HOLD, 'chunk_exhausted', [0.75, 0.5])] * 2
    arm.put((1.0, 1.0), epoch=2)
    assert arm.ticks(1) == [(Source.CHUNK, '', [1.0, 1.0])]


def test_an_expired_chunk_is_not_followed(clock: ManualClock) -> None:
    arm = Arm(clock)
    arm.put((0.5, 0.5), (0.75, 0.5))
    arm.ticks(1)
    clock.advance_ns(VALIDITY_NS + 1)
    assert arm.ticks(1) == [(Source.HOLD, 'chunk_expired', [0.5, 0.5])]


def test_zero_sends_zeros(clock: ManualClock) -> None:
    arm = Arm(clock, fallback='zero')
    arm.position = None
    assert arm.ticks(1) == [(Source.ZERO, 'no_chunk_yet', [0.0, 0.0])]
    arm.put((0.5, 0.5))
    assert arm.ticks(2) == [(Source.CHUNK, '', [0.5, 0.5]),
                            (Source.ZERO, 'chunk_exhausted', [0.0, 0.0])]


def test_stop_holds_for_good_until_it_is_reset(clock: ManualClock) -> None:
    arm = Arm(clock, fallback='stop')
    arm.put((0.5, 0.5))
    arm.ticks(1)
    stopped = (Source.STOP, 'chunk_exhausted', [0.5, 0.5])
    assert arm.ticks(2) == [stopped] * 2
    assert arm.control.latched is Reason.CHUNK_EXHAUSTED
    arm.put((1.0, 1.0))
    assert arm.ticks(2) == [stopped] * 2, 'a new chunk does not set the robot moving again'
    arm.control.reset()
    assert arm.control.latched is None
    assert arm.ticks(1) == [(Source.CHUNK, '', [1.0, 1.0])]


def test_stop_does_not_latch_while_it_waits_for_a_chunk(clock: ManualClock) -> None:
    arm = Arm(clock, fallback='stop')
    assert arm.ticks(1) == [(Source.HOLD, 'no_chunk_yet', [0.25, -0.25])]
    arm.put((0.5, 0.5), (0.6, 0.6))
    arm.ticks(1)
    arm.buffer.reset(Reason.INSTRUCTION_CHANGED)
    assert arm.ticks(1) == [(Source.HOLD, 'instruction_changed', [0.5, 0.5])]
    arm.put((1.0, 1.0))
    assert arm.ticks(1) == [(Source.CHUNK, '', [1.0, 1.0])]


def test_stop_latches_where_the_first_chunk_is_refused(clock: ManualClock) -> None:
    arm = Arm(clock, fallback='stop')
    arm.buffer.refuse(arm.buffer.ticket(), Reason.ACTION_OUT_OF_RANGE)
    assert arm.ticks(1) == [(Source.STOP, 'action_out_of_range', [0.25, -0.25])]


def test_reset_forgets_the_position_last_sent(clock: ManualClock) -> None:
    arm = Arm(clock)
    arm.put((0.5, 0.5))
    arm.ticks(1)
    arm.control.reset()
    arm.position = np.array([-1.0, -1.0])  # moved by hand meanwhile
    assert arm.ticks(1) == [(Source.HOLD, 'chunk_exhausted', [-1.0, -1.0])]


def test_a_jump_at_the_first_action_of_a_chunk_is_not_sent(clock: ManualClock) -> None:
    arm = Arm(clock, max_jump=0.5)
    arm.put((0.75, 0.25), (5.0, 0.25))
    assert arm.ticks(2) == [
        (Source.CHUNK, '', [0.75, 0.25]),
        (Source.CHUNK, '', [5.0, 0.25]),  # later actions are the range's business
    ]
    arm.put((0.75, 0.3), (0.5, 0.5))
    assert arm.ticks(2) == [(Source.HOLD, 'action_jump', [5.0, 0.25])] * 2
    (fault,) = arm.board.active()
    assert fault.count == 1, 'one chunk, one fault'
    assert 'y: expected at most 0.5 from the measured -0.25; got 0.3' in fault.message
    arm.put((0.5, 0.0))
    assert arm.ticks(1) == [(Source.CHUNK, '', [0.5, 0.0])]
    assert arm.board.active() == ()


def test_the_jump_is_judged_at_the_action_that_is_really_the_first(clock: ManualClock) -> None:
    arm = Arm(clock, max_jump=0.5)
    arm.put((0.3, 0.0), (0.4, 0.0))
    ticket = arm.buffer.ticket()
    arm.ticks(2)
    arm.position = np.array([0.4, 0.0])
    arm.buffer.put(
        ActionChunk(np.array([(9, 9), (9, 9), (0.5, 0.1)], np.float32), 0.02, 2,
                    clock.now_ns(), {}, 0), ticket)
    (sent,) = arm.ticks(1)
    assert sent[0] is Source.CHUNK and sent[2] == pytest.approx([0.5, 0.1])


def test_where_the_position_is_not_known_a_limited_jump_is_not_sent(clock: ManualClock) -> None:
    arm = Arm(clock, max_jump=0.5)
    arm.position = None
    arm.put((0.0, 0.0))
    assert arm.ticks(1) == [(Source.HOLD, 'action_jump', None)]
