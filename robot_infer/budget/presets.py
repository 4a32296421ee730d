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

"""Models by name: their shapes without their files.

Each is its published config.json, as far as shapes depend on it, and is weighed from the list of
its family's tensors. Where the numbers are from is each one's source; that the tensors are those
of the libraries which define the models is checked in test/budget/test_presets.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
import functools
from typing import Any

from robot_infer.budget.model_shape import ModelShape
from robot_infer.budget.shapes import SMOLVLM2_500M, describe, read_shape, weigh
from robot_infer.budget.tensors import Blueprint
from robot_infer.errors import ConfigError
from robot_infer.shared_files import DEMO_CHECKPOINT

_BF16 = 2  # bytes of a parameter, as all these are published or served


def _features(*cameras: str, side: int = 224) -> dict[str, Any]:
    """Input features of a LeRobot policy."""
    return {f'observation.images.{camera}': {'type': 'VISUAL', 'shape': [3, side, side]}
            for camera in cameras}


def _text(width: int, hidden: int, layers: int, heads: int, kv_heads: int, vocab: int,
          context: int, **more: object) -> dict[str, Any]:
    return {'hidden_size': width, 'intermediate_size': hidden, 'num_hidden_layers': layers,
            'num_attention_heads': heads, 'num_key_value_heads': kv_heads, 'vocab_size': vocab,
            'max_position_embeddings': context, **more}


_PI = {
    'input_features': _features('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb'),
    'chunk_size': 50, 'max_state_dim': 32, 'max_action_dim': 32, 'num_inference_steps': 10,
    'image_resolution': [224, 224],
}
# config.json of each, as far as shapes depend on it.
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    'SmolVLA': {
        'type': 'smolvla', 'input_features': _features('image', 'image2', 'image3', side=256),
        'chunk_size': 50, 'num_steps': 10, 'max_state_dim': 32, 'max_action_dim': 32,
        'resize_imgs_with_padding': [512, 512], 'tokenizer_max_length': 48, 'num_vlm_layers': 16,
        'num_expert_layers': 0, 'expert_width_multiplier': 0.75, 'attention_mode': 'cross_attn',
        'self_attn_every_n_layers': 2,
        'vlm_model_name': 'HuggingFaceTB/SmolVLM2-500M-Video-Instruct'},
    'pi0': {**_PI, 'type': 'pi0', 'tokenizer_max_length': 48},
    'pi0.5': {**_PI, 'type': 'pi05', 'tokenizer_max_length': 200},
    'pi0-FAST': {**_PI, 'type': 'pi0_fast', 'tokenizer_max_length': 200},
    'OpenVLA-7B': {
        'model_type': 'openvla', 'vision_backbone_id': 'dinosiglip-vit-so-224px',
        'llm_backbone_id': 'llama2-7b-pure', 'text_config': {'vocab_size': 32_064},
        'llm_max_length': 2048},
    'SmolVLM-256M': {
        **SMOLVLM2_500M, 'model_type': 'idefics3',
        'text_config': _text(576, 1536, 30, 9, 3, 49280, 8192, head_dim=64)},
    'SmolVLM-500M': {**SMOLVLM2_500M, 'model_type': 'idefics3'},
    'Llama-3-8B': {'model_type': 'llama', **_text(4096, 14_336, 32, 32, 8, 128_256, 8192)},
    'Llama-3-70B': {'model_type': 'llama', **_text(8192, 28_672, 80, 64, 8, 128_256, 8192)},
    'Qwen2.5-VL-3B': {
        'model_type': 'qwen2_5_vl',
        **_text(2048, 11008, 36, 16, 2, 151_936, 128_000, tie_word_embeddings=True),
        'vision_config': {
            'depth': 32, 'hidden_size': 1280, 'intermediate_size': 3420, 'num_heads': 16,
            'out_hidden_size': 2048, 'patch_size': 14, 'spatial_merge_size': 2,
            'temporal_patch_size': 2}},
}
_SOURCES = {
    'SmolVLA': 'config.json of lerobot/smolvla_base, and of its backbone '
    'HuggingFaceTB/SmolVLM2-500M-Video-Instruct; LeRobot 0.6.1',
    'pi0': 'LeRobot 0.6.1 (policies/pi0), openpi (models/pi0_config.py, models/gemma.py)',
    'pi0.5': 'LeRobot 0.6.1 (policies/pi05), openpi (models/pi0_config.py)',
    'pi0-FAST': 'LeRobot 0.6.1 (policies/pi0_fast), openpi (models/pi0_fast.py)',
    'OpenVLA-7B': 'config.json of openvla/openvla-7b; prismatic/extern/hf; timm 0.9.16',
    'SmolVLM-256M': 'config.json of HuggingFaceTB/SmolVLM-256M-Instruct',
    'SmolVLM-500M': 'config.json of HuggingFaceTB/SmolVLM-500M-Instruct',
    'Llama-3-8B': 'config.json of meta-llama/Meta-Llama-3-8B',
    'Llama-3-70B': 'config.json of meta-llama/Meta-Llama-3-70B',
    'Qwen2.5-VL-3B': 'config.json of Qwen/Qwen2.5-VL-3B-Instruct; images of 448 x 448 pixels '
    'assumed (it takes any size)',
}


def blueprint(name: str) -> Blueprint:
    """What one of the published models is made of.

    :raises KeyError: where there is none of that name.
    """
    return describe(CONFIGS[name], f'the known config of {name}')


class _Presets(Mapping[str, ModelShape]):
    """All presets; each is built when it is first asked for."""

    def __getitem__(self, name: str) -> ModelShape:
        return _preset(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*CONFIGS, 'demo'))

    def __len__(self) -> int:
        return len(CONFIGS) + 1


@functools.cache
def _preset(name: str) -> ModelShape:
    if name == 'demo':
        return replace(read_shape(DEMO_CHECKPOINT), name='demo',
                       source='robot_infer/assets/demo_policy')
    return replace(weigh(blueprint(name), _BF16), name=name, source=_SOURCES[name])


PRESETS: Mapping[str, ModelShape] = _Presets()


def find_preset(name: str) -> ModelShape:
    """A model by name; case, hyphens and points do not matter (pi05 is pi0.5).

    :raises ConfigError: where there is none of that name.
    """
    for known in PRESETS:
        if _plain(known) == _plain(name):
            return PRESETS[known]
    raise ConfigError('model', expected=f'one of {", ".join(PRESETS)}', got=repr(name),
                      remedy='Choose one of these, or give a checkpoint folder.')


def _plain(name: str) -> str:
    return ''.join(letter for letter in name.lower() if letter not in '-_. ')
