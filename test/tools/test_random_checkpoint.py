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

"""Random checkpoints are complete: our engine loads them strictly and runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
import sys

import numpy as np
import pytest

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.shapes import read_shape
from robot_infer.types import Frame, Observation, RobotState

_SCRIPT = Path(__file__).parents[2] / 'tools' / 'bench' / 'random_checkpoint.py'


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location('random_checkpoint', _SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope='module')
def tiny(tool):
    return tool.Shape(
        width=32, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=8, vision_width=24,
        vision_hidden=48, vision_layers=1, vision_heads=2, image_px=32, patch_px=8,
        scale_factor=2, vocabulary=300, joints=3, max_dim=4, chunk=5)


def _step(checkpoint: Path) -> np.ndarray:
    engine = Engine.from_config(Config.from_flat({
        'policy.checkpoint': str(checkpoint), 'policy.threads': 1,
        'state.joints': ['a', 'b', 'c']}))
    rng = np.random.default_rng(0)
    frames = {name: Frame(name, rng.integers(0, 256, (48, 64, 3), np.uint8), 0, 0)
              for name in ('overhead', 'wrist')}
    state = RobotState(np.zeros(3, np.float32), 0, 0)
    return engine.step(Observation(frames, state, 'pick up the red cube', 0)).values


def test_a_tiny_one_loads_and_its_actions_are_finite_and_follow_the_seed(tool, tiny, tmp_path):
    for number, seed in enumerate((0, 0, 1)):
        tool.write(tmp_path / str(number), tiny, seed)
    first, again, other = (_step(tmp_path / str(number)) for number in range(3))
    assert first.shape == (5, 3) and np.isfinite(first).all()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_it_counts_every_parameter_but_the_unused_head(tool, tiny, tmp_path):
    count = tool.write(tmp_path / 'new', tiny)
    tensors = CheckpointFolder(tmp_path / 'new').tensors()
    vlm = 'model.vlm_with_expert.vlm'
    head = np.prod(tensors.shape(f'{vlm}.lm_head.weight'))
    num_bytes = (tmp_path / 'new' / 'model.safetensors').stat().st_size
    header = num_bytes - 4 * (count + head)
    assert 0 < header < 50_000


def test_the_hundred_million_have_the_proportions_of_the_published_policy(tool, tmp_path):
    shape = tool.HUNDRED_MILLION
    (tmp_path / 'vlm').mkdir()
    features = tool._features(shape)
    tool._write_json(tmp_path / 'config.json', tool._config(shape, features))
    tool._write_json(tmp_path / 'vlm' / 'config.json', tool._backbone(shape))
    read = read_shape(CheckpointFolder(tmp_path))
    assert (read.num_layers, read.horizon, read.denoise_steps) == (16, 50, 10)
    assert read.expert_width == 0.75 * read.width == shape.expert_width
    assert read.image_size == (512, 512)
    sizes = [np.prod(dims) for name, dims in tool._tensor_shapes(shape).items()
             if 'lm_head' not in name]
    assert 99e6 < sum(sizes) < 103e6
