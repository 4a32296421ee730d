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

"""What language models and vision-language models are made of: Llama, SmolVLM, Qwen2.5-VL.

They decode words; how many a robot's step needs is not in a config.json, so it is assumed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robot_infer.budget.config_sections import (
    QwenVisionSection,
    SiglipSection,
    TextSection,
    VLMSection,
    parse,
    wrong,
)
from robot_infer.budget.model_shape import KVGroup, ModelShape, Stack
from robot_infer.budget.tensors import (
    CONNECTOR,
    HEAD,
    LANGUAGE,
    TIED_HEAD,
    VISION,
    WORDS,
    Blueprint,
    TensorSpec,
    decoder_layers,
    linear,
    qwen_vision_block,
    rms_norm,
    siglip,
    specs,
    tensor,
)

ASSUMED_PROMPT, ASSUMED_DECODED = 512, 64  # tokens of one step
_QWEN_SIDE = 448  # any multiple of 28 would do: its image tokens follow the frame's size


def llama(config: Mapping[str, Any], where: str) -> Blueprint:
    """A Llama 2 or 3."""
    text = parse(TextSection, config, where)
    language = text.stack('language', where)
    shape = _decoder_shape('Llama', 'llama', where, language, text.kv(language, where),
                           text.max_position_embeddings)
    tied = text.tie_word_embeddings
    return Blueprint(shape, tuple(_language(language, 'model', 'lm_head', tied)),
                     twins=_twins('model', 'lm_head') if tied else None)


def smolvlm(config: Mapping[str, Any], where: str) -> Blueprint:
    """An Idefics3 or SmolVLM: one square of the trained size per camera, not split further."""
    own = parse(VLMSection, config, where)
    text = parse(TextSection, own.text_config, f'text_config of {where}')
    section = parse(SiglipSection, own.vision_config, f'vision_config of {where}')
    language, vision = text.stack('language', where), section.stack('vision encoder', where)
    side, scale = section.image_size, own.scale_factor
    if side % (section.patch_size * scale):
        raise wrong(where, 'scale_factor', f'one that divides the {side // section.patch_size} '
                    'patches of a side', scale)
    shape = _decoder_shape(
        'SmolVLM', 'smolvlm', where, language, text.kv(language, where),
        text.max_position_embeddings, vision=vision, side=side, patch=section.patch_size,
        image_tokens=section.num_patches // scale ** 2)
    return Blueprint(shape, (
        *specs(VISION, siglip('model.vision_model', vision, section.patch_size,
                               section.num_patches)),
        *specs(CONNECTOR, linear('model.connector.modality_projection.proj', language.width,
                                  vision.width * scale ** 2)),
        *_language(language, 'model.text_model', 'lm_head', own.tie_word_embeddings)),
        twins=_twins('model.text_model', 'lm_head') if own.tie_word_embeddings else None)


def qwen2_5_vl(config: Mapping[str, Any], where: str) -> Blueprint:
    """A Qwen2.5-VL; its config.json has the language model's values at the top, or inside."""
    inside = config.get('text_config')
    values = {**config, **inside} if isinstance(inside, Mapping) else config
    text = parse(TextSection, values, where)
    section = parse(QwenVisionSection, config.get('vision_config') or {},
                    f'vision_config of {where}')
    language = text.stack('language', where)
    if section.out_hidden_size != language.width:
        raise wrong(where, 'vision_config.out_hidden_size', f'hidden_size {language.width}',
                    section.out_hidden_size)
    if section.hidden_size % section.num_heads:
        raise wrong(where, 'vision_config.num_heads', f'a divisor of {section.hidden_size}',
                    section.num_heads)
    vision = Stack('vision encoder', section.depth, section.hidden_size,
                   section.intermediate_size, section.num_heads, section.num_heads,
                   section.hidden_size // section.num_heads)
    unit = section.patch_size * section.spatial_merge_size
    side = max(unit, _QWEN_SIDE // unit * unit)
    shape = _decoder_shape(
        'Qwen2.5-VL', 'qwen2_5_vl', where, language, text.kv(language, where),
        text.max_position_embeddings, vision=vision, side=side, patch=section.patch_size,
        image_tokens=(side // unit) ** 2)
    name, tied = 'model.language_model', text.tie_word_embeddings
    return Blueprint(
        shape, (*_qwen_vision(section, vision),
                *_language(language, name, 'lm_head', tied, bias=True)),
        renames=((r'^visual\.', 'model.visual.'),
                 (r'^model\.(layers|embed_tokens|norm)\.', r'model.language_model.\1.')),
        twins=_twins(name, 'lm_head') if tied else None)


def _qwen_vision(section: QwenVisionSection, stack: Stack) -> Iterator[TensorSpec]:
    name, width = 'model.visual', stack.width
    merged = width * section.spatial_merge_size ** 2
    yield from specs(VISION, tensor(
        f'{name}.patch_embed.proj.weight', width, 3, section.temporal_patch_size,
        section.patch_size, section.patch_size), *(
            qwen_vision_block(f'{name}.blocks.{number}', stack)
            for number in range(stack.num_layers)))
    yield from specs(CONNECTOR, rms_norm(f'{name}.merger.ln_q', width),
                     linear(f'{name}.merger.mlp.0', merged, merged, bias=True),
                     linear(f'{name}.merger.mlp.2', section.out_hidden_size, merged, bias=True))


def _language(
    stack: Stack, name: str, head: str, tied: bool, *, bias: bool = False,
) -> Iterator[TensorSpec]:
    yield from specs(WORDS, tensor(f'{name}.embed_tokens.weight', stack.vocab, stack.width))
    yield from specs(LANGUAGE, decoder_layers(f'{name}.layers', stack, bias=bias),
                     rms_norm(f'{name}.norm', stack.width))
    yield from specs(TIED_HEAD if tied else HEAD,
                     tensor(f'{head}.weight', stack.vocab, stack.width), optional=tied)


def _twins(name: str, head: str) -> tuple[str, str]:
    return f'{name}.embed_tokens.weight', f'{head}.weight'


def _decoder_shape(
    name: str, family: str, where: str, language: Stack, kv: tuple[KVGroup, ...], max_tokens: int,
    *, vision: Stack | None = None, side: int = 0, patch: int = 0, image_tokens: int = 0,
) -> ModelShape:
    """A model that decodes words behind images and a prompt of the assumed lengths."""
    left = max_tokens - image_tokens - ASSUMED_DECODED
    if left < 1:
        raise wrong(where, 'max_position_embeddings', f'more than {image_tokens} image tokens and '
                    f'{ASSUMED_DECODED} decoded', max_tokens)
    return ModelShape(
        name, family, where, (), vision, language, None, kv, (side, side), patch, image_tokens,
        ('camera',) if vision else (), max_prompt_tokens=min(ASSUMED_PROMPT, left),
        state_tokens=0, horizon=1, denoise_steps=0, action_tokens=ASSUMED_DECODED,
        max_tokens=max_tokens)
