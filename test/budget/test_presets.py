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

"""Named models: their tensors are those of the libraries that define them, their counts public."""

from __future__ import annotations

from collections.abc import Mapping
import json
import math
from pathlib import Path
import re
import struct

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from robot_infer.budget.model_shape import KVGroup, ModelShape
from robot_infer.budget.presets import CONFIGS, PRESETS, blueprint, find_preset
from robot_infer.budget.shapes import describe, read_shape
from robot_infer.errors import CheckpointError, ConfigError

LISTS = json.loads(
    (Path(__file__).parents[1] / 'data/tensor_lists.json').read_text('utf-8'))['models']
# What the library that defines a model makes (SmolVLA: LeRobot 0.6.1), and for OpenVLA what timm's
# two encoders, Prismatic's projector and a Llama 2 are together.
STATED = {
    'SmolVLA': 450_046_176, 'OpenVLA-7B': 7_541_237_184, 'SmolVLM-256M': 256_484_928,
    'SmolVLM-500M': 507_482_304, 'Llama-3-8B': 8_030_261_248, 'Llama-3-70B': 70_553_706_496,
}


def _params(shape: ModelShape) -> int:
    return sum(group.num_params for group in shape.weights)


@pytest.mark.parametrize('name', STATED)
def test_parameters_are_as_many_as_the_defining_library_makes(name):
    assert _params(PRESETS[name]) == STATED[name]


def test_a_tied_head_is_counted_once():
    # The published Qwen2.5-VL-3B and PaliGemma (of which pi0-FAST is one) store no head.
    assert PRESETS['Qwen2.5-VL-3B'].num_params == 3_754_622_976
    assert PRESETS['pi0-FAST'].num_params == 2_923_335_408
    assert _params(PRESETS['Qwen2.5-VL-3B']) == 3_754_622_976 + 151_936 * 2048


@pytest.mark.parametrize('name', LISTS)
def test_tensors_are_those_of_the_library_that_defines_the_model(name):
    own, part, _ = name.partition(' vision')
    lines: dict[tuple[str, tuple[int, ...]], int] = {}
    for spec in blueprint(own).tensors:
        if not part or spec.name.startswith('vision_backbone.'):
            line = re.sub(r'\.(layers|blocks)\.\d+\.', r'.\1.*.', spec.name), spec.shape
            lines[line] = lines.get(line, 0) + 1
    assert lines == {
        (key, tuple(shape)): count for key, shape, count in LISTS[name]}


def _write(folder: Path, config: Mapping, tensors: Mapping[str, tuple[int, ...]]) -> Path:
    """A checkpoint in bf16 whose data are a hole in the file: it takes no room on the disk."""
    header, at = {}, 0
    for name, shape in tensors.items():
        end = at + 2 * math.prod(shape)
        header[name] = {'dtype': 'BF16', 'shape': list(shape), 'data_offsets': [at, end]}
        at = end
    content = json.dumps(header).encode()
    with open(folder / 'model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(content)) + content)
        file.truncate(8 + len(content) + at)
    (folder / 'config.json').write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize('name', CONFIGS)
def test_a_checkpoint_on_disk_is_planned_as_the_preset_is(name, tmp_path):
    tensors = {spec.name: spec.shape for spec in blueprint(name).tensors}
    shape, preset = read_shape(_write(tmp_path, CONFIGS[name], tensors)), PRESETS[name]
    assert shape.weights == preset.weights
    assert (shape.kv, shape.vision, shape.language, shape.action, shape.max_tokens) == (
        preset.kv, preset.vision, preset.language, preset.action, preset.max_tokens)


def _places(value: object, path: tuple = ()) -> list[tuple]:
    """Every place in a JSON value."""
    inside = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    return [path] * bool(path) + [one for key, item in inside
                                  for one in _places(item, (*path, key))]


ABSURD = st.sampled_from([
    None, True, '', 'x', 0, -1, 1, 3, 7, 10 ** 6, 10 ** 30, 0.5, 1e308, float('nan'), float('inf'),
    [], [0], [None], {}, {'x': 1}])


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_config_with_an_absurd_value_is_read_or_refused_by_name(data):
    name = data.draw(st.sampled_from(sorted(CONFIGS)))
    config = json.loads(json.dumps(CONFIGS[name]))
    *path, last = data.draw(st.sampled_from(_places(config)))
    inside = config
    for key in path:
        inside = inside[key]
    inside[last] = data.draw(ABSURD)
    try:
        shape = describe(config, 'config.json').shape
    except CheckpointError as error:
        assert 'config' in error.subject and error.expected and error.remedy
    else:
        assert shape.prefix_tokens() >= 0 and shape.max_tokens > 0 and shape.kv


@pytest.mark.parametrize('name,older', [
    # LeRobot's policies put their network in `model`; transformers had the parts of PaliGemma in
    # another order before 4.52, and of what is tied stores one: here the head.
    ('pi0', ((r'^', 'model.'),
             (r'paligemma\.model\.language_model\.', 'paligemma.language_model.model.'),
             (r'paligemma\.lm_head\.', 'paligemma.language_model.lm_head.'),
             (r'paligemma\.model\.(vision|multi)', r'paligemma.\1'))),
    ('pi0-FAST', ((r'^', 'model.'),)),
    ('Qwen2.5-VL-3B', ((r'^model\.visual\.', 'visual.'),
                       (r'^model\.language_model\.', 'model.')))])
def test_names_of_older_writers_are_known(name, older, tmp_path):
    tensors = {}
    for spec in blueprint(name).tensors:
        if not spec.name.endswith('embed_tokens.weight'):
            renamed = spec.name
            for pattern, replacement in older:
                renamed = re.sub(pattern, replacement, renamed)
            tensors[renamed] = spec.shape
    shape = read_shape(_write(tmp_path, CONFIGS[name], tensors))
    assert shape.weight_bytes == PRESETS[name].weight_bytes
    assert 'tied' not in ' '.join(group.note for group in shape.weights)
    assert 'other tensors' not in {group.name for group in shape.weights}


@pytest.mark.parametrize('name,kib', [
    ('SmolVLA', 20 + 10), ('pi0', 18), ('pi0.5', 18), ('pi0-FAST', 18), ('OpenVLA-7B', 512),
    ('Llama-3-8B', 128), ('Llama-3-70B', 320), ('Qwen2.5-VL-3B', 36), ('SmolVLM-500M', 40)])
def test_kib_of_keys_and_values_a_token_in_bf16(name, kib):
    # SmolVLA: 20 in its layers, 10 more in what 8 expert layers project anew.
    groups = PRESETS[name].kv
    assert sum(2 * 2 * one.num_layers * one.num_kv_heads * one.head_dim for one in groups) == (
        kib * 1024)


@pytest.mark.parametrize('name,image_tokens,prefix,suffix', [
    ('SmolVLA', 64, 3 * 64 + 48 + 1, 50), ('pi0', 256, 3 * 256 + 48, 51),
    ('pi0.5', 256, 3 * 256 + 200, 50), ('pi0-FAST', 256, 3 * 256 + 200, 256),
    ('OpenVLA-7B', 256, 256 + 64, 7), ('SmolVLM-256M', 64, 64 + 512, 64),
    ('Qwen2.5-VL-3B', 256, 256 + 512, 64), ('Llama-3-8B', 0, 512, 64)])
def test_tokens_of_a_step(name, image_tokens, prefix, suffix):
    shape = PRESETS[name]
    assert (shape.image_tokens, shape.prefix_tokens(), shape.suffix_tokens) == (
        image_tokens, prefix, suffix)
    assert prefix + suffix <= shape.max_tokens


def test_needed_weights_of_smolvla_and_pi0():
    # research/vla.md 2.8 has 402.7 M and 3238 M, with the last layer's unused 9.2 M and 109 M.
    assert PRESETS['SmolVLA'].num_params == 450_046_176 - 47_308_800 - 9_216_960 - 960
    assert PRESETS['SmolVLA'].weight_bytes == 2 * PRESETS['SmolVLA'].num_params
    unused = {group.name: group.num_params for group in PRESETS['pi0'].weights if not group.kept}
    assert unused == {
        'language head': 257_152 * 2048, 'head of the action expert': 257_152 * 1024,
        'last language layer, beyond keys and values': 2 * 2048 ** 2 + 3 * 2048 * 16_384 + 2048,
        'norm behind the language layers': 2048}
    assert round(PRESETS['pi0'].num_params / 1e6) == 3238 - 109


def test_every_preset_has_a_source_and_says_why_weights_are_left_out():
    for name, shape in PRESETS.items():
        assert shape.name == name and shape.source
        assert all(group.note for group in shape.weights if not group.kept)
        assert shape.weight_bytes > 0 and shape.kv


def test_the_issue_names_these():
    assert list(PRESETS) == [
        'SmolVLA', 'pi0', 'pi0.5', 'pi0-FAST', 'OpenVLA-7B', 'SmolVLM-256M', 'SmolVLM-500M',
        'Llama-3-8B', 'Llama-3-70B', 'Qwen2.5-VL-3B', 'demo']
    assert len(PRESETS) == 11 and 'GPT-2' not in PRESETS


@pytest.mark.parametrize('asked,name', [
    ('smolvla', 'SmolVLA'), ('PI05', 'pi0.5'), ('pi0_fast', 'pi0-FAST'),
    ('llama3 70b', 'Llama-3-70B'), ('qwen2.5-vl-3b', 'Qwen2.5-VL-3B'), ('Demo', 'demo')])
def test_a_name_is_found_whatever_its_case_and_punctuation(asked, name):
    assert find_preset(asked) is PRESETS[name]


@pytest.mark.parametrize('asked', ['', 'pi', 'SmolVLA2', '../demo'])
def test_a_name_that_is_none_is_refused_with_those_there_are(asked):
    with pytest.raises(ConfigError, match=r'one of SmolVLA, pi0, .*checkpoint folder'):
        find_preset(asked)


def test_the_demo_is_the_folder_that_is_shipped():
    assert PRESETS['demo'].family == 'smolvla'
    assert PRESETS['demo'].kv[0] == KVGroup('language', 6, 2, 32)
