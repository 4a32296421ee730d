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

"""Which episodes there are, when a block is moved, and how success is judged with gaps."""

import pytest

from robot_infer.sim.episode_log import EpisodeLog
from robot_infer.sim.episodes import EpisodePlan, Judge, Mover, plan_episode
from robot_infer.sim.messages import Truth
from robot_infer.sim.world import EPISODE_STEPS, SUCCESS_STEPS, World, colour_of

NEAR, FAR = 0.01, 0.3


def test_the_same_arguments_give_the_same_episode_and_others_give_others():
    assert plan_episode(3, 7, moved=True) == plan_episode(3, 7, moved=True)
    seeds = {plan_episode(seed, number, False).world_seed for seed in range(3)
             for number in range(50)}
    assert len(seeds) == 150
    assert max(seeds) < 2**31  # training draws its worlds from above


def test_an_episode_asks_for_a_block_that_is_there_and_all_are_asked_for():
    plans = [plan_episode(0, number, False) for number in range(60)]
    for plan in plans:
        assert World(plan.world_seed).block(plan.colour)
        assert colour_of(plan.instruction) == plan.colour
    assert len({plan.colour for plan in plans}) == 4
    assert len({plan.instruction for plan in plans}) > 12


@pytest.mark.parametrize(('distances', 'step'), [
    ([0.30, 0.25, 0.20] + [0.15] * 20, 5),  # half way at once, but not before step 5
    ([0.30] * 20 + [0.15] * 5, 20),  # half way later
    ([0.30] * 60, 45)])  # never half way: after 1.5 s all the same
def test_the_block_is_moved_once_half_way_or_after_a_while(distances: list[float], step: int):
    mover = Mover(moved=True)
    due = [number for number, distance in enumerate(distances) if mover.due(number, distance)]
    assert due == [step]


def test_a_block_that_is_not_to_be_moved_is_not():
    mover = Mover(moved=False)
    assert not any(mover.due(step, 0.01) for step in range(100))


def test_no_episode_with_a_move_can_end_before_the_move():
    judge, mover = Judge('red'), Mover(moved=True)
    moves = []
    for step in range(SUCCESS_STEPS):  # over the block from the first step on
        assert not judge.done
        if mover.due(step, NEAR):
            moves.append(step)
            judge.block_moved()
        judge.see(step, NEAR)
    assert moves == [5]
    assert not judge.done


def test_steps_whose_truth_was_lost_count_with_the_distance_seen_next():
    judge = Judge('red')
    judge.see(0, FAR)
    assert not judge.see(SUCCESS_STEPS - 1, NEAR)
    assert judge.see(SUCCESS_STEPS, NEAR)
    assert judge.success


def test_time_runs_out_also_where_every_other_truth_is_lost():
    judge = Judge('red')
    for step in range(0, EPISODE_STEPS + 2, 2):
        judge.see(step, FAR)
    assert judge.done
    assert not judge.success
    assert judge.episode.steps == EPISODE_STEPS


def truth(step: int, gripper: tuple[float, float], red: tuple[float, float], moved: int) -> Truth:
    """What the simulated robot says at physics step `step` of 1/60 s."""
    distance = ((gripper[0] - red[0]) ** 2 + (gripper[1] - red[1]) ** 2) ** 0.5
    return Truth(episode=1, seed=9, step=step, period_s=1 / 60, moved=moved, gripper=gripper,
                 blocks={'red': red}, distances={'red': distance}, commands=step, idle=False)


def test_an_episode_in_real_time_is_recorded_with_its_path_and_its_move():
    log = EpisodeLog(EpisodePlan(0, 9, 'red', 'go to the red cube', moved=True), started_s=100.0)
    asked, step, x = [], 40, -0.2  # the robot is first heard 40 physics steps after the reset
    while not log.done and step < 400:
        red = (0.1, 0.0) if not asked else (0.1, 0.15)
        x = min(0.1, x + 0.01)
        y = 0.0 if not asked else 0.15
        if log.see(truth(step, (x, y), red, len(asked)), 100.0 + (step - 38) / 60):
            asked.append(step)
            log.add_picture(b'before', 'about to be moved')
        step += 2
    log.add_picture(b'after', 'at the end')
    record = log.record()
    assert len(asked) == 1
    assert record.success and record.moved
    assert record.duration_s == pytest.approx((step - 40) / 60)
    assert record.distance_m == pytest.approx(0.0)
    before, after = record.pictures
    assert before.path[0] == (640 / 2 - 190, 240.0)
    assert [mark.role for mark in before.marks] == ['target', 'start', 'end']
    assert [mark.role for mark in after.marks] == ['was', 'target', 'start', 'moved', 'end']
    assert (after.marks[0].x, after.marks[0].y) == (420.0, 240.0)
    assert (after.marks[1].x, after.marks[1].y) == (420.0, 90.0)
    assert len(after.path) < 60  # standing still adds no points
