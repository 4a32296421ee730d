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

"""Checkpoints that are not what they should be: refused, with what is wrong by name."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

import pytest
from safetensors.torch import load_file, save_file
import torch

from robot_infer.errors import CheckpointError, StatisticsError
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.policies.smolvla import SmolVLAPolicy

GOLDEN = Path(__file__).parents[1] / 'golden' / 'data' / 'one_camera' / 'checkpoint'
K_PROJ = 'model.vlm_with_expert.vlm.model.text_model.layers.0.self_attn.k_proj.weight'


@pytest.fixture
def folder(tmp_path):
    """A good checkpoint to spoil."""
    return Path(shutil.copytree(GOLDEN, tmp_path / 'checkpoint'))


def _load(path, **options):
    return SmolVLAPolicy(CheckpointFolder(path), dtype=torch.float32, device=torch.device('cpu'),
                         **options)


def _edit_json(folder, name, **changes):
    path = folder / name
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps(content))


def _edit_tensors(path, edit):
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def test_the_untouched_checkpoint_loads(folder):
    assert _load(folder).inputs


def test_a_missing_folder_and_a_file_are_named(tmp_path):
    with pytest.raises(CheckpointError, match='no such folder'):
        _load(tmp_path / 'nowhere')
    (tmp_path / 'file').write_text('')
    with pytest.raises(CheckpointError, match='got a file'):
        _load(tmp_path / 'file')


def test_another_family_is_named(folder):
    _edit_json(folder, 'config.json', type='pi0')
    with pytest.raises(CheckpointError, match='expected type smolvla.*got type pi0'):
        _load(folder)


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors', 'tokenizer.json',
                                  'policy_preprocessor.json', 'policy_postprocessor.json'])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        _load(folder)


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors', 'policy_preprocessor.json'])
def test_a_torn_file_is_named(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=name):
        _load(folder)


def test_a_missing_tensor_is_named(folder):
    _edit_tensors(folder / 'model.safetensors', lambda tensors: tensors.pop(K_PROJ))
    with pytest.raises(CheckpointError, match='layers.0.self_attn.k_proj.weight'):
        _load(folder)


def test_a_tensor_nobody_uses_is_named(folder):
    def add(tensors):
        tensors['model.adapter.weight'] = torch.zeros(2)
    _edit_tensors(folder / 'model.safetensors', add)
    with pytest.raises(CheckpointError, match='got model.adapter.weight'):
        _load(folder)


def test_a_tensor_of_the_wrong_shape_is_named_with_both_shapes(folder):
    def cut(tensors):
        tensors[K_PROJ] = tensors[K_PROJ][1:].contiguous()
    _edit_tensors(folder / 'model.safetensors', cut)
    with pytest.raises(CheckpointError, match=r'k_proj.*expected shape \(16, .*got shape \(15'):
        _load(folder)


def test_nan_weights_are_named(folder):
    def spoil(tensors):
        tensors[K_PROJ][0, 0] = float('nan')
    _edit_tensors(folder / 'model.safetensors', spoil)
    with pytest.raises(CheckpointError, match='k_proj.*finite'):
        _load(folder)


@pytest.mark.parametrize(('pattern', 'key'), [
    ('policy_preprocessor_step_*', 'observation.state.mean'),
    ('policy_postprocessor_step_*', 'action.std')])
def test_missing_statistics_are_named_and_prefixed_ones_do_not_pass(folder, pattern, key):
    (path,) = folder.glob(pattern)

    def rename(tensors):
        tensors[f'so100.buffer.{key}'] = tensors.pop(key)
    _edit_tensors(path, rename)
    with pytest.raises(StatisticsError, match=f'statistic {key}.*so100.buffer.{key}'):
        _load(folder)


def test_infinite_statistics_are_named(folder):
    (path,) = folder.glob('policy_postprocessor_step_*')

    def spoil(tensors):
        tensors['action.mean'][0] = float('inf')
    _edit_tensors(path, spoil)
    with pytest.raises(StatisticsError, match='action.mean.*finite'):
        _load(folder)


def test_a_missing_statistics_file_is_named(folder):
    (path,) = folder.glob('policy_preprocessor_step_*')
    path.unlink()
    with pytest.raises(StatisticsError, match=path.name):
        _load(folder)


def test_a_torn_statistics_file_and_a_junk_processor_file_are_named(folder):
    (path,) = folder.glob('policy_postprocessor_step_*')
    path.write_bytes(b'torn')
    with pytest.raises(StatisticsError, match=path.name):
        _load(folder)
    for steps in (5, [5], [{'registry_name': 5}],
                  [{'registry_name': 'unnormalizer_processor', 'state_file': 5}]):
        _edit_json(folder, 'policy_postprocessor.json', steps=steps)
        with pytest.raises(CheckpointError, match='steps.*in .*policy_postprocessor.json'):
            _load(folder)


@pytest.mark.parametrize(('key', 'value', 'expected'), [
    ('chunk_size', 'ten', 'a whole number from 1 to'), ('chunk_size', 16.0, 'a whole number'),
    ('chunk_size', 0, 'a whole number'), ('chunk_size', -3, 'a whole number'),
    ('chunk_size', 10 ** 12, 'a whole number'), ('chunk_size', True, 'a whole number'),
    ('chunk_size', None, 'a whole number'), ('num_steps', 2.5, 'a whole number'),
    ('num_steps', -1, 'a whole number'), ('max_state_dim', 1, 'a whole number from 6 to'),
    ('max_action_dim', 1, 'a whole number from 6 to'), ('min_period', 0, 'a number above 0'),
    ('max_period', float('nan'), 'a number above 0'), ('tokenizer_max_length', 0, 'a whole'),
    ('expert_width_multiplier', 0, 'a number'),
    ('expert_width_multiplier', 1e-9, 'an even width above 0'),
    ('num_vlm_layers', '6', 'a whole number'), ('self_attn_every_n_layers', 2.0, 'a whole'),
    ('normalization_mapping', None, 'an object'), ('attention_mode', 5, 'a text'),
    ('add_image_special_tokens', 'no', 'true or false'), ('empty_cameras', 'x', 'a whole'),
    ('resize_imgs_with_padding', 'x', 'a list of 2'),
    ('resize_imgs_with_padding', [0, 0], 'a list of 2'),
    ('resize_imgs_with_padding', [64.0, 64.0], 'a list of 2'),
    ('input_features', None, 'an object'), ('output_features', [], 'an object')])
def test_a_value_of_the_wrong_type_or_size_is_named(folder, key, value, expected):
    _edit_json(folder, 'config.json', **{key: value})
    with pytest.raises(CheckpointError, match=f'{key} in .*config.json: expected {expected}') as e:
        _load(folder)
    assert e.value.got == repr(value)


@pytest.mark.parametrize('mapping', [{'STATE': None}, {'STATE': ['MEAN_STD']}, {'STATE': 'FOO'}])
def test_a_normalisation_mode_there_is_not_is_refused(folder, mapping):
    _edit_json(folder, 'config.json', normalization_mapping=mapping)
    with pytest.raises(CheckpointError, match='normalization_mapping'):
        _load(folder)


@pytest.mark.parametrize(('part', 'key', 'value'), [
    ('text_config', 'num_key_value_heads', 2), ('text_config', 'hidden_size', 0),
    ('text_config', 'num_attention_heads', 0), ('text_config', 'vocab_size', 'many'),
    ('text_config', 'rms_norm_eps', 0), ('text_config', 'head_dim', 7),
    ('vision_config', 'hidden_size', 0), ('vision_config', 'patch_size', 0),
    ('vision_config', 'num_attention_heads', 5), ('vision_config', 'num_hidden_layers', 1.5)])
def test_a_wrong_value_of_the_backbone_is_named_with_its_file(folder, part, key, value):
    content = json.loads((folder / 'vlm' / 'config.json').read_text())
    _edit_json(folder, 'vlm/config.json', **{part: {**content[part], key: value}})
    with pytest.raises(CheckpointError, match=f'{part}.{key} in .*/vlm/config.json'):
        _load(folder)
    _edit_json(folder, 'vlm/config.json', **{part: 5})
    with pytest.raises(CheckpointError, match=f'{part} in .*/vlm/config.json: expected an object'):
        _load(folder)


def test_a_numbered_tensor_without_a_number_is_left_over_and_named(folder):
    def add(tensors):
        tensors[K_PROJ.replace('layers.0', 'layers.x')] = torch.zeros(2)
    _edit_tensors(folder / 'model.safetensors', add)
    with pytest.raises(CheckpointError, match='got .*layers.x'):
        _load(folder)


@pytest.mark.parametrize(('key', 'value'), [
    ('adapt_to_pi_aloha', True), ('num_expert_layers', 2), ('n_obs_steps', 2),
    ('resize_imgs_with_padding', [32, 64]), ('resize_imgs_with_padding', None)])
def test_settings_this_build_does_not_have_are_named(folder, key, value):
    _edit_json(folder, 'config.json', **{key: value})
    with pytest.raises(CheckpointError, match=key):
        _load(folder)


def test_an_unknown_backbone_without_its_config_is_named(folder):
    shutil.rmtree(folder / 'vlm')
    _edit_json(folder, 'config.json', vlm_model_name='someone/else')
    with pytest.raises(CheckpointError, match='vlm/config.json.*someone/else'):
        _load(folder)


def test_a_config_without_cameras_or_state_is_named(folder):
    _edit_json(folder, 'config.json', input_features={})
    with pytest.raises(CheckpointError, match='observation.state'):
        _load(folder)


def test_a_horizon_longer_than_the_checkpoints_is_refused(folder):
    with pytest.raises(CheckpointError, match='policy.horizon'):
        _load(folder, horizon=1000)
