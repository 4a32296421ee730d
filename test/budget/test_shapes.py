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

"""Shapes of checkpoints: to the byte, and as the code that runs them reads them."""

from __future__ import annotations

from dataclasses import replace
import json
import math
from pathlib import Path
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
import torch

from robot_infer.budget.headers import read_headers
from robot_infer.budget.shapes import KVGroup, Stack, read_shape
from robot_infer.errors import CheckpointError
from robot_infer.models.checkpoint import CheckpointFolder, TensorReader
from robot_infer.policies.smolvla import SmolVLAPolicy

ROOT = Path(__file__).parents[2]
DEMO = ROOT / 'robot_infer/assets/demo_policy'
CHECKPOINTS = [DEMO, *sorted((ROOT / 'test/golden/data').glob('*/checkpoint'))]
SMOLVLAS = pytest.mark.parametrize('folder', CHECKPOINTS, ids=lambda path: path.parent.name)


@SMOLVLAS
def test_every_byte_of_the_files_is_counted_once(folder):
    shape, headers = read_shape(folder), read_headers(folder)
    assert sum(group.num_bytes for group in shape.weights) == headers.num_bytes
    assert sum(group.num_params for group in shape.weights) == sum(
        tensor.num_params for tensor in headers.tensors.values())
    assert len({group.name for group in shape.weights}) == len(shape.weights)
    assert all(group.note for group in shape.weights if not group.kept)
    assert 'other tensors' not in {group.name for group in shape.weights}


@SMOLVLAS
def test_what_is_not_kept_is_what_the_policy_does_not_load(folder, monkeypatch):
    left: set[str] = set()

    def refuse(reader: TensorReader, known_unused: object) -> None:
        left.update(reader._left)
        original(reader, known_unused)

    original = TensorReader.refuse_unmapped
    monkeypatch.setattr(TensorReader, 'refuse_unmapped', refuse)
    SmolVLAPolicy(CheckpointFolder(folder), dtype=torch.float32, device=torch.device('cpu'))
    tensors = read_headers(folder).tensors
    assert left  # or nothing was asked
    shape = read_shape(folder)
    assert sum(group.num_bytes for group in shape.weights if not group.kept) == sum(
        tensors[name].num_bytes for name in left)
    assert shape.weight_bytes == sum(
        tensor.num_bytes for name, tensor in tensors.items() if name not in left)


@SMOLVLAS
def test_a_policy_is_planned_as_it_runs(folder):
    policy = SmolVLAPolicy(CheckpointFolder(folder), dtype=torch.float32,
                           device=torch.device('cpu'))
    shape, runs = read_shape(folder), policy.prefix_shape
    assert shape.cameras == policy.inputs
    assert shape.prefix_tokens() == runs.max_prefix
    assert shape.image_tokens == runs.image_tokens and shape.language.width == runs.width
    assert sum(group.num_layers for group in shape.kv) == runs.num_planes
    assert {(group.num_kv_heads, group.head_dim) for group in shape.kv} == {
        (runs.num_kv_heads, runs.head_dim)}
    assert shape.language.num_heads == runs.num_heads
    assert (shape.horizon, shape.denoise_steps) == (policy.horizon, policy.denoise_steps)
    assert shape.max_tokens == runs.max_prefix + policy.horizon
    own = policy.shape
    assert shape.image_size == own.image_size and shape.patch == own.vision.patch
    assert shape.vision == Stack(
        'vision encoder', own.vision.num_layers, own.vision.width, own.vision.hidden,
        own.vision.num_heads, own.vision.num_heads, own.vision.head_dim, gated=False)
    assert shape.action is not None and shape.action.width == own.expert_width


def test_the_demo_policy_by_hand():
    shape = read_shape(DEMO)
    assert shape.family == 'smolvla' and shape.name == 'demo_policy'
    assert shape.kv == (KVGroup('language', 6, 2, 32),
                        KVGroup('cross-attention of the action expert', 3, 2, 32))
    assert (shape.image_tokens, shape.max_prompt_tokens, shape.state_tokens) == (16, 48, 1)
    assert (shape.prefix_tokens(), shape.prefix_tokens(1), shape.suffix_tokens) == (81, 65, 16)
    sizes = {group.name: group.num_bytes for group in shape.weights}
    assert sizes['language head'] == sizes['word table'] == 300 * 128 * 4
    assert shape.weight_bytes + sizes['language head'] + sizes[
        'norm behind the language layers'] + sizes[
        'last language layer, beyond keys and values'] == 9_100_552


# --- folders of other families, made with the tensors they should have ---------------------------


LLAMA = {'model_type': 'llama', 'hidden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 2,
         'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 40,
         'max_position_embeddings': 256}


def _llama_tensors(config: dict, prefix: str = 'model', head: bool = True) -> dict:
    width, hidden = config['hidden_size'], config['intermediate_size']
    kv = width // config['num_attention_heads'] * config['num_key_value_heads']
    tensors = {f'{prefix}.embed_tokens.weight': (config['vocab_size'], width),
               f'{prefix}.norm.weight': (width,)}
    for number in range(config['num_hidden_layers']):
        layer = f'{prefix}.layers.{number}'
        tensors |= {
            f'{layer}.self_attn.q_proj.weight': (width, width),
            f'{layer}.self_attn.k_proj.weight': (kv, width),
            f'{layer}.self_attn.v_proj.weight': (kv, width),
            f'{layer}.self_attn.o_proj.weight': (width, width),
            f'{layer}.mlp.gate_proj.weight': (hidden, width),
            f'{layer}.mlp.up_proj.weight': (hidden, width),
            f'{layer}.mlp.down_proj.weight': (width, hidden),
            f'{layer}.input_layernorm.weight': (width,),
            f'{layer}.post_attention_layernorm.weight': (width,)}
    if head:
        tensors['lm_head.weight'] = (config['vocab_size'], width)
    return tensors


def _write(folder: Path, config: dict, tensors: dict, dtype: type = np.float16) -> Path:
    (folder / 'config.json').write_text(json.dumps(config))
    save_file({name: np.zeros(shape, dtype) for name, shape in tensors.items()},
              folder / 'model.safetensors')
    return folder


def test_a_llama_with_a_head_of_its_own(tmp_path):
    shape = read_shape(_write(tmp_path, LLAMA, _llama_tensors(LLAMA)))
    layer = 2 * 16 * 16 + 2 * 8 * 16 + 3 * 24 * 16 + 2 * 16
    assert shape.num_params == 2 * 40 * 16 + 2 * layer + 16
    assert shape.weight_bytes == 2 * shape.num_params == read_headers(tmp_path).num_bytes
    assert shape.kv == (KVGroup('language', 2, 2, 4),)
    assert shape.vision is None and shape.cameras == () and shape.max_tokens == 256


@pytest.mark.parametrize('stored', ['both', 'word table', 'head'])
def test_a_tied_head_is_counted_once_whatever_is_stored(tmp_path, stored):
    config = {**LLAMA, 'tie_word_embeddings': True}
    tensors = _llama_tensors(config)
    if stored != 'both':
        del tensors['lm_head.weight' if stored == 'word table' else 'model.embed_tokens.weight']
    shape = read_shape(_write(tmp_path, config, tensors))
    assert shape.num_params == sum(
        np.prod(size) for name, size in _llama_tensors(config, head=False).items())
    unused = [(group.name, group.num_params) for group in shape.weights if not group.kept]
    assert unused == ([('language head', 640)] if stored == 'both' else [])
    assert sum(group.num_bytes for group in shape.weights) == read_headers(tmp_path).num_bytes


def test_without_kv_heads_of_its_own_a_llama_is_mha_as_its_header_confirms(tmp_path):
    config = {key: value for key, value in LLAMA.items() if key != 'num_key_value_heads'}
    with pytest.raises(CheckpointError, match=r'k_proj.*\(16, 16\), as config\.json says'):
        read_shape(_write(tmp_path, config, _llama_tensors(LLAMA)))
    tensors = _llama_tensors({**LLAMA, 'num_key_value_heads': 4})
    assert read_shape(_write(tmp_path, config, tensors)).kv[0].num_kv_heads == 4


def test_weights_that_another_tool_packed_are_counted_by_module(tmp_path):
    tensors: dict[str, tuple[int, ...]] = {}
    for name, size in _llama_tensors(LLAMA).items():
        if '_proj.' in name:
            module = name.removesuffix('.weight')
            tensors |= {f'{module}.qweight': (size[0] // 8, size[1]), f'{module}.scales': (1,)}
        else:
            tensors[name] = size
    config = {**LLAMA, 'quantization_config': {'quant_method': 'gptq', 'bits': 4}}
    shape = read_shape(_write(tmp_path, config, tensors))
    assert [group.name for group in shape.weights] == [
        'word table', 'language layers', 'language head']
    assert shape.weight_bytes == read_headers(tmp_path).num_bytes
    assert shape.num_params == sum(math.prod(size) for size in _llama_tensors(LLAMA).values())
    del config['quantization_config']
    with pytest.raises(CheckpointError, match='a tensor model.layers.0.self_attn'):
        read_shape(_write(tmp_path, config, tensors))


def test_a_tensor_of_no_known_part_is_counted_as_loaded_and_said(tmp_path):
    tensors = {**_llama_tensors(LLAMA), 'value_head.weight': (1, 16)}
    other = read_shape(_write(tmp_path, LLAMA, tensors)).weights[-1]
    assert (other.name, other.num_bytes, other.kept) == ('other tensors', 32, True)
    assert 'counted as if loaded' in other.note


def test_layers_with_a_sliding_window_cache_in_a_group_of_their_own(tmp_path):
    config = {**LLAMA, 'use_sliding_window': True, 'sliding_window': 64, 'max_window_layers': 1}
    assert read_shape(_write(tmp_path, config, _llama_tensors(LLAMA))).kv == (
        KVGroup('language', 1, 2, 4), KVGroup('language, sliding window', 1, 2, 4, 64))


# --- what is refused -----------------------------------------------------------------------------


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A copy of the demo policy."""
    return Path(shutil.copytree(DEMO, tmp_path / 'demo'))


def _edit(path: Path, **changes: object) -> None:
    config = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            del config[key]
        else:
            config[key] = value
    path.write_text(json.dumps(config))


@pytest.mark.parametrize('changes,words', [
    ({'type': 'act'}, "got 'act'"), ({'type': 7}, 'got 7'), ({'type': None}, 'got None'),
    ({'type': ['smolvla']}, 'got .*smolvla'),
    ({'chunk_size': -1}, 'chunk_size in .*got -1'), ({'chunk_size': 1 << 40}, 'chunk_size'),
    ({'chunk_size': None}, 'a value for chunk_size'), ({'chunk_size': '16'}, "got '16'"),
    ({'num_steps': 0}, 'num_steps'), ({'tokenizer_max_length': True}, 'tokenizer_max_length'),
    ({'resize_imgs_with_padding': [64, 60]}, 'two equal multiples of 16'),
    ({'resize_imgs_with_padding': [64]}, 'resize_imgs_with_padding'),
    ({'expert_width_multiplier': -0.75}, 'expert_width_multiplier'),
    ({'expert_width_multiplier': 1e-9}, 'a width of 2 or more'),
    ({'expert_width_multiplier': 0.5}, r'lm_expert.*shape \(.*64.*as config.json says'),
    ({'num_expert_layers': 3}, 'num_expert_layers in .*expected 6'),
    ({'num_vlm_layers': 8}, r'a tensor .*layers\.6\.'),
    ({'input_features': {}}, 'at least one camera'), ({'input_features': 3}, 'input_features'),
    ({'input_features': {'observation.images.x': {'type': 'VISUAL'}}}, r'x\.shape'),
    ({'empty_cameras': -1}, 'empty_cameras'),
])
def test_a_config_that_cannot_be_is_refused_by_key(demo, changes, words):
    _edit(demo / 'config.json', **changes)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_shape(demo)
    assert 'config.json' in str(caught.value) or 'safetensors' in str(caught.value)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('section,changes,words', [
    ('text_config', {'num_attention_heads': None}, 'a value for num_attention_heads'),
    ('text_config', {'num_attention_heads': 0}, 'num_attention_heads'),
    ('text_config', {'num_key_value_heads': 3}, 'a divisor of the 4 heads'),
    ('text_config', {'num_key_value_heads': 1}, r'k_proj.*\(32, 128\), as config\.json says'),
    ('text_config', {'head_dim': 10 ** 9}, 'head_dim'),
    ('text_config', {'vocab_size': 301}, r'embed_tokens.*shape \(301, 128\)'),
    ('text_config', {'hidden_act': 7, 'attention_bias': True}, 'attention_bias'),
    ('vision_config', {'num_attention_heads': 5}, 'a divisor of hidden_size 96'),
    ('vision_config', {'patch_size': 65}, 'patch_size'),
    (None, {'text_config': None}, 'a value for text_config'),
    (None, {'scale_factor': 0}, 'scale_factor'), (None, {'scale_factor': 'x'}, 'scale_factor')])
def test_a_backbone_that_cannot_be_is_refused_by_key(demo, section, changes, words):
    path = demo / 'vlm/config.json'
    config = json.loads(path.read_text())
    inside = config[section] if section else config
    for key, value in changes.items():
        if value is None:
            del inside[key]
        else:
            inside[key] = value
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=words):
        read_shape(demo)


def test_a_backbone_nobody_knows_is_asked_for(demo):
    shutil.rmtree(demo / 'vlm')
    with pytest.raises(CheckpointError, match=r"vlm/config\.json.*got vlm_model_name 'vlm'"):
        read_shape(demo)
    _edit(demo / 'config.json', vlm_model_name='HuggingFaceTB/SmolVLM2-500M-Video-Instruct')
    with pytest.raises(CheckpointError, match='as config.json says'):  # it is not the demo's
        read_shape(demo)


def test_a_missing_tensor_is_named(demo):
    tensors = load_file(demo / 'model.safetensors')
    del tensors['model.state_proj.bias']
    save_file(tensors, demo / 'model.safetensors')
    with pytest.raises(CheckpointError, match=r'a tensor model\.state_proj\.bias'):
        read_shape(demo)


def test_what_is_not_used_may_be_missing(demo):
    whole = read_shape(demo)
    tensors = load_file(demo / 'model.safetensors')
    del tensors['model.vlm_with_expert.vlm.lm_head.weight']
    save_file(tensors, demo / 'model.safetensors')
    assert read_shape(demo).weight_bytes == whole.weight_bytes
    assert 'language head' not in {group.name for group in read_shape(demo).weights}


def test_a_truncated_file_is_refused(demo):
    path = demo / 'model.safetensors'
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(CheckpointError, match='truncated'):
        read_shape(demo)


def test_a_folder_that_is_none_is_refused(tmp_path, demo):
    with pytest.raises(CheckpointError, match='no such folder'):
        read_shape(tmp_path / 'nowhere')
    with pytest.raises(CheckpointError, match='got a file'):
        read_shape(demo / 'config.json')
    (demo / 'config.json').unlink()
    with pytest.raises(CheckpointError, match=r'config\.json.*No such file'):
        read_shape(demo)


@pytest.mark.parametrize('content', ['', '{', '[]', 'NaN', '{"type": "smolvla", "type": "pi0"}'])
def test_a_config_that_is_no_json_object_is_refused(demo, content):
    (demo / 'config.json').write_text(content)
    with pytest.raises(CheckpointError, match=r'config\.json.*JSON'):
        read_shape(demo)


def test_two_writers_of_one_checkpoint_are_told_apart(tmp_path):
    patch = 'visual.patch_embed.proj.weight'
    tensors = {patch: (1,), f'model.{patch}': (1,)}
    config = {**LLAMA, 'model_type': 'qwen2_5_vl', 'max_position_embeddings': 4096,
              'vision_config': {'depth': 1, 'hidden_size': 8, 'intermediate_size': 8,
                                'num_heads': 2, 'out_hidden_size': 16}}
    with pytest.raises(CheckpointError, match='one tensor .*got two'):
        read_shape(_write(tmp_path, config, tensors))


def test_a_model_without_images_still_has_a_prefix():
    shape = replace(read_shape(DEMO), cameras=(), state_tokens=0)
    assert shape.prefix_tokens() == 48
