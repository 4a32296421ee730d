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

"""What one control tick sends: the next action of a valid chunk, or the configured fallback.

Only the decision lives here; when a tick is due is schedule.py's, who sends is loop.py's. The
decision takes no lock, never waits and never fails: in doubt the robot is not moved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robot_infer.config import ControlSettings
from robot_infer.control.chunks import ChunkAction, ChunkBuffer, InputTimes, Reason
from robot_infer.control.faults import FaultBoard
from robot_infer.control.limits import ActionLimits
from robot_infer.types import Command, Source

# A fallback follows from no frame: epoch and stamp say so.
NO_EPOCH = -1
NO_STAMP = 0

Measured = Callable[[int], 'NDArray[np.float64] | None']


class ControlTick:
    """Decides the command of each tick.

    :param measured: the measured position at a time, (action_dim,) float64, or None where none
        is fresh or where actions are not positions of the measured joints.
    :param trouble: why no chunk is to be expected of the policy, None where one is: then it is no
        waiting to have none. Must neither wait nor fail.

    Fallbacks, where the buffer has no action:

    - hold: the last position sent; before there is one, the measured one, which then counts as
      sent; where that is not known, or outside the limits of actions, a command without values.
    - zero: zeros.
    - stop: as hold, and latched: once actions ran out or were refused, no chunk is followed until
      `reset` or `release`. Waiting for a first chunk (at start, after a new instruction) does not
      latch, unless there is `trouble`.

    Any of them is latched by `stop`, whoever calls it.
    """

    def __init__(
        self, settings: ControlSettings, buffer: ChunkBuffer, limits: ActionLimits,
        measured: Measured, faults: FaultBoard,
        trouble: Callable[[], Reason | None] = lambda: None,
    ) -> None:
        self._fallback = Source(settings.fallback)
        self._buffer = buffer
        self._limits = limits
        self._measured = measured
        self._faults = faults
        self._trouble = trouble
        self._zeros = np.zeros(limits.action_dim)
        self._zeros.flags.writeable = False
        self._jump_fault: str | None = None
        self.reset()

    @property
    def latched(self) -> Reason | None:
        """Why the robot was stopped for good; None where it was not."""
        return self._latched

    @property
    def wanting(self) -> bool:
        """Whether the last tick had no action although it was not waiting for a first one."""
        return self._wanting

    @property
    def inputs(self) -> InputTimes | None:
        """The times of the frames that the last command follows from; None for a fallback."""
        return self._inputs

    def reset(self) -> None:
        """Forget the position last sent and a latched stop: the robot is activated again."""
        self._position: NDArray[np.float64] | None = None
        self._latched: Reason | None = None
        self._inputs: InputTimes | None = None
        self._wanting = False

    def stop(self, reason: Reason) -> None:
        """Follow no chunk any more, for `reason`, until `reset` or `release`."""
        self._latched = reason

    def release(self) -> None:
        """Forget a latched stop, but not where the robot was held: it is still there."""
        self._latched = None

    def tick(self, now_ns: int) -> Command:
        """The command of the tick at `now_ns`."""
        self._inputs = None
        if self._latched is not None:
            return self._stopped(self._latched, now_ns)
        action = self._buffer.peek(now_ns)
        if isinstance(action, Reason):
            trouble = self._trouble() if action.awaits_policy else None
            return self._substitute(trouble or action, now_ns)
        if action.first:
            refusal = self._limits.jump(action.values, self._measured(now_ns))
            if refusal is not None:
                self._buffer.reject(refusal.reason)
                self._jump_fault = self._faults.report(refusal.error)
                return self._substitute(refusal.reason, now_ns)
        return self._follow(action)

    def _follow(self, action: ChunkAction) -> Command:
        self._buffer.consume()
        self._wanting = False
        self._position = action.values
        self._inputs = action.inputs
        if self._jump_fault is not None:
            self._faults.clear(self._jump_fault)
            self._jump_fault = None
        return Command(action.values, Source.CHUNK, '', action.epoch, action.stamp_ns)

    def _substitute(self, reason: Reason, now_ns: int) -> Command:
        """The fallback for a tick that has no action."""
        self._wanting = not reason.waiting
        if self._fallback is Source.ZERO:
            return Command(self._zeros, Source.ZERO, reason.value, NO_EPOCH, NO_STAMP)
        if self._fallback is Source.STOP and not reason.waiting:
            self._latched = reason
            return self._stopped(reason, now_ns)
        return self._hold(Source.HOLD, reason, now_ns)

    def _stopped(self, reason: Reason, now_ns: int) -> Command:
        if self._fallback is Source.ZERO:
            return Command(self._zeros, Source.STOP, reason.value, NO_EPOCH, NO_STAMP)
        return self._hold(Source.STOP, reason, now_ns)

    def _hold(self, source: Source, reason: Reason, now_ns: int) -> Command:
        if self._position is None:
            measured = self._measured(now_ns)
            if measured is not None and self._limits.allows(measured):
                self._position = measured
        return Command(self._position, source, reason.value, NO_EPOCH, NO_STAMP)
