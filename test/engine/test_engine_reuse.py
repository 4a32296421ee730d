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

"""Reuse is exact: a step that reuses pages gives the bits of the step that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
import json
from pathlib import Path

import numpy as np
import pytest

from robot_infer.config import Config
from robot_infer.engine import DEMO_CHECKPOINT, Engine
from robot_infer.sim.changes import demo_changes
from robot_infer.types import Frame, Observation, RobotState

GOLDEN = Path(__file__).parents[1] / 'golden' / 'data'
STEPS = 200
KINDS = ('one camera new', 'state only', 'instruction', 'nothing', 'cameras swapped')
INSTRUCTIONS = ('move to the red cube', 'move to the blue cube', 'touch the green block',
                'go to the yellow one')


def _config(checkpoint: Path, **values) -> Config:
    stored = json.loads((checkpoint / 'config.json').read_text())
    cameras = [key.removeprefix('observation.images.') for key, feature
               in stored['input_features'].items()
               if feature['type'] == 'VISUAL' and 'empty_camera' not in key]
    state_dim = stored['input_features']['observation.state']['shape'][0]
    joints = [f'joint_{number}' for number in range(state_dim)]
    return Config.from_flat({
        'policy.checkpoint': str(checkpoint), 'policy.threads': 1, 'cache.page_tokens': 16,
        'cache.budget_bytes': 1 << 26,
        'cache.embeddings_per_camera': 256, 'state.max_normalised': 0.0,
        'cameras.names': cameras, 'state.joints': joints, **values})


def _frame(rng, camera: str) -> Frame:
    return Frame(camera, rng.integers(0, 256, (48, 64, 3), np.uint8), 1, 1)


@dataclass
class Changes:
    """Observations of random pixels for any policy, that change one thing at a time."""

    engine: Engine
    rng: np.random.Generator

    def __post_init__(self):
        self.frames = {name: _frame(self.rng, name) for name in self.engine.info.inputs}
        self.state = self._state()
        self.instruction = INSTRUCTIONS[0]

    def _state(self) -> RobotState:
        values = self.rng.normal(size=self.engine.info.state_dim)
        return RobotState(values.astype(np.float32), 0, 0)

    def change(self, kind: str) -> Observation:
        names = list(self.frames)
        if kind == 'one camera new':
            name = names[self.rng.integers(len(names))]
            self.frames = {**self.frames, name: _frame(self.rng, name)}
        elif kind == 'state only':
            self.state = self._state()
        elif kind == 'instruction':
            self.instruction = INSTRUCTIONS[self.rng.integers(len(INSTRUCTIONS))]
        elif kind == 'cameras swapped':
            moved = names[1:] + names[:1]
            self.frames = {new: Frame(new, self.frames[old].rgb, 1, 1)
                           for new, old in zip(names, moved)}
        return Observation(dict(self.frames), self.state, self.instruction, 0)

    def walk(self, steps: int) -> Iterator[tuple[str, Observation]]:
        for number in range(steps):
            kind = KINDS[self.rng.integers(len(KINDS))] if number else 'nothing'
            yield kind, self.change(kind)


@dataclass
class Prediction:
    """What research and rule say of each step (nothing is evicted here): seen or not seen.

    A prefix is all frames, each under its camera's name, and the words. Where it was seen before,
    one token, the state, is computed; else all of it, and each frame that this camera has not
    shown before is encoded.
    """

    seen: set = field(default_factory=set)

    def of(self, observation: Observation) -> tuple[bool, int]:
        images = {(name, frame.rgb.tobytes()) for name, frame in observation.frames.items()}
        prefix = (frozenset(images), observation.instruction)
        known = prefix in self.seen
        encode = 0 if known else len(images - self.seen)
        self.seen |= {prefix} | images
        return known, encode


def _check_walk(checkpoint: Path, walk: Callable[[Engine], Iterator[tuple[object, Observation]]],
                **values) -> None:
    warm = Engine.from_config(_config(checkpoint, **values))
    cold = Engine.from_config(_config(checkpoint, **values))
    prediction, reused = Prediction(), 0
    for number, (kind, observation) in enumerate(walk(warm)):
        known, encode = prediction.of(observation)
        cold.reset()
        got, wanted = warm.step(observation), cold.step(observation)
        np.testing.assert_array_equal(got.values, wanted.values, err_msg=f'{number} {kind}')
        total = got.report.tokens_total
        assert wanted.report.tokens_computed == total
        assert got.report.tokens_computed == (1 if known else total), (number, kind)
        assert got.report.cameras_encoded == encode, (number, kind)
        reused += known
    assert reused > STEPS / 5  # reuse was really exercised


def test_200_changing_demo_steps_equal_cold_ones_and_compute_what_is_predicted():
    names = {'cameras.names': ['overhead', 'wrist'], 'state.joints': ['slide_x', 'slide_y']}
    _check_walk(DEMO_CHECKPOINT, lambda _: demo_changes(7, STEPS), **names)


@pytest.mark.parametrize('case', ['two_cameras', 'three_cameras'])
def test_200_changing_steps_of_random_policies_equal_cold_ones(case):
    _check_walk(GOLDEN / case / 'checkpoint',
                lambda engine: Changes(engine, np.random.default_rng(7)).walk(STEPS),
                **{'cache.check_invariants': True})


def test_pages_hold_two_prefixes_at_a_time_and_none_leak():
    checkpoint = GOLDEN / 'two_cameras' / 'checkpoint'
    engine = Engine.from_config(_config(checkpoint, **{'cache.budget_bytes': 900_000,
                                                       'cache.embeddings_per_camera': 2}))
    changes = Changes(engine, np.random.default_rng(3))
    for _ in range(60):
        engine.step(changes.change('one camera new'))
        stats = engine.cache_stats()
        assert stats.pages_used + stats.pages_cached + stats.pages_free == stats.pages_total
        assert stats.sequences == 1
    assert engine.cache_stats().evictions > 0
    engine.reset()
    assert engine.cache_stats().pages_free == engine.cache_stats().pages_total


def test_a_full_pool_still_serves_and_still_gives_the_same_bits():
    checkpoint = GOLDEN / 'two_cameras' / 'checkpoint'
    tight = Engine.from_config(_config(checkpoint, **{'cache.budget_bytes': 900_000,
                                                      'cache.embeddings_per_camera': 1}))
    roomy = Engine.from_config(_config(checkpoint))
    changes = Changes(tight, np.random.default_rng(5))
    for number in range(60):
        observation = changes.change(KINDS[number % len(KINDS)])
        np.testing.assert_array_equal(tight.step(observation).values,
                                      roomy.step(observation).values)
