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

"""What vision-language-action models are made of: SmolVLA, pi0, pi0.5, pi0-FAST, OpenVLA.

Each function turns a config.json into a Blueprint. What is in a checkpoint and inference never
uses is a portion that is not kept, and says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robot_infer.budget.config_sections import (
    OpenVLASection,
    PiSection,
    SiglipSection,
    SmolVLASection,
    TextSection,
    parse,
    wrong,
)
from robot_infer.budget.model_shape import KVGroup, ModelShape, Stack
from robot_infer.budget.tensors import (
    Blueprint,
    Portion,
    TensorSpec,
    beyond_keys_and_values,
    decoder_layer,
    decoder_layers,
    keys_and_values,
    layer_norm,
    linear,
    rms_norm,
    siglip,
    specs,
    tensor,
    timm_block,
)

_VISION = Portion('vision encoder', 'vision')
_CONNECTOR = Portion('connector', 'vision')
_WORDS = Portion('word table', 'language')
_LANGUAGE = Portion('language layers', 'language')
_EXPERT = Portion('action expert', 'action')
_ACTIONS = Portion('action projections', 'action')
_STATE = Portion('state projection', 'other')
_LAST = Portion('last language layer, beyond keys and values', 'language', kept=False,
                note='unused: the action expert reads its keys and values, nobody its output')
_NORM = Portion('norm behind the language layers', 'language', kept=False,
                note='unused: nobody reads what comes out of the last layer')
_HEAD = Portion('language head', 'language', kept=False, note='unused: actions are not words')
_IMAGE_MARKS = 3  # words that SmolVLM puts around an image, where the checkpoint asks for them


def smolvla(config: Mapping[str, Any], backbone: Mapping[str, Any], where: str,
            backbone_where: str) -> Blueprint:
    """A SmolVLA (LeRobot 0.6.1).

    :param backbone: config of its SmolVLM.
    """
    own = parse(SmolVLASection, config, where)
    text_section = parse(TextSection, _inside(backbone, 'text_config', backbone_where),
                         f'text_config of {backbone_where}')
    vision = parse(SiglipSection, _inside(backbone, 'vision_config', backbone_where),
                   f'vision_config of {backbone_where}')
    scale = backbone.get('scale_factor')
    if type(scale) is not int or not 1 <= scale <= 64:
        raise wrong(backbone_where, 'scale_factor', 'a whole number from 1 to 64', scale)
    language = _replace_layers(text_section.stack('language', backbone_where),
                               own.num_vlm_layers)
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
    yield from specs(_VISION, siglip(f'{vlm}.model.vision_model', stack, shape.patch,
                                     vision.num_patches))
    yield from specs(_CONNECTOR, linear(
        f'{vlm}.model.connector.modality_projection.proj', language.width,
        vision.hidden_size * scale ** 2))
    yield from specs(_WORDS, tensor(f'{vlm}.model.text_model.embed_tokens.weight', language.vocab,
                                    language.width))
    yield from specs(_LANGUAGE, *(
        decoder_layer(f'{vlm}.model.text_model.layers.{number}', language)
        for number in range(language.num_layers - 1)))
    yield from specs(_LANGUAGE, rms_norm(f'{last}.input_layernorm', language.width),
                     keys_and_values(last, language))
    yield from specs(_LAST, beyond_keys_and_values(last, language), optional=True)
    yield from specs(_NORM, rms_norm(f'{vlm}.model.text_model.norm', language.width),
                     optional=True)
    yield from specs(_HEAD, tensor(f'{vlm}.lm_head.weight', language.vocab, language.width),
                     optional=True)


def _smolvla_suffix(
    own: SmolVLASection, shape: ModelShape, expert: Stack, is_cross: list[bool],
) -> Iterator[TensorSpec]:
    name = 'model.vlm_with_expert.lm_expert'
    kv_width, width = expert.num_kv_heads * expert.head_dim, expert.width
    yield from specs(_EXPERT, *(
        decoder_layer(f'{name}.layers.{layer}', expert, source=kv_width if cross else None)
        for layer, cross in enumerate(is_cross)), rms_norm(f'{name}.norm', width))
    yield from specs(
        _ACTIONS, linear('model.action_in_proj', width, own.max_action_dim, bias=True),
        linear('model.action_out_proj', own.max_action_dim, width, bias=True),
        linear('model.action_time_mlp_in', width, 2 * width, bias=True),
        linear('model.action_time_mlp_out', width, width, bias=True))
    yield from specs(_STATE, linear('model.state_proj', shape.language.width, own.max_state_dim,
                                    bias=True))


# --- pi0 ----------------------------------------------------------------------------------------

# LeRobot get_gemma_config; the vision encoder is SigLIP So400m/14, as in PaliGemma 3B.
_GEMMA = {'gemma_2b': (18, 2048, 16_384, 8, 1, 256), 'gemma_300m': (18, 1024, 4096, 8, 1, 256)}
_GEMMA_VOCAB, _PALIGEMMA_PATCH, _PROJECTED = 257_152, 14, 2048
_SO400M = Stack('vision encoder', 27, 1152, 4304, 16, 16, 72, gated=False)
_TIED_HEAD = Portion('language head', 'language', kept=False,
                     note='tied: the word table once more')
_PI_RENAMES = (
    (r'^model\.', ''),
    (r'\.paligemma\.language_model\.lm_head\.', '.paligemma.lm_head.'),
    (r'\.paligemma\.language_model\.model\.', '.paligemma.model.language_model.'),
    (r'\.paligemma\.(vision_tower|multi_modal_projector)\.', r'.paligemma.model.\1.'),
)


def pi(config: Mapping[str, Any], where: str) -> Blueprint:
    """A pi0, pi0.5 or pi0-FAST (LeRobot; openpi's PyTorch weights have the same names)."""
    own = parse(PiSection, config, where)
    family = {'pi0': 'pi0', 'pi05': 'pi05', 'pi0_fast': 'pi0fast'}[own.type]
    width, height = own.image_resolution
    if min(width, height) < _PALIGEMMA_PATCH:
        raise wrong(where, 'image_resolution', f'{_PALIGEMMA_PATCH} pixels or more',
                    own.image_resolution)
    language = Stack('language', *_GEMMA[own.paligemma_variant], vocab=_GEMMA_VOCAB)
    decodes = family == 'pi0fast'
    expert = None if decodes else Stack('action expert', *_GEMMA[own.action_expert_variant])
    tokens = (width // _PALIGEMMA_PATCH) * (height // _PALIGEMMA_PATCH)
    cameras = own.cameras(where)
    state = 1 if family == 'pi0' else 0  # a token of the suffix; elsewhere the state is words
    suffix = own.max_decoding_steps if decodes else state + own.chunk_size
    shape = ModelShape(
        {'pi0': 'pi0', 'pi05': 'pi0.5', 'pi0fast': 'pi0-FAST'}[family], family, where, (), _SO400M,
        language, expert,
        (KVGroup('language', language.num_layers, language.num_kv_heads, language.head_dim),),
        (width, height), _PALIGEMMA_PATCH, tokens, cameras, own.tokenizer_max_length,
        state_tokens=0, horizon=own.chunk_size,
        denoise_steps=0 if decodes else own.num_inference_steps,
        action_tokens=own.max_decoding_steps if decodes else 0,
        max_tokens=len(cameras) * tokens + own.tokenizer_max_length + suffix,
        suffix_state_tokens=state)
    google = 'paligemma_with_expert.paligemma'
    return Blueprint(
        shape, (*_pi_prefix(shape, google), *(() if expert is None else _pi_suffix(
            own, expert, adaptive=family == 'pi05'))), _PI_RENAMES,
        twins=(f'{google}.model.language_model.embed_tokens.weight', f'{google}.lm_head.weight'))


def _pi_prefix(shape: ModelShape, name: str) -> Iterator[TensorSpec]:
    language, decodes = shape.language, shape.action is None
    layers = f'{name}.model.language_model.layers'
    last = f'{layers}.{language.num_layers - 1}'
    yield from specs(_VISION, siglip(f'{name}.model.vision_tower.vision_model', _SO400M,
                                     shape.patch, shape.image_tokens))
    yield from specs(_CONNECTOR, linear(f'{name}.model.multi_modal_projector.linear', _PROJECTED,
                                        _SO400M.width, bias=True))
    yield from specs(_WORDS, tensor(f'{name}.model.language_model.embed_tokens.weight',
                                    language.vocab, language.width))
    yield from specs(_TIED_HEAD, tensor(f'{name}.lm_head.weight', language.vocab, language.width),
                     optional=True)
    yield from specs(_LANGUAGE, *(decoder_layer(f'{layers}.{number}', language)
                                  for number in range(language.num_layers - 1)))
    yield from specs(_LANGUAGE, rms_norm(f'{last}.input_layernorm', language.width),
                     keys_and_values(last, language))
    yield from specs(_LANGUAGE if decodes else _LAST, beyond_keys_and_values(last, language),
                     optional=not decodes)
    yield from specs(_LANGUAGE if decodes else _NORM,
                     rms_norm(f'{name}.model.language_model.norm', language.width),
                     optional=not decodes)


def _pi_suffix(own: PiSection, expert: Stack, *, adaptive: bool) -> Iterator[TensorSpec]:
    name, width = 'paligemma_with_expert.gemma_expert', expert.width
    norm = linear(f'{name}.model.norm.dense', 3 * width, width, bias=True) if adaptive else (
        rms_norm(f'{name}.model.norm', width))
    yield from specs(_EXPERT, *(
        decoder_layer(f'{name}.model.layers.{number}', expert, adaptive=adaptive)
        for number in range(expert.num_layers)), norm)
    yield from specs(Portion('head of the action expert', 'action', kept=False,
                             note='unused: actions are not words'),
                     tensor(f'{name}.lm_head.weight', _GEMMA_VOCAB, width), optional=True)
    yield from specs(_ACTIONS, linear('action_in_proj', width, own.max_action_dim, bias=True),
                     linear('action_out_proj', own.max_action_dim, width, bias=True))
    if adaptive:
        yield from specs(_ACTIONS, linear('time_mlp_in', width, width, bias=True),
                         linear('time_mlp_out', width, width, bias=True))
    else:
        yield from specs(_ACTIONS, linear('action_time_mlp_in', width, 2 * width, bias=True),
                         linear('action_time_mlp_out', width, width, bias=True))
        yield from specs(_STATE, linear('state_proj', width, own.max_state_dim, bias=True))


# --- OpenVLA ------------------------------------------------------------------------------------

_LLAMA2_7B = {'hidden_size': 4096, 'intermediate_size': 11008, 'num_hidden_layers': 32,
              'num_attention_heads': 32, 'vocab_size': 32_000, 'max_position_embeddings': 2048}
_DINO = Stack('vision encoder (DINOv2)', 24, 1024, 4096, 16, 16, 64, gated=False)
_SIGLIP = Stack('vision encoder (SigLIP)', 27, 1152, 4304, 16, 16, 72, gated=False)
_SIDE, _PATCH, _REGISTERS = 224, 14, 4
_ACTION_TOKENS = 7
_OPENVLA_WORDS = 64  # assumed: its question, and an instruction of some forty tokens
_BEHIND = Portion('vision encoders, behind the second-to-last block', 'vision', kept=False,
                  note='unused: the patches are read from the second-to-last block')


def openvla(config: Mapping[str, Any], where: str) -> Blueprint:
    """An OpenVLA (Prismatic): DINOv2 and SigLIP see the same image, a Llama 2 speaks actions."""
    own = parse(OpenVLASection, config, where)
    text = parse(TextSection, {**_LLAMA2_7B, **own.text_config}, f'text_config of {where}')
    language = text.stack('language', where)
    patches = (_SIDE // _PATCH) ** 2
    fewest = patches + _OPENVLA_WORDS + _ACTION_TOKENS
    if own.llm_max_length < fewest:
        raise wrong(where, 'llm_max_length', f'{fewest} tokens or more', own.llm_max_length)
    shape = ModelShape(
        'OpenVLA', 'openvla', where, (), _DINO, language, None, text.kv(language, where),
        (_SIDE, _SIDE), _PATCH, patches, ('camera',),
        max_prompt_tokens=_OPENVLA_WORDS, state_tokens=0, horizon=1,
        denoise_steps=0, action_tokens=_ACTION_TOKENS, max_tokens=own.llm_max_length,
        more_vision=(_SIGLIP,))
    return Blueprint(shape, (*_openvla_vision(patches), *_openvla_language(shape)))


def _openvla_vision(patches: int) -> Iterator[TensorSpec]:
    for name, stack, scaled in (('featurizer', _DINO, True), ('fused_featurizer', _SIGLIP, False)):
        tower, width = f'vision_backbone.{name}', stack.width
        if scaled:
            yield from specs(_VISION, tensor(f'{tower}.cls_token', 1, 1, width),
                             tensor(f'{tower}.reg_token', 1, _REGISTERS, width))
        yield from specs(_VISION, tensor(f'{tower}.pos_embed', 1, patches, width),
                         tensor(f'{tower}.patch_embed.proj.weight', width, 3, _PATCH, _PATCH),
                         tensor(f'{tower}.patch_embed.proj.bias', width))
        last = stack.num_layers - 1
        for number in range(stack.num_layers):
            yield from specs(_BEHIND if number == last else _VISION, timm_block(
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
        _CONNECTOR, linear('projector.fc1', 4 * seen, seen, True),
        linear('projector.fc2', language.width, 4 * seen, True),
        linear('projector.fc3', language.width, language.width, True))
    yield from specs(_WORDS, tensor('language_model.model.embed_tokens.weight', language.vocab,
                                    language.width))
    yield from specs(_LANGUAGE, decoder_layers('language_model.model.layers', language),
                     rms_norm('language_model.model.norm', language.width))
    yield from specs(Portion('language head', 'language'), tensor(
        'language_model.lm_head.weight', language.vocab, language.width))


def _inside(values: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    section = values.get(key)
    if not isinstance(section, Mapping):
        raise wrong(where, key, 'an object', type(section).__name__)
    return section


def _replace_layers(stack: Stack, num_layers: int) -> Stack:
    """The first `num_layers` of a stack; all, where that is 0 or less."""
    return stack if num_layers <= 0 else Stack(
        stack.name, num_layers, stack.width, stack.hidden, stack.num_heads, stack.num_kv_heads,
        stack.head_dim, stack.gated, stack.vocab)
