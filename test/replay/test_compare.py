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

"""Recorded beside replayed: pairs by time, errors per joint."""

from __future__ import annotations

import numpy as np
import pytest

from robot_infer.replay.compare import Comparison, compare
from robot_infer.replay.errors import TopicError
from robot_infer.replay.messages import Action
from robot_infer.replay.recorder import Tick
from robot_infer.types import Source

PERIOD_S = 0.02
PERIOD_NS = 20_000_000
JOINTS = ('a', 'b')


def ticks(*values: tuple[float, float] | None, source: Source = Source.CHUNK) -> list[Tick]:
    """Ticks from time 0."""
    return [Tick(k * PERIOD_NS, source, '', 1, k, None if one is None else np.array(one))
            for k, one in enumerate(values)]


def found(recorded: list[tuple[int, Action]], made: list[Tick]) -> Comparison:
    """Compare with what was recorded."""
    return compare('/action', recorded, made, JOINTS, 0, PERIOD_S)


def act(*values: float, joints: tuple[str, ...] = ()) -> Action:
    """A recorded action."""
    return Action(joints, np.array(values))


def test_errors_are_replayed_less_recorded_per_joint():
    result = found([(0, act(1, 5)), (PERIOD_NS, act(1, 5)), (2 * PERIOD_NS, act(1, 5))],
                   ticks((1, 5), (2, 5), (4, 5)))
    assert result.errors.tolist() == [[0, 0], [1, 0], [3, 0]]
    first, second = result.by_joint()
    assert (first.joint, first.max, first.worst_s) == ('a', 3.0, 0.04)
    assert first.rms == pytest.approx((10 / 3) ** 0.5)
    assert (second.rms, second.max) == (0.0, 0.0)
    assert result.same == 1


def test_each_recorded_action_is_beside_the_nearest_tick_within_half_a_period():
    result = found([(PERIOD_NS - 9_999_999, act(7, 0)), (PERIOD_NS + 9_999_999, act(8, 0)),
                    (PERIOD_NS // 2, act(9, 0)), (-11_000_000, act(0, 0))],
                   ticks((1, 0), (2, 0)))
    assert result.replayed[:, 0].tolist() == [2, 2, 1]
    assert result.recorded[:, 0].tolist() == [7, 8, 9]
    assert result.unpaired == 1
    assert '3 pairs, 1 recorded actions without one' in result.alignment
    assert 'at most 10.0 ms' in result.alignment


def test_joints_are_matched_by_name_and_others_are_ignored():
    result = found([(0, act(3, 2, 1, joints=('b', 'c', 'a')))], ticks((1, 3)))
    assert result.same == 1


def test_a_tick_that_sent_nothing_is_no_partner():
    result = found([(0, act(1, 1))], ticks(None, (1, 1)))
    assert result.unpaired == 1 and result.by_joint() == []


def test_it_is_known_where_the_replay_followed_no_chunk():
    made = ticks((0, 0), (0, 0))
    made[1] = made[1]._replace(source=Source.HOLD)
    assert found([(0, act(0, 0)), (PERIOD_NS, act(0, 0))], made).followed.tolist() == [True, False]


@pytest.mark.parametrize('action', [
    act(1.0), act(1.0, 2.0, 3.0), act(1.0, 2.0, joints=('a', 'x')), act(1.0, joints=JOINTS)])
def test_an_action_of_another_robot_is_refused(action):
    with pytest.raises(TopicError, match='values for a, b'):
        found([(0, action)], ticks((0, 0)))
