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

"""Gathers the records of a running node: ticks from the control thread, steps from the worker.

A tick costs the control thread one append to a ring; everything else happens on the worker's side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from robot_infer.control.chunks import InputTimes
from robot_infer.report.record import StepRecord, TickRecord
from robot_infer.types import ActionChunk, Command

_MAX_TICKS = 4096  # between two inference steps; where more come, the oldest are let go


class StepRecorder:
    """Makes one StepRecord per inference step and hands it to `publish`, on the worker thread."""

    def __init__(self, publish: Callable[[StepRecord], None]) -> None:
        self._publish = publish
        self._ticks: deque[TickRecord] = deque(maxlen=_MAX_TICKS)

    def tick(
        self, command: Command, *, scheduled_ns: int, started_ns: int, skipped: int, late: bool,
    ) -> None:
        """Take one control tick. Called by the control thread; takes no lock."""
        lateness_s = max(0, started_ns - scheduled_ns) / 1e9
        self._ticks.append(TickRecord(
            started_ns, lateness_s, command.source, late, skipped, command.reason,
            command.epoch))

    def step(
        self, chunk: ActionChunk, *, observe_s: float, ended_ns: int, deadline_s: float,
        inputs: InputTimes | None,
    ) -> None:
        """Take one inference step that gave a chunk. Called by the worker.

        :param observe_s: time to read the inputs and to decode the frames.
        :param inputs: the times of the frames it was made from.
        """
        frame_age_s = None
        if inputs is not None and inputs.captured_ns is not None:
            frame_age_s = (ended_ns - inputs.captured_ns) / 1e9
        ticks = [self._ticks.popleft() for _ in range(len(self._ticks))]
        self._publish(StepRecord.from_chunk(
            chunk, observe_s=observe_s, ended_ns=ended_ns, deadline_s=deadline_s,
            frame_age_s=frame_age_s, ticks=ticks))
