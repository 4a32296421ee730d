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

"""Runtime: the two loops together, what stops the robot, and what sets it going again."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from robot_infer.control import MonotonicClock
from robot_infer.errors import ConfigError, EngineError, FrameError, InstructionError
from robot_infer.types import Source


@pytest.fixture
def live(make_rig):
    """A rig on the real clock, whose threads are stopped in the end.

    It is fed once, and this machine may stall for seconds: nothing may go stale by then.
    """
    rig = make_rig(on=MonotonicClock(), control__rate_hz=200.0, inference__rate_hz=50.0,
                   cameras__max_age_s=60.0, state__max_age_s=60.0, control__chunk_validity_s=60.0)
    yield rig
    assert rig.runtime.stop(20.0) is True


def sources(rig) -> set[Source]:
    return {command.source for command in rig.sent}


class TestInstruction:
    def test_a_new_one_ends_the_actions_of_the_old_at_once(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        (before,) = rig.tick()
        rig.runtime.put_instruction('away from the light')
        (held,) = rig.tick()
        assert (held.source, held.reason) == (Source.HOLD, 'instruction_changed')
        assert held.values.tolist() == before.values.tolist()
        rig.runtime.infer_once()
        (after,) = rig.tick()
        assert after.source is Source.CHUNK and (after.values < 0).all()

    def test_a_chunk_of_the_old_one_that_is_under_way_is_discarded(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        pending = rig.runtime.begin_inference()
        rig.runtime.put_instruction('away from the light')
        assert rig.runtime.deliver(pending) is False
        assert rig.tick()[0].reason == 'instruction_changed'
        assert rig.runtime.status().chunks.discarded == 1

    def test_the_same_one_again_changes_nothing(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        for _ in range(3):
            rig.runtime.put_instruction(' to the light ')
            assert rig.tick()[0].source is Source.CHUNK

    def test_a_refused_one_holds_the_robot_and_shows(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick()
        rig.runtime.put_instruction('x' * 10_000)
        assert 'got 10000' in rig.faults()['InstructionError']
        assert rig.tick()[0].reason == 'no_instruction'
        assert rig.runtime.infer_once() is None
        assert rig.runtime.status().instruction == ''
        rig.runtime.put_instruction('to the light')
        assert rig.faults() == {}
        assert rig.runtime.infer_once() is not None
        assert rig.tick()[0].source is Source.CHUNK

    def test_who_sets_one_is_told_that_it_is_refused(self, make_rig) -> None:
        rig = make_rig()
        with pytest.raises(InstructionError, match='without control or invisible'):
            rig.runtime.set_instruction('move\x07')

    def test_a_blank_one_holds_the_robot(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick()
        rig.runtime.put_instruction('')
        assert rig.tick()[0].reason == 'no_instruction'
        assert rig.runtime.infer_once() is None

    def test_without_one_at_start_the_robot_waits_for_it(self, make_rig) -> None:
        rig = make_rig(instruction__text='')
        rig.feed()
        assert rig.runtime.infer_once() is None
        (command,) = rig.tick()
        assert (command.source, command.reason) == (Source.HOLD, 'no_instruction')


class TestFaultsOfInputs:
    @pytest.mark.parametrize('spoil', [
        lambda rig: rig.put_state(float('nan')),
        lambda rig: rig.runtime.put_state(['slide_x'], [0.0], 0, rig.clock.now_ns(), 0),
        lambda rig: (rig.clock.advance_s(0.26), rig.put_state()),
    ], ids=['NaN', 'missing joint', 'stale frames'])
    def test_the_buffer_runs_out_and_then_the_robot_holds(self, make_rig, spoil) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(2)
        spoil(rig)
        assert rig.runtime.infer_once() is None
        commands = rig.tick(8)
        assert [command.source for command in commands] == [Source.CHUNK] * 6 + [Source.HOLD] * 2
        assert commands[-1].reason == 'chunk_exhausted'
        assert commands[-1].values.tolist() == commands[5].values.tolist()

    def test_with_fallback_stop_the_robot_stays_stopped_when_inputs_are_back(
        self, make_rig,
    ) -> None:
        rig = make_rig(control__fallback='stop')
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(9)
        rig.feed()
        assert rig.runtime.infer_once() is not None
        (command,) = rig.tick()
        assert (command.source, command.reason) == (Source.STOP, 'chunk_exhausted')
        assert rig.runtime.status().latched == 'chunk_exhausted'
        rig.runtime.reset()
        rig.runtime.infer_once()
        assert rig.tick()[0].source is Source.CHUNK

    def test_a_stale_measured_position_is_not_held(self, make_rig) -> None:
        rig = make_rig()
        rig.put_state(0.5, 0.5)
        rig.clock.advance_s(1.0)
        (command,) = rig.tick()
        assert command.values is None and rig.sent == []
        rig.put_state(0.5, 0.5)
        assert rig.tick()[0].values.tolist() == [0.5, 0.5]


class TestPolicyThatMakesNoFirstChunk:
    """A policy to blame for having no chunk is missed; inputs to blame are waited for."""

    def ticks_of_a_hanging_step(self, rig, number: int) -> list:
        """What the robot is sent while a step hangs that was begun before any chunk."""
        sent: list = []

        def hang() -> None:
            rig.clock.advance_s(2.0)
            sent.extend(rig.tick())
            rig.runtime._inference.report_hanging()
            sent.extend(rig.tick(number))
        rig.policy.before_step = hang
        rig.runtime.infer_once()
        return [(command.source, command.reason) for command in sent]

    def test_fallback_stop_is_latched_once_the_first_step_hangs(self, make_rig) -> None:
        rig = make_rig(control__fallback='stop')
        rig.feed()
        assert self.ticks_of_a_hanging_step(rig, 2) == [
            (Source.HOLD, 'no_chunk_yet'), *[(Source.STOP, 'step_hangs')] * 2]
        assert rig.runtime.latched == 'step_hangs'

    def test_periods_of_a_hanging_step_are_missed_ones(self, make_rig) -> None:
        rig = make_rig(control__max_consecutive_misses=3)
        rig.feed()
        assert self.ticks_of_a_hanging_step(rig, 4) == [
            (Source.HOLD, 'no_chunk_yet'), *[(Source.HOLD, 'step_hangs')] * 3,
            (Source.STOP, 'deadlines_missed')]
        assert 'DeadlineError' in rig.faults()

    @pytest.mark.parametrize('again', [
        lambda rig: rig.runtime.put_instruction('away from the light'),
        lambda rig: rig.runtime.clock_jumped(-2_000_000_000),
        lambda rig: rig.runtime.start_over(),
    ], ids=['instruction', 'clock jump', 'start over'])
    def test_so_they_are_after_whatever_voids_the_chunk(self, make_rig, again) -> None:
        rig = make_rig(control__max_consecutive_misses=3)
        rig.feed()
        rig.runtime.infer_once()
        rig.tick()
        again(rig)
        rig.feed()
        assert self.ticks_of_a_hanging_step(rig, 4)[-1] == (Source.STOP, 'deadlines_missed')

    @pytest.mark.parametrize(('spoil', 'reason'), [
        (lambda rig: rig.runtime.put_instruction(''), 'no_instruction'),
        (lambda rig: rig.runtime.disable(), 'disabled')], ids=['no instruction', 'disabled'])
    def test_where_no_chunk_is_wanted_none_is_missed(self, make_rig, spoil, reason) -> None:
        rig = make_rig(control__max_consecutive_misses=3, control__fallback='stop')
        rig.feed()
        sent: list = []

        def hang() -> None:
            spoil(rig)
            rig.clock.advance_s(2.0)
            rig.runtime._inference.report_hanging()
            sent.extend(rig.tick(5))
        rig.policy.before_step = hang
        rig.runtime.infer_once()
        assert {command.reason for command in sent} == {reason} and rig.runtime.latched == ''

    def test_missing_inputs_are_waited_for_as_long_as_it_takes(self, make_rig) -> None:
        rig = make_rig(control__max_consecutive_misses=3, control__fallback='stop')
        for _ in range(20):
            assert rig.runtime.infer_once() is None
            rig.runtime._inference.report_hanging()
            assert {command.reason for command in rig.tick()} == {'no_chunk_yet'}
        assert rig.runtime.latched == ''

    @pytest.mark.parametrize(('error', 'reason'), [
        (RuntimeError('boom'), 'step_failed'),
        (EngineError('policy process', expected='a', got='b', remedy='C.'), 'step_failed'),
        (FrameError('camera wrist', expected='a', got='b', remedy='C.'), 'no_chunk_yet')])
    def test_a_first_step_that_fails_is_missed_unless_an_input_is_to_blame(
        self, make_rig, error, reason,
    ) -> None:
        rig = make_rig(control__max_consecutive_misses=3)

        def fail() -> None:
            raise error
        rig.policy.before_step = fail
        rig.feed()
        rig.runtime.infer_once()
        assert [command.reason for command in rig.tick(4)] == [reason] * 3 + [
            'deadlines_missed' if reason == 'step_failed' else reason]

    def test_a_step_that_failed_is_of_the_past_after_a_reset_or_a_good_one(
        self, make_rig,
    ) -> None:
        rig = make_rig()
        rig.policy.before_step = lambda: 1 / 0
        rig.feed()
        for end in (rig.runtime.start_over, lambda: rig.runtime.put_instruction('away')):
            rig.runtime.infer_once()
            assert rig.tick()[0].reason == 'step_failed'
            end()
            assert rig.tick()[0].reason in ('no_chunk_yet', 'instruction_changed')
        rig.policy.before_step = lambda: None
        rig.runtime.infer_once()
        assert rig.tick()[0].source is Source.CHUNK


class TestThreads:
    def test_actions_flow_and_every_one_is_the_next_of_its_chunk(self, live, wait_for) -> None:
        live.runtime.start()
        live.runtime.start()
        chunks: dict[int, np.ndarray] = {}
        step = live.policy.step

        def keep(observation, budget):
            chunk = step(observation, budget)
            chunks[chunk.epoch] = chunk.values
            return chunk

        live.policy.step = keep

        def enough() -> bool:
            live.feed(overhead=len(live.sent) % 256, wrist=100)
            return len({command.epoch for command in live.sent}) > 10

        wait_for(enough)
        assert live.runtime.stop(20.0) is True
        last: tuple[int, int] | None = None
        for command in live.sent:
            if command.source is not Source.CHUNK or command.epoch not in chunks:
                continue
            (row,) = np.flatnonzero((chunks[command.epoch] == command.values).all(axis=1))
            if last is not None and last[0] == command.epoch:
                assert row == last[1] + 1
            last = (command.epoch, int(row))
        counters = live.runtime.status().chunks
        assert counters.consumed == sum(c.source is Source.CHUNK for c in live.sent)

    def test_ticks_go_on_while_the_engine_hangs(self, live, wait_for) -> None:
        live.feed()
        live.runtime.start()
        wait_for(lambda: live.runtime.status().chunks.chunks >= 1)
        release, hanging = threading.Event(), threading.Event()

        def hang() -> None:
            hanging.set()
            release.wait()

        live.policy.before_step = hang
        wait_for(lambda: live.feed() or hanging.is_set())
        wait_for(lambda: live.sent[-1].source is Source.HOLD)
        held = live.sent[-1]
        assert held.reason in ('chunk_exhausted', 'chunk_expired')
        ticks = len(live.sent)
        wait_for(lambda: len(live.sent) >= ticks + 20)
        assert {command.values.tobytes() for command in live.sent[ticks:]} == {
            held.values.tobytes()}
        live.policy.before_step = lambda: None
        release.set()
        wait_for(lambda: live.feed() or live.sent[-1].source is Source.CHUNK)
        wait_for(lambda: live.feed() or live.runtime.status().faults == ())

    def test_stop_while_the_engine_hangs_says_so_and_voids_its_chunk(
        self, live, wait_for,
    ) -> None:
        release, hanging = threading.Event(), threading.Event()

        def hang() -> None:
            hanging.set()
            release.wait()

        live.policy.before_step = hang
        live.feed()
        live.runtime.start()
        wait_for(hanging.is_set)
        assert live.runtime.stop(20.0, step_timeout_s=0.01) is False
        status = live.runtime.status()
        assert not status.running and status.worker_alive
        number = len(live.sent)
        live.policy.before_step = lambda: None
        release.set()
        assert live.runtime.stop(20.0) is True
        assert len(live.sent) == number
        assert live.runtime.status().chunks.chunks == 0

    def test_start_again_begins_anew(self, live, wait_for) -> None:
        live.feed()
        live.runtime.start()
        wait_for(lambda: Source.CHUNK in sources(live))
        assert live.runtime.stop(20.0) is True
        assert live.runtime.stop(20.0) is True
        live.sent.clear()
        live.put_state(-0.5, -0.5)  # moved by hand
        release = threading.Event()
        live.policy.before_step = release.wait
        live.runtime.start()
        wait_for(lambda: len(live.sent) >= 2)
        first = live.sent[0]
        assert (first.source, first.reason) == (Source.HOLD, 'no_chunk_yet')
        assert first.values.tolist() == [-0.5, -0.5], 'not the last position of the run before'
        release.set()

    def test_an_error_in_every_step_leaves_both_threads_alive(self, live, wait_for) -> None:
        def fail() -> None:
            raise RuntimeError('boom')

        live.policy.before_step = fail
        live.runtime.start()
        wait_for(lambda: live.feed() or live.runtime.status().inference.counters.failed >= 3)
        assert live.faults()['UnexpectedError'] == 'RuntimeError: boom'
        number = len(live.sent)
        wait_for(lambda: len(live.sent) >= number + 3)
        assert sources(live) == {Source.HOLD}
        live.policy.before_step = lambda: None
        wait_for(lambda: live.feed() or Source.CHUNK in sources(live))

    def test_an_instruction_storm_stops_neither_loop(self, live, wait_for) -> None:
        live.runtime.start()
        for number in range(2000):
            live.runtime.put_instruction(f'go to light number {number}')
        ticks = len(live.sent)
        wait_for(lambda: live.feed() or live.sent[-1:] and len(live.sent) > ticks + 5
                 and live.sent[-1].source is Source.CHUNK)
        assert live.runtime.status().instruction == 'go to light number 1999'
        assert live.policy.observations[-1].instruction == 'go to light number 1999'

    def test_two_hundred_starts_leave_no_thread_behind(self, live) -> None:
        before = threading.active_count()
        for _ in range(200):
            live.feed()
            live.runtime.start()
            assert live.runtime.stop(20.0) is True
        assert threading.active_count() == before


class TestSettings:
    def test_a_policy_of_another_robot_is_refused(self, make_rig, policy) -> None:
        with pytest.raises(ConfigError, match='state.joints: expected 2 joints.*got 1: elbow'):
            make_rig(state__joints=['elbow'])
        policy.info = dataclasses.replace(policy.info, state_dim=1)
        with pytest.raises(ConfigError, match='state.joints: expected 1 joints'):
            make_rig()

    def test_an_instruction_refused_at_start_is_an_error_at_once(self, make_rig) -> None:
        with pytest.raises(InstructionError, match='at most 5'):
            make_rig(instruction__max_characters=5)

    def test_where_actions_are_not_joints_there_is_no_position_to_hold_at_first(
        self, make_rig, policy,
    ) -> None:
        policy.info = dataclasses.replace(policy.info, action_dim=3)
        rig = make_rig()
        rig.feed()
        assert rig.tick()[0].values is None

    def test_a_measured_position_outside_the_limits_is_not_held(self, make_rig) -> None:
        rig = make_rig(control__action_low=(-1.0, -1.0), control__action_high=(1.0, 1.0),
                       instruction__text='')
        rig.put_state(1e30, -5.0)
        assert rig.tick()[0].values is None
        rig.put_state(0.5, -0.5)
        assert rig.tick()[0].values.tolist() == [0.5, -0.5]

    def test_another_devices_joint_states_change_nothing(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        now = rig.clock.now_ns()
        rig.runtime.put_state(['gripper_left'], [0.1], rig.stamp_ns(), now, rig.stamp_ns())
        assert rig.runtime.infer_once() is not None


class TestStatus:
    def test_it_tells_what_a_robot_engineer_asks(self, make_rig) -> None:
        rig = make_rig()
        rig.feed()
        rig.runtime.infer_once()
        rig.tick(3)
        status = rig.runtime.status()
        assert (status.running, status.worker_alive, status.latched) == (False, False, '')
        assert status.last_command == rig.sent[-1]
        assert (status.chunk_remaining, status.instruction) == (5, 'to the light')
        assert (status.pages_used, status.pages_total) == (3, 16)
        assert (status.inference.counters.tokens_total, status.inference.report.tokens_reused) == (
            10, 6)
        assert status.cameras['overhead'].used == 1
        assert status.deadline.counters.chunk_ticks == 3

    def test_it_may_be_asked_at_any_time_from_any_thread(self, live, wait_for) -> None:
        live.runtime.start()
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                for _ in range(50):
                    live.runtime.status()
            except BaseException as error:
                errors.append(error)

        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        wait_for(lambda: live.feed() or not any(asker.is_alive() for asker in askers))
        assert errors == []
