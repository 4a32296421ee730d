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

"""Writes keys or values of one token into pages, in each format of pages.

What lives here: how rows in the dtype of the model become a format's bytes: bit for bit what
`robot_infer_kernels.pages.quantise` makes of them. What does not: where rows come from (rope.py),
and how they are read again (tiles.py).

    SIDE     (num_blocks, PAGE, HEADS, stored_dim), contiguous: keys or values
    SCALES   (num_blocks, PAGE, HEADS, num_groups), contiguous; None for plain pages
"""

from __future__ import annotations

import triton
import triton.language as tl

# The numbers of the definition, see robot_infer_kernels.pages.
_TINY = tl.constexpr(2.0 ** -100)
_HIGHEST_HALF = tl.constexpr(65504.0)
_ROUNDS = tl.constexpr(1.5 * 2.0 ** 23)  # float32 has no halves next to it
_GROUP = tl.constexpr(32)


@triton.jit
def store_token(side, scales, slot, heads, rows, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
                BLOCK_D: tl.constexpr, FORMAT: tl.constexpr):
    """Write some heads of the token in a slot.

    :param slot: scalar int64, block * PAGE + offset.
    :param heads: (BLOCK_H,), those from HEADS on are left out.
    :param rows: (BLOCK_H, BLOCK_D), whole heads with their columns in order, zeros behind them, in
        the dtype that an append of them would have had: a format that rounds further begins there.
    """
    there = heads < HEADS
    row = slot * HEADS + heads
    if FORMAT == 'plain':
        _store(side, rows.to(side.dtype.element_ty), row, there, HEAD_DIM, BLOCK_D)
    elif FORMAT == 'int4':
        _store_int4(side, scales, row, there, rows.to(tl.float32), HEAD_DIM, BLOCK_D)
    elif FORMAT == 'fp8':
        scaled, scale = _scaled(rows.to(tl.float32), 448.0, tl.float32)
        _store(side, scaled.to(side.dtype.element_ty), row, there, HEAD_DIM, BLOCK_D)
        tl.store(scales + row, scale, mask=there)
    else:
        scaled, scale = _scaled(rows.to(tl.float32), 127.0, tl.float32)
        _store(side, _rounded(scaled).to(tl.int8), row, there, HEAD_DIM, BLOCK_D)
        tl.store(scales + row, scale, mask=there)


@triton.jit
def _store(side, elements, row, there, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Write rows of WIDTH elements, (BLOCK_H, BLOCK), to rows of a side."""
    along = tl.arange(0, BLOCK)
    tl.store(side + (row * WIDTH)[:, None] + along[None, :], elements,
             mask=there[:, None] & (along < WIDTH)[None, :])


@triton.jit
def _store_int4(side, scales, row, there, wide, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """Write two codes a byte, the even element in the low nibble, and a scale a group."""
    BLOCK_H: tl.constexpr = wide.shape[0]
    GROUPS: tl.constexpr = BLOCK_D // _GROUP
    grouped = tl.reshape(wide, [BLOCK_H * GROUPS, _GROUP])
    scaled, scale = _scaled(grouped, 7.0, tl.float16)
    codes = (_rounded(scaled) + 8.0).to(tl.uint8)
    low, high = tl.split(tl.reshape(codes, [BLOCK_H, BLOCK_D // 2, 2]))
    _store(side, low | (high << 4), row, there, HEAD_DIM // 2, BLOCK_D // 2)
    _store(scales, tl.reshape(scale, [BLOCK_H, GROUPS]), row, there, HEAD_DIM // _GROUP, GROUPS)


@triton.jit
def _scaled(wide, TOP: tl.constexpr, SCALE: tl.constexpr):
    """Rows that share a scale each, (N, M) float32 -> the same within -TOP .. TOP; scales (N,)."""
    size = tl.abs(wide)
    finite = size < float('inf')
    largest = tl.max(tl.where(finite, size, float('inf')), 1)
    scale = tl.div_rn(largest, TOP)
    if SCALE == tl.float16:
        # A half may be 0 where the quotient is not.
        scale = tl.minimum(scale, _HIGHEST_HALF).to(tl.float16).to(tl.float32)
    scale = tl.where(largest < _TINY, 0.0, scale)
    some = (scale > 0.0) & (largest < float('inf'))
    inverse = tl.where(some, tl.div_rn(1.0, tl.where(some, scale, 1.0)), 0.0)
    # The bounds also keep the product from being fused with what is added to it next.
    scaled = tl.where(finite, wide, 0.0) * inverse[:, None]
    scaled = tl.minimum(tl.maximum(scaled, -TOP), TOP)
    return scaled, tl.where(largest < float('inf'), scale, float('nan')).to(SCALE)


@triton.jit
def _rounded(scaled):
    """To integers, ties to even."""
    return (scaled + _ROUNDS) - _ROUNDS
