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

"""What the tests of control share: a small policy that really looks, and a rig around a Runtime.

The policy stands in for the engine, which is another room; everything of control and of camera is
the real thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import threading
import time

import numpy as np
import pytest

from robot_infer.camera import RawImage
from robot_infer.config import Config
from robot_infer.control import Clock, ManualClock, Runtime
from robot_infer.types import ActionChunk, Command, Observation, StepBudget, StepReport

WALL_NS = 1_700_000_000_000_000_000  # the stamps' clock at steady time 0
PERIOD_NS = 20_000_000
HORIZON = 8
FULL = StepBudget()


@dataclass(frozen=True)
class PolicyInfo:
    """The facts that control asks for."""

    state_dim: int = 2
    action_dim: int = 2
    horizon: int = HORIZON
    denoise_steps: int = 10
    realtime: tuple = ()


@dataclass
class LightSeeker:
    """Moves from the measured state towards where the images are bright, in HORIZON actions.

    The target is (brightness of overhead, brightness of wrist) in 0..1, times `gain`; the word
    `away` in the instruction turns it round. `before_step` runs first and may block or raise.
    `forgotten_at` has the number of steps made before each `forget`.
    """

    info: PolicyInfo = PolicyInfo()
    gain: float = 1.0
    horizon: int = HORIZON
    before_step: Callable[[], None] = lambda: None
    observations: list[Observation] = field(default_factory=list)
    forgotten_at: list[int] = field(default_factory=list)

    def step(self, observation: Observation, budget: StepBudget = FULL) -> ActionChunk:
        """One inference step."""
        self.before_step()
        self.observations.append(observation)
        target = self.target(observation)
        start = observation.state.values
        share = np.arange(1, self.horizon + 1, dtype=np.float32)[:, None] / self.horizon
        epoch = len(self.observations)
        return ActionChunk(
            (start + (target - start) * share).astype(np.float32), PERIOD_NS / 1e9, epoch,
            observation.observed_ns,
            {name: frame.stamp_ns for name, frame in observation.frames.items()},
            observation.state.stamp_ns,
            StepReport(epoch, {'vision': 0.002, 'denoise': 0.003}, 10, 4, 2, 3, 16))

    def forget(self) -> None:
        """Make the next step a cold one."""
        self.forgotten_at.append(len(self.observations))

    def target(self, observation: Observation) -> np.ndarray:
        """Where the images and the words say to go."""
        light = [observation.frames[name].rgb.mean() / 255 for name in ('overhead', 'wrist')]
        sign = -1.0 if 'away' in observation.instruction else 1.0
        return np.array(light, dtype=np.float32) * np.float32(self.gain * sign)


class Rig:
    """A Runtime with a robot that is fed by hand; `sent` is what reached the robot."""

    def __init__(self, clock: Clock, policy: LightSeeker, **overrides: object) -> None:
        flat = {
            'control.rate_hz': 1e9 / PERIOD_NS, 'instruction.text': 'to the light',
            **{name.replace('__', '.'): value for name, value in overrides.items()}}
        self.clock = clock
        self.policy = policy
        self.sent: list[Command] = []
        self.config = Config.from_flat(flat)
        self.runtime = Runtime(self.config, policy, clock, self.sent.append)

    def apply(self, **values: object) -> None:
        """Change live settings, given as group__key."""
        given = {name.replace('__', '.'): value for name, value in values.items()}
        config = Config.from_flat({**self.config.flat(), **given})
        self.runtime.apply_live(config, given.keys())
        self.config = config

    def stamp_ns(self) -> int:
        """The stamps' clock now."""
        return WALL_NS + self.clock.now_ns()

    def put_frames(self, overhead: int = 255, wrist: int = 255, stamp_ns: int | None = None,
                   ) -> None:
        """One image of each camera, of the brightness given."""
        now = self.stamp_ns()
        for name, level in (('overhead', overhead), ('wrist', wrist)):
            self.runtime.put_image(name, RawImage(
                'rgb8', 4, 4, 12, False, np.full(48, level, np.uint8),
                now if stamp_ns is None else stamp_ns, self.clock.now_ns(), now))

    def put_state(self, x: float = 0.0, y: float = 0.0, **joints: float) -> None:
        """One JointState; more joints by keyword."""
        positions = {'slide_x': x, 'slide_y': y, **joints}
        self.runtime.put_state(
            list(positions), list(positions.values()), self.stamp_ns(), self.clock.now_ns(),
            self.stamp_ns())

    def feed(self, overhead: int = 255, wrist: int = 255, x: float = 0.0, y: float = 0.0) -> None:
        """Frames and state."""
        self.put_frames(overhead, wrist)
        self.put_state(x, y)

    def tick(self, number: int = 1) -> list[Command]:
        """Control ticks, a period of the manual clock before each."""
        commands = []
        for _ in range(number):
            self.clock.advance_ns(PERIOD_NS)
            commands.append(self.runtime.tick_once())
        return commands

    def faults(self) -> dict[str, str]:
        """The faults that are there now: name to message."""
        return {fault.name: fault.message for fault in self.runtime.status().faults}


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands until it is turned."""
    return ManualClock(start_ns=5_000_000_000)


@pytest.fixture
def policy() -> LightSeeker:
    """A policy that computes its actions from what it sees."""
    return LightSeeker()


@pytest.fixture
def make_rig(clock: ManualClock, policy: LightSeeker):
    """Make a Rig on the manual clock; settings as group__key."""
    return lambda **overrides: Rig(overrides.pop('on', clock), policy, **overrides)


@pytest.fixture
def wait_for():
    """Wait, in real time, for a condition that another thread brings about."""
    def wait(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, 'the condition did not come about in time'
            threading.Event().wait(0.002)
    return wait
