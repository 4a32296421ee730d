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

"""Window: exact over its newest values, within a per cent over everything since the reset."""

from __future__ import annotations

import math

from hypothesis import given, strategies
import numpy as np
import pytest

from robot_infer.control.window import SinceReset, Summary, Tail, Window


@given(strategies.lists(strategies.floats(-1e6, 1e6), min_size=1, max_size=60),
       strategies.integers(1, 20))
def test_a_window_is_exact_over_its_newest_values(values: list[float], size: int) -> None:
    window = Window(size)
    for value in values:
        window.add(value)
    newest = values[-size:]
    assert window.values().tolist() == newest
    summary = window.summary()
    assert (summary.count, summary.window) == (len(values), len(newest))
    assert (summary.min, summary.max) == (min(newest), max(newest))
    assert summary.std == pytest.approx(np.std(newest), abs=1e-6)
    assert summary.mean == pytest.approx(np.mean(newest), abs=1e-6)
    for percent, got in ((50, summary.p50), (95, summary.p95), (99, summary.p99)):
        assert got in newest
        assert sum(value <= got for value in newest) * 100 >= percent * len(newest)
        assert sum(value < got for value in newest) * 100 < percent * len(newest)


def test_an_empty_window_says_so() -> None:
    summary = Window(4).summary()
    assert (summary.count, summary.window) == (0, 0)
    assert all(math.isnan(value) for value in (
        summary.mean, summary.p50, summary.p95, summary.p99, summary.max))


def test_percentiles_of_a_hundred_values_are_the_ranks_themselves() -> None:
    window = Window()
    for value in range(100, 0, -1):
        window.add(value)
    assert window.summary() == Summary(
        100, 100, 50.5, np.arange(1.0, 101.0).std(), 1.0, 50.0, 95.0, 99.0, 100.0,
        window.summary().since_reset)


@given(strategies.lists(strategies.floats(1e-6, 1e3), min_size=1, max_size=300),
       strategies.integers(20, 50))
def test_the_sketch_knows_all_values_to_one_per_cent(values: list[float], size: int) -> None:
    window = Window(size)
    for number, value in enumerate(values):
        window.add(value)
        if number % 20 == 0:  # looked at more often than the window wraps
            window.summary()
    since = window.summary().since_reset
    ordered = sorted(values)
    assert (since.count, since.max) == (len(values), ordered[-1])
    for share, got in ((0.5, since.p50), (0.99, since.p99), (0.999, since.p999)):
        assert got == pytest.approx(ordered[int(share * (len(ordered) - 1))], rel=0.0101)


def test_the_sketch_outlives_the_window() -> None:
    window = Window(10)
    window.add(7.0)
    window.summary()
    for _ in range(30):
        window.add(1.0)
        window.summary()
    summary = window.summary()
    assert (summary.max, summary.since_reset.max, summary.since_reset.count) == (1.0, 7.0, 31)


def test_values_that_nobody_looked_at_in_time_are_not_counted_as_seen() -> None:
    window = Window(10)
    for value in range(25):
        window.add(value)
    assert (window.summary().count, window.summary().since_reset.count) == (25, 10)
    assert Window(4).summary().since_reset == SinceReset()


def test_a_tail_takes_every_value_once_also_over_the_change_to_another_window() -> None:
    tail, window = Tail(), Window(4)
    for value in (1.0, 2.0):
        window.add(value)
    assert tail.take(window).tolist() == [1.0, 2.0]
    assert tail.take(window).tolist() == []
    window.add(3.0)
    other = Window(4)
    other.add(9.0)
    assert tail.take(other).tolist() == [3.0, 9.0]
    for value in range(6):
        other.add(float(value))
    assert tail.take(other).tolist() == [2.0, 3.0, 4.0, 5.0], 'what the ring has lost is lost'
    assert tail.take(other).tolist() == []
