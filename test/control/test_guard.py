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

"""The guard on the manual clock: what passes, when it takes over, what it sends."""

from __future__ import annotations

import threading

from hypothesis import given, strategies
import pytest

from robot_infer.config import ControlSettings, GuardSettings
from robot_infer.control import ManualClock
from robot_infer.control.guard import Guard, GuardState, Substitutes

MS = 1_000_000
PERIOD_MS = 20


class Bench:
    """A guard of text actions; `sent` is what reached the robot, with its time in ms."""

    def __init__(self, measured: str | None = 'measured', **settings: object) -> None:
        self.clock = ManualClock()
        self.sent: list[tuple[float, str]] = []
        self.measured = measured
        self.guard: Guard[str] = Guard(
            GuardSettings(**settings), ControlSettings(rate_hz=1e3 / PERIOD_MS), self.clock,
            lambda action: self.sent.append((self.clock.now_ns() / MS, action)),
            Substitutes(lambda like: f'zeros like {like}', lambda: self.measured))

    def until(self, time_ms: float, actions: dict[float, str] | None = None) -> None:
        """Turn the clock on to `time_ms`, checking whenever the guard wants to, exactly then."""
        arrivals = sorted((at, action) for at, action in (actions or {}).items())
        while True:
            now = self.clock.now_ns() / MS
            check = min(max(self.guard.next_ns() / MS, now), time_ms)
            if arrivals and arrivals[0][0] <= check:
                at, action = arrivals.pop(0)
                self.clock.advance_ns(round(max(0.0, at - now) * MS))
                self.guard.take(action)
                continue
            self.clock.advance_ns(round((check - now) * MS))
            if check >= time_ms:
                return
            self.guard.check()

    def times(self) -> list[float]:
        """When something was sent."""
        return [at for at, _ in self.sent]


def every_period(first_ms: float, last_ms: float) -> dict[float, str]:
    number = round((last_ms - first_ms) / PERIOD_MS) + 1
    return {first_ms + PERIOD_MS * n: f'a{n}' for n in range(number)}


def test_actions_in_time_pass_and_nothing_else_is_sent() -> None:
    bench = Bench()
    bench.until(500, actions := every_period(0, 480))
    assert bench.sent == list(actions.items())
    status = bench.guard.status()
    assert (status.state, status.interventions, status.passed) == (GuardState.PASSING, 0, 25)
    assert status.gap_s.max == pytest.approx(0.020)


def test_one_and_a_half_periods_after_the_last_action_it_takes_over_and_keeps_the_rate() -> None:
    bench = Bench()
    bench.until(301, every_period(0, 100))
    assert bench.sent[6:] == [(130.0 + PERIOD_MS * n, 'a5') for n in range(9)]
    status = bench.guard.status()
    assert (status.state, status.interventions, status.substitutes) == (GuardState.GUARDING, 1, 9)
    assert status.since_s == pytest.approx(0.171)


def test_it_acts_within_two_periods_of_the_last_action_whenever_the_node_dies() -> None:
    for last in range(0, 200, PERIOD_MS):
        bench = Bench()
        bench.until(last + 2 * PERIOD_MS, every_period(0, last))
        assert bench.guard.status().interventions == 1


def test_an_action_that_comes_again_passes_at_once() -> None:
    bench = Bench()
    bench.until(200, {0: 'before', 137: 'after'})
    assert bench.sent == [(0.0, 'before'), *[(30.0 + PERIOD_MS * n, 'before') for n in range(6)],
                          (137.0, 'after'), (167.0, 'after'), (187.0, 'after')]


def test_before_the_first_action_it_is_silent_unless_the_node_says_that_it_begins() -> None:
    bench = Bench()
    bench.until(500)
    assert bench.sent == [] and bench.guard.status().state is GuardState.WAITING
    bench.guard.activated()
    bench.until(600)
    assert bench.sent[0] == (530.0, 'measured') and len(bench.sent) == 4


def test_what_was_never_measured_is_not_made_up() -> None:
    bench = Bench(measured=None)
    bench.guard.activated()
    bench.until(100)
    assert bench.sent == []
    bench.measured = 'there'
    bench.until(120)
    assert [action for _, action in bench.sent] == ['there']
    bench.measured = 'moved'
    bench.until(140)
    assert bench.sent[-1][1] == 'there', 'a drifting measurement is not followed'


def test_a_node_that_ends_in_order_is_not_guarded() -> None:
    bench = Bench()
    bench.until(50, every_period(0, 40))
    bench.guard.deactivated()
    bench.until(500)
    assert len(bench.sent) == 3 and bench.guard.status().state is GuardState.WAITING


def test_zeros_are_like_the_last_action() -> None:
    bench = Bench(fallback='zero')
    bench.until(60, {0: 'x'})
    assert bench.sent[1:] == [(30.0, 'zeros like x'), (50.0, 'zeros like x')]


def test_stop_lets_nothing_pass_until_the_node_is_activated_again() -> None:
    bench = Bench(fallback='stop')
    bench.until(100, {0: 'x', 60: 'too late', 80: 'too late'})
    assert {action for _, action in bench.sent} == {'x'}
    assert (bench.guard.status().stopped, bench.guard.status().withheld) == (True, 2)
    bench.guard.activated()
    bench.until(125, {120: 'y'})
    assert bench.sent[-1] == (120.0, 'y')


def test_after_its_time_it_falls_silent_until_actions_come_again() -> None:
    bench = Bench(max_s=0.1)
    bench.until(500, {0: 'x', 400: 'y'})
    assert bench.times() == [0, 30, 50, 70, 90, 110, 400, 430, 450, 470, 490]


def test_a_timeout_may_be_set() -> None:
    bench = Bench(timeout_s=0.1)
    bench.until(110, {0: 'x'})
    assert bench.times() == [0, 100]


def test_a_guard_that_was_held_up_itself_looks_once_more_before_it_acts() -> None:
    bench = Bench()
    bench.guard.take('x')
    bench.clock.advance_ns(300 * MS)
    assert bench.guard.check() is False, 'the next action may wait to be taken'
    bench.guard.take('y')
    assert [action for _, action in bench.sent] == ['x', 'y']
    bench.clock.advance_ns(300 * MS)
    assert bench.guard.check() is False
    bench.clock.advance_ns(10 * MS)
    assert bench.guard.check() is True
    assert bench.guard.status().interventions == 1


def test_a_held_up_guard_sends_no_burst() -> None:
    bench = Bench()
    bench.until(50, {0: 'x'})
    bench.clock.advance_ns(95 * MS)
    bench.guard.check()
    assert bench.times() == [0, 30, 145]
    bench.until(200)
    assert bench.times() == [0, 30, 145, 150, 170, 190], 'the phase is kept'


@given(strategies.lists(strategies.integers(1, 90), min_size=1, max_size=30))
def test_whatever_comes_the_robot_never_waits_longer_than_the_timeout(gaps: list[int]) -> None:
    bench, at, actions = Bench(), 0.0, {}
    for number, gap in enumerate(gaps):
        at += gap
        actions[at] = f'a{number}'
    bench.until(at + 200, actions)
    times = [time for time in bench.times() if time >= gaps[0]]
    assert max(b - a for a, b in zip(times, times[1:])) <= 30.0
    passed = [action for _, action in bench.sent]
    assert list(dict.fromkeys(passed)) == list(actions.values()), 'in order, none is lost'


def test_its_thread_watches_until_it_is_stopped(wait_for) -> None:
    bench = Bench()
    bench.guard.start()
    bench.guard.take('x')
    for _ in range(3):
        number = len(bench.sent)
        while len(bench.sent) == number:
            bench.clock.advance_ns(5 * MS)
            threading.Event().wait(0.002)
    assert bench.guard.stop(20.0)
    number = len(bench.sent)
    bench.clock.advance_ns(500 * MS)
    assert len(bench.sent) == number


def paced(**settings: object) -> Bench:
    return Bench(paced=True, **settings)


def test_paced_actions_leave_on_a_schedule_half_a_period_behind_whatever_their_jitter() -> None:
    bench = paced()
    arrivals = {0: 'a0', 20: 'a1', 49: 'a2', 60.5: 'a3', 88: 'a4', 100: 'a5'}
    bench.until(115, arrivals)
    assert bench.sent == [(10.0 + PERIOD_MS * n, f'a{n}') for n in range(6)]
    status = bench.guard.status()
    assert (status.passed, status.interventions, status.lateness_s.max) == (6, 0, 0.0)


def test_paced_a_period_without_an_action_is_bridged_and_a_late_one_is_sent_at_the_next() -> None:
    bench = paced()
    bench.until(95, {0: 'a0', 20: 'a1', 53: 'a2', 60: 'a3'})
    assert bench.sent == [(10, 'a0'), (30, 'a1'), (50, 'a1'), (70, 'a3'), (90, 'a3')]
    assert bench.guard.status().skipped == 1


def test_paced_it_acts_within_two_periods_of_the_last_action() -> None:
    for last in range(0, 200, PERIOD_MS):
        bench = paced()
        bench.until(last + 2 * PERIOD_MS, every_period(0, last))
        assert bench.guard.status().interventions == 1
        assert max(b - a for a, b in zip(bench.times(), bench.times()[1:])) <= PERIOD_MS


def test_paced_after_a_restart_the_schedule_is_that_of_the_new_actions() -> None:
    bench = paced()
    bench.until(507, every_period(0, 100))
    bench.guard.activated()
    bench.until(600, {511: 'n0', 531: 'n1', 551: 'n2'})
    assert [at for at, action in bench.sent if action.startswith('n')][:3] == [521, 541, 561]


def test_paced_stop_and_zero_are_the_same() -> None:
    bench = paced(fallback='stop')
    bench.until(100, {0: 'x', 70: 'too late'})
    assert bench.guard.status().stopped and {action for _, action in bench.sent} == {'x'}
    bench = paced(fallback='zero')
    bench.until(55, {0: 'x'})
    assert bench.sent == [(10, 'x'), (30, 'zeros like x'), (50, 'zeros like x')]


def test_a_reset_of_the_node_ends_a_stop_and_a_new_silence_begins_another() -> None:
    bench = Bench(fallback='stop')
    bench.until(200, every_period(0, 40))
    assert bench.guard.status().stopped
    bench.guard.reset()
    assert bench.guard.status().state is GuardState.PASSING
    bench.until(215, {210.0: 'new'})
    assert bench.sent[-1] == (210.0, 'new')
    bench.until(400)
    status = bench.guard.status()
    assert status.stopped and status.interventions == 2


def test_a_reset_of_the_node_changes_nothing_but_a_stop() -> None:
    bench = Bench()
    bench.guard.reset()
    assert bench.guard.status().state is GuardState.WAITING
    bench.until(200, every_period(0, 40))
    bench.guard.reset()
    assert bench.guard.status().state is GuardState.GUARDING
    stopped = Bench(fallback='stop')
    stopped.until(200, every_period(0, 40))
    stopped.guard.deactivated()
    stopped.guard.reset()
    status = stopped.guard.status()
    assert (status.state, status.stopped) == (GuardState.WAITING, False)
