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

from dataclasses import dataclass

from robot_infer.errors import CheckpointError
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.decoder import AttentionShape
from robot_infer.models.json_values import JsonValues

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
# Tables of these lengths are made before the budget is looked at.
_MOST_TOKENS, _MOST_STEPS, _MOST_PIXELS = 100_000, 10_000, 4096


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
    if folder.family != 'smolvla':
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='type smolvla in config.json',
            got=f'type {folder.family}', remedy='This build runs SmolVLA checkpoints.')
    config = JsonValues(f'{folder.path}/config.json', folder.config)
    for key, supported in _UNSUPPORTED.items():
        config.supported(key, supported)
    _check_modes(config)
    backbone = _backbone(folder)
    text = backbone.inside('text_config')
    for key, supported in (('hidden_act', 'silu'), ('attention_bias', False), ('mlp_bias', False)):
        text.supported(key, supported)
    width = text.whole('hidden_size', 1)
    num_layers = _num_layers(config, text)
    inputs, state_dim, action_dim = _features(config)
    vision = _vision(backbone, width)
    return SmolVLAShape(
        vision=vision, attention=_attention(text, width), width=width,
        expert_width=_expert_width(config, width), num_layers=num_layers,
        self_every=_self_every(config), vocab_size=text.whole('vocab_size', 1),
        eps=text.positive('rms_norm_eps'),
        max_state_dim=config.whole('max_state_dim', state_dim),
        max_action_dim=config.whole('max_action_dim', action_dim),
        state_dim=state_dim, action_dim=action_dim,
        horizon=config.whole('chunk_size', 1, high=_MOST_TOKENS),
        denoise_steps=config.whole('num_steps', 1, high=_MOST_STEPS),
        min_period=config.positive('min_period', 4e-3),
        max_period=config.positive('max_period', 4.0),
        max_prompt_tokens=config.whole('tokenizer_max_length', 1, high=_MOST_TOKENS),
        image_size=_square_image(config, vision), inputs=inputs,
        image_special_tokens=config.flag('add_image_special_tokens', False))


def _backbone(folder: CheckpointFolder) -> JsonValues:
    if (folder.path / 'vlm' / 'config.json').is_file():
        return JsonValues(f'{folder.path}/vlm/config.json', folder.read_json('vlm/config.json'))
    name = JsonValues(f'{folder.path}/config.json', folder.config).text('vlm_model_name', '')
    if name not in _PUBLISHED:
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='vlm/config.json (the backbone\'s config), or '
            f'vlm_model_name {" or ".join(_PUBLISHED)}', got=f'vlm_model_name {name!r}',
            remedy='Copy the config.json of the backbone to vlm/config.json in the folder.')
    return JsonValues(f'the known config of {name}', _PUBLISHED[name])


def _num_layers(config: JsonValues, text: JsonValues) -> int:
    num_layers = config.whole('num_vlm_layers', -1)
    if num_layers <= 0:  # all that the backbone has
        num_layers = text.whole('num_hidden_layers', 1)
    if config.whole('num_expert_layers', -1) not in (-1, 0, num_layers):
        raise config.wrong('num_expert_layers', f'{num_layers} as the backbone has, or -1: this '
                           'build supports no other')
    return num_layers


def _attention(text: JsonValues, width: int) -> AttentionShape:
    num_heads = text.whole('num_attention_heads', 1)
    num_kv_heads = text.whole('num_key_value_heads', 1)
    if num_heads % num_kv_heads:
        raise text.wrong('num_key_value_heads', f'a divisor of the {num_heads} heads')
    head_dim = width // num_heads if text.absent('head_dim') else text.whole('head_dim', 1)
    if head_dim < 2 or head_dim % 2:
        raise text.wrong('head_dim', 'an even number, which rotary positions need')
    return AttentionShape(num_heads, num_kv_heads, head_dim)


def _expert_width(config: JsonValues, width: int) -> int:
    expert_width = int(width * config.positive('expert_width_multiplier'))
    if expert_width < 2 or expert_width % 2:
        raise config.wrong('expert_width_multiplier', f'an even width above 0, times {width}')
    return expert_width


def _vision(backbone: JsonValues, text_width: int) -> VisionShape:
    vision = backbone.inside('vision_config')
    vision.supported('hidden_act', 'gelu_pytorch_tanh')
    width, num_heads = vision.whole('hidden_size', 1), vision.whole('num_attention_heads', 1)
    if width % num_heads:
        raise vision.wrong('num_attention_heads', f'a divisor of hidden_size {width}')
    patch = vision.whole('patch_size', 1)
    return VisionShape(
        width=width, hidden=vision.whole('intermediate_size', 1),
        num_layers=vision.whole('num_hidden_layers', 1), num_heads=num_heads,
        image_size=vision.whole('image_size', patch), patch=patch,
        eps=vision.positive('layer_norm_eps', 1e-6),
        scale_factor=backbone.whole('scale_factor', 1), text_width=text_width)


def _check_modes(config: JsonValues) -> None:
    """The normalisation modes are texts; which of them there are is the normalizer's."""
    modes = config.inside('normalization_mapping', {})
    for kind in modes:
        modes.text(kind)


def _features(config: JsonValues) -> tuple[tuple[str, ...], int, int]:
    """Camera inputs in the trained order, state length, action length."""
    inputs, outputs = config.inside('input_features'), config.inside('output_features')
    (state,) = inputs.inside('observation.state').wholes('shape', 1)
    empty = [f'observation.images.empty_camera_{number}'
             for number in range(config.whole('empty_cameras', 0, 0, 1000))]
    cameras = tuple(key.removeprefix('observation.images.') for key in inputs
                    if inputs.inside(key).text('type') == 'VISUAL' and key not in empty)
    if not cameras:
        raise config.wrong('input_features', 'at least one camera (type VISUAL)')
    (action,) = outputs.inside('action').wholes('shape', 1)
    return cameras, state, action


def _square_image(config: JsonValues, vision: VisionShape) -> tuple[int, int]:
    """Width and height that the connector can fold."""
    width, height = config.wholes('resize_imgs_with_padding', 2, _MOST_PIXELS)
    unit = vision.patch * vision.scale_factor
    if width != height or width % unit:
        raise config.wrong('resize_imgs_with_padding', f'two equal multiples of {unit} '
                           '(patch_size x scale_factor)')
    return width, height


def _self_every(config: JsonValues) -> int:
    """Every how many layers action tokens attend to each other too (1: in all)."""
    if 'cross' not in config.text('attention_mode', 'cross_attn'):
        return 1
    return max(0, config.whole('self_attn_every_n_layers', -1, -1))
