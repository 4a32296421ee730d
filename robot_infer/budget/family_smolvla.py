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

"""What a SmolVLA is made of, by its config.json and that of its language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from robot_infer.budget.config_sections import (
    SiglipSection,
    SmolVLASection,
    TextSection,
    VLMSection,
    parse,
    wrong,
)
from robot_infer.budget.model_shape import KVGroup, ModelShape, Stack
from robot_infer.budget.tensors import (
    ACTIONS,
    CONNECTOR,
    EXPERT,
    LANGUAGE,
    LAST,
    NORM,
    STATE,
    UNUSED_HEAD,
    VISION,
    WORDS,
    Blueprint,
    TensorSpec,
    beyond_keys_and_values,
    decoder_layer,
    keys_and_values,
    linear,
    rms_norm,
    siglip,
    specs,
    tensor,
)

_IMAGE_MARKS = 3  # words that SmolVLM puts around an image, where the checkpoint asks for them


def smolvla(config: Mapping[str, Any], backbone: Mapping[str, Any], where: str,
            backbone_where: str) -> Blueprint:
    """A SmolVLA (LeRobot 0.6.1).

    :param backbone: config of its SmolVLM.
    """
    own = parse(SmolVLASection, config, where)
    vlm = parse(VLMSection, backbone, backbone_where)
    text = parse(TextSection, vlm.text_config, f'text_config of {backbone_where}')
    vision = parse(SiglipSection, vlm.vision_config, f'vision_config of {backbone_where}')
    scale = vlm.scale_factor
    language = text.stack('language', backbone_where)
    if own.num_vlm_layers > 0:  # the first so many; all, where it is 0 or less
        language = replace(language, num_layers=own.num_vlm_layers)
    if own.num_expert_layers not in (-1, 0, language.num_layers):
        raise wrong(where, 'num_expert_layers', f'{language.num_layers}, as the language model '
                    'has, or -1', own.num_expert_layers)
    expert = _smolvla_expert(own, language, where)
    is_cross = [_is_cross(own, layer) for layer in range(language.num_layers)]
    image, unit = tuple(own.resize_imgs_with_padding), vision.patch_size * scale
    if image[0] != image[1] or image[0] % unit:
        raise wrong(where, 'resize_imgs_with_padding', f'two equal multiples of {unit} '
                    '(patch_size x scale_factor)', list(image))
    shape = _smolvla_shape(own, where, vision.stack('vision encoder', backbone_where), language,
                           expert, sum(is_cross), vision.patch_size, scale)
    return Blueprint(shape, (
        *_smolvla_prefix(shape, vision, scale),
        *_smolvla_suffix(own, shape, expert, is_cross)))


def _smolvla_shape(
    own: SmolVLASection, where: str, vision: Stack, language: Stack, expert: Stack, num_cross: int,
    patch: int, scale: int,
) -> ModelShape:
    width, height = own.resize_imgs_with_padding
    tokens = (width // patch) * (height // patch) // scale ** 2
    marks = _IMAGE_MARKS if own.add_image_special_tokens else 0
    cameras = own.cameras(where)
    heads = (language.num_kv_heads, language.head_dim)
    kv = (KVGroup('language', language.num_layers, *heads),
          KVGroup('cross-attention of the action expert', num_cross, *heads))
    prefix = len(cameras) * (tokens + marks) + own.tokenizer_max_length + 1
    return ModelShape(
        'SmolVLA', 'smolvla', where, (), vision, language, expert,
        tuple(group for group in kv if group.num_layers), (width, height), patch, tokens, cameras,
        own.tokenizer_max_length, state_tokens=1, horizon=own.chunk_size,
        denoise_steps=own.num_steps, action_tokens=0, max_tokens=prefix + own.chunk_size,
        image_marks=marks)


def _smolvla_expert(own: SmolVLASection, language: Stack, where: str) -> Stack:
    width = int(language.width * own.expert_width_multiplier)
    if width < 2:
        raise wrong(where, 'expert_width_multiplier', f'a width of 2 or more, times '
                    f'{language.width}', own.expert_width_multiplier)
    # LeRobot get_intermediate_size: 2/3 x 4 of the width, up to a multiple of 256.
    hidden = -(-4 * int(2 * width / 3) // 256) * 256
    return Stack('action expert', language.num_layers, width, hidden, language.num_heads,
                 language.num_kv_heads, language.head_dim)


def _is_cross(own: SmolVLASection, layer: int) -> bool:
    """True where the expert attends to the prefix only, through projections of its K and V."""
    if 'cross' not in own.attention_mode:
        return False
    every = own.self_attn_every_n_layers
    return not (every > 0 and layer % every == 0)


def _smolvla_prefix(
    shape: ModelShape, vision: SiglipSection, scale: int,
) -> Iterator[TensorSpec]:
    language, stack = shape.language, shape.vision
    assert stack is not None  # a SmolVLA always sees
    vlm = 'model.vlm_with_expert.vlm'
    last = f'{vlm}.model.text_model.layers.{language.num_layers - 1}'
    yield from specs(VISION, siglip(f'{vlm}.model.vision_model', stack, shape.patch,
                                     vision.num_patches))
    yield from specs(CONNECTOR, linear(
        f'{vlm}.model.connector.modality_projection.proj', language.width,
        vision.hidden_size * scale ** 2))
    yield from specs(WORDS, tensor(f'{vlm}.model.text_model.embed_tokens.weight', language.vocab,
                                    language.width))
    yield from specs(LANGUAGE, *(
        decoder_layer(f'{vlm}.model.text_model.layers.{number}', language)
        for number in range(language.num_layers - 1)))
    yield from specs(LANGUAGE, rms_norm(f'{last}.input_layernorm', language.width),
                     keys_and_values(last, language))
    yield from specs(LAST, beyond_keys_and_values(last, language), optional=True)
    yield from specs(NORM, rms_norm(f'{vlm}.model.text_model.norm', language.width),
                     optional=True)
    yield from specs(UNUSED_HEAD, tensor(f'{vlm}.lm_head.weight', language.vocab, language.width),
                     optional=True)


def _smolvla_suffix(
    own: SmolVLASection, shape: ModelShape, expert: Stack, is_cross: list[bool],
) -> Iterator[TensorSpec]:
    name = 'model.vlm_with_expert.lm_expert'
    kv_width, width = expert.num_kv_heads * expert.head_dim, expert.width
    yield from specs(EXPERT, *(
        decoder_layer(f'{name}.layers.{layer}', expert, source=kv_width if cross else None)
        for layer, cross in enumerate(is_cross)), rms_norm(f'{name}.norm', width))
    yield from specs(
        ACTIONS, linear('model.action_in_proj', width, own.max_action_dim, bias=True),
        linear('model.action_out_proj', own.max_action_dim, width, bias=True),
        linear('model.action_time_mlp_in', width, 2 * width, bias=True),
        linear('model.action_time_mlp_out', width, width, bias=True))
    yield from specs(STATE, linear('model.state_proj', shape.language.width, own.max_state_dim,
                                    bias=True))
