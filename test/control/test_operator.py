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

"""What an operator asks of a Runtime: enable, disable, start over, clear the statistics."""

from __future__ import annotations

import threading

import pytest

from robot_infer.control import MonotonicClock
from robot_infer.types import Source


def spoken(commands) -> list[tuple[Source, str]]:
    """(source, reason) of commands."""
    return [(command.source, command.reason) for command in commands]


DISABLED = (Source.HOLD, 'disabled')
WAITING = (Source.HOLD, 'no_chunk_yet')
FOLLOWING = (Source.CHUNK, '')


class TestDisable:
    def test_from_the_next_tick_on_the_robot_is_held_where_it_is(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        (last,) = rig.tick()
        rig.runtime.disable()
        commands = rig.tick(20)
        assert spoken(commands) == [DISABLED] * 20
        assert {tuple(command.values) for command in commands} == {tuple(last.values)}
        assert rig.runtime.status().enabled is False

    def test_no_step_is_made_meanwhile_but_inputs_are_judged(self, make_rig, policy) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.runtime.disable()
        rig.put_state(float('nan'))
        assert rig.runtime.infer_once() is None
        assert len(policy.observations) == 1 and 'StateError' in rig.faults()
        rig.feed()
        assert rig.runtime.infer_once() is None and rig.faults() == {}

    @pytest.mark.parametrize('meanwhile', [
        lambda rig: rig.runtime.put_instruction('away from the light'),
        lambda rig: rig.runtime.put_instruction(''),
        lambda rig: rig.runtime.clock_jumped(-2_000_000_000),
        lambda rig: rig.runtime.start_over(),
        lambda rig: rig.runtime.reset(),
        lambda rig: rig.runtime.disable(),
    ], ids=['instruction', 'no instruction', 'clock jump', 'start over', 'activation', 'again'])
    def test_nothing_but_enable_ends_it(self, make_rig, meanwhile) -> None:
        rig = make_rig()
        rig.runtime.disable()
        meanwhile(rig)
        rig.feed()
        assert rig.runtime.infer_once() is None
        assert spoken(rig.tick(3)) == [DISABLED] * 3

    def test_it_is_neither_a_miss_nor_an_underrun_nor_does_it_latch(self, make_rig) -> None:
        rig = make_rig(control__fallback='stop', control__max_consecutive_misses=2)
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(2)
        rig.runtime.disable()
        rig.tick(5)
        status = rig.runtime.status()
        assert (status.latched, status.chunks.underruns, status.faults) == ('', 0, ())

    def test_a_latched_stop_is_still_one(self, make_rig) -> None:
        rig = make_rig(control__fallback='stop')
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(9)
        rig.runtime.disable()
        assert spoken(rig.tick()) == [(Source.STOP, 'chunk_exhausted')]

    def test_zeros_are_sent_where_zeros_are_safe(self, make_rig) -> None:
        rig = make_rig(control__fallback='zero')
        rig.feed(x=0.5)
        rig.runtime.infer_once()
        rig.tick()
        rig.runtime.disable()
        (command,) = rig.tick()
        assert (command.source, command.reason) == (Source.ZERO, 'disabled')
        assert command.values.tolist() == [0.0, 0.0]


class TestEnable:
    def test_only_a_chunk_of_what_is_observed_from_now_on_is_followed(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        under_way = rig.runtime.begin_inference()
        rig.runtime.disable()
        assert rig.runtime.deliver(under_way) is False
        rig.runtime.enable()
        assert rig.runtime.deliver(under_way) is False, 'it was observed before'
        assert spoken(rig.tick(2)) == [WAITING] * 2
        rig.feed()
        chunk = rig.runtime.infer_once()
        (command,) = rig.tick()
        assert (command.source, command.epoch) == (Source.CHUNK, chunk.epoch)
        assert command.values.tolist() == chunk.values[0].tolist()

    def test_a_chunk_in_use_is_not_thrown_away_where_it_was_enabled(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick()
        rig.runtime.enable()
        assert spoken(rig.tick(7)) == [FOLLOWING] * 7

    def test_it_says_what_the_robot_waits_for(self, make_rig) -> None:
        rig = make_rig(instruction__text='')
        rig.runtime.disable()
        rig.runtime.enable()
        assert spoken(rig.tick()) == [(Source.HOLD, 'no_instruction')]

    def test_a_step_follows_although_nothing_new_comes(self, make_rig, wait_for) -> None:
        rig = make_rig(on=MonotonicClock(), cameras__max_age_s=60.0, state__max_age_s=60.0)
        rig.runtime.disable()
        rig.runtime.start()
        try:
            rig.feed()
            wait_for(lambda: rig.runtime.status().last_command is not None)
            assert rig.policy.observations == []
            rig.runtime.enable()
            wait_for(lambda: any(command.source is Source.CHUNK for command in rig.sent))
        finally:
            rig.runtime.stop()

    def test_switching_while_both_loops_run_never_lets_an_old_action_through(
        self, make_rig, wait_for,
    ) -> None:
        rig = make_rig(on=MonotonicClock(), control__rate_hz=500.0, inference__rate_hz=1000.0)
        ended = threading.Event()

        def feed() -> None:
            while not ended.wait(0.002):
                rig.feed()
        feeder = threading.Thread(target=feed)
        feeder.start()
        rig.runtime.start()
        try:
            for _ in range(20):
                wait_for(lambda: rig.runtime.status().last_command is not None
                         and rig.runtime.status().last_command.source is Source.CHUNK)
                rig.runtime.disable()
                steps, sent = len(rig.policy.observations), len(rig.sent)
                wait_for(lambda sent=sent: len(rig.sent) > sent + 3)
                # One tick may have been decided before.
                assert set(spoken(rig.sent[sent + 1:])) == {DISABLED}
                assert len(rig.policy.observations) <= steps + 1
                epoch = len(rig.policy.observations)
                before = len(rig.sent)
                rig.runtime.enable()
                wait_for(lambda before=before: any(
                    command.source is Source.CHUNK for command in rig.sent[before:]))
                assert all(command.epoch > epoch for command in rig.sent[before:]
                           if command.source is Source.CHUNK)
        finally:
            ended.set()
            feeder.join()
            rig.runtime.stop()


class TestStartOver:
    def test_chunks_are_forgotten_and_the_next_step_is_cold(self, make_rig, policy) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick()
        under_way = rig.runtime.begin_inference()
        rig.runtime.start_over()
        assert spoken(rig.tick()) == [WAITING]
        assert rig.runtime.deliver(under_way) is False
        assert policy.forgotten_at == [], 'the engine is used by the thread of the steps alone'
        rig.runtime.infer_once()
        rig.runtime.infer_once()
        assert policy.forgotten_at == [2]
        assert spoken(rig.tick()) == [FOLLOWING]

    def test_faults_and_statistics_begin_anew(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(10)
        rig.put_state(float('nan'))
        rig.runtime.infer_once()
        rig.runtime.start_over()
        status = rig.runtime.status()
        assert status.fault_history == ()
        assert (status.deadline.counters.ticks, status.inference.counters.steps) == (0, 0)
        assert (status.chunks.chunks, status.chunks.underruns, status.chunks.consumed) == (0, 0, 0)
        rig.runtime.infer_once()
        assert 'StateError' in rig.faults(), 'what is still wrong is said again'

    def test_a_cache_that_cannot_be_forgotten_is_a_fault_until_it_can(
        self, make_rig, policy,
    ) -> None:
        rig = make_rig()
        rig.feed()
        forget, policy.forget = policy.forget, lambda: 1 / 0
        rig.runtime.start_over()
        assert rig.runtime.infer_once() is None and 'UnexpectedError' in rig.faults()
        policy.forget = forget
        assert rig.runtime.infer_once() is not None and rig.faults() == {}
        assert policy.forgotten_at == [0]

    @pytest.mark.parametrize('settings', [
        {'control__fallback': 'stop'}, {'control__max_consecutive_misses': 2}])
    def test_a_latched_stop_ends_and_the_robot_is_held_where_it_is(
        self, make_rig, wait_for, clock, settings,
    ) -> None:
        rig = make_rig(**settings)
        rig.feed(x=0.0)
        rig.runtime.infer_once()
        rig.runtime._loop.start()
        for ticks in range(1, 12):
            wait_for(lambda ticks=ticks: len(rig.sent) == ticks)
            assert clock.await_waiters(1)
            clock.advance_ns(20_000_000)
        wait_for(lambda: rig.runtime.latched != '')
        held = rig.sent[-1].values.tolist()
        rig.put_state(0.0)  # it sags
        rig.runtime.start_over()
        seen = len(rig.sent)
        while rig.sent[-1].source is not Source.HOLD:
            assert clock.await_waiters(1)
            clock.advance_ns(20_000_000)
            wait_for(lambda seen=seen: len(rig.sent) > seen)
            seen = len(rig.sent)
        assert rig.runtime.latched == '' and rig.faults() == {}
        assert spoken(rig.sent[-1:]) == [WAITING] and rig.sent[-1].values.tolist() == held
        assert rig.runtime._loop.stop(20.0)

    def test_a_step_that_hangs_is_said_again(self, make_rig, policy) -> None:
        rig = make_rig()
        rig.feed()
        said: list[tuple[str, ...]] = []

        def hang() -> None:
            rig.clock.advance_s(2.0)
            for act in (lambda: None, rig.runtime.start_over):
                act()
                said.append(tuple(rig.faults()))
                rig.runtime._inference.report_hanging()
                said.append(tuple(rig.faults()))
        policy.before_step = hang
        rig.runtime.infer_once()
        assert said == [(), ('EngineError',)] * 2

    def test_a_step_that_hangs_is_said_again_when_the_node_is_activated_again(
        self, make_rig, policy, wait_for,
    ) -> None:
        rig = make_rig()
        hanging, release = threading.Event(), threading.Event()

        def hang() -> None:
            hanging.set()
            release.wait(60.0)
        policy.before_step = hang
        rig.feed()
        rig.runtime.start()
        try:
            assert hanging.wait(20.0)
            for _ in range(2):
                rig.clock.advance_s(2.0)
                rig.runtime.take_warnings()
                assert 'EngineError' in rig.faults()
                assert not rig.runtime.stop(20.0, step_timeout_s=0.0), 'the step hangs'
                rig.runtime.start()
                assert 'EngineError' not in rig.faults()
        finally:
            release.set()
            rig.runtime.stop(20.0)

    def test_where_nothing_runs_the_position_last_sent_is_forgotten_too(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(3)
        rig.runtime.start_over()
        rig.put_state(0.125, 0.25)
        assert rig.tick()[0].values.tolist() == [0.125, 0.25]


def test_clearing_the_statistics_takes_nothing_else_away(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    rig.tick(2)
    rig.runtime.clear_statistics()
    status = rig.runtime.status()
    assert (status.deadline.counters.ticks, status.deadline.lateness_s.count) == (0, 0)
    assert status.inference.counters.steps == status.chunks.chunks == 0
    assert status.chunk_remaining == 6
    assert spoken(rig.tick(6)) == [FOLLOWING] * 6
    assert rig.runtime.status().chunks.consumed == 6
