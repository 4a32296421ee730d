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

"""Thresholds: what is beyond one is found, with its figure, the worst first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_infer.config import DiagnosticsSettings
from robot_infer.control import Summary
from robot_infer.control.stats import DeadlineStatistics
from robot_infer.control.verdict import Severity, judge_ticks

LIMITS = DiagnosticsSettings()
GOOD = replace(
    DeadlineStatistics().status(), period_s=Summary(count=100, mean=1 / 30, std=0.001),
    execution_s=Summary(count=100, p99=0.001), input_age_s=Summary(count=100, p99=0.2),
    end_to_end_s=Summary(count=100, p99=0.3), lateness_s=Summary(count=500, window=100))


def test_what_is_within_its_thresholds_is_not_spoken_of() -> None:
    assert judge_ticks(GOOD, 30.0, LIMITS) == ()
    assert judge_ticks(DeadlineStatistics().status(), 30.0, LIMITS) == ()


@pytest.mark.parametrize(('change', 'severity', 'words'), [
    ({'period_s': Summary(count=100, mean=1 / 24, std=0.0)}, Severity.WARN, '24.0 Hz measured'),
    ({'period_s': Summary(count=100, mean=1 / 19, std=0.0)}, Severity.ERROR, '30.0 Hz wanted'),
    ({'period_s': Summary(count=100, mean=1 / 30, std=0.006)}, Severity.WARN, 'varies by 6.0 ms'),
    ({'period_s': Summary(count=100, mean=1 / 30, std=0.06)}, Severity.ERROR, '60.0 ms'),
    ({'execution_s': Summary(count=100, p99=0.006)}, Severity.WARN, 'up to 6.0 ms'),
    ({'execution_s': Summary(count=100, p99=0.03)}, Severity.ERROR, 'up to 30.0 ms'),
    ({'missed_in_window': 2}, Severity.WARN, '2 deadlines missed in the last 100 ticks'),
    ({'input_age_s': Summary(count=100, p99=0.6)}, Severity.WARN, 'frames are up to 600 ms'),
    ({'end_to_end_s': Summary(count=100, p99=0.8)}, Severity.WARN, 'up to 800 ms'),
])
def test_each_threshold_finds_what_is_beyond_it(change, severity, words) -> None:
    (finding,) = judge_ticks(replace(GOOD, **change), 30.0, LIMITS)
    assert finding.severity is severity and words in finding.words


def test_the_worst_comes_first() -> None:
    bad = replace(GOOD, end_to_end_s=Summary(count=9, p99=2.0),
                  execution_s=Summary(count=100, p99=0.03))
    assert [finding.severity for finding in judge_ticks(bad, 30.0, LIMITS)] == [
        Severity.ERROR, Severity.WARN]


def test_a_few_ticks_are_not_judged() -> None:
    few = replace(GOOD, period_s=Summary(count=19, mean=1.0, std=1.0))
    assert judge_ticks(few, 30.0, LIMITS) == ()
