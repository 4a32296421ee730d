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

"""The recorder gives each inference step the control ticks since the one before."""

import numpy as np

from robot_infer.control.chunks import InputTimes
from robot_infer.report.record import StepRecord
from robot_infer.report.recorder import StepRecorder
from robot_infer.types import ActionChunk, Command, Source, StepReport

MS = 1_000_000


def make_chunk(epoch: int, observed_ns: int) -> ActionChunk:
    """A chunk with a report."""
    report = StepReport(epoch, {'denoise': 0.03}, 39, 39, 2, 1, 8)
    return ActionChunk(np.zeros((4, 2), np.float32), 1 / 30, epoch, observed_ns, {}, 0, report)


def tick(recorder: StepRecorder, time_ns: int, source: Source = Source.CHUNK, **fields) -> None:
    """One control tick that began 2 ms after its time."""
    command = Command(np.zeros(2), source, '' if source is Source.CHUNK else 'no_chunk_yet', 1, 0)
    recorder.tick(command, scheduled_ns=time_ns - 2 * MS, started_ns=time_ns,
                  **{'skipped': 0, 'late': False, **fields})


def test_each_step_carries_the_ticks_since_the_step_before():
    records: list[StepRecord] = []
    recorder = StepRecorder(records.append)
    tick(recorder, 10 * MS, Source.HOLD)
    tick(recorder, 43 * MS)
    recorder.step(make_chunk(1, 5 * MS), observe_s=0.001, ended_ns=45 * MS, deadline_s=0.1,
                  inputs=InputTimes(received_ns=0, captured_ns=1 * MS))
    tick(recorder, 76 * MS, late=True, skipped=1)
    recorder.step(make_chunk(2, 70 * MS), observe_s=0.001, ended_ns=80 * MS, deadline_s=0.1,
                  inputs=InputTimes(received_ns=0, captured_ns=None))
    first, second = records
    assert [(one.time_ns, one.source, one.reason) for one in first.ticks] == [
        (10 * MS, Source.HOLD, 'no_chunk_yet'), (43 * MS, Source.CHUNK, '')]
    assert first.ticks[0].lateness_s == 0.002
    assert [(one.late, one.skipped, one.missed) for one in second.ticks] == [(True, 1, 2)]
    assert first.frame_age_s == 0.044
    assert second.frame_age_s is None


def test_a_tick_before_its_time_is_not_late():
    records: list[StepRecord] = []
    recorder = StepRecorder(records.append)
    recorder.tick(Command(None, Source.HOLD, 'no_chunk_yet', -1, 0), scheduled_ns=5, started_ns=3,
                  skipped=0, late=False)
    recorder.step(make_chunk(1, 0), observe_s=0.0, ended_ns=1, deadline_s=0.1, inputs=None)
    assert records[0].ticks[0].lateness_s == 0.0
