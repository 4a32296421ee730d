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

"""Loads a tile of keys or values through the block table, in each format of pages.

What lives here: where the tokens of a tile lie, and how a format's bytes become the operands of a
dot. What does not: scores and softmax (online.py), and who launches (prefill.py, decode.py).

The head is cut into two parts of columns, each a power of two, so that 96 is 64 + 32 and not a
padded 128; a head that is padded to one part has PART_1 = 0. A tile is loaded as a pair, one
operand a part. A format that packs elements may say which columns belong to which part
(`columns`), as long as keys, values, queries and output ask the same function: int4 has even
columns in the first part and odd ones in the second, so a byte gives one element to each.

    FORMAT         operands of the dots                       scales
    plain          as they lie
    int8, fp8      codes, which are exact in bf16 and fp16    of scores (keys) and weights (values)
    int4           code * scale, rounded to their dtype       of the tile, 32 columns each

    KEYS, VALUES   (num_blocks, PAGE, HEADS, stored_dim), contiguous
    KEY_SCALES,    (num_blocks, PAGE, HEADS, num_groups), contiguous; None for plain pages
    VALUE_SCALES

Offsets that hold a block number are int64 from the load of the block on: a pool may be larger
than 2 ** 31 elements.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def columns(PART: tl.constexpr, PART_0: tl.constexpr, PART_1: tl.constexpr,
            FORMAT: tl.constexpr):
    """Columns of the head that one part holds: (PART_0,) or (PART_1,)."""
    if FORMAT == 'int4':
        return 2 * tl.arange(0, PART_0) + PART
    elif PART == 0:
        return tl.arange(0, PART_0)
    else:
        return PART_0 + tl.arange(0, PART_1)


@triton.jit
def locate(table, tile, begin, end, PAGE: tl.constexpr, BLOCK_N: tl.constexpr,
           MASKED: tl.constexpr):
    """Find the tokens of one tile.

    Where whole tiles lie in one page, one scalar is read from the table; else one a token.

    :param begin: tokens [begin, end) may be read; without MASKED, the whole tile may.
    :returns: first (scalar int64) and lanes (BLOCK_N,): token n of the tile lies in slot
        first + lanes[n]; positions (BLOCK_N,) and inside (BLOCK_N,): whether it may be read.
    """
    positions = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (positions >= begin) & (positions < end)
    if PAGE % BLOCK_N == 0:
        TILES: tl.constexpr = PAGE // BLOCK_N
        block = tl.load(table + tile // TILES).to(tl.int64)
        first = block * PAGE + (tile % TILES) * BLOCK_N
        lanes = tl.arange(0, BLOCK_N)
    else:
        if MASKED:
            blocks = tl.load(table + positions // PAGE, mask=inside, other=0).to(tl.int64)
        else:
            blocks = tl.load(table + positions // PAGE).to(tl.int64)
        first = tl.full((), 0, tl.int64)
        lanes = blocks * PAGE + positions % PAGE
    return first, lanes, positions, inside


@triton.jit
def load_keys(keys, scales, first, lanes, inside, head, like, HEADS: tl.constexpr,
              HEAD_DIM: tl.constexpr, PART_0: tl.constexpr, PART_1: tl.constexpr,
              FORMAT: tl.constexpr, MASKED: tl.constexpr):
    """Keys of a tile as right-hand operands: (PART_0, BLOCK_N) and (PART_1, BLOCK_N).

    :param like: a tensor of the dtype that the dot wants.
    :returns: both parts; without a second part the first stands in for it.
    """
    if FORMAT == 'int4':
        GROUPS: tl.constexpr = PART_0 // 16
        both, scale = _load_int4(keys, scales, first, lanes[None, :], inside[None, :], head,
                                 tl.arange(0, PART_0)[:, None], tl.arange(0, GROUPS)[:, None],
                                 HEADS, HEAD_DIM, PART_0, MASKED)
        scale = tl.broadcast_to(scale[:, None, :], [GROUPS, 16, lanes.shape[0]])
        return _unpack(both, tl.reshape(scale, [PART_0, lanes.shape[0]]), like)
    start = keys + (first * HEADS + head) * HEAD_DIM
    across = lanes[None, :] * (HEADS * HEAD_DIM)
    part_0 = _load(start, across, columns(0, PART_0, PART_1, FORMAT)[:, None], inside[None, :],
                   HEAD_DIM, PART_0 > HEAD_DIM, MASKED).to(like.dtype)
    if PART_1 > 0:
        part_1 = _load(start, across, columns(1, PART_0, PART_1, FORMAT)[:, None],
                       inside[None, :], HEAD_DIM, PART_0 + PART_1 > HEAD_DIM, MASKED).to(
                           like.dtype)
    else:
        part_1 = part_0
    return part_0, part_1


@triton.jit
def load_values(values, scales, first, lanes, inside, head, like, HEADS: tl.constexpr,
                HEAD_DIM: tl.constexpr, PART_0: tl.constexpr, PART_1: tl.constexpr,
                FORMAT: tl.constexpr, MASKED: tl.constexpr):
    """Values of a tile as right-hand operands: (BLOCK_N, PART_0) and (BLOCK_N, PART_1)."""
    if FORMAT == 'int4':
        GROUPS: tl.constexpr = PART_0 // 16
        both, scale = _load_int4(values, scales, first, lanes[:, None], inside[:, None], head,
                                 tl.arange(0, PART_0)[None, :], tl.arange(0, GROUPS)[None, :],
                                 HEADS, HEAD_DIM, PART_0, MASKED)
        scale = tl.broadcast_to(scale[:, :, None], [lanes.shape[0], GROUPS, 16])
        return _unpack(both, tl.reshape(scale, [lanes.shape[0], PART_0]), like)
    start = values + (first * HEADS + head) * HEAD_DIM
    across = lanes[:, None] * (HEADS * HEAD_DIM)
    part_0 = _load(start, across, columns(0, PART_0, PART_1, FORMAT)[None, :], inside[:, None],
                   HEAD_DIM, PART_0 > HEAD_DIM, MASKED).to(like.dtype)
    if PART_1 > 0:
        part_1 = _load(start, across, columns(1, PART_0, PART_1, FORMAT)[None, :],
                       inside[:, None], HEAD_DIM, PART_0 + PART_1 > HEAD_DIM, MASKED).to(
                           like.dtype)
    else:
        part_1 = part_0
    return part_0, part_1


@triton.jit
def load_scales(scales, first, lanes, inside, head, HEADS: tl.constexpr, FORMAT: tl.constexpr,
                MASKED: tl.constexpr):
    """Factor of each token of a tile: (BLOCK_N,) float32, for formats with one scale a token."""
    pointers = scales + (first * HEADS + head) + lanes * HEADS
    if MASKED:
        return tl.load(pointers, mask=inside, other=0.0).to(tl.float32)
    else:
        return tl.load(pointers).to(tl.float32)


@triton.jit
def _load_int4(side, scales, first, lanes, inside, head, bytes_of, groups_of, HEADS: tl.constexpr,
               HEAD_DIM: tl.constexpr, PART: tl.constexpr, MASKED: tl.constexpr):
    """Bytes of a tile, and the scale of each 16 of them, once: a load for each byte cost 120 more.

    :param lanes, inside: of the tokens. bytes_of, groups_of: numbers in a head. All so shaped that
        together they span the tile, or that of the scales.
    """
    BYTES: tl.constexpr = HEAD_DIM // 2
    GROUPS: tl.constexpr = HEAD_DIM // 32
    both = _load(side + (first * HEADS + head) * BYTES, lanes * (HEADS * BYTES), bytes_of, inside,
                 BYTES, PART > BYTES, MASKED)
    scale = _load(scales + (first * HEADS + head) * GROUPS, lanes * (HEADS * GROUPS), groups_of,
                  inside, GROUPS, PART > BYTES, MASKED).to(tl.float32)
    return both, scale


@triton.jit
def _unpack(both, scale, like):
    """Even and odd columns of a tile whose bytes hold one of each; both times their scale."""
    low = ((both & 15).to(tl.float32) - 8.0) * scale
    high = ((both >> 4).to(tl.float32) - 8.0) * scale
    return low.to(like.dtype), high.to(like.dtype)


@triton.jit
def _load(start, across, along, inside, HEAD_DIM: tl.constexpr, PADDED: tl.constexpr,
          MASKED: tl.constexpr):
    """Read a tile at start + across + along; what may not be read, and padding, is zero."""
    pointers = start + across + along
    if MASKED and PADDED:
        return tl.load(pointers, mask=inside & (along < HEAD_DIM), other=0.0)
    elif MASKED:
        return tl.load(pointers, mask=inside & (along >= 0), other=0.0)
    elif PADDED:
        # Spread over the tile, so that the mask is as wide as the pointers.
        return tl.load(pointers, mask=(across >= 0) & (along < HEAD_DIM), other=0.0)
    else:
        return tl.load(pointers)
