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

"""The shapes of a SmolVLA: what config.json and the backbone's own config say, checked.

A LeRobot checkpoint names its backbone (`vlm_model_name`) and does not hold the backbone's
config. Where a folder `vlm/` with that config.json lies beside the weights it is read; for the
published backbone the numbers are known here; anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from robot_infer.errors import CheckpointError
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.decoder import AttentionShape

_PUBLISHED = {
    'HuggingFaceTB/SmolVLM2-500M-Video-Instruct': {
        'scale_factor': 4,
        'text_config': {
            'hidden_size': 960, 'num_attention_heads': 15, 'num_key_value_heads': 5,
            'head_dim': 64, 'vocab_size': 49280, 'rms_norm_eps': 1e-5, 'hidden_act': 'silu'},
        'vision_config': {
            'hidden_size': 768, 'intermediate_size': 3072, 'num_hidden_layers': 12,
            'num_attention_heads': 12, 'image_size': 512, 'patch_size': 16,
            'layer_norm_eps': 1e-6, 'hidden_act': 'gelu_pytorch_tanh'},
    },
}
# Settings of a LeRobot SmolVLA that change the numbers and that this build does not have.
_UNSUPPORTED = {'adapt_to_pi_aloha': False, 'use_delta_joint_actions_aloha': False,
                'rtc_config': None, 'n_obs_steps': 1}


@dataclass(frozen=True)
class VisionShape:
    """The vision encoder and its connector."""

    width: int
    hidden: int
    num_layers: int
    num_heads: int
    image_size: int
    patch: int
    eps: float
    scale_factor: int
    text_width: int

    @property
    def head_dim(self) -> int:
        """Columns of one head."""
        return self.width // self.num_heads


@dataclass(frozen=True)
class SmolVLAShape:
    """Every number a SmolVLA is built from."""

    vision: VisionShape
    attention: AttentionShape
    width: int
    expert_width: int
    num_layers: int
    self_every: int
    vocab_size: int
    eps: float
    max_state_dim: int
    max_action_dim: int
    state_dim: int
    action_dim: int
    horizon: int
    denoise_steps: int
    min_period: float
    max_period: float
    max_prompt_tokens: int
    image_size: tuple[int, int]
    inputs: tuple[str, ...]
    image_special_tokens: bool

    @property
    def num_patches(self) -> int:
        """Patches of one image, as the vision encoder sees it."""
        width, height = self.image_size
        return (width // self.vision.patch) * (height // self.vision.patch)

    @property
    def prefix_tokens(self) -> int:
        """Tokens of all cameras and a few words: a usual prefix, to size things by."""
        return len(self.inputs) * self.num_patches // self.vision.scale_factor ** 2 + 10

    def is_self_layer(self, layer: int) -> bool:
        """True where action tokens attend to prefix and to each other; else to the prefix only."""
        return self.self_every > 0 and layer % self.self_every == 0


def read_shape(folder: CheckpointFolder) -> SmolVLAShape:
    """Read and check the shape of a SmolVLA checkpoint.

    :raises CheckpointError: where a value is missing, unsupported, or the family is another.
    """
    config = folder.config
    if folder.family != 'smolvla':
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='type smolvla in config.json',
            got=f'type {folder.family}', remedy='This build runs SmolVLA checkpoints.')
    for key, supported in _UNSUPPORTED.items():
        if config.get(key, supported) != supported:
            raise _unsupported(folder, key, config[key], supported)
    backbone = _backbone(folder)
    text, vision = backbone['text_config'], backbone['vision_config']
    width = _get(folder, text, 'hidden_size')
    num_heads = _get(folder, text, 'num_attention_heads')
    num_layers = _get(folder, config, 'num_vlm_layers')
    if num_layers <= 0 and 'num_hidden_layers' in text:
        num_layers = text['num_hidden_layers']
    if _get(folder, config, 'num_expert_layers') not in (-1, 0, num_layers):
        raise _unsupported(folder, 'num_expert_layers', config['num_expert_layers'], num_layers)
    for part, key, supported in ((text, 'hidden_act', 'silu'), (text, 'attention_bias', False),
                                 (text, 'mlp_bias', False),
                                 (vision, 'hidden_act', 'gelu_pytorch_tanh')):
        if part.get(key, supported) != supported:
            raise _unsupported(folder, key, part[key], supported)
    side = _square_image(folder, vision)
    inputs, state_dim, action_dim = _features(folder)
    expert_width = int(width * _get(folder, config, 'expert_width_multiplier'))
    return SmolVLAShape(
        vision=VisionShape(
            width=_get(folder, vision, 'hidden_size'),
            hidden=_get(folder, vision, 'intermediate_size'),
            num_layers=_get(folder, vision, 'num_hidden_layers'),
            num_heads=_get(folder, vision, 'num_attention_heads'),
            image_size=_get(folder, vision, 'image_size'),
            patch=_get(folder, vision, 'patch_size'),
            eps=vision.get('layer_norm_eps', 1e-6),
            scale_factor=_get(folder, backbone, 'scale_factor'),
            text_width=width),
        attention=AttentionShape(
            num_heads, _get(folder, text, 'num_key_value_heads'),
            text.get('head_dim') or width // num_heads),
        width=width, expert_width=expert_width, num_layers=num_layers,
        self_every=_self_every(config, num_layers),
        vocab_size=_get(folder, text, 'vocab_size'), eps=_get(folder, text, 'rms_norm_eps'),
        max_state_dim=_get(folder, config, 'max_state_dim'),
        max_action_dim=_get(folder, config, 'max_action_dim'),
        state_dim=state_dim, action_dim=action_dim,
        horizon=_get(folder, config, 'chunk_size'),
        denoise_steps=_get(folder, config, 'num_steps'),
        min_period=config.get('min_period', 4e-3), max_period=config.get('max_period', 4.0),
        max_prompt_tokens=_get(folder, config, 'tokenizer_max_length'),
        image_size=side, inputs=inputs,
        image_special_tokens=bool(config.get('add_image_special_tokens', False)))


def _backbone(folder: CheckpointFolder) -> Mapping:
    if (folder.path / 'vlm' / 'config.json').is_file():
        return folder.read_json('vlm/config.json')
    name = folder.config.get('vlm_model_name', '')
    if name not in _PUBLISHED:
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='vlm/config.json (the backbone\'s config), or '
            f'vlm_model_name {" or ".join(_PUBLISHED)}', got=f'vlm_model_name {name!r}',
            remedy='Copy the config.json of the backbone to vlm/config.json in the folder.')
    return _PUBLISHED[name]


def _features(folder: CheckpointFolder) -> tuple[tuple[str, ...], int, int]:
    """Camera inputs in the trained order, state length, action length."""
    inputs, outputs = folder.config.get('input_features'), folder.config.get('output_features')
    try:
        empty = [f'observation.images.empty_camera_{number}'
                 for number in range(folder.config.get('empty_cameras', 0))]
        cameras = tuple(key.removeprefix('observation.images.') for key, feature in inputs.items()
                        if feature['type'] == 'VISUAL' and key not in empty)
        state = inputs['observation.state']['shape'][0]
        action = outputs['action']['shape'][0]
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='input_features with cameras and '
            'observation.state, output_features with action', got=f'no {error}',
            remedy='Copy config.json again from its source.') from error
    if not cameras:
        raise CheckpointError(f'checkpoint {folder.path}', expected='at least one camera input',
                              got='none', remedy='Copy config.json again from its source.')
    return cameras, state, action


def _square_image(folder: CheckpointFolder, vision: Mapping) -> tuple[int, int]:
    size = folder.config.get('resize_imgs_with_padding')
    patch = _get(folder, vision, 'patch_size')
    if not size or size[0] != size[1] or size[0] % patch:
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='resize_imgs_with_padding square and a '
            f'multiple of the patch ({patch})', got=repr(size),
            remedy='The connector folds square images.')
    return size[0], size[1]


def _self_every(config: Mapping, num_layers: int) -> int:
    """Every how many layers action tokens attend to each other too (1: in all)."""
    if 'cross' not in config.get('attention_mode', 'cross_attn'):
        return 1
    every = config.get('self_attn_every_n_layers', -1)
    return every if every > 0 else 0


def _get(folder: CheckpointFolder, values: Mapping, key: str):  # noqa: ANN202 - as in the JSON
    if key not in values:
        raise CheckpointError(f'checkpoint {folder.path}', expected=f'a value {key}', got='none',
                              remedy='Copy config.json (and vlm/config.json) again.')
    return values[key]


def _unsupported(folder: CheckpointFolder, key: str, got: object, supported: object,
                 ) -> CheckpointError:
    return CheckpointError(f'checkpoint {folder.path}', expected=f'{key} = {supported!r}',
                           got=repr(got), remedy='This build does not support the other value.')
