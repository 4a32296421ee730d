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
"""The demo world: a tabletop with coloured blocks and a planar gantry that carries a gripper.

Here live the physics, the rules of an episode, the instructions and the expert that makes training
data. How the world looks to its cameras is drawn in `scene.py`; ROS lives elsewhere.

Units are metres, seconds and radians. The origin is the middle of the table, x to the right and
y away from the viewer (up in the overhead picture).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import math

import numpy as np

from robot_infer.sim.scene import Scene

JOINT_NAMES = ('slide_x', 'slide_y')
CAMERAS = ('overhead', 'wrist')
COLOURS = ('red', 'green', 'blue', 'yellow')
CONTROL_PERIOD_S = 1.0 / 30.0

TABLE_SIZE = (0.64, 0.48)
BLOCK_SIDE = 0.08
BLOCK_REACH = (0.25, 0.17)  # block centres stay within +- this, so that a turned block is inside
BLOCK_DISTANCE = 0.125  # between centres: more than the diagonal of a block, so they never touch
JOINT_LIMITS = (0.30, 0.22)
SPEED_LIMIT = 0.30
LAG_S = 0.06
EXPERT_SPEED = 0.25
EXPERT_GAIN = 4.0  # 1/s: the expert slows down within EXPERT_SPEED / EXPERT_GAIN of its target

SUCCESS_DISTANCE = 0.035
SUCCESS_STEPS = 15
EPISODE_STEPS = 240

_PHRASES = (
    'move to the {} cube',
    'move to the {} block',
    'go to the {} cube',
    'go to the {} block',
    'reach the {} cube',
    'touch the {} block',
)


@dataclass(frozen=True)
class Block:
    """A square block lying on the table: colour name, centre and the angle it is turned by."""

    colour: str
    xy: tuple[float, float]
    yaw: float


def instruction(colour: str, phrase: int = 0) -> str:
    """Return the instruction that names the block of `colour`, in one of its phrasings."""
    return _PHRASES[phrase % len(_PHRASES)].format(colour)


def instructions() -> tuple[str, ...]:
    """Return every instruction the demo policy is trained on, colour by colour."""
    return tuple(phrase.format(colour) for colour in COLOURS for phrase in _PHRASES)


def colour_of(text: str) -> str:
    """Return the colour an instruction names; ValueError where it names none or several."""
    named = [colour for colour in COLOURS if colour in text.lower().split()]
    if len(named) != 1:
        raise ValueError(f'expected one of the colours {", ".join(COLOURS)}, got {text!r}')
    return named[0]


def expert(
    state: np.ndarray,
    target_xy: np.ndarray,
    horizon: int,
    dt: float = CONTROL_PERIOD_S,
) -> np.ndarray:
    """Return absolute joint positions that lead from `state` to `target_xy` on a straight line.

    state, target_xy: (..., 2); returns float32 (..., horizon, 2). The speed is constant and falls
    in proportion to the distance near the target. Used for training data only, never at run time.
    """
    here = np.asarray(state, np.float64).copy()
    target = np.asarray(target_xy, np.float64)
    commands = np.empty((*here.shape[:-1], horizon, 2), np.float32)
    for k in range(horizon):
        way = target - here
        distance = np.linalg.norm(way, axis=-1, keepdims=True)
        speed = np.minimum(EXPERT_SPEED, EXPERT_GAIN * distance)
        here = here + way * (speed * dt / np.maximum(distance, 1e-9))
        commands[..., k, :] = here
    return commands


class World:
    """The table, its blocks and the gripper. The same seed and commands give the same pixels."""

    def __init__(self, seed: int = 0, num_blocks: int = 3) -> None:
        """Place `num_blocks` (1 to 4) blocks of different colours and the gripper at random."""
        if not 1 <= num_blocks <= len(COLOURS):
            raise ValueError(f'expected 1 to {len(COLOURS)} blocks, got {num_blocks}')
        self._num_blocks = num_blocks
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start an episode: new blocks, gripper position, table and light, all out of `seed`."""
        rng = np.random.default_rng(seed)
        colours = rng.permutation(len(COLOURS))[: self._num_blocks]
        self._blocks: tuple[Block, ...] = ()
        for index in colours:
            xy = self._free_place(rng, self._blocks)
            yaw = float(rng.uniform(-0.4, 0.4))
            self._blocks += (Block(COLOURS[index], xy, yaw),)
        self._gripper = rng.uniform(-1.0, 1.0, 2) * JOINT_LIMITS
        self._scene = Scene(rng, self._blocks)
        self._time_s = 0.0
        self._steps = 0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks as they lie now."""
        return self._blocks

    @property
    def time_s(self) -> float:
        """Simulated seconds since the episode began."""
        return self._time_s

    def state(self) -> np.ndarray:
        """Return the joint positions, float32 (2,): slide_x, slide_y."""
        return self._gripper.astype(np.float32)

    def step(self, target_xy: np.ndarray, dt: float = CONTROL_PERIOD_S) -> None:
        """Let the joints follow the commanded positions for one control step of `dt` seconds.

        Each joint approaches its command with a first-order lag, no faster than its speed limit.
        A command that is not finite is a ValueError; one out of range stops at the joint limit.
        """
        command = np.asarray(target_xy, np.float64).reshape(2)
        if not np.isfinite(command).all():
            raise ValueError(f'expected finite joint positions, got {command}')
        limits = np.asarray(JOINT_LIMITS)
        wanted = np.clip(command, -limits, limits) - self._gripper
        motion = wanted * (1.0 - math.exp(-dt / LAG_S))
        self._gripper = self._gripper + np.clip(motion, -SPEED_LIMIT * dt, SPEED_LIMIT * dt)
        self._time_s += dt
        self._steps += 1

    def place_gripper(self, xy: tuple[float, float]) -> None:
        """Put the gripper somewhere at once; for training data and tests."""
        self._gripper = np.clip(np.asarray(xy, np.float64), -np.array(JOINT_LIMITS), JOINT_LIMITS)

    def render(self, camera: str) -> np.ndarray:
        """Return the picture of `camera` ('overhead' 480x640 or 'wrist' 240x320), uint8 RGB."""
        if camera not in CAMERAS:
            raise ValueError(f'expected one of the cameras {", ".join(CAMERAS)}, got {camera!r}')
        xy = (float(self._gripper[0]), float(self._gripper[1]))
        if camera == 'overhead':
            return self._scene.overhead(xy, self._time_s, self._steps)
        return self._scene.wrist(xy, self._time_s, self._steps)

    def block(self, colour: str) -> Block:
        """Return the block of `colour`; KeyError where the table has none."""
        for block in self._blocks:
            if block.colour == colour:
                return block
        raise KeyError(f'no {colour} block; there are {[b.colour for b in self._blocks]}')

    def move_block(self, colour: str, xy: tuple[float, float]) -> None:
        """Put the block of `colour` at `xy`, which must be free and on the table."""
        moved = self.block(colour)
        others = tuple(block for block in self._blocks if block.colour != colour)
        if any(abs(xy[i]) > BLOCK_REACH[i] for i in (0, 1)) or not _is_free(xy, others):
            raise ValueError(f'expected a free place within +-{BLOCK_REACH} m, got {xy}')
        moved = replace(moved, xy=(float(xy[0]), float(xy[1])))
        self._blocks = tuple(moved if b.colour == colour else b for b in self._blocks)
        self._scene.draw_blocks(self._blocks)

    def disturb(self, rng: np.random.Generator, colour: str, at_least: float = 0.15) -> None:
        """Move the block of `colour` to a random free place at least `at_least` metres away."""
        here = self.block(colour).xy
        others = tuple(block for block in self._blocks if block.colour != colour)
        for _ in range(1000):
            xy = self._free_place(rng, others)
            if math.dist(xy, here) >= at_least:
                self.move_block(colour, xy)
                return
        raise RuntimeError(f'found no free place for the {colour} block')

    def distance_to(self, colour: str) -> float:
        """Return the distance in metres from the gripper to the centre of that block."""
        return math.dist(self._gripper, self.block(colour).xy)

    @staticmethod
    def _free_place(
        rng: np.random.Generator, others: tuple[Block, ...]
    ) -> tuple[float, float]:
        for _ in range(1000):
            x, y = rng.uniform(-1.0, 1.0, 2) * BLOCK_REACH
            if _is_free((x, y), others):
                return float(x), float(y)
        raise RuntimeError('found no free place on the table')


def _is_free(xy: tuple[float, float], others: tuple[Block, ...]) -> bool:
    return all(math.dist(xy, block.xy) >= BLOCK_DISTANCE for block in others)


class Episode:
    """The success rule: the gripper stays over the named block, in time.

    Success: SUCCESS_STEPS consecutive control steps within SUCCESS_DISTANCE of the centre, the
    last of them no later than control step EPISODE_STEPS.
    """

    def __init__(self, colour: str, num_steps: int = EPISODE_STEPS) -> None:
        """Judge an episode of at most `num_steps` control steps about the block of `colour`."""
        self.colour = colour
        self.steps = 0
        self.num_steps = num_steps
        self.success = False
        self._inside = 0

    @property
    def done(self) -> bool:
        """Whether the episode has succeeded or run out of time."""
        return self.success or self.steps >= self.num_steps

    def update(self, distance: float) -> bool:
        """Count one control step at `distance` from the block; return `done`."""
        if self.done:
            return True
        self.steps += 1
        self._inside = self._inside + 1 if distance <= SUCCESS_DISTANCE else 0
        self.success = self._inside >= SUCCESS_STEPS
        return self.done

    def restart(self) -> None:
        """Forget the steps spent inside so far: the block has been moved."""
        self._inside = 0
