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

"""What made a step late, told from records alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_infer.replay.late import Cause, LateStep, explain
from robot_infer.report.record import StepRecord, TickRecord
from robot_infer.types import Source

USUAL_S = {'observe': 0.001, 'vision': 0.010, 'prefill': 0.012, 'denoise': 0.020}
PERIOD_NS = 100_000_000


def step(number: int, outside_s: float = 0.0, **stages_s: float) -> StepRecord:
    """A step of a run at 10 Hz whose deadline is 60 ms; usually it takes 43."""
    taken = {**USUAL_S, **stages_s}
    started_ns = number * PERIOD_NS
    took_s = sum(taken.values()) + outside_s
    return StepRecord(
        epoch=number, started_ns=started_ns, ended_ns=started_ns + round(took_s * 1e9),
        stages_s=taken, deadline_s=0.06, tokens_total=40, tokens_computed=1, cameras_encoded=0,
        pages_used=3, pages_total=9, frame_age_s=took_s + 0.02)


def only(late: StepRecord) -> LateStep:
    """What is said of one late step among twenty usual ones."""
    (found,) = explain([*(step(number) for number in range(20)), late])
    assert found.step is late
    return found


def test_a_run_in_time_has_nothing_to_explain():
    assert explain([]) == explain([step(0), step(1)]) == []


def test_the_stage_that_exceeded_its_median_most_is_named():
    found = only(step(30, denoise=0.05, prefill=0.014))
    assert (found.cause, found.stage) == (Cause.STAGE, 'denoise')
    assert found.words == 'denoise took 50.0 ms, its median is 20.0 ms'
    assert found.excess_s == pytest.approx(0.032)


def test_new_frames_and_lost_pages_are_told_with_their_stage():
    vision = only(replace(step(30, vision=0.06), cameras_encoded=2))
    assert '2 cameras had new frames' in vision.words
    prefill = only(replace(step(30, prefill=0.06), tokens_computed=40))
    assert '40 of 40 tokens had to be computed, usually 1' in prefill.words
    compiled = only(replace(step(30, prefill=0.9), late_kernels=2))
    assert '2 GPU kernels were compiled in this step' in compiled.words


def test_ticks_that_were_late_at_the_same_time_show_a_process_that_stood_still():
    late = step(30, denoise=0.2)
    tick = TickRecord(late.ended_ns - 1, 0.15, Source.CHUNK, True, 4)
    found = only(replace(late, ticks=(tick,)))
    assert found.cause is Cause.STALL and '150.0 ms late at the same time' in found.words
    before = tick._replace(time_ns=late.started_ns - 1)
    assert only(replace(late, ticks=(before,))).cause is Cause.STAGE


def test_time_between_the_stages_is_told():
    found = only(step(30, outside_s=0.1))
    assert found.cause is Cause.OUTSIDE and '100.0 ms passed between' in found.words


def test_a_machine_that_was_slow_all_over_is_told():
    found = only(step(30, **{name: 2 * taken for name, taken in USUAL_S.items()}))
    assert found.cause is Cause.MACHINE


def test_frames_that_were_old_already_are_told_besides():
    late = step(30, denoise=0.05)
    found = only(replace(late, frame_age_s=late.duration_s + 0.3))
    assert 'its frames were 300.0 ms old when it began, usually 20.0 ms' in found.words
    assert 'frames' not in only(replace(late, frame_age_s=None)).words


def test_a_run_that_is_always_late_is_explained_too():
    found = explain([replace(step(number), deadline_s=0.01) for number in range(5)])
    assert len(found) == 5 and all(one.words for one in found)
