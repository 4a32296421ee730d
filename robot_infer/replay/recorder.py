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

"""What a replay keeps: every control tick with what it sent, every inference step with its times.

Times are bag time, except how long a step took: that is real and of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
import hashlib
import itertools
import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robot_infer.control.chunks import InputTimes
from robot_infer.report.record import StepRecord, TickRecord
from robot_infer.types import ActionChunk, Command, Source


class Tick(NamedTuple):
    """One control tick of a replay.

    values: (action_dim,) float64 that was sent, None where nothing could be. epoch, row: the
    chunk and the place in it that they come from, -1 for a fallback.
    """

    time_ns: int
    source: Source
    reason: str
    epoch: int
    row: int
    values: NDArray[np.float64] | None


class ReplayRecorder:
    """Told by the runtime of each tick, and of each step when its chunk is delivered.

    inference_s: real seconds of the steps made so far, the newest last; the lock-step's own list.
    """

    def __init__(self) -> None:
        self.inference_s: list[float] = []
        self.ticks: list[Tick] = []
        self.steps: list[StepRecord] = []
        self._recent: list[TickRecord] = []
        self._consumed = 0
        self._base: dict[int, int] = {}  # actions consumed when the chunk's observation was made

    def tick(
        self, command: Command, *, scheduled_ns: int, started_ns: int, skipped: int, late: bool,
    ) -> None:
        """Take one control tick."""
        row = -1
        if command.source is Source.CHUNK:
            row = self._consumed - self._base[command.epoch]
            self._consumed += 1
        self.ticks.append(Tick(
            started_ns, command.source, command.reason, command.epoch, row, command.values))
        self._recent.append(TickRecord(
            started_ns, 0.0, command.source, late, skipped, command.reason, command.epoch))

    def step(
        self, chunk: ActionChunk, *, observe_s: float, ended_ns: int, deadline_s: float,
        inputs: InputTimes | None,
    ) -> None:
        """Take one inference step; it ended, in bag time, when it would have on this machine."""
        took_s = self.inference_s[-1]
        ended_ns = chunk.observed_ns + round(took_s * 1e9)
        age_s = None
        if inputs is not None and inputs.captured_ns is not None:
            age_s = (ended_ns - inputs.captured_ns) / 1e9
        ticks, self._recent = self._recent, []
        self.steps.append(StepRecord.from_chunk(
            chunk, observe_s=max(0.0, took_s - chunk.report.total_s), ended_ns=ended_ns,
            deadline_s=deadline_s, frame_age_s=age_s, ticks=ticks))
        self._base = {epoch: base for epoch, base in self._base.items()
                      if epoch >= chunk.epoch - 2}
        self._base[chunk.epoch] = self._consumed - self._consumed_since(chunk.observed_ns)

    def _consumed_since(self, time_ns: int) -> int:
        """Actions consumed by the ticks at `time_ns` and later."""
        since = itertools.takewhile(lambda tick: tick.time_ns >= time_ns, reversed(self.ticks))
        return sum(tick.source is Source.CHUNK for tick in since)

    def end(self) -> None:
        """Give the ticks after the last step to that step, so that none is missing."""
        if self.steps and self._recent:
            last = self.steps[-1]
            self.steps[-1] = replace(last, ticks=(*last.ticks, *self._recent))
            self._recent = []


def digest(ticks: Sequence[Tick]) -> str:
    """SHA-256 of all that was sent: times, sources and values, to the last bit."""
    found = hashlib.sha256()
    for tick in ticks:
        found.update(struct.pack('<q', tick.time_ns) + tick.source.value.encode())
        if tick.values is not None:
            found.update(np.ascontiguousarray(tick.values, '<f8').tobytes())
    return found.hexdigest()
