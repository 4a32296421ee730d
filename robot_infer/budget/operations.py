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

"""The arithmetic of one inference step: which products it makes, and what each moves.

    gemm         2 x rows x outs x ins operations; moves the weight, what goes in, what comes out
    attention    4 x queries x keys x heads x head size; moves queries, keys, values and the result
    small        norms, rotation, activation: a kernel each, and no bytes of their own

A stage is what is made of a step's products in order: vision, prefill, then denoise or decode. The
last layer of a prefill makes keys and values only where an action expert reads nothing else of it;
what an expert projects from cached keys and values is made once, not in each denoising step. How
long a stage takes on a device is roofline.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from robot_infer.budget.model_shape import KVGroup, ModelShape, Stack
from robot_infer.budget.workload import Workload

Kind = Literal['gemm', 'attention', 'small']
# Kernels of a layer beside its products: two norms, rotation with the append, the activation.
_SMALL_OF_LAYER, _SMALL_OF_KV_LAYER, _SMALL_OF_VISION_LAYER = 4, 2, 3
_SMALL_OF_STEP = 4  # noise or token in, time in, the last norm, the Euler step or the choice
_TIME_MLP = {'smolvla', 'pi0'}  # pi0.5 has tables of its ten times instead


@dataclass(frozen=True)
class Operation:
    """A product, or a small kernel, made `count` times.

    :param flops: of one; a multiplication and an addition are two.
    :param num_bytes: that one reads and writes.
    """

    name: str
    kind: Kind
    flops: float
    num_bytes: float
    count: int = 1


def gemm(
    name: str, rows: int, outs: int, ins: int, load: Workload, count: int = 1,
) -> Operation:
    """Rows times a weight of (outs, ins)."""
    moved = outs * ins * load.weight_bytes + rows * (ins + outs) * load.value_bytes
    return Operation(name, 'gemm', 2.0 * rows * outs * ins, moved, count)


def attention(
    name: str, queries: int, keys: int, heads: tuple[int, int, int], load: Workload,
    count: int = 1, *, fused: bool = True,
) -> Operation:
    """Queries over keys; masks are not taken off, which is at most a factor of two.

    :param heads: query heads, KV heads, head size.
    :param fused: scores stay on the chip; else they are written and read, twice each.
    """
    num_heads, num_kv_heads, head_dim = heads
    moved = 2.0 * queries * num_heads * head_dim * load.value_bytes
    moved += 2.0 * keys * num_kv_heads * head_dim * load.kv_bytes
    if not fused:
        moved += score_bytes(queries, keys, num_heads, load.value_bytes)
    return Operation(name, 'attention', 4.0 * queries * keys * num_heads * head_dim, moved, count)


def score_bytes(queries: int, keys: int, num_heads: int, value_bytes: float) -> float:
    """What attention moves that keeps its scores in memory: scores and weights, out and in."""
    return 4.0 * queries * keys * num_heads * value_bytes


def small(count: int) -> Operation:
    """Kernels that cost their launch."""
    return Operation('small kernels', 'small', 0.0, 0.0, count)


def vision(shape: ModelShape, load: Workload) -> Iterator[Operation]:
    """The encoders and the connector, all cameras at once; attention within each image."""
    if shape.vision is None or not load.num_cameras:
        return
    patches = (shape.image_size[0] // shape.patch) * (shape.image_size[1] // shape.patch)
    rows = load.num_cameras * patches
    towers = (shape.vision, *shape.more_vision)
    for tower in towers:
        yield gemm('patches', rows, tower.width, 3 * shape.patch ** 2, load)
        # OpenVLA reads its patches from the second-to-last layer.
        layers = tower.num_layers - (1 if shape.family == 'openvla' else 0)
        yield from _vision_layers(tower, layers, patches, load)
    yield from _connector(shape, towers, patches, load)


def _vision_layers(
    tower: Stack, layers: int, patches: int, load: Workload,
) -> Iterator[Operation]:
    rows = load.num_cameras * patches
    heads = (tower.num_heads, tower.num_kv_heads, tower.head_dim)
    yield gemm('qkv', rows, _qkv_width(tower), tower.width, load, layers)
    yield attention('attention', patches, patches, heads, load, layers * load.num_cameras)
    yield gemm('out', rows, tower.width, tower.num_heads * tower.head_dim, load, layers)
    yield from _mlp(tower, rows, load, layers)
    yield small(_SMALL_OF_VISION_LAYER * layers)


def _connector(
    shape: ModelShape, towers: tuple[Stack, ...], patches: int, load: Workload,
) -> Iterator[Operation]:
    """From patches to tokens of the language model; several patches may be folded into one."""
    rows = load.num_cameras * shape.image_tokens
    folded = sum(tower.width for tower in towers) * (patches // shape.image_tokens)
    wide = shape.language.width
    if shape.family == 'openvla':  # three projections, the first four times as wide
        hidden = 4 * folded
        yield gemm('connector', rows, hidden, folded, load)
        yield gemm('connector', rows, wide, hidden, load)
        yield gemm('connector', rows, wide, wide, load)
        return
    if shape.family == 'qwen2_5_vl':
        yield gemm('connector', rows, folded, folded, load)
    yield gemm('connector', rows, wide, folded, load)


def prefill(shape: ModelShape, load: Workload, rows: int) -> Iterator[Operation]:
    """The last `rows` tokens of the prefix; those before are in the pages already."""
    language, keys = shape.language, load.prefix_tokens(shape)
    if not rows:
        return
    whole = language.num_layers - (1 if shape.denoise_steps else 0)
    yield from _layers(language, rows, keys, load, whole)
    if shape.denoise_steps:
        yield gemm('kv of the last layer', rows, 2 * language.num_kv_heads * language.head_dim,
                   language.width, load)
        yield small(_SMALL_OF_KV_LAYER)
    else:
        yield _logits(language, load)
    for group in cross_groups(shape):
        width = group.num_kv_heads * group.head_dim
        yield gemm('kv for cross-attention', rows, width, width, load, 2 * group.num_layers)


def denoise(shape: ModelShape, load: Workload) -> Iterator[Operation]:
    """All Euler steps of the action expert over the prefix in the pages."""
    expert, steps = shape.action, load.denoise_steps
    if expert is None or not shape.denoise_steps:
        return
    rows = load.horizon + shape.suffix_state_tokens
    prefix = load.prefix_tokens(shape)
    crossing = sum(group.num_layers for group in cross_groups(shape))
    yield from _layers(expert, rows, prefix + rows, load, expert.num_layers - crossing, steps)
    if crossing:
        yield from _cross_layers(expert, rows, prefix, load, crossing * steps)
    if shape.family in _TIME_MLP:
        yield gemm('time and action', load.horizon, expert.width, 2 * expert.width, load, steps)
        yield gemm('time and action', load.horizon, expert.width, expert.width, load, steps)
    yield small(_SMALL_OF_STEP * steps)


def decode(shape: ModelShape, load: Workload) -> Iterator[Operation]:
    """One token at a time; the prefill has given the first. Keys: half of them are there."""
    steps = load.decoded_tokens - 1
    if shape.denoise_steps or steps < 1:
        return
    keys = load.prefix_tokens(shape) + load.decoded_tokens // 2
    yield from _layers(shape.language, 1, keys, load, shape.language.num_layers, steps)
    yield _logits(shape.language, load, steps)
    yield small(_SMALL_OF_STEP * steps)


def cross_groups(shape: ModelShape) -> tuple[KVGroup, ...]:
    """Keys and values that the expert projects from those of the language model."""
    return tuple(group for group in shape.kv if 'cross' in group.name and group.num_layers)


def _layers(
    stack: Stack, rows: int, keys: int, load: Workload, layers: int, times: int = 1,
) -> Iterator[Operation]:
    """Decoder layers, each of them `times` times."""
    count = layers * times
    heads = (stack.num_heads, stack.num_kv_heads, stack.head_dim)
    yield gemm('qkv', rows, _qkv_width(stack), stack.width, load, count)
    yield attention('attention', rows, keys, heads, load, count)
    yield gemm('out', rows, stack.width, stack.num_heads * stack.head_dim, load, count)
    yield from _mlp(stack, rows, load, count)
    yield small(_SMALL_OF_LAYER * count)


def _cross_layers(
    stack: Stack, rows: int, keys: int, load: Workload, count: int,
) -> Iterator[Operation]:
    """Layers whose keys and values are the prefix's alone, projected once for all steps."""
    heads = (stack.num_heads, stack.num_kv_heads, stack.head_dim)
    inner = stack.num_heads * stack.head_dim
    yield gemm('q', rows, inner, stack.width, load, count)
    yield attention('attention', rows, keys, heads, load, count)
    yield gemm('out', rows, stack.width, inner, load, count)
    yield from _mlp(stack, rows, load, count)
    yield small(_SMALL_OF_LAYER * count)


def _mlp(stack: Stack, rows: int, load: Workload, count: int) -> Iterator[Operation]:
    wide = (2 if stack.gated else 1) * stack.hidden
    yield gemm('gate and up' if stack.gated else 'up', rows, wide, stack.width, load, count)
    yield gemm('down', rows, stack.width, stack.hidden, load, count)


def _logits(stack: Stack, load: Workload, count: int = 1) -> Operation:
    return gemm('logits', 1, stack.vocab, stack.width, load, count)


def _qkv_width(stack: Stack) -> int:
    return (stack.num_heads + 2 * stack.num_kv_heads) * stack.head_dim
