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

"""Jumps of the stamps' clock: noticed with the next message; what was stamped before is void."""

from __future__ import annotations

import threading

import pytest

from robot_infer.control.clock import NS_PER_S
from robot_infer.control.stamps import StampClock
from robot_infer.errors import ClockError
from robot_infer.types import Source

MS = 1_000_000
START = 100 * NS_PER_S


@pytest.mark.parametrize(('rate', 'step_ms'), [(1.0, 33), (0.1, 33), (10.0, 33), (0.0, 33)])
def test_a_clock_of_any_rate_has_not_jumped(rate: float, step_ms: int) -> None:
    stamps = StampClock(1.0)
    for number in range(100):
        elapsed_ns = number * step_ms * MS
        assert stamps.note(elapsed_ns, START + round(rate * elapsed_ns)) == 0


@pytest.mark.parametrize(('moved_ms', 'jump_ms'), [
    (-5000, -5010), (-101, -111), (-99, 0), (900, 0), (1010, 0), (1011, 1001), (60_000, 59_990)])
def test_a_jump_is_what_is_more_than_the_time_that_passed(moved_ms: int, jump_ms: int) -> None:
    stamps = StampClock(1.0)
    stamps.note(-MS, START - MS)
    stamps.note(0, START)
    assert stamps.note(10 * MS, START + moved_ms * MS) == jump_ms * MS
    assert stamps.note(20 * MS, START + (moved_ms + 10) * MS) == 0, 'it is told once'
    assert stamps.steady_ns(START + moved_ms * MS) == 10 * MS


@pytest.mark.parametrize('ticks_s', [0.5, 5.0])
def test_a_clock_that_ticks_seldom_or_is_heard_late_has_not_jumped(ticks_s: float) -> None:
    stamps = StampClock(1.0)
    for number in range(200):
        elapsed_ns = number * 100 * MS
        heard_ns = elapsed_ns // round(ticks_s * NS_PER_S) * round(ticks_s * NS_PER_S)
        assert stamps.note(elapsed_ns, START + heard_ns) == 0


def test_a_clock_first_seen_standing_may_have_stood_for_long() -> None:
    stamps = StampClock(1.0)
    assert [stamps.note(time_ms * MS, START) for time_ms in (0, 10)] == [0, 0]
    assert stamps.note(20 * MS, START + 4 * NS_PER_S) == 0, 'a thread that was busy for 4 s'
    assert stamps.note(30 * MS, START + 8 * NS_PER_S) == 3990 * MS


def test_the_first_word_of_a_simulated_clock_is_no_jump() -> None:
    stamps = StampClock(1.0)
    assert [stamps.note(0, 0), stamps.note(10 * MS, 0), stamps.note(20 * MS, START)] == [0, 0, 0]
    stamps.check()


def test_a_clock_that_stands_is_an_error() -> None:
    stamps = StampClock(1.0)
    stamps.check()
    for time_ms in range(0, 501, 50):
        stamps.note(time_ms * MS, START)
        stamps.check()
    stamps.note(550 * MS, START)
    with pytest.raises(ClockError, match='unchanged for 0.6 s. See that /clock'):
        stamps.check()
    stamps.note(600 * MS, START + MS)
    stamps.check()


def test_a_simulated_clock_of_which_nothing_was_heard_is_an_error_at_once() -> None:
    stamps = StampClock(1.0)
    stamps.note(0, 0)
    stamps.note(1200 * MS, 0)
    with pytest.raises(ClockError, match='a time on /clock.*got none for 1.2 s. Start what'):
        stamps.check()
    assert stamps.note(1300 * MS, START) == 0
    stamps.check()


def test_of_several_threads_one_is_told_of_a_jump() -> None:
    stamps = StampClock(1.0)
    for number in range(1, 200):
        stamps.note(number * MS, START)
        told: list[int] = []
        gate = threading.Barrier(3)

        def note(at_ns: int, told: list[int] = told, gate: threading.Barrier = gate) -> None:
            gate.wait()
            told.append(stamps.note(at_ns, START - 60 * NS_PER_S))

        threads = [threading.Thread(target=note, args=(number * MS,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [-60 * NS_PER_S, 0, 0]
        stamps.reset()


@pytest.mark.parametrize('jump_s', [-30.0, 30.0])
def test_a_jump_makes_chunk_frames_and_state_void_until_there_are_new_ones(
    make_rig, jump_s: float, monkeypatch,
) -> None:
    rig = make_rig()
    rig.put_state()
    rig.clock.advance_ns(MS)
    rig.feed(x=0.25)
    rig.runtime.infer_once()
    last = rig.tick(3)[-1]
    before_ns = rig.stamp_ns()
    offset_ns = round(jump_s * NS_PER_S)
    monkeypatch.setattr(rig, 'stamp_ns', lambda: before_ns + offset_ns + rig.clock.now_ns())
    rig.clock.advance_ns(20 * MS)
    rig.put_state(0.5)
    (command,) = rig.tick()
    assert (command.source, command.reason) == (Source.HOLD, 'clock_jumped')
    assert command.values.tolist() == last.values.tolist()
    assert 'a jump ' + ('back' if jump_s < 0 else 'forward') in rig.faults()['ClockError']
    assert rig.runtime.infer_once() is None
    assert 'no frame yet' in rig.faults()['StaleFrameError']
    rig.feed(x=0.5)
    assert rig.runtime.infer_once() is not None
    assert rig.tick()[0].source is Source.CHUNK
    assert rig.runtime.status().clock_jumps == 1
    rig.clock.advance_s(5.1)
    assert 'ClockError' not in rig.faults()


def test_whoever_knows_of_a_jump_may_say_so(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    rig.tick()
    rig.runtime.clock_jumped(-2 * NS_PER_S)
    assert rig.tick()[0].reason == 'clock_jumped'
    assert 'a jump back by 2.000 s' in rig.faults()['ClockError']
    rig.runtime.note_clock(rig.clock.now_ns(), rig.stamp_ns() - 2 * NS_PER_S)
    assert rig.runtime.status().clock_jumps == 1, 'it is not noticed a second time'


def test_a_jump_is_noticed_without_messages(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    rig.tick()
    rig.runtime.note_clock(rig.clock.now_ns(), rig.stamp_ns())
    assert rig.tick()[0].source is Source.CHUNK, 'it moved, as it should'
    rig.runtime.note_clock(rig.clock.now_ns(), rig.stamp_ns() + 3600 * NS_PER_S)
    assert rig.tick()[0].reason == 'clock_jumped'


def test_a_switch_to_another_clock_is_named(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.clock_jumped(0)
    assert 'another clock (use_sim_time was switched)' in rig.faults()['ClockError']


def test_where_nothing_was_heard_of_the_time_that_is_the_first_thing_said(make_rig) -> None:
    rig = make_rig()
    rig.runtime.note_clock(rig.clock.now_ns(), 0)
    with pytest.raises(ClockError, match='use_sim_time is true'):
        rig.runtime.observe()
    assert rig.runtime.infer_once() is None
    assert next(iter(rig.faults())) == 'ClockError'


def test_no_step_is_made_while_the_clock_stands(make_rig, monkeypatch) -> None:
    rig = make_rig()
    frozen = rig.stamp_ns()
    monkeypatch.setattr(rig, 'stamp_ns', lambda: frozen)
    for _ in range(12):
        rig.clock.advance_ns(50 * MS)
        rig.feed()
    assert rig.runtime.infer_once() is None
    assert 'unchanged for' in rig.faults()['ClockError']
