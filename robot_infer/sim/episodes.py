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

"""What is asked for in each episode, when its block is moved, and whether it succeeded.

Shared by the demo, which runs in real time over ROS, and by the evaluation, which runs in
lock-step; so both ask the same questions and judge by the same rule (`world.Episode`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_infer.sim.world import SUCCESS_DISTANCE, Episode, World, instruction, instructions

# Training draws its worlds from seeds above 2**31; episodes are other worlds.
FIRST_WORLD_SEED = 1_000_000
EPISODES_PER_SEED = 10_000
NUM_BLOCKS = 3

# A success takes SUCCESS_STEPS (15): no episode ends before the move, not even where the robot
# starts over the block and the message takes a few steps to arrive.
_EARLIEST_MOVE_STEP = 5
_LATEST_MOVE_STEP = 45
_ARRIVED_M = 2 * SUCCESS_DISTANCE


@dataclass(frozen=True)
class EpisodePlan:
    """One episode: its world, what the robot is told, and whether the block will be moved."""

    number: int
    world_seed: int
    colour: str
    instruction: str
    moved: bool


def plan_episode(seed: int, number: int, moved: bool) -> EpisodePlan:
    """Return episode `number` of the series `seed`; the same arguments give the same episode."""
    world_seed = FIRST_WORLD_SEED + seed * EPISODES_PER_SEED + number
    rng = np.random.default_rng((world_seed, 1))  # not the stream that the world is drawn from
    colours = [block.colour for block in World(world_seed, NUM_BLOCKS).blocks]
    colour = colours[int(rng.integers(len(colours)))]
    phrasings = sum(colour in text for text in instructions())
    return EpisodePlan(
        number, world_seed, colour, instruction(colour, int(rng.integers(phrasings))), moved)


class Mover:
    """Says when to move the block: once, half way there, or after 1.5 s at the latest."""

    def __init__(self, moved: bool) -> None:
        self._pending = moved
        self._first_distance: float | None = None

    def due(self, step: int, distance: float) -> bool:
        """Whether to move the block now, `step` control steps into the episode."""
        if not self._pending:
            return False
        if self._first_distance is None:
            self._first_distance = distance
        half_way = distance <= max(self._first_distance / 2, _ARRIVED_M)
        if (half_way and step >= _EARLIEST_MOVE_STEP) or step >= _LATEST_MOVE_STEP:
            self._pending = False
            return True
        return False


class Judge:
    """Applies the rule of success to distances that may come with gaps.

    Where messages were lost, the steps in between count with the distance seen after them.
    """

    def __init__(self, colour: str) -> None:
        self.episode = Episode(colour)

    @property
    def done(self) -> bool:
        """Whether the episode has succeeded or run out of time."""
        return self.episode.done

    @property
    def success(self) -> bool:
        """Whether it has succeeded."""
        return self.episode.success

    def see(self, step: int, distance: float) -> bool:
        """Take the distance at control step `step` (counted from 0); return `done`."""
        while self.episode.steps <= step and not self.episode.done:
            self.episode.update(distance)
        return self.episode.done

    def block_moved(self) -> None:
        """Steps spent over the place where the block lay no longer count."""
        self.episode.restart()
