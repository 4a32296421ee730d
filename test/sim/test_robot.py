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

"""The simulated robot on a clock that the test turns."""

import math

import numpy as np
import pytest

from robot_infer.errors import ActionError, ConfigError
from robot_infer.sim.messages import Disturb, Reset, Truth, from_json, to_json
from robot_infer.sim.robot import SimulatedRobot

S = 1_000_000_000


def robot(seed: int = 3) -> SimulatedRobot:
    """A robot that begins at time 0."""
    return SimulatedRobot(Reset(seed), now_ns=0)


def aim(x: float, y: float) -> dict[str, float]:
    """The positions of a command."""
    return {'slide_x': x, 'slide_y': y}


def test_the_number_of_physics_steps_follows_from_the_clock_alone():
    every_tick, seldom = robot(), robot()
    steps = [every_tick.advance(k * S // 60).steps for k in range(1, 61)]
    assert steps == [1] * 60
    assert sum(seldom.advance(now).steps for now in (S // 3, S // 2, S)) == 60


def test_frames_are_due_at_half_the_rate_of_the_physics():
    simulated = robot()
    due = [simulated.advance(k * S // 60).frame_due for k in range(1, 7)]
    assert due == [False, True, False, True, False, True]


def test_after_a_long_stall_the_world_goes_on_without_a_leap():
    simulated = robot()
    assert simulated.advance(10 * S).steps == 30
    assert simulated.advance(10 * S + S // 60).steps == 1


def test_a_command_moves_the_gripper_and_a_stale_one_stops_it_where_it_is():
    simulated = robot()
    before = simulated.world.state()
    target = -math.copysign(0.2, before[0])
    simulated.command(aim(target, 0.0), now_ns=0)
    simulated.advance(S // 4)
    on_the_way = simulated.world.state()
    assert abs(on_the_way[0] - target) < abs(before[0] - target)
    simulated.advance(S // 2 + S // 30)
    assert simulated.idle
    stopped = simulated.world.state()
    simulated.advance(2 * S)
    assert np.array_equal(simulated.world.state(), stopped)
    assert abs(stopped[0] - target) > 0.01


def test_a_command_names_its_joints_and_other_joints_are_left_alone():
    simulated = robot()
    simulated.command({'wheel': 7.0, **aim(0.1, 0.1)}, now_ns=0)
    with pytest.raises(ActionError, match='slide_x, slide_y.*only slide_x'):
        simulated.command({'slide_x': 0.1}, now_ns=0)
    assert simulated.truth().commands == 1


def test_a_command_that_is_not_finite_is_refused_and_the_last_one_stands():
    simulated = robot()
    simulated.command(aim(0.1, 0.1), now_ns=0)
    with pytest.raises(ActionError, match='finite'):
        simulated.command(aim(float('nan'), 0.1), now_ns=0)
    assert not simulated.idle


def test_truth_tells_the_episode_and_survives_its_json():
    simulated = robot()
    simulated.reset(Reset(seed=11, blocks=2, episode=4))
    simulated.advance(S // 10)
    truth = simulated.truth()
    assert (truth.episode, truth.seed, truth.step, truth.moved) == (4, 11, 6, 0)
    assert len(truth.blocks) == len(truth.distances) == 2
    assert from_json(Truth, to_json(truth), 'sim/truth') == truth


def test_a_disturbed_block_lies_elsewhere_and_the_same_seed_puts_it_there_again():
    places = []
    for _ in range(2):
        simulated = robot()
        colour = next(iter(simulated.truth().blocks))
        before = simulated.truth().blocks[colour]
        simulated.disturb(Disturb(colour, seed=5))
        places.append(simulated.truth().blocks[colour])
        assert math.dist(before, places[-1]) >= 0.15
        assert simulated.truth().moved == 1
    assert places[0] == places[1]


@pytest.mark.parametrize('text', [
    '', '{', '[]', '{"seed": "x"}', '{"seed": -1}', '{"seed": 1, "blocks": 9}', '{"sed": 1}'])
def test_a_bad_reset_is_refused_with_the_fields_it_should_have(text: str):
    with pytest.raises(ConfigError, match='message on sim/reset.*seed, blocks, episode'):
        from_json(Reset, text, 'sim/reset')
