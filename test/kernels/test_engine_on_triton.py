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

"""The engine on Triton: the actions of the CPU kernels, and nothing compiled after configure.

Where there is no GPU, Triton's interpreter stands for it: every kernel that attention launches
runs, on the tensors and plans of the real policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip('triton', reason='triton is not installed')

from robot_infer import warm_kernels
from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import ConfigError
from robot_infer.types import Frame, Observation, RobotState
from robot_infer_kernels import attention, backends, debugging, set_debug
from robot_infer_kernels.gpu import launch, warm

pytestmark = pytest.mark.gpu

GOLDEN = Path(__file__).parents[1] / 'golden' / 'data'
CAMERAS = ['overhead', 'wrist']
HAS_GPU = torch.cuda.is_available()
SEVERAL = 4
# Near the middle of the training data; the last joint never moved in it.
STATE = np.array([-0.9245943, 0.10698797, 0.43440524, 0.08443189, -0.9404108, -0.9689409])
MOVES = np.array([1, 1, 1, 1, 1, 0])


def load(**values) -> Engine:
    """A small SmolVLA: 6 heads on 2, of 24 elements, which is no power of two."""
    return Engine.from_config(Config.from_flat({
        'policy.checkpoint': str(GOLDEN / 'two_cameras' / 'checkpoint'), 'policy.threads': 1,
        'policy.horizon': 4, 'policy.denoise_steps': 2, 'cache.page_tokens': 16,
        'cache.budget_bytes': 1 << 24, 'cameras.names': CAMERAS,
        'state.joints': [f'joint_{n}' for n in range(6)], **values}))


def observations() -> Iterator[Observation]:
    """Steps that differ: another state, other frames, other words of another length."""
    rng = np.random.default_rng(1)
    for number in range(SEVERAL):
        if number % 3 == 0:
            frames = {name: Frame(name, rng.integers(0, 256, (48, 64, 3), np.uint8), number, 0)
                      for name in CAMERAS}
        state = RobotState((STATE + 0.1 * number * MOVES).astype(np.float32), number, 0)
        yield Observation(frames, state, 'move to the red cube' + ' now' * (number // 2), number)


def actions(engine: Engine) -> np.ndarray:
    """Of all these steps, and none of them may compile anything."""
    before = debugging()
    set_debug(True)  # a late compilation raises
    try:
        return np.stack([engine.step(each).values for each in observations()])
    finally:
        set_debug(before)


@pytest.fixture(scope='module')
def triton() -> Iterator[dict[str, str]]:
    """Attention is Triton's, with a ledger of its own; the settings that make it so."""
    ledger = launch.Ledger()
    with pytest.MonkeyPatch.context() as patch:
        for module in (launch, warm):
            patch.setattr(module, 'LEDGER', ledger)
        patch.setattr(launch, '_WORKSPACES', {})
        if not HAS_GPU:
            for module in (backends, warm_kernels):
                patch.setattr(module, 'which_backend', lambda device: 'triton')
        yield {'policy.device': 'cuda' if HAS_GPU else 'cpu'}


@pytest.fixture(scope='module')
def wanted() -> dict[str, np.ndarray]:
    """Actions of the CPU kernels, by dtype."""
    return {dtype: actions(load(**{'policy.dtype': dtype})) for dtype in ('fp32', 'bf16')}


@pytest.fixture(scope='module')
def engine(wanted, triton) -> Engine:
    return load(**triton)


def test_actions_are_those_of_the_cpu_and_nothing_is_compiled_after_configure(
        engine, wanted, monkeypatch):
    launched = set()

    def count(kernel, *rest) -> None:
        launched.add(kernel.__name__)
        launch.launch(kernel, *rest)
    monkeypatch.setattr('robot_infer_kernels.gpu.attention.launch', count)
    got = actions(engine)
    assert launched & {'decode', 'prefill'}
    assert np.linalg.norm(got - wanted['fp32']) <= 1e-5 * np.linalg.norm(wanted['fp32'])


def test_the_workspace_is_planned_to_the_byte(engine):
    line = engine.info.memory[-1]
    assert line.name == 'attention workspace' and line.num_bytes > 0
    assert sum(line.num_bytes for line in engine.info.memory) == engine.info.taken_bytes
    held = launch.workspace(torch.empty(0, device=engine.info.device).device).nbytes
    assert held == line.num_bytes


def test_a_kernel_that_is_compiled_in_a_step_shows_in_its_report(engine, monkeypatch):
    first, second, third = list(observations())[:3]
    assert engine.step(first).report.late_kernels == 0
    planned = attention.planned_attention
    monkeypatch.setattr(
        'robot_infer.policies.smolvla.planned_attention',
        lambda q, kv, plan, scale: planned(q, kv, plan, scale, softcap=1e6))
    assert engine.step(second).report.late_kernels > 0
    assert engine.step(third).report.late_kernels == 0, 'counted once'


def test_an_engine_after_another_compiles_what_is_new_before_it_is_ready(engine, triton, wanted):
    got = actions(load(**triton, **{'policy.dtype': 'bf16'}))
    assert np.linalg.norm(got - wanted['bf16']) <= 1e-2 * np.linalg.norm(wanted['bf16'])


def test_a_policy_that_the_kernels_do_not_run_is_refused_by_name(triton):
    with pytest.raises(ConfigError, match=r'policy\.device: .*head_dim a multiple of 8.*got 12'):
        load(**triton, **{'policy.checkpoint': str(GOLDEN / 'special_tokens' / 'checkpoint'),
                          'cameras.names': ['top', 'side']})
