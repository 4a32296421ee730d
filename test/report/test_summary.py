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

"""The numbers of a run, checked against numbers worked out by hand."""

import dataclasses
import math

import pytest

from robot_infer.report.record import RunRecord
from robot_infer.report.summary import (
    Distribution,
    bytes_in_words,
    rate_hz,
    summarise,
    wilson_interval,
)
from robot_infer.report.words import figures, milliseconds, summary_table


def test_percentiles_are_values_that_occurred():
    assert Distribution.of([float(n) for n in range(1, 101)]) == Distribution(100, 50, 95, 99, 100)
    assert Distribution.of([3.0]) == Distribution(1, 3.0, 3.0, 3.0, 3.0)
    assert math.isnan(Distribution.of([]).p50)


def test_the_rate_leaves_pauses_out():
    times = [0, 100, 200, 300, 5_000, 5_100, 5_200]
    assert rate_hz([t * 1_000_000 for t in times]) == pytest.approx(10.0)
    assert math.isnan(rate_hz([1]))
    assert math.isnan(rate_hz([]))


@pytest.mark.parametrize(('successes', 'number', 'low', 'high'), [
    (90, 100, 0.8256, 0.9448), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (0, 0, 0.0, 1.0)])
def test_the_interval_is_wilsons(successes: int, number: int, low: float, high: float):
    assert wilson_interval(successes, number) == pytest.approx((low, high), abs=1e-4)


def test_the_summary_counts_what_is_in_the_records(run: RunRecord):
    summary = summarise(run)
    assert (summary.episodes, summary.successes) == (4, 3)
    assert (summary.moved, summary.moved_successes) == (2, 2)
    assert (summary.steps, summary.late_steps, summary.ticks, summary.missed) == (200, 4, 601, 2)
    assert summary.tick_rate_hz == pytest.approx(30.0, rel=0.01)
    assert summary.inference_rate_hz == pytest.approx(10.0)
    assert (summary.fallback_ticks, summary.waiting_ticks) == (0, 6)
    assert summary.new_frame_steps == 134
    assert summary.tokens_reused == 66 * 137
    assert summary.reused == pytest.approx(66 * 137 / (200 * 138))
    assert (summary.pages_used_max, summary.pages_total) == (9, 24)
    assert set(summary.rss_max_bytes) == {'policy', 'world'}
    assert list(summary.stages_s) == [
        'observe', 'preprocess', 'vision', 'prefill', 'denoise', 'postprocess']
    assert summary.stages_s['vision'].count == 134


def test_the_rate_of_inference_steps_is_that_within_episodes(run: RunRecord):
    every_second = dataclasses.replace(run, steps=tuple(
        step for number, step in enumerate(run.steps) if number % 2 or not 51 <= number < 100))
    # Episode 2 (seconds 5 to 9.6) at 5 Hz, the other three at 10 Hz: 24 and 3 * 47 steps.
    expected = (3 * 46 + 22) / (3 * 4.6 + 4.4)
    assert summarise(every_second).inference_rate_hz == pytest.approx(expected, rel=0.02)


def test_a_fallback_that_is_not_waiting_is_counted_by_its_reason(run: RunRecord):
    first = run.steps[0]
    ticks = tuple(tick._replace(reason='chunk_expired') for tick in first.ticks)
    worse = dataclasses.replace(run, steps=(dataclasses.replace(first, ticks=ticks),
                                            *run.steps[1:]))
    summary = summarise(worse)
    assert (summary.fallback_ticks, summary.waiting_ticks) == (3, 3)
    assert summary.fallbacks == {'hold (chunk_expired)': 3}


def test_a_run_without_anything_has_a_summary_and_a_table(run: RunRecord):
    empty = dataclasses.replace(run, steps=(), episodes=(), memory=())
    summary = summarise(empty)
    assert math.isnan(summary.success_rate)
    assert figures(summary) == []
    assert summary_table(summary, 'nothing').row_count == 0


def test_numbers_in_words_have_three_digits_and_a_unit():
    assert [milliseconds(s) for s in (0.0000314, 0.00412, 0.0413, 0.4131, math.nan)] == [
        '0.03 ms', '4.12 ms', '41.3 ms', '413 ms', '-']
    assert bytes_in_words(412 * 2**20) == '412 MiB'
    assert bytes_in_words(3 * 2**29) == '1.5 GiB'
