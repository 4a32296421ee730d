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

"""RateKeeper: the phase is kept, nothing adds up, overruns skip whole periods and are counted."""

from __future__ import annotations

from itertools import pairwise
import threading

from hypothesis import given, strategies
import pytest

from robot_infer.control.clock import ManualClock
from robot_infer.control.schedule import Period, RateKeeper

MS = 1_000_000


class SleepingClock(ManualClock):
    """A manual clock that sleeps by going on by itself, `wake_late_ns` too far."""

    wake_late_ns = 0

    def wait_until_ns(self, time_ns: int, event: threading.Event | None = None) -> bool:
        if event is not None and event.is_set():
            return True
        self.advance_ns(max(0, time_ns - self.now_ns()) + self.wake_late_ns)
        return False


def started(period_s: float = 0.010, **options: bool) -> tuple[SleepingClock, RateKeeper]:
    clock = SleepingClock(start_ns=7)
    keeper = RateKeeper(period_s, clock, **options)
    keeper.start()
    assert keeper.wait() == Period(0, 7, 7, 0)
    return clock, keeper


def test_the_first_period_begins_at_once_even_if_the_thread_comes_late_to_it() -> None:
    clock = SleepingClock()
    keeper = RateKeeper(0.010, clock)
    keeper.start()
    clock.advance_ns(3 * MS)
    assert keeper.wait() == Period(0, 0, 3 * MS, 0)
    assert keeper.wait() == Period(1, 10 * MS, 10 * MS, 0)
    assert keeper.overruns == 0


@pytest.mark.parametrize(('loop_ns', 'missed', 'next_ns'), [
    # loop time since the scheduled start, missed = ceil(late / period), next start
    (0, 0, 10 * MS),
    (4 * MS, 0, 10 * MS),
    (10 * MS - 1, 0, 10 * MS),
    (10 * MS, 0, 10 * MS),
    (10 * MS + 1, 1, 20 * MS),
    (12 * MS, 1, 20 * MS),
    (20 * MS, 1, 20 * MS),
    (20 * MS + 1, 2, 30 * MS),
    (25 * MS, 2, 30 * MS),
    (1_000 * MS, 99, 1_000 * MS),
    (1_003 * MS, 100, 1_010 * MS),
])
def test_an_overrun_skips_whole_periods_as_ros2_control_does(
    loop_ns: int, missed: int, next_ns: int,
) -> None:
    clock, keeper = started()
    clock.advance_ns(loop_ns)
    period = keeper.wait()
    assert (period.skipped, period.scheduled_ns - 7) == (missed, next_ns)
    assert period.lateness_ns == 0
    assert period.index == 1 + missed
    assert (keeper.skipped, keeper.overruns) == (missed, int(missed > 0))


@pytest.mark.parametrize(('loop_ns', 'missed', 'scheduled_ns', 'started_ns'), [
    (4 * MS, 0, 10 * MS, 10 * MS),
    (12 * MS, 0, 10 * MS, 12 * MS),
    (19 * MS, 0, 10 * MS, 19 * MS),
    (20 * MS, 1, 20 * MS, 20 * MS),
    (25 * MS, 1, 20 * MS, 25 * MS),
    (47 * MS, 3, 40 * MS, 47 * MS),
])
def test_with_run_late_the_period_that_has_begun_is_used(
    loop_ns: int, missed: int, scheduled_ns: int, started_ns: int,
) -> None:
    clock, keeper = started(run_late=True)
    clock.advance_ns(loop_ns)
    assert keeper.wait() == Period(
        1 + missed, 7 + scheduled_ns, 7 + started_ns, missed)


def test_no_burst_follows_an_overrun() -> None:
    clock, keeper = started()
    clock.advance_ns(95 * MS)
    starts = [keeper.wait().started_ns - 7 for _ in range(3)]
    assert starts == [100 * MS, 110 * MS, 120 * MS]


def test_a_late_wake_is_measured_and_does_not_move_the_schedule() -> None:
    clock, keeper = started()
    clock.wake_late_ns = 3 * MS
    periods = [keeper.wait() for _ in range(50)]
    assert [period.scheduled_ns for period in periods] == [
        7 + 10 * MS * index for index in range(1, 51)]
    assert {period.lateness_ns for period in periods} == {3 * MS}


def test_a_period_that_is_no_whole_number_of_nanoseconds_never_drifts() -> None:
    clock, keeper = started(1.0 / 30.0)
    period = None
    for _ in range(30 * 600):
        period = keeper.wait()
    assert period.scheduled_ns == 7 + 600 * 1_000_000_000
    assert keeper.overruns == 0


@given(strategies.lists(strategies.integers(0, 100 * MS), max_size=60))
def test_whatever_the_loop_takes_starts_stay_on_the_grid_in_order_and_none_is_lost(
    loops_ns: list[int],
) -> None:
    clock, keeper = started()
    index = 0
    for loop_ns in loops_ns:
        clock.advance_ns(loop_ns)
        period = keeper.wait()
        assert period.scheduled_ns == 7 + period.index * 10 * MS
        assert period.index == index + 1 + period.skipped
        assert 0 <= period.started_ns - period.scheduled_ns < 10 * MS
        index = period.index
    assert index == len(loops_ns) + keeper.skipped


def test_stop_ends_the_wait(clock: ManualClock) -> None:
    keeper, stop = RateKeeper(0.010, clock), threading.Event()
    keeper.start()
    assert keeper.wait(stop) is not None
    stop.set()
    assert keeper.wait(stop) is None


def test_another_period_counts_from_the_one_that_runs() -> None:
    clock, keeper = started()
    keeper.wait()
    keeper.change_period(0.004)
    assert [keeper.wait().scheduled_ns - 7 for _ in range(3)] == [14 * MS, 18 * MS, 22 * MS]
    assert keeper.period_s == pytest.approx(0.004)


def test_a_shorter_period_that_would_be_over_already_begins_now_and_none_was_missed() -> None:
    clock, keeper = started(period_s=100.0, run_late=True)
    clock.advance_ns(2_000 * MS)
    keeper.change_period(0.100)
    assert [keeper.wait().scheduled_ns - 7 for _ in range(2)] == [2_000 * MS, 2_100 * MS]
    assert (keeper.skipped, keeper.overruns) == (0, 0)


def test_before_the_first_period_another_changes_only_what_follows() -> None:
    clock = SleepingClock(start_ns=7)
    keeper = RateKeeper(100.0, clock)
    keeper.change_period(0.010)
    assert [keeper.wait().scheduled_ns - 7 for _ in range(2)] == [0, 10 * MS]


def test_the_warning_says_rate_loop_time_and_missed_cycles() -> None:
    clock, keeper = started()
    assert keeper.take_warning(clock.now_ns()) is None
    clock.advance_ns(25_500_000)
    keeper.wait()
    assert keeper.take_warning(clock.now_ns()) == (
        'Overrun: wanted 100.0 Hz, but the loop took 25.5 ms (missed cycles: 2).')
    assert keeper.take_warning(clock.now_ns()) is None


def test_warnings_come_at_most_once_a_second_and_none_is_forgotten() -> None:
    clock, keeper = started()
    warned_ns: list[int] = []
    texts: list[str] = []
    for _ in range(300):
        clock.advance_ns(12 * MS)
        keeper.wait()
        text = keeper.take_warning(clock.now_ns())
        if text is not None:
            warned_ns.append(clock.now_ns())
            texts.append(text)
    gaps = [after - before for before, after in pairwise(warned_ns)]
    assert len(texts) == 6 and min(gaps) >= 1_000 * MS
    assert texts[1].endswith('(missed cycles: 1). 50 overruns since the last warning.')
