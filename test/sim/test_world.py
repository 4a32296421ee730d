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
"""The demo world: physics, pictures, rules and instructions."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from robot_infer.sim.scene import PAINT, WRIST_VIEW
from robot_infer.sim.world import (
    BLOCK_DISTANCE,
    BLOCK_SIDE,
    CAMERAS,
    COLOURS,
    CONTROL_PERIOD_S,
    EPISODE_STEPS,
    JOINT_LIMITS,
    SPEED_LIMIT,
    SUCCESS_DISTANCE,
    SUCCESS_STEPS,
    TABLE_SIZE,
    Episode,
    World,
    colour_of,
    expert,
    instruction,
    instructions,
)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), num_blocks=st.integers(1, 4))
def test_blocks_lie_inside_the_table_and_never_touch(seed: int, num_blocks: int) -> None:
    blocks = World(seed, num_blocks).blocks
    assert len({block.colour for block in blocks}) == num_blocks
    for i, block in enumerate(blocks):
        reach = BLOCK_SIDE / 2 * (abs(math.cos(block.yaw)) + abs(math.sin(block.yaw)))
        assert abs(block.xy[0]) + reach < TABLE_SIZE[0] / 2
        assert abs(block.xy[1]) + reach < TABLE_SIZE[1] / 2
        for other in blocks[:i]:
            assert math.dist(block.xy, other.xy) >= BLOCK_DISTANCE > BLOCK_SIDE * math.sqrt(2)


def test_the_same_seed_and_commands_give_the_same_pixels() -> None:
    one, two = World(7), World(7)
    other = World(8)
    for world in (one, two, other):
        for k in range(5):
            world.step(np.array([0.1, -0.05 * k]))
    for camera in CAMERAS:
        assert np.array_equal(one.render(camera), two.render(camera))
        assert np.array_equal(one.render(camera), one.render(camera))
        assert not np.array_equal(one.render(camera), other.render(camera))


def test_cameras_give_rgb_pictures_of_their_size() -> None:
    world = World(0)
    assert world.render('overhead').shape == (480, 640, 3)
    assert world.render('wrist').shape == (240, 320, 3)
    assert all(world.render(camera).dtype == np.uint8 for camera in CAMERAS)
    with pytest.raises(ValueError, match='overhead'):
        world.render('front')


def test_noise_and_light_change_from_step_to_step() -> None:
    world = World(3)
    before = world.render('overhead').astype(int)
    world.step(world.state())
    after = world.render('overhead').astype(int)
    assert (before != after).mean() > 0.5
    assert abs(before - after).mean() < 20
    means = []
    for _ in range(200):
        world.step(world.state())
        means.append(world.render('wrist').mean())
    assert max(means) - min(means) > 1.0


@pytest.mark.parametrize('seed', range(12))
def test_a_block_shows_its_colour_where_it_lies_in_both_cameras(seed: int) -> None:
    world = World(seed, num_blocks=3)
    world.place_gripper((-JOINT_LIMITS[0], -JOINT_LIMITS[1]))
    for block in world.blocks:
        column, row = 320 + block.xy[0] * 1000, 240 - block.xy[1] * 1000
        assert _nearest_paint(world.render('overhead'), column, row) == block.colour
    for block in world.blocks:
        world.place_gripper((block.xy[0] - 0.05, block.xy[1] + 0.03))
        gripper = world.state()
        scale = 320 / WRIST_VIEW[0]
        column = 160 + (block.xy[0] - gripper[0]) * scale
        row = 120 - (block.xy[1] - gripper[1]) * scale
        assert _nearest_paint(world.render('wrist'), column, row) == block.colour


def _nearest_paint(picture: np.ndarray, column: float, row: float) -> str:
    """Return the paint whose hue is nearest to a small patch of the picture."""
    x, y = int(round(column)), int(round(row))
    seen = picture[y - 6 : y + 7, x - 6 : x + 7].reshape(-1, 3).mean(axis=0)
    seen = seen / np.linalg.norm(seen)
    paints = {name: np.array(rgb) / np.linalg.norm(rgb) for name, rgb in PAINT.items()}
    return max(paints, key=lambda name: float(seen @ paints[name]))


@pytest.mark.parametrize('seed', range(8))
def test_the_gripper_hides_no_block_wholly(seed: int) -> None:
    world = World(seed)
    block = world.blocks[0]
    world.place_gripper((-0.3, -0.22))
    x, y = int(320 + block.xy[0] * 1000), int(240 - block.xy[1] * 1000)
    window = slice(y - 30, y + 31), slice(x - 30, x + 31)
    free = world.render('overhead')[window].astype(int)
    world.place_gripper(block.xy)
    covered = world.render('overhead')[window].astype(int)
    same = (abs(free - covered).sum(axis=-1) < 60).mean()
    assert 0.3 < same < 0.98


def test_the_joints_keep_to_speed_and_limits() -> None:
    world = World(1)
    world.place_gripper((-0.3, 0.0))
    previous = world.state().astype(float)
    for _ in range(120):
        world.step(np.array([9.0, 0.0]))
        state = world.state().astype(float)
        assert np.all(abs(state - previous) <= SPEED_LIMIT * CONTROL_PERIOD_S + 1e-6)
        previous = state
    assert previous[0] == pytest.approx(JOINT_LIMITS[0], abs=1e-3)
    with pytest.raises(ValueError, match='finite'):
        world.step(np.array([np.nan, 0.0]))


def test_a_disturbance_moves_only_the_named_block_and_repaints() -> None:
    world = World(5)
    colour = world.blocks[0].colour
    before, others = world.block(colour), world.blocks[1:]
    picture = world.render('overhead').astype(int)
    world.disturb(np.random.default_rng(0), colour)
    assert math.dist(world.block(colour).xy, before.xy) >= 0.15
    assert world.blocks[1:] == others
    assert abs(world.render('overhead').astype(int) - picture).max() > 60
    with pytest.raises(ValueError, match='free place'):
        world.move_block(colour, others[0].xy)
    with pytest.raises(KeyError, match='purple'):
        world.block('purple')


def test_the_expert_arrives_and_stays_in_both_batch_and_single_form() -> None:
    start = np.array([[-0.3, -0.2], [0.1, 0.1]], np.float32)
    target = np.array([[0.2, 0.15], [0.1, 0.1]], np.float32)
    chunk = expert(start, target, 150)
    assert chunk.shape == (2, 150, 2) and chunk.dtype == np.float32
    assert np.linalg.norm(chunk[0, -1] - target[0]) < 0.005
    assert np.allclose(chunk[1], target[1], atol=1e-6)
    steps = np.linalg.norm(np.diff(chunk[0], axis=0), axis=-1)
    assert steps.max() <= 0.25 * CONTROL_PERIOD_S + 1e-6
    assert np.array_equal(chunk[0], expert(start[0], target[0], 150))


@pytest.mark.parametrize('seed', range(10))
def test_following_the_expert_succeeds(seed: int) -> None:
    world = World(seed)
    colour = world.blocks[0].colour
    episode = Episode(colour)
    while not episode.done:
        target = np.array(world.block(colour).xy)
        world.step(expert(world.state(), target, 4)[-1])
        episode.update(world.distance_to(colour))
    assert episode.success


def test_success_needs_consecutive_steps_in_time() -> None:
    episode = Episode('red')
    for _ in range(SUCCESS_STEPS - 1):
        assert not episode.update(SUCCESS_DISTANCE)
    episode.update(SUCCESS_DISTANCE + 0.001)
    for _ in range(SUCCESS_STEPS - 1):
        assert not episode.update(0.0)
    assert episode.update(0.0) and episode.success
    late = Episode('red')
    for _ in range(EPISODE_STEPS):
        late.update(1.0)
    assert late.done and not late.success
    late.update(0.0)
    assert late.steps == EPISODE_STEPS


def test_instructions_name_each_colour() -> None:
    assert instruction('red') == 'move to the red cube'
    texts = instructions()
    assert len(texts) == len(set(texts)) == len(COLOURS) * 6
    assert {colour_of(text) for text in texts} == set(COLOURS)
    with pytest.raises(ValueError, match='one of the colours'):
        colour_of('move to the red and the blue cube')
