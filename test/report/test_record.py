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

"""Records survive their JSON, and what is not a record is refused in words."""

from pathlib import Path

import numpy as np
import pytest

from robot_infer.errors import ConfigError
from robot_infer.report.record import RunRecord, StepRecord, TickRecord
from robot_infer.types import ActionChunk, Source, StepReport


def test_a_step_survives_its_line_of_json(run: RunRecord):
    for step in run.steps:
        line = step.to_json()
        assert '\n' not in line
        assert StepRecord.from_json(line) == step


def test_a_run_survives_its_file(run: RunRecord, tmp_path: Path):
    path = tmp_path / 'made' / 'run.json'
    run.write_json(path)
    assert RunRecord.read_json(path) == run


def test_a_record_of_a_chunk_holds_its_report_and_the_time_to_observe():
    report = StepReport(
        epoch=4, stages_s={'vision': 0.01, 'denoise': 0.03}, tokens_total=39, tokens_computed=1,
        cameras_encoded=0, pages_used=2, pages_total=227)
    chunk = ActionChunk(
        values=np.zeros((8, 2), np.float32), period_s=1 / 30, epoch=4, observed_ns=1_000,
        frame_stamps_ns={}, state_stamp_ns=0, report=report)
    record = StepRecord.from_chunk(chunk, observe_s=0.002, ended_ns=50_001_000, deadline_s=0.1)
    assert list(record.stages_s.items()) == [
        ('observe', 0.002), ('vision', 0.01), ('denoise', 0.03)]
    assert (record.duration_s, record.late, record.tokens_reused) == (0.05, False, 38)


def test_a_step_longer_than_its_deadline_is_late(run: RunRecord):
    assert [number for number, step in enumerate(run.steps) if step.late] == [49, 99, 149, 199]


def test_a_tick_counts_the_periods_skipped_before_it_as_missed():
    assert TickRecord(0, 0.02, Source.CHUNK, late=True, skipped=2).missed == 3
    assert TickRecord(0, 0.0, Source.CHUNK).missed == 0


@pytest.mark.parametrize('text', ['', 'nonsense', '{}', '[1, 2]', '{"epoch": "first"}'])
def test_what_is_not_a_step_record_is_refused_in_words(text: str):
    with pytest.raises(ConfigError, match='step record: expected the JSON that robot_infer'):
        StepRecord.from_json(text)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match='nowhere.json.*No such file'):
        RunRecord.read_json(tmp_path / 'nowhere.json')
