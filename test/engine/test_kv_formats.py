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

"""Pages of every format: exact reuse, the budget to the byte, the error of actions, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import ConfigError
from robot_infer.sim.changes import demo_changes

GOLDEN = Path(__file__).parents[1] / 'golden' / 'data'
FORMATS = ('int8', 'fp8', 'int4')
# ||actions - those of fp32 pages|| / ||those||: twice what the README says of the demo policy.
STATED = {'int8': 0.003, 'fp8': 0.02, 'int4': 0.06}
STEPS = 14


def load(kv_format: str, **values) -> Engine:
    """The demo policy with pages of a format, poisoned and watched."""
    return Engine.from_config(Config.from_flat({
        'policy.threads': 1, 'cache.kv_format': kv_format, 'cache.check_invariants': True,
        'cache.budget_bytes': 1 << 23, **values}))


@pytest.fixture(scope='module')
def actions_of_fp32() -> np.ndarray:
    engine = load('auto')
    return np.stack([engine.step(each).values for _, each in demo_changes(11, STEPS)])


@pytest.mark.parametrize('dtype', ['fp32', 'bf16'])
@pytest.mark.parametrize('kv_format', FORMATS)
def test_reuse_gives_the_bits_of_a_cold_step_and_the_error_is_what_is_stated(
        kv_format, dtype, actions_of_fp32):
    warm = load(kv_format, **{'policy.dtype': dtype})
    got, cold, reused = [], [], 0
    for _, observation in demo_changes(11, STEPS):
        chunk = warm.step(observation)
        reused += chunk.report.tokens_computed == 1
        got.append(chunk.values)
    for _, observation in demo_changes(11, STEPS):
        warm.forget()
        cold.append(warm.step(observation).values)
    np.testing.assert_array_equal(np.stack(got), np.stack(cold))
    assert reused >= 3
    if dtype == 'fp32':
        error = np.linalg.norm(np.stack(got) - actions_of_fp32) / np.linalg.norm(actions_of_fp32)
        assert 0 < error <= STATED[kv_format]


@pytest.mark.parametrize('kv_format', FORMATS)
def test_what_is_planned_is_what_is_taken_and_holds_more_pages(kv_format):
    plain, engine = load('auto'), load(kv_format)
    assert engine.info.kv_format == kv_format and plain.info.kv_format == 'fp32'
    assert sum(line.num_bytes for line in engine.info.memory) == engine.info.taken_bytes
    ratio = engine.cache_stats().pages_total / plain.cache_stats().pages_total
    assert ratio >= {'int8': 3.5, 'fp8': 3.5, 'int4': 7.0}[kv_format]
    assert 'scale' in engine.info.memory[0].arithmetic


def test_auto_is_the_dtype_of_the_policy():
    assert load('auto', **{'policy.dtype': 'bf16'}).info.kv_format == 'bf16'


def test_int4_is_refused_for_heads_that_are_no_whole_groups():
    with pytest.raises(ConfigError, match='cache.kv_format: expected auto, int8 or fp8.*32 '
                                          'elements, and 24.*got int4. Use int8'):
        load('int4', **{
            'policy.checkpoint': str(GOLDEN / 'two_cameras' / 'checkpoint'),
            'cameras.names': ('top', 'side'), 'state.joints': [f'joint_{n}' for n in range(6)]})


def test_fp8_is_refused_on_orin_and_int8_is_named(monkeypatch):
    monkeypatch.setattr('robot_infer.engine._device', lambda name: torch.device('cuda'))
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'get_device_capability', lambda device: (8, 7))
    with pytest.raises(ConfigError, match='cache.kv_format: .*sm_87 .Jetson Orin.*Use int8'):
        Engine.from_config(Config.from_flat({'cache.kv_format': 'fp8', 'policy.device': 'cuda'}))
