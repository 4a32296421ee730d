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

"""The tensors that networks are made of: names, shapes, and what each is there for.

Names as the published checkpoints have them. Of a family's tensors there is one list; what a
checkpoint's header says is held against it, and what a named model weighs is counted from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from robot_infer.budget.model_shape import ModelShape, Part, Stack

Named = Iterable[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Portion:
    """Weights that belong together (a WeightGroup, before anything is counted)."""

    name: str
    part: Part
    kept: bool = True
    note: str = ''


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a checkpoint of a family holds.

    :param optional: it may be left out: it is not used, or is another by the same values.
    """

    name: str
    shape: tuple[int, ...]
    portion: Portion
    optional: bool = False


@dataclass(frozen=True)
class Blueprint:
    """A model before it is weighed.

    :param shape: without weights.
    :param renames: (regular expression, replacement), each applied to the names in a header: the
        ways in which older writers of the family's checkpoints name the same tensors.
    :param twins: tensors that are the same values: where the first is missing the second, which
        is optional, stands for it.
    """

    shape: ModelShape
    tensors: tuple[TensorSpec, ...]
    renames: tuple[tuple[str, str], ...] = ()
    twins: tuple[str, str] | None = None


# --- portions that several families have ---------------------------------------------------------

VISION = Portion('vision encoder', 'vision')
CONNECTOR = Portion('connector', 'vision')
WORDS = Portion('word table', 'language')
LANGUAGE = Portion('language layers', 'language')
HEAD = Portion('language head', 'language')
TIED_HEAD = Portion('language head', 'language', kept=False,
                    note='tied: the word table once more')
UNUSED_HEAD = Portion('language head', 'language', kept=False,
                      note='unused: actions are not words')
LAST = Portion('last language layer, beyond keys and values', 'language', kept=False,
               note='unused: the action expert reads its keys and values, nobody its output')
NORM = Portion('norm behind the language layers', 'language', kept=False,
               note='unused: nobody reads what comes out of the last layer')
EXPERT = Portion('action expert', 'action')
ACTIONS = Portion('action projections', 'action')
STATE = Portion('state projection', 'other')


def specs(portion: Portion, *named: Named, optional: bool = False) -> Iterator[TensorSpec]:
    """Say of tensors what they are there for."""
    for names in named:
        for name, shape in names:
            yield TensorSpec(name, shape, portion, optional)


def tensor(name: str, *shape: int) -> Named:
    """One tensor."""
    yield name, shape


def linear(name: str, rows: int, columns: int, bias: bool = False) -> Named:
    """columns -> rows."""
    yield f'{name}.weight', (rows, columns)
    if bias:
        yield f'{name}.bias', (rows,)


def layer_norm(name: str, width: int) -> Named:
    """Scale and offset."""
    yield f'{name}.weight', (width,)
    yield f'{name}.bias', (width,)


def rms_norm(name: str, width: int) -> Named:
    """Scale only."""
    yield f'{name}.weight', (width,)


def adaptive_norm(name: str, width: int) -> Named:
    """Scale, offset and gate, projected from an embedding of time (pi0.5)."""
    yield from linear(f'{name}.dense', 3 * width, width, bias=True)


def keys_and_values(
    name: str, stack: Stack, *, bias: bool = False, source: int | None = None,
) -> Named:
    """The K and V projections of a layer.

    :param source: columns of what they project; the width of the residual stream, if not said.
    """
    rows = stack.num_kv_heads * stack.head_dim
    for part in 'kv':
        yield from linear(f'{name}.self_attn.{part}_proj', rows, source or stack.width, bias)


def beyond_keys_and_values(
    name: str, stack: Stack, *, bias: bool = False, adaptive: bool = False,
) -> Named:
    """What a layer has besides its first norm and its K and V projections."""
    rows = stack.num_heads * stack.head_dim
    yield from linear(f'{name}.self_attn.q_proj', rows, stack.width, bias)
    yield from linear(f'{name}.self_attn.o_proj', stack.width, rows)
    for part in ('gate', 'up'):
        yield from linear(f'{name}.mlp.{part}_proj', stack.hidden, stack.width)
    yield from linear(f'{name}.mlp.down_proj', stack.width, stack.hidden)
    norm = adaptive_norm if adaptive else rms_norm
    yield from norm(f'{name}.post_attention_layernorm', stack.width)


def decoder_layer(
    name: str, stack: Stack, *, bias: bool = False, adaptive: bool = False,
    source: int | None = None,
) -> Named:
    """A layer of a Llama, Qwen2 or Gemma.

    :param bias: q, k and v have one (Qwen2).
    """
    norm = adaptive_norm if adaptive else rms_norm
    yield from norm(f'{name}.input_layernorm', stack.width)
    yield from keys_and_values(name, stack, bias=bias, source=source)
    yield from beyond_keys_and_values(name, stack, bias=bias, adaptive=adaptive)


def decoder_layers(name: str, stack: Stack, *, bias: bool = False) -> Named:
    """All layers of a Llama, Qwen2 or Gemma."""
    for number in range(stack.num_layers):
        yield from decoder_layer(f'{name}.{number}', stack, bias=bias)


def siglip(name: str, stack: Stack, patch: int, num_patches: int) -> Named:
    """A SigLIP vision encoder without its pooling head, as transformers names it."""
    width = stack.width
    yield f'{name}.embeddings.patch_embedding.weight', (width, 3, patch, patch)
    yield f'{name}.embeddings.patch_embedding.bias', (width,)
    yield f'{name}.embeddings.position_embedding.weight', (num_patches, width)
    for number in range(stack.num_layers):
        layer = f'{name}.encoder.layers.{number}'
        for part in ('q_proj', 'k_proj', 'v_proj', 'out_proj'):
            yield from linear(f'{layer}.self_attn.{part}', width, width, bias=True)
        yield from linear(f'{layer}.mlp.fc1', stack.hidden, width, bias=True)
        yield from linear(f'{layer}.mlp.fc2', width, stack.hidden, bias=True)
        yield from layer_norm(f'{layer}.layer_norm1', width)
        yield from layer_norm(f'{layer}.layer_norm2', width)
    yield from layer_norm(f'{name}.post_layernorm', width)


def timm_block(name: str, stack: Stack, *, layer_scale: bool) -> Named:
    """A block of a vision transformer, as timm names it.

    :param layer_scale: as in DINOv2; Prismatic renames its gamma to scale_factor.
    """
    width = stack.width
    yield from layer_norm(f'{name}.norm1', width)
    yield from linear(f'{name}.attn.qkv', 3 * width, width, bias=True)
    yield from linear(f'{name}.attn.proj', width, width, bias=True)
    yield from layer_norm(f'{name}.norm2', width)
    yield from linear(f'{name}.mlp.fc1', stack.hidden, width, bias=True)
    yield from linear(f'{name}.mlp.fc2', width, stack.hidden, bias=True)
    if layer_scale:
        yield f'{name}.ls1.scale_factor', (width,)
        yield f'{name}.ls2.scale_factor', (width,)


def qwen_vision_block(name: str, stack: Stack) -> Named:
    """A block of Qwen2.5-VL's vision encoder."""
    width = stack.width
    yield from rms_norm(f'{name}.norm1', width)
    yield from rms_norm(f'{name}.norm2', width)
    yield from linear(f'{name}.attn.qkv', 3 * width, width, bias=True)
    yield from linear(f'{name}.attn.proj', width, width, bias=True)
    for part in ('gate', 'up'):
        yield from linear(f'{name}.mlp.{part}_proj', stack.hidden, width, bias=True)
    yield from linear(f'{name}.mlp.down_proj', width, stack.hidden, bias=True)
