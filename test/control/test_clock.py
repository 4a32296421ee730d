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

"""Clocks: what waiting means, on the real one and on the one turned by hand."""

from __future__ import annotations

import threading

import pytest

from robot_infer.control.clock import ManualClock, MonotonicClock


def test_the_monotonic_clock_waits_until_its_time_and_not_less() -> None:
    clock = MonotonicClock()
    until_ns = clock.now_ns() + 3_000_000
    assert clock.wait_until_ns(until_ns) is False
    assert clock.now_ns() >= until_ns
    until_ns = clock.now_ns() + 3_000_000
    assert clock.wait_until_ns(until_ns, threading.Event()) is False
    assert clock.now_ns() >= until_ns


def test_an_event_that_is_set_ends_the_wait_on_both_clocks(clock: ManualClock) -> None:
    event = threading.Event()
    event.set()
    real = MonotonicClock()
    assert real.wait_until_ns(real.now_ns() + 10**15, event) is True
    assert real.wait_until_ns(real.now_ns() - 1, event) is True
    assert clock.wait_until_ns(clock.now_ns() + 10**15, event) is True
    assert clock.wait_until_ns(clock.now_ns() - 1, event) is True


def test_an_event_set_by_another_thread_wakes_a_sleeper_on_the_monotonic_clock() -> None:
    clock, event, woke = MonotonicClock(), threading.Event(), []
    thread = threading.Thread(
        target=lambda: woke.append(clock.wait_until_ns(clock.now_ns() + 10**15, event)))
    thread.start()
    event.set()
    thread.join(20.0)
    assert woke == [True]


def test_the_manual_clock_wakes_a_sleeper_when_it_is_turned_far_enough(
    clock: ManualClock,
) -> None:
    woke: list[int] = []

    def sleep() -> None:
        clock.wait_until_ns(clock.now_ns() + 100)
        woke.append(clock.now_ns())

    start_ns = clock.now_ns()
    thread = threading.Thread(target=sleep)
    thread.start()
    assert clock.await_waiters(1)
    clock.advance_ns(99)
    assert clock.await_waiters(1) and not woke
    clock.advance_ns(1)
    thread.join(20.0)
    assert woke == [start_ns + 100]


def test_the_manual_clock_cannot_go_back(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match='cannot go back'):
        clock.advance_ns(-1)
