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

"""InferenceWorker: a step when there is something new, not more often than asked."""

from __future__ import annotations

import threading

import pytest

from robot_infer.control import MonotonicClock

MS = 1_000_000


@pytest.fixture
def rig(make_rig):
    """A rig whose worker thread runs on the manual clock; control ticks are not needed here."""
    rig = make_rig(inference__rate_hz=10.0)
    yield rig
    rig.runtime._worker.stop(20.0)


def steps(rig) -> int:
    return rig.runtime.status().inference.counters.steps


def test_a_step_is_made_at_once_when_something_new_comes(rig, wait_for) -> None:
    rig.feed()
    rig.runtime._worker.start()
    wait_for(lambda: steps(rig) == 1)
    assert rig.policy.observations[0].observed_ns == rig.clock.now_ns()


def test_steps_are_made_at_most_at_the_rate_and_on_its_schedule(rig, wait_for) -> None:
    start_ns = rig.clock.now_ns()
    rig.feed()
    rig.runtime._worker.start()
    wait_for(lambda: steps(rig) == 1)
    for tick in range(1, 40):  # news every 10 ms, time for a step every 100 ms
        assert rig.clock.await_waiters(1)
        rig.clock.advance_ns(10 * MS)
        rig.feed()
        wait_for(lambda due=1 + tick // 10: steps(rig) == due)
    assert [observation.observed_ns - start_ns for observation in rig.policy.observations] == [
        0, 100 * MS, 200 * MS, 300 * MS]


def test_nothing_new_means_no_step_but_stale_inputs_are_found(rig, wait_for) -> None:
    rig.feed()
    rig.runtime._worker.start()
    wait_for(lambda: steps(rig) == 1)
    for _ in range(4):
        assert rig.clock.await_waiters(1)
        rig.clock.advance_ns(100 * MS)
    wait_for(lambda: set(rig.faults()) == {'StaleFrameError', 'StateError'})
    assert steps(rig) == 1
    rig.feed()
    wait_for(lambda: steps(rig) == 2)
    assert rig.faults() == {}


def test_a_step_longer_than_a_period_is_followed_by_the_next_at_once(rig, wait_for) -> None:
    start_ns = rig.clock.now_ns()

    def slow() -> None:
        rig.clock.advance_ns(130 * MS)
        rig.feed()

    rig.policy.before_step = slow
    rig.feed()
    rig.runtime._worker.start()
    wait_for(lambda: steps(rig) >= 4)
    begun = [observation.observed_ns - start_ns for observation in rig.policy.observations[:4]]
    assert begun == [0, 130 * MS, 260 * MS, 390 * MS]


@pytest.mark.parametrize('error', [RuntimeError('boom'), SystemExit(3), KeyboardInterrupt()])
def test_no_error_of_the_policy_ends_the_thread(rig, wait_for, error: BaseException) -> None:
    def fail() -> None:
        raise error

    rig.policy.before_step = fail
    rig.feed()
    rig.runtime._worker.start()
    wait_for(lambda: 'UnexpectedError' in rig.faults())
    assert type(error).__name__ in rig.faults()['UnexpectedError']
    rig.policy.before_step = lambda: None
    assert rig.clock.await_waiters(1)
    rig.clock.advance_ns(100 * MS)
    rig.feed()
    wait_for(lambda: steps(rig) == 1)
    wait_for(lambda: rig.faults() == {})


def test_another_rate_counts_from_the_step_before_and_needs_no_period_of_the_old(
    rig, wait_for,
) -> None:
    start_ns = rig.clock.now_ns()
    rig.feed()
    rig.runtime._worker.rate_hz = 50.0
    rig.runtime._worker.start()
    wait_for(lambda: steps(rig) == 1)
    rig.runtime._worker.rate_hz = 25.0
    for _ in range(4):
        wait_for(lambda: rig.clock.await_waiters(1))
        rig.clock.advance_ns(20 * MS)
        rig.feed()
    wait_for(lambda: steps(rig) == 3)
    assert [observation.observed_ns - start_ns for observation in rig.policy.observations] == [
        0, 40 * MS, 80 * MS]


@pytest.mark.parametrize('fed_meanwhile', [True, False])
def test_a_faster_rate_wakes_a_worker_that_has_most_of_a_slow_period_to_wait(
    rig, wait_for, fed_meanwhile: bool,
) -> None:
    rig.runtime._worker.rate_hz = 0.01
    rig.feed()
    rig.runtime._worker.start()
    wait_for(lambda: steps(rig) == 1)
    assert rig.clock.await_waiters(1)
    rig.clock.advance_ns(2_000 * MS)
    if fed_meanwhile:
        rig.feed()
    assert rig.clock.await_waiters(1)
    rig.runtime._worker.rate_hz = 10.0
    if fed_meanwhile:
        wait_for(lambda: steps(rig) == 2)  # without the clock going on
        return
    changed_ns = rig.clock.now_ns()
    wait_for(lambda: rig.clock.advance_ns(10 * MS) and 'StaleFrameError' in rig.faults())
    assert rig.clock.now_ns() - changed_ns < 50_000 * MS, 'long before the old period is over'
    assert steps(rig) == 1, 'a rate is nothing new to infer from'
    rig.feed()
    wait_for(lambda: steps(rig) == 2)


def test_a_slower_rate_does_not_keep_a_worker_from_what_it_waits_for(rig, wait_for) -> None:
    rig.runtime._worker.start()
    assert rig.clock.await_waiters(1)
    rig.runtime._worker.rate_hz = 0.01
    rig.feed()
    wait_for(lambda: steps(rig) == 1)


def test_stop_ends_a_worker_that_waits_for_news_at_once(rig, wait_for) -> None:
    rig.runtime._worker.start()
    wait_for(lambda: rig.clock.await_waiters(1))
    assert rig.runtime._worker.stop(20.0) is True
    assert not rig.runtime._worker.alive


@pytest.fixture
def hanging(rig):
    """The worker is at work on a step that hangs: one release for each begun, what ends it."""
    inside, release = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        inside.release()
        release.wait()

    rig.policy.before_step = hang
    rig.feed()
    rig.runtime._worker.start()
    assert inside.acquire(timeout=20.0)
    yield inside, release
    release.set()


def test_stop_tells_when_the_step_hangs_and_no_second_step_runs_beside_it(rig, hanging) -> None:
    inside, release = hanging
    assert rig.runtime._worker.stop(0.01) is False
    assert rig.runtime._worker.alive
    rig.runtime._worker.start()
    rig.feed()
    assert not inside.acquire(timeout=0.1)
    release.set()
    assert inside.acquire(timeout=20.0)
    assert rig.runtime._worker.stop(20.0) is True


def test_a_step_that_hangs_is_a_fault_said_once_and_over_when_it_ends(
    rig, hanging, wait_for,
) -> None:
    inside, release = hanging
    look = rig.runtime._inference.report_hanging
    rig.clock.advance_ns(999 * MS)
    look()
    assert 'EngineError' not in rig.faults()
    rig.clock.advance_ns(1 * MS)
    look()
    look()
    (fault,) = (fault for fault in rig.runtime.status().faults if fault.name == 'EngineError')
    assert fault.count == 1
    assert fault.message.startswith('inference step: expected its end within 0.1 s; got none for')
    rig.policy.before_step = lambda: None
    release.set()
    wait_for(lambda: 'EngineError' not in rig.faults())


def test_a_step_that_is_only_slow_or_not_there_does_not_hang(rig) -> None:
    rig.policy.before_step = lambda: (
        rig.clock.advance_ns(900 * MS), rig.runtime._inference.report_hanging())
    rig.feed()
    assert rig.runtime.infer_once() is not None
    rig.clock.advance_s(100.0)
    rig.runtime._inference.report_hanging()
    assert 'EngineError' not in rig.faults()


def test_it_keeps_up_with_the_real_clock(make_rig, wait_for) -> None:
    rig = make_rig(on=MonotonicClock(), inference__rate_hz=200.0)
    rig.runtime._worker.start()
    rig.feed()
    seen: list[int] = []

    def fed() -> bool:
        rig.feed()
        seen.append(steps(rig))
        return seen[-1] >= 20

    wait_for(fed)
    assert rig.runtime._worker.stop(20.0) is True
    stopped_at = steps(rig)
    rig.feed()
    assert steps(rig) == stopped_at
