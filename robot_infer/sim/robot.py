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

"""The simulated robot without its ROS side: the world, driven in real time by commands.

Physics runs on an absolute schedule: however late it is called, the number of steps follows from
the clock alone. A command holds for `COMMAND_VALIDITY_S`; after that the robot stops where it is,
as a real arm's controller does when its commands cease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robot_infer.errors import ActionError
from robot_infer.sim.messages import Disturb, Reset, Truth
from robot_infer.sim.world import JOINT_NAMES, World

PHYSICS_RATE_HZ = 60
FRAME_RATE_HZ = 30
COMMAND_VALIDITY_S = 0.5
_NS_PER_S = 1_000_000_000
_MAX_STEPS_AT_ONCE = PHYSICS_RATE_HZ // 2  # after a longer stall the world has simply stood still


@dataclass(frozen=True)
class Progress:
    """What `advance` did: physics steps taken, and whether a new frame is due."""

    steps: int
    frame_due: bool


class SimulatedRobot:
    """A world whose time follows the steady clock that is handed in as `now_ns`."""

    def __init__(self, reset: Reset, now_ns: int) -> None:
        """Begin with the world of `reset` at `now_ns`."""
        self._period_s = 1.0 / PHYSICS_RATE_HZ
        self._origin_ns = now_ns
        self._done = 0  # physics periods that are over since the origin
        self._commands = 0
        self._start(reset)

    @property
    def world(self) -> World:
        """The world as it is now; read it, do not step it."""
        return self._world

    @property
    def idle(self) -> bool:
        """Whether there is no valid command, so that the robot stands still."""
        return self._target is None

    def reset(self, reset: Reset) -> None:
        """Start an episode; the robot stands still until the next command."""
        x, y = self._world.state()
        self._start(reset)
        if reset.keep_gripper:
            self._world.place_gripper((float(x), float(y)))

    def disturb(self, disturb: Disturb) -> None:
        """Move a block.

        :raises KeyError: where there is no block of that colour.
        """
        self._world.disturb(np.random.default_rng(disturb.seed), disturb.colour, disturb.at_least)
        self._moved += 1

    def command(self, positions: Mapping[str, float], now_ns: int) -> None:
        """Take joint positions by name; joints of other robots in the message are not ours.

        :raises ActionError: where a joint is missing or a position is not finite; the command
            before it stays in force until it is too old.
        """
        missing = [name for name in JOINT_NAMES if name not in positions]
        if missing:
            raise ActionError(
                'action', expected=f'positions of the joints {", ".join(JOINT_NAMES)}',
                got=f'only {", ".join(positions) or "none"}',
                remedy='Name the joints of the demo world in state.joints.')
        target = np.array([positions[name] for name in JOINT_NAMES], np.float64)
        if not np.isfinite(target).all():
            raise ActionError('action', expected='finite joint positions', got=str(target),
                              remedy='The simulated robot keeps its last command.')
        self._target, self._commanded_ns = target, now_ns
        self._commands += 1

    def advance(self, now_ns: int) -> Progress:
        """Let time go on until `now_ns`.

        Periods are rounded to the nearest: a caller that wakes once a period, a little early or
        late, gets one step each time.
        """
        due = (2 * (now_ns - self._origin_ns) * PHYSICS_RATE_HZ + _NS_PER_S) // (2 * _NS_PER_S)
        steps = min(due - self._done, _MAX_STEPS_AT_ONCE)
        frames_before = self._done * FRAME_RATE_HZ // PHYSICS_RATE_HZ
        self._done = max(self._done, due)
        if self._target is not None and (
                now_ns - self._commanded_ns > COMMAND_VALIDITY_S * _NS_PER_S):
            self._target = None
        for _ in range(steps):
            here = self._world.state()
            self._world.step(here if self._target is None else self._target, self._period_s)
            self._step += 1
        frame_due = self._done * FRAME_RATE_HZ // PHYSICS_RATE_HZ > frames_before
        return Progress(max(steps, 0), frame_due)

    def truth(self) -> Truth:
        """Return where everything is."""
        world, (x, y) = self._world, self._world.state()
        return Truth(
            episode=self._reset.episode, seed=self._reset.seed, step=self._step,
            period_s=self._period_s, moved=self._moved, gripper=(float(x), float(y)),
            blocks={block.colour: block.xy for block in world.blocks},
            distances={block.colour: world.distance_to(block.colour) for block in world.blocks},
            commands=self._commands, idle=self.idle)

    def _start(self, reset: Reset) -> None:
        self._reset = reset
        self._world = World(reset.seed, reset.blocks)
        self._target: np.ndarray | None = None
        self._commanded_ns = 0
        self._step = 0
        self._moved = 0
