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
"""The committed golden files are whole, belong to their checkpoints, and are not trivial.

What robot_infer makes of them is tested in test/policies and test/models.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = sorted(path.parent for path in (HERE / 'data').glob('*/golden.json'))
TINY = (
    'empty_camera',
    'one_camera',
    'self_only',
    'smaller_images',
    'special_tokens',
    'three_cameras',
    'two_cameras',
)


def checkpoint_of(folder: Path) -> Path:
    """Return the checkpoint the golden values of `folder` were made from."""
    if folder.name == 'demo':
        return ROOT / 'robot_infer/assets/demo_policy'
    return folder / 'checkpoint'


def meta_of(folder: Path) -> dict:
    """Return golden.json."""
    return json.loads((folder / 'golden.json').read_text())


def test_every_tiny_policy_is_there() -> None:
    assert set(TINY) <= {folder.name for folder in FOLDERS}


def test_all_files_together_stay_small() -> None:
    files = [path for path in (HERE / 'data').rglob('*') if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 8_000_000


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda folder: folder.name)
def test_the_golden_values_belong_to_the_checkpoint(folder: Path) -> None:
    weights = checkpoint_of(folder) / 'model.safetensors'
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert digest == meta_of(folder)['model_sha256'], (
        f'{folder.name} is stale: {weights} has changed since; run test/golden/make_demo.py or '
        'make_smolvla.py again (test/golden/README.md)'
    )


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda folder: folder.name)
def test_every_value_is_finite_and_every_input_moves_the_actions(folder: Path) -> None:
    for key, tensor in load_file(folder / 'golden.safetensors').items():
        assert tensor.numel() and tensor.isfinite().all(), key
    assert min(meta_of(folder)['effects'].values()) > 1e-3


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda folder: folder.name)
def test_in_the_reference_a_new_state_changes_one_token_only(folder: Path) -> None:
    names = [entry['name'] for entry in meta_of(folder)['observations']]
    old, new = names.index('first'), names.index('new_state')
    golden = load_file(folder / 'golden.safetensors')
    for kind in ('keys', 'values', 'bf16.keys', 'bf16.values'):
        before, after = golden[f'observations.{old}.{kind}'], golden[f'observations.{new}.{kind}']
        assert torch.equal(before[:, :-1], after[:, :-1])
        assert not torch.equal(before[:, -1], after[:, -1])


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda folder: folder.name)
def test_in_the_reference_a_truncated_chunk_is_the_start_of_the_whole(folder: Path) -> None:
    golden = load_file(folder / 'golden.safetensors')
    short = golden['observations.0.truncated.actions_normalised']
    whole = golden['observations.0.actions_normalised'][: len(short)]
    torch.testing.assert_close(short, whole, rtol=0, atol=1e-5)
