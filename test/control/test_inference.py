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

"""Inference: a step's chunk reaches the buffer, or a fault says why not."""

from __future__ import annotations

import numpy as np
import pytest

from robot_infer.errors import ActionError
from robot_infer.types import Source


def test_a_step_gives_the_chunk_that_the_ticks_then_follow(make_rig, policy) -> None:
    rig = make_rig()
    rig.feed(overhead=255, wrist=0, x=0.0, y=0.8)
    chunk = rig.runtime.infer_once()
    expected = np.linspace([0.0, 0.8], [1.0, 0.0], policy.horizon + 1)[1:]
    assert np.allclose(chunk.values, expected)
    commands = rig.tick(policy.horizon)
    assert np.allclose([command.values for command in commands], expected)
    assert {command.source for command in commands} == {Source.CHUNK}
    assert rig.tick()[0].reason == 'chunk_exhausted'


def test_latency_is_modelled_by_ticks_between_the_halves_of_a_step(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    rig.tick(2)
    rig.put_state(0.25, 0.25)
    pending = rig.runtime.begin_inference()
    rig.tick(3)
    assert rig.runtime.deliver(pending) is True
    assert rig.tick()[0].values.tolist() == pending.chunk.values[3].tolist()
    chunks = rig.runtime.status().chunks
    assert (chunks.chunks, chunks.replaced, chunks.consumed) == (2, 1, 6)


def test_a_chunk_that_comes_after_all_its_actions_is_late(make_rig, policy) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    policy.horizon = 3
    pending = rig.runtime.begin_inference()
    rig.tick(3)
    assert rig.runtime.deliver(pending) is False
    assert rig.runtime.status().chunks.late == 1
    assert rig.tick()[0].source is Source.CHUNK, 'the chunk in use goes on'


def test_a_chunk_outside_the_limits_is_refused_and_the_one_in_use_runs_out(
    make_rig, policy,
) -> None:
    rig = make_rig(control__action_low=[-2.0, -2.0], control__action_high=[2.0, 2.0])
    rig.feed()
    assert rig.runtime.infer_once() is not None
    policy.gain = 57.3  # as if degrees had come for radians
    assert rig.runtime.infer_once() is None
    assert 'slide_x: expected -2 to 2; got 7.1625' in rig.faults()['ActionError']
    commands = rig.tick(policy.horizon + 2)
    assert [command.source for command in commands] == (
        [Source.CHUNK] * policy.horizon + [Source.HOLD] * 2)
    assert commands[-1].reason == 'action_out_of_range'
    assert commands[-1].values.tolist() == [1.0, 1.0]
    policy.gain = 1.0
    rig.feed()
    assert rig.runtime.infer_once() is not None
    assert rig.faults() == {}
    assert rig.tick()[0].source is Source.CHUNK


@pytest.mark.parametrize('gain', [float('nan'), float('inf')])
def test_actions_that_are_not_finite_never_reach_the_robot(make_rig, policy, gain) -> None:
    rig = make_rig()
    policy.gain = gain
    rig.feed()
    assert rig.runtime.infer_once() is None
    (command,) = rig.tick()
    assert (command.reason, command.values.tolist()) == ('action_not_finite', [0.0, 0.0])


def test_an_error_of_the_policy_is_a_fault_with_its_traceback(make_rig, policy) -> None:
    rig = make_rig()
    rig.feed()

    def out_of_memory() -> None:
        raise MemoryError('no pages')

    policy.before_step = out_of_memory
    assert rig.runtime.infer_once() is None
    (fault,) = rig.runtime.status().faults
    assert str(fault) == 'UnexpectedError: MemoryError: no pages'
    assert 'out_of_memory' in fault.traceback
    assert rig.runtime.status().inference.counters.failed == 1
    policy.before_step = lambda: None
    assert rig.runtime.infer_once() is not None
    assert rig.faults() == {}
    assert rig.runtime.status().fault_history[0].count == 1


def test_actions_that_the_engine_itself_refuses_show_as_the_reason(make_rig, policy) -> None:
    rig = make_rig()
    rig.feed()

    def refuse() -> None:
        raise ActionError('action chunk', expected='finite numbers', got='NaN', remedy='None.')

    policy.before_step = refuse
    assert rig.runtime.infer_once() is None
    assert list(rig.faults()) == ['ActionError']
    assert rig.tick()[0].reason == 'action_not_finite'


def test_a_policy_that_gives_no_chunk_at_all_is_a_fault(make_rig, policy, monkeypatch) -> None:
    rig = make_rig()
    rig.feed()
    monkeypatch.setattr(policy, 'step', lambda observation, budget: None)
    assert rig.runtime.infer_once() is None
    assert 'UnexpectedError' in rig.faults()


def test_a_bad_input_is_a_fault_until_it_is_good_again(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.put_state(float('nan'))
    assert rig.runtime.infer_once() is None
    assert list(rig.faults()) == ['StateError']
    rig.put_state()
    assert rig.runtime.infer_once() is not None
    assert rig.faults() == {}
    counters = rig.runtime.status().inference.counters
    assert (counters.steps, counters.blocked) == (1, 1)


def test_a_step_longer_than_its_deadline_is_counted_as_late(make_rig, policy) -> None:
    rig = make_rig(inference__deadline_s=0.05)
    for took_s in (0.05, 0.051):
        policy.before_step = lambda took_s=took_s: rig.clock.advance_s(took_s)
        rig.feed()
        rig.runtime.infer_once()
    status = rig.runtime.status().inference
    assert (status.counters.steps, status.counters.late) == (2, 1)
    assert status.step_s.max == pytest.approx(0.051)
    assert list(status.stages_s) == ['observe', 'vision', 'denoise']
