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

"""What a pi0, pi0.5 or pi0-FAST is made of: PaliGemma, and an expert for actions or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robot_infer.budget.config_sections import PiSection, parse, wrong
from robot_infer.budget.model_shape import KVGroup, ModelShape, Stack
from robot_infer.budget.tensors import (
    ACTIONS,
    CONNECTOR,
    EXPERT,
    LANGUAGE,
    LAST,
    NORM,
    STATE,
    TIED_HEAD,
    VISION,
    WORDS,
    Blueprint,
    Portion,
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

# LeRobot get_gemma_config; the vision encoder is SigLIP So400m/14, as in PaliGemma 3B.
_GEMMA = {'gemma_2b': (18, 2048, 16_384, 8, 1, 256), 'gemma_300m': (18, 1024, 4096, 8, 1, 256)}
_VOCAB, _PATCH, _PROJECTED = 257_152, 14, 2048
_SO400M = Stack('vision encoder', 27, 1152, 4304, 16, 16, 72, gated=False)
_RENAMES = (
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
    if min(width, height) < _PATCH:
        raise wrong(where, 'image_resolution', f'{_PATCH} pixels or more',
                    own.image_resolution)
    language = Stack('language', *_GEMMA[own.paligemma_variant], vocab=_VOCAB)
    decodes = family == 'pi0fast'
    expert = None if decodes else Stack('action expert', *_GEMMA[own.action_expert_variant])
    tokens = (width // _PATCH) * (height // _PATCH)
    cameras = own.cameras(where)
    state = 1 if family == 'pi0' else 0  # a token of the suffix; elsewhere the state is words
    suffix = own.max_decoding_steps if decodes else state + own.chunk_size
    shape = ModelShape(
        {'pi0': 'pi0', 'pi05': 'pi0.5', 'pi0fast': 'pi0-FAST'}[family], family, where, (), _SO400M,
        language, expert,
        (KVGroup('language', language.num_layers, language.num_kv_heads, language.head_dim),),
        (width, height), _PATCH, tokens, cameras, own.tokenizer_max_length,
        state_tokens=0, horizon=own.chunk_size,
        denoise_steps=0 if decodes else own.num_inference_steps,
        action_tokens=own.max_decoding_steps if decodes else 0,
        max_tokens=len(cameras) * tokens + own.tokenizer_max_length + suffix,
        suffix_state_tokens=state)
    google = 'paligemma_with_expert.paligemma'
    return Blueprint(
        shape, (*_pi_prefix(shape, google), *(() if expert is None else _pi_suffix(
            own, expert, adaptive=family == 'pi05'))), _RENAMES,
        twins=(f'{google}.model.language_model.embed_tokens.weight', f'{google}.lm_head.weight'))


def _pi_prefix(shape: ModelShape, name: str) -> Iterator[TensorSpec]:
    language, decodes = shape.language, shape.action is None
    layers = f'{name}.model.language_model.layers'
    last = f'{layers}.{language.num_layers - 1}'
    yield from specs(VISION, siglip(f'{name}.model.vision_tower.vision_model', _SO400M,
                                     shape.patch, shape.image_tokens))
    yield from specs(CONNECTOR, linear(f'{name}.model.multi_modal_projector.linear', _PROJECTED,
                                        _SO400M.width, bias=True))
    yield from specs(WORDS, tensor(f'{name}.model.language_model.embed_tokens.weight',
                                    language.vocab, language.width))
    yield from specs(TIED_HEAD, tensor(f'{name}.lm_head.weight', language.vocab, language.width),
                     optional=True)
    yield from specs(LANGUAGE, *(decoder_layer(f'{layers}.{number}', language)
                                  for number in range(language.num_layers - 1)))
    yield from specs(LANGUAGE, rms_norm(f'{last}.input_layernorm', language.width),
                     keys_and_values(last, language))
    yield from specs(LANGUAGE if decodes else LAST, beyond_keys_and_values(last, language),
                     optional=not decodes)
    yield from specs(LANGUAGE if decodes else NORM,
                     rms_norm(f'{name}.model.language_model.norm', language.width),
                     optional=not decodes)


def _pi_suffix(own: PiSection, expert: Stack, *, adaptive: bool) -> Iterator[TensorSpec]:
    name, width = 'paligemma_with_expert.gemma_expert', expert.width
    norm = linear(f'{name}.model.norm.dense', 3 * width, width, bias=True) if adaptive else (
        rms_norm(f'{name}.model.norm', width))
    yield from specs(EXPERT, *(
        decoder_layer(f'{name}.model.layers.{number}', expert, adaptive=adaptive)
        for number in range(expert.num_layers)), norm)
    yield from specs(Portion('head of the action expert', 'action', kept=False,
                             note='unused: actions are not words'),
                     tensor(f'{name}.lm_head.weight', _VOCAB, width), optional=True)
    yield from specs(ACTIONS, linear('action_in_proj', width, own.max_action_dim, bias=True),
                     linear('action_out_proj', own.max_action_dim, width, bias=True))
    if adaptive:
        yield from specs(ACTIONS, linear('time_mlp_in', width, width, bias=True),
                         linear('time_mlp_out', width, width, bias=True))
    else:
        yield from specs(ACTIONS, linear('action_time_mlp_in', width, 2 * width, bias=True),
                         linear('action_time_mlp_out', width, width, bias=True))
        yield from specs(STATE, linear('state_proj', width, own.max_state_dim, bias=True))
