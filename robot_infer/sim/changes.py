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

"""Sequences of observations that change in one way at a time, to try the cache's reuse on.

The pictures are those of the demo world and go through the same decoding as a camera's messages.
"""

from __future__ import annotations

from collections.abc import Iterator
import enum
import itertools

import numpy as np

from robot_infer.camera import decode
from robot_infer.sim.cameras import raw_image
from robot_infer.sim.world import CAMERAS, JOINT_LIMITS, World, instructions
from robot_infer.types import Frame, Observation, RobotState

_PERIOD_NS = 100_000_000


class Change(enum.Enum):
    """What differs between an observation and the one before it."""

    EVERYTHING = 'new frames of all cameras, new state, new instruction'
    FRAMES = 'new frames of all cameras and a new state'
    ONE_CAMERA = 'a new frame of one camera'
    STATE = 'a new state'
    INSTRUCTION = 'a new instruction'
    SWAPPED = 'the frames of the two cameras change places'
    NOTHING = 'nothing'


def demo_changes(seed: int, steps: int) -> Iterator[tuple[Change, Observation]]:
    """Yield `steps` observations, each with what changed; the first is new in everything.

    Among any len(Change) - 1 following steps each other kind of change comes once, in an order
    drawn from `seed`, so that short sequences hold all of them too.
    """
    rng = np.random.default_rng(seed)
    scene = _Changing(rng, seed)
    kinds = [kind for kind in Change if kind is not Change.EVERYTHING]
    order = itertools.chain([Change.EVERYTHING], _shuffled_for_ever(kinds, rng))
    for step, change in enumerate(itertools.islice(order, steps)):
        yield change, scene.apply(change, observed_ns=(step + 1) * _PERIOD_NS)


def _shuffled_for_ever(kinds: list[Change], rng: np.random.Generator) -> Iterator[Change]:
    while True:
        yield from (kinds[index] for index in rng.permutation(len(kinds)))


class _Changing:
    """The current observation, of which a change renews one part."""

    def __init__(self, rng: np.random.Generator, seed: int) -> None:
        self._rng = rng
        self._world = World(seed)
        self._frames: dict[str, Frame] = {}
        self._texts = instructions()
        self._text = ''
        self._state = RobotState(self._world.state(), 0, 0)

    def apply(self, change: Change, observed_ns: int) -> Observation:
        """Change, and return the observation that results."""
        if change in (Change.EVERYTHING, Change.FRAMES):
            self._move(observed_ns)
            self._look(CAMERAS, observed_ns)
        elif change is Change.ONE_CAMERA:
            # The gripper stays where it is: only the light and the sensor's noise go on.
            self._world.step(self._world.state())
            self._look((CAMERAS[int(self._rng.integers(len(CAMERAS)))],), observed_ns)
        elif change is Change.STATE:
            self._move(observed_ns)
        elif change is Change.SWAPPED:
            self._swap()
        if change in (Change.EVERYTHING, Change.INSTRUCTION):
            others = [text for text in self._texts if text != self._text]
            self._text = others[int(self._rng.integers(len(others)))]
        return Observation(dict(self._frames), self._state, self._text, observed_ns)

    def _move(self, now_ns: int) -> None:
        x, y = self._rng.uniform(-1.0, 1.0, 2) * JOINT_LIMITS
        self._world.place_gripper((float(x), float(y)))
        self._state = RobotState(self._world.state(), now_ns, now_ns)

    def _look(self, cameras: tuple[str, ...], now_ns: int) -> None:
        for camera in cameras:
            image = raw_image(
                camera, self._world.render(camera), stamp_ns=now_ns, received_ns=now_ns,
                received_stamp_ns=now_ns)
            self._frames[camera] = decode(camera, image)

    def _swap(self) -> None:
        """Each camera shows what the other one showed, under its own name."""
        first, second = CAMERAS
        a, b = self._frames[first], self._frames[second]
        self._frames = {
            first: Frame(first, b.rgb, b.stamp_ns, b.received_ns),
            second: Frame(second, a.rgb, a.stamp_ns, a.received_ns)}
