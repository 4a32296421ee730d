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

"""ControlLoop: one tick per period, sent and measured, whatever `send` does."""

from __future__ import annotations

import threading

import pytest

from robot_infer.control import ManualClock, MonotonicClock
from robot_infer.types import Command, Source

MS = 1_000_000


def turn(rig, wait_for, periods: int) -> None:
    """Let that many periods of the manual clock pass, each waited for."""
    for _ in range(periods):
        ticks = rig.runtime.status().deadline.counters.ticks
        assert rig.clock.await_waiters(1)
        rig.clock.advance_ns(20 * MS)
        wait_for(lambda due=ticks + 1: rig.runtime.status().deadline.counters.ticks == due)


@pytest.fixture
def rig(make_rig):
    """A rig of which only the control thread runs."""
    rig = make_rig()
    yield rig
    rig.runtime._loop.stop(20.0)


def test_the_first_tick_comes_at_once_and_then_one_per_period(rig, wait_for) -> None:
    rig.feed()
    rig.runtime.infer_once()
    rig.runtime._loop.start()
    wait_for(lambda: len(rig.sent) == 1)
    turn(rig, wait_for, 9)
    assert [command.source for command in rig.sent] == [Source.CHUNK] * 8 + [Source.HOLD] * 2
    deadline = rig.runtime.status().deadline
    assert (deadline.counters.missed, deadline.lateness_s.max) == (0, 0.0)
    assert (deadline.period_s.p50, deadline.period_s.max) == (0.02, 0.02)


def test_a_stall_skips_whole_periods_and_warns_once(rig, wait_for) -> None:
    rig.feed()
    rig.runtime._loop.start()
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks == 1)
    assert rig.clock.await_waiters(1)
    rig.clock.advance_ns(95 * MS)  # wakes 75 ms late
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks == 2)
    assert rig.clock.await_waiters(1)
    rig.clock.advance_ns(5 * MS)
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks == 3)
    deadline = rig.runtime.status().deadline
    counters = deadline.counters
    assert (counters.late, counters.skipped, counters.missed) == (1, 3, 4)
    assert (counters.overruns, counters.max_consecutive, counters.consecutive) == (1, 4, 0)
    assert deadline.lateness_s.max == 0.075
    (warning,) = rig.runtime.take_warnings()
    assert warning == (
        'Overrun: wanted 50.0 Hz, but the loop took 75.0 ms (missed cycles: 3): woke 75.0 ms '
        'late, decide 0.0 ms, publish 0.0 ms.')
    assert rig.runtime.take_warnings() == ()


def test_the_warning_says_in_which_stage_the_time_was_lost(rig, wait_for, clock) -> None:
    rig.feed()
    rig.runtime._loop._send = lambda command: clock.advance_ns(33 * MS)
    rig.runtime._loop.start()
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks == 1)
    (warning,) = rig.runtime.take_warnings()
    assert warning.endswith('woke 0.0 ms late, decide 0.0 ms, publish 33.0 ms.')


def test_too_many_misses_in_a_row_stop_the_robot_for_good(make_rig) -> None:
    rig = make_rig(control__max_consecutive_misses=3)
    rig.tick(5)  # waiting for a first chunk is no miss
    rig.feed()
    rig.runtime.infer_once()
    rig.tick(8)
    assert [command.source for command in rig.tick(2)] == [Source.HOLD] * 2
    assert rig.faults() == {}
    rig.tick()
    assert 'fewer than 3 missed in a row; got 3' in rig.faults()['DeadlineError']
    rig.feed()
    rig.runtime.infer_once()  # a chunk does not set it free
    (command,) = rig.tick()
    assert (command.source, command.reason) == (Source.STOP, 'deadlines_missed')
    assert rig.runtime.status().latched == 'deadlines_missed'
    rig.runtime.reset()
    rig.feed()
    rig.runtime.infer_once()
    assert rig.tick()[0].source is Source.CHUNK


def test_an_action_in_time_ends_the_run_of_misses(make_rig) -> None:
    rig = make_rig(control__max_consecutive_misses=3)
    for _ in range(3):
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(8 + 2)
    assert 'DeadlineError' not in rig.faults()


def test_skipped_periods_count_as_missed(make_rig, wait_for, clock) -> None:
    rig = make_rig(control__max_consecutive_misses=4)
    rig.feed()
    rig.runtime.infer_once()
    rig.runtime._loop.start()
    wait_for(lambda: len(rig.sent) == 1)
    assert clock.await_waiters(1)
    clock.advance_ns(95 * MS)  # this tick is 75 ms late, the next one skips 3 and is on time
    wait_for(lambda: len(rig.sent) == 2)
    assert clock.await_waiters(1)
    clock.advance_ns(22 * MS)  # 17 ms late, with the three skipped before it
    wait_for(lambda: len(rig.sent) == 3)
    wait_for(lambda: 'got 5 that were late' in rig.faults().get('DeadlineError', ''))
    assert rig.runtime._loop.stop(20.0) is True


def test_a_stop_after_misses_sends_zeros_where_zeros_are_safe(make_rig) -> None:
    rig = make_rig(control__max_consecutive_misses=1, control__fallback='zero')
    rig.feed(x=0.5)
    rig.runtime.infer_once()
    rig.tick(9)
    (command,) = rig.tick()
    assert (command.source, command.values.tolist()) == (Source.STOP, [0.0, 0.0])


def test_a_command_without_values_is_not_sent_but_shows(rig, wait_for) -> None:
    rig.runtime._loop.start()
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks == 1)
    assert rig.sent == []
    assert rig.runtime.status().last_command.values is None


def test_an_error_in_send_is_a_fault_and_the_ticks_go_on(
    make_rig, wait_for, clock: ManualClock,
) -> None:
    rig = make_rig()
    broken = threading.Event()
    broken.set()
    sent: list[Command] = []

    def send(command: Command) -> None:
        if broken.is_set():
            raise OSError('no middleware')
        sent.append(command)

    rig.runtime._loop._send = send
    rig.feed()
    rig.runtime._loop.start()
    wait_for(lambda: rig.faults().get('UnexpectedError') == 'OSError: no middleware')
    turn(rig, wait_for, 2)
    wait_for(lambda: rig.runtime.status().fault_history[0].count == 3)
    broken.clear()
    turn(rig, wait_for, 1)
    wait_for(lambda: rig.faults() == {})
    assert len(sent) == 1
    assert rig.runtime._loop.stop(20.0) is True


def test_on_the_real_clock_the_schedule_neither_drifts_nor_loses_a_period(
    make_rig, wait_for,
) -> None:
    rig = make_rig(on=MonotonicClock(), control__rate_hz=200.0)
    rig.feed()
    rig.runtime._loop.start()
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks >= 40)
    assert rig.runtime._loop.stop(20.0) is True
    deadline = rig.runtime.status().deadline
    lateness_s = rig.runtime._loop.statistics.lateness.values()
    scheduled_s = (deadline.period_s.mean * deadline.period_s.count
                   - lateness_s[-1] + lateness_s[0])
    periods = deadline.counters.ticks - 1 + deadline.counters.skipped
    assert scheduled_s == pytest.approx(periods * 0.005, abs=1e-7)


def test_nothing_is_sent_after_stop(make_rig, wait_for) -> None:
    rig = make_rig(on=MonotonicClock(), control__rate_hz=200.0)
    rig.feed()
    rig.runtime._loop.start()
    wait_for(lambda: len(rig.sent) >= 3)
    assert rig.runtime._loop.stop(20.0) is True
    number = len(rig.sent)
    assert not rig.runtime._loop.alive
    with pytest.raises(AssertionError, match='in time'):
        wait_for(lambda: len(rig.sent) > number, timeout_s=0.05)  # ten periods


def test_a_tick_during_which_it_is_stopped_is_not_sent(rig, wait_for) -> None:
    rig.feed()
    tick = rig.runtime._tick.tick

    def tick_and_stop(now_ns: int) -> Command:
        rig.runtime._loop._routine.request_stop()
        return tick(now_ns)

    rig.runtime._tick.tick = tick_and_stop
    rig.runtime._loop.start()
    wait_for(lambda: not rig.runtime._loop.running)
    assert rig.runtime._loop.stop(20.0) is True
    assert rig.sent == []
