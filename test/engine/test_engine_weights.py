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


"""Policies with weights in 8 and 4 bits: exact reuse, small errors, and what is told."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import ConfigError
from robot_infer.sim.changes import demo_changes
from robot_infer_kernels.cpu.linear import why_not

STEPS = 40
each_form = pytest.mark.parametrize('form', [pytest.param(form, marks=pytest.mark.skipif(
    bool(why_not(form)), reason=why_not(form))) for form in ('int8', 'int4')])


def _engine(**values) -> Engine:
    return Engine.from_config(Config.from_flat({'policy.threads': 1, **values}))


def _chunks(engine: Engine, cold: bool = False) -> list[np.ndarray]:
    chunks = []
    for _, observation in demo_changes(11, STEPS):
        if cold:
            engine.reset()
        chunks.append(engine.step(observation).values)
    return chunks


@each_form
@pytest.mark.parametrize('dtype', ['fp32', 'bf16'])
def test_reuse_gives_the_bits_of_cold_steps(form, dtype):
    options = {'policy.weights': form, 'policy.dtype': dtype}
    warm, cold = _engine(**options), _engine(**options)
    for got, wanted in zip(_chunks(warm), _chunks(cold, cold=True), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert warm.cache_stats().hits > 0


@each_form
def test_the_actions_of_the_demo_policy_stay_within_the_stated_error(form):
    """Relative RMS of whole chunks: 0.0026 in 8 bits, 0.014 in 4; bf16 alone has 0.0039."""
    wanted, got = (np.stack(_chunks(engine)) for engine in (
        _engine(), _engine(**{'policy.weights': form})))
    error = np.sqrt(((got - wanted) ** 2).mean() / (wanted ** 2).mean())
    assert 0.0005 < error < {'int8': 0.006, 'int4': 0.03}[form]


@each_form
def test_what_is_saved_is_told(form):
    engine = _engine(**{'policy.weights': form})
    names = [line.name for line in engine.info.weights]
    assert names == {'int8': ['int8 weights', 'unpacked weight'], 'int4': ['int4 weights']}[form]
    words = engine.info.weights[0].arithmetic
    assert 'saved; 18 kept as loaded: fewer than 16384 entries' in words


def test_as_loaded_has_nothing_to_tell():
    assert _engine().info.weights == ()


@each_form
def test_pages_of_other_weights_are_other_pages(form):
    observation = next(itertools.islice((each for _, each in demo_changes(3, 2)), 1))
    keys = [engine._policy.prepare(observation).layout.keys(64)
            for engine in (_engine(), _engine(**{'policy.weights': form}))]
    assert not set(map(repr, keys[0])) & set(map(repr, keys[1]))


def test_an_unknown_form_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match='policy.weights: expected one of as_loaded, int8, int4'):
        Config.from_flat({'policy.weights': 'int2'})
