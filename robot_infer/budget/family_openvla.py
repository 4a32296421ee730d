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

"""What an OpenVLA is made of: two vision encoders, a projector, a Llama 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robot_infer.budget.config_sections import OpenVLASection, TextSection, parse, wrong
from robot_infer.budget.model_shape import ModelShape, Stack
from robot_infer.budget.tensors import (
    CONNECTOR,
    HEAD,
    LANGUAGE,
    VISION,
    WORDS,
    Blueprint,
    Portion,
    TensorSpec,
    decoder_layers,
    layer_norm,
    linear,
    rms_norm,
    specs,
    tensor,
    timm_block,
)

_LLAMA2_7B = {'hidden_size': 4096, 'intermediate_size': 11008, 'num_hidden_layers': 32,
              'num_attention_heads': 32, 'vocab_size': 32_000, 'max_position_embeddings': 2048}
_DINO = Stack('vision encoder (DINOv2)', 24, 1024, 4096, 16, 16, 64, gated=False)
_SIGLIP = Stack('vision encoder (SigLIP)', 27, 1152, 4304, 16, 16, 72, gated=False)
_SIDE, _PATCH, _REGISTERS = 224, 14, 4
_ACTION_TOKENS = 7
_PROMPT = 64  # assumed: its question, and an instruction of some forty tokens
_BEHIND = Portion('vision encoders, behind the second-to-last block', 'vision', kept=False,
                  note='unused: the patches are read from the second-to-last block')


def openvla(config: Mapping[str, Any], where: str) -> Blueprint:
    """An OpenVLA (Prismatic): DINOv2 and SigLIP see the same image, a Llama 2 speaks actions."""
    own = parse(OpenVLASection, config, where)
    text = parse(TextSection, {**_LLAMA2_7B, **own.text_config}, f'text_config of {where}')
    language = text.stack('language', where)
    patches = (_SIDE // _PATCH) ** 2
    fewest = patches + _PROMPT + _ACTION_TOKENS
    if own.llm_max_length < fewest:
        raise wrong(where, 'llm_max_length', f'{fewest} tokens or more', own.llm_max_length)
    shape = ModelShape(
        'OpenVLA', 'openvla', where, (), _DINO, language, None, text.kv(language, where),
        (_SIDE, _SIDE), _PATCH, patches, ('camera',),
        max_prompt_tokens=_PROMPT, state_tokens=0, horizon=1,
        denoise_steps=0, action_tokens=_ACTION_TOKENS, max_tokens=own.llm_max_length,
        more_vision=(_SIGLIP,))
    return Blueprint(shape, (*_openvla_vision(patches), *_openvla_language(shape)))


def _openvla_vision(patches: int) -> Iterator[TensorSpec]:
    for name, stack, scaled in (('featurizer', _DINO, True), ('fused_featurizer', _SIGLIP, False)):
        tower, width = f'vision_backbone.{name}', stack.width
        if scaled:
            yield from specs(VISION, tensor(f'{tower}.cls_token', 1, 1, width),
                             tensor(f'{tower}.reg_token', 1, _REGISTERS, width))
        yield from specs(VISION, tensor(f'{tower}.pos_embed', 1, patches, width),
                         tensor(f'{tower}.patch_embed.proj.weight', width, 3, _PATCH, _PATCH),
                         tensor(f'{tower}.patch_embed.proj.bias', width))
        last = stack.num_layers - 1
        for number in range(stack.num_layers):
            yield from specs(_BEHIND if number == last else VISION, timm_block(
                f'{tower}.blocks.{number}', stack, layer_scale=scaled), optional=number == last)
        yield from specs(_BEHIND, layer_norm(f'{tower}.norm', width), optional=True)
    pool, width = 'vision_backbone.fused_featurizer.attn_pool', _SIGLIP.width
    yield from specs(
        _BEHIND, tensor(f'{pool}.latent', 1, 1, width), linear(f'{pool}.q', width, width, True),
        linear(f'{pool}.kv', 2 * width, width, True), linear(f'{pool}.proj', width, width, True),
        layer_norm(f'{pool}.norm', width), linear(f'{pool}.mlp.fc1', _SIGLIP.hidden, width, True),
        linear(f'{pool}.mlp.fc2', width, _SIGLIP.hidden, True), optional=True)


def _openvla_language(shape: ModelShape) -> Iterator[TensorSpec]:
    language, seen = shape.language, _DINO.width + _SIGLIP.width
    yield from specs(
        CONNECTOR, linear('projector.fc1', 4 * seen, seen, True),
        linear('projector.fc2', language.width, 4 * seen, True),
        linear('projector.fc3', language.width, language.width, True))
    yield from specs(WORDS, tensor('language_model.model.embed_tokens.weight', language.vocab,
                                    language.width))
    yield from specs(LANGUAGE, decoder_layers('language_model.model.layers', language),
                     rms_norm('language_model.model.norm', language.width))
    yield from specs(HEAD, tensor(
        'language_model.lm_head.weight', language.vocab, language.width))
