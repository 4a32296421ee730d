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

"""Statistics of the two loops: counters that agree with each other, times by stage."""

from __future__ import annotations

import threading

import numpy as np

from robot_infer.control.chunks import InputTimes
from robot_infer.control.stats import DeadlineStatistics, StageStatistics, TimesReader
from robot_infer.types import Command, Source, StepReport

MS = 1_000_000


CHUNK = Command(np.zeros(2), Source.CHUNK, '', 1, 1)


def hold(reason: str) -> Command:
    return Command(np.zeros(2), Source.HOLD, reason, -1, 0)


def record(statistics: DeadlineStatistics, command: Command, scheduled_ms: float,
           late_ms: float = 0.0, skipped: int = 0, inputs: InputTimes | None = None) -> None:
    started_ns = round((scheduled_ms + late_ms) * MS)
    statistics.record(
        command, inputs, scheduled_ns=round(scheduled_ms * MS), started_ns=started_ns,
        decided_ns=started_ns + MS // 2, finished_ns=started_ns + 2 * MS, skipped=skipped,
        deadline_ns=5 * MS, stale_ns=50 * MS)


def test_ticks_misses_and_fallbacks_are_counted() -> None:
    statistics = DeadlineStatistics()
    record(statistics, hold('no_chunk_yet'), 0)
    record(statistics, CHUNK, 20, late_ms=5)
    record(statistics, CHUNK, 40, late_ms=5.1)
    record(statistics, hold('chunk_exhausted'), 120, late_ms=6, skipped=3)
    counters = statistics.status().counters
    assert (counters.ticks, counters.chunk_ticks, counters.fallback_ticks) == (4, 2, 2)
    assert (counters.late, counters.skipped, counters.missed, counters.overruns) == (2, 3, 5, 1)
    assert (counters.consecutive, counters.max_consecutive) == (5, 5)
    assert counters.fallbacks == {('hold', 'no_chunk_yet'): 1, ('hold', 'chunk_exhausted'): 1}


def test_a_deadline_kept_ends_the_run_of_misses_that_skipped_periods_belong_to() -> None:
    statistics = DeadlineStatistics()
    record(statistics, CHUNK, 0, late_ms=9)
    record(statistics, CHUNK, 60, skipped=2)
    counters = statistics.status().counters
    assert (counters.missed, counters.consecutive, counters.max_consecutive) == (3, 0, 3)
    record(statistics, CHUNK, 80, late_ms=9)
    counters = statistics.status().counters
    assert (counters.missed, counters.consecutive, counters.max_consecutive) == (4, 1, 3)


def test_missed_deadlines_leave_the_window_with_their_ticks() -> None:
    statistics = DeadlineStatistics(3)
    assert statistics.status().started_ns is None
    record(statistics, CHUNK, 0, late_ms=9)
    record(statistics, CHUNK, 60, skipped=2)
    assert statistics.status().missed_in_window == 3
    assert statistics.status().started_ns == 60 * MS
    record(statistics, CHUNK, 80)
    assert statistics.status().missed_in_window == 3
    record(statistics, CHUNK, 100)
    assert statistics.status().missed_in_window == 2
    record(statistics, CHUNK, 120)
    status = statistics.status()
    assert (status.missed_in_window, status.counters.missed) == (0, 3)


def test_a_reader_gets_each_time_once_also_when_the_statistics_begin_anew() -> None:
    reader, ticks, steps = TimesReader(), DeadlineStatistics(), StageStatistics()
    record(ticks, CHUNK, 0, late_ms=3)
    times = reader.take(ticks, steps)
    assert (times.lateness_s.tolist(), times.execution_s.tolist()) == ([0.003], [0.002])
    assert times.step_s.tolist() == []
    record(ticks, CHUNK, 20, late_ms=1)
    cleared = DeadlineStatistics()
    record(cleared, CHUNK, 40, late_ms=2)
    steps.record(None, wait_s=None, began_ns=0, observed_ns=1, finished_ns=7 * MS, late=False)
    times = reader.take(cleared, steps)
    assert times.lateness_s.tolist() == [0.001, 0.002] and times.step_s.tolist() == [0.007]


def test_times_are_taken_from_start_to_start_and_to_sent() -> None:
    statistics = DeadlineStatistics()
    record(statistics, CHUNK, 0, inputs=InputTimes(-30 * MS, -50 * MS))
    record(statistics, CHUNK, 20, late_ms=3, inputs=InputTimes(-30 * MS, None))
    record(statistics, hold('chunk_exhausted'), 40)
    status = statistics.status()
    assert statistics.lateness.values().tolist() == [0.0, 0.003, 0.0]
    assert (status.period_s.count, status.period_s.max) == (2, 0.023)
    assert (status.execution_s.max, status.decide_s.max, status.publish_s.max) == (
        0.002, 0.0005, 0.0015)
    assert status.counters.stale == 1
    assert (status.input_age_s.count, status.input_age_s.max) == (2, 0.053)
    assert (status.end_to_end_s.count, status.end_to_end_s.max) == (1, 0.052)


def test_counters_read_by_another_thread_always_agree_with_each_other() -> None:
    statistics = DeadlineStatistics(64)
    done = threading.Event()

    def write() -> None:
        for index in range(3000):
            record(statistics, CHUNK if index % 3 else hold('chunk_exhausted'), 20 * index)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        counters = statistics.status().counters
        assert counters.ticks == counters.chunk_ticks + counters.fallback_ticks
    thread.join()
    assert statistics.status().counters.ticks == 3000


def report(epoch: int, **stages_s: float) -> StepReport:
    return StepReport(epoch, stages_s, 100, 30, 1, 3, 16)


def test_steps_are_timed_by_stage_in_the_order_they_run() -> None:
    statistics = StageStatistics()
    for step in range(3):
        began_ns = 100 * MS * step
        statistics.record(
            report(step, vision=0.01 * step, denoise=0.02), wait_s=0.5, began_ns=began_ns,
            observed_ns=began_ns + 4 * MS, finished_ns=began_ns + 30 * MS, late=step == 2)
    statistics.blocked()
    statistics.failed()
    status = statistics.status()
    assert list(status.stages_s) == ['wait', 'observe', 'vision', 'denoise']
    assert status.stages_s['vision'].max == 0.02
    assert status.stages_s['observe'].p50 == 0.004
    assert (status.step_s.count, status.step_s.max) == (3, 0.03)
    assert (status.period_s.count, status.period_s.max) == (2, 0.1)
    counters = status.counters
    assert (counters.steps, counters.late, counters.blocked, counters.failed) == (3, 1, 1, 1)
    assert (counters.tokens_total, counters.tokens_computed) == (300, 90)
    assert status.report.epoch == 2
