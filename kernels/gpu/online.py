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

"""Softmax over tiles of keys as they come (Milakov & Gimelshein 2018), in base 2 and float32.

What lives here: the rows of a program, what each may see, and one pass over tiles of keys; both
prefill.py and decode.py are built from these. What does not: where keys lie (tiles.py).

A row is one query and one of the query heads that share a KV head: row r of KV head g is query
r // GROUP, head g * GROUP + r % GROUP. So the heads of a group are rows of one matrix product, and
keys are read once for all of them.

    tile of keys       first ........ whole_from ......... whole_to ........ last
    who sees them      some rows       every row, all keys       some rows

Tiles outside [first, last) are seen by no row and are skipped; those in the middle need no mask.
"""

from __future__ import annotations

import triton
import triton.language as tl

from robot_infer_kernels.gpu import tiles


@triton.jit
def rows_of(block, head, num_tokens, GROUP: tl.constexpr, BLOCK_M: tl.constexpr):
    """Query, query head and validity of each row of a block of rows: (BLOCK_M,) each."""
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    query = rows // GROUP
    return query, head * GROUP + rows % GROUP, query < num_tokens


@triton.jit
def load_queries(q, query, head, valid, token_stride, head_stride, HEAD_DIM: tl.constexpr,
                 PART_0: tl.constexpr, PART_1: tl.constexpr, FORMAT: tl.constexpr):
    """Rows of q as left-hand operands: (BLOCK_M, PART_0) and (BLOCK_M, PART_1)."""
    # The strides are not part of the compiled kernel. In units of 16 bytes they still tell the
    # compiler that rows begin there, where `tl.multiple_of` does not.
    UNIT: tl.constexpr = 128 // q.dtype.element_ty.primitive_bitwidth
    start = (query.to(tl.int64) * token_stride + head * head_stride) * UNIT
    along = tiles.columns(0, PART_0, PART_1, FORMAT)
    part_0 = tl.load(q + start[:, None] + along[None, :],
                     mask=valid[:, None] & (along < HEAD_DIM)[None, :], other=0.0)
    if PART_1 > 0:
        along = tiles.columns(1, PART_0, PART_1, FORMAT)
        part_1 = tl.load(q + start[:, None] + along[None, :],
                         mask=valid[:, None] & (along < HEAD_DIM)[None, :], other=0.0)
    else:
        part_1 = part_0
    return part_0, part_1


@triton.jit
def see(query, valid, limits, length, window, HAS_WINDOW: tl.constexpr):
    """What each row may see, keys [low, high): (BLOCK_M,) int32 each, both 0 for no row."""
    known = tl.load(length)
    limit = tl.load(limits + query, mask=valid, other=0)
    high = tl.minimum(limit.to(tl.int32), known)
    high = tl.where(valid, high, 0)
    if HAS_WINDOW:
        low = tl.maximum(high - window, 0)
    else:
        low = tl.zeros_like(high)
    return low, high


@triton.jit
def span(low, high, valid, BLOCK_N: tl.constexpr, HAS_WINDOW: tl.constexpr):
    """Tiles that some row sees, and those that every row sees whole.

    :returns: begin, end: keys that some row sees; first, whole_from, whole_to, last: tiles.
    """
    end = tl.max(high, 0)
    narrowest = tl.min(tl.where(valid, high, 2147483647), 0)
    last = tl.cdiv(end, BLOCK_N)
    if HAS_WINDOW:
        begin = tl.min(tl.where(valid, low, 2147483647), 0)
        first = begin // BLOCK_N
        whole_from = tl.minimum(tl.cdiv(tl.max(low, 0), BLOCK_N), last)
    else:
        begin = end * 0
        first = begin
        whole_from = begin
    whole_to = tl.minimum(tl.maximum(narrowest // BLOCK_N, whole_from), last)
    return begin, end, first, whole_from, whole_to, last


@triton.jit
def sweep(start, stop, q_0, q_1, peak, total, out_0, out_1, low, high, begin, end, head, keys,
          values, key_scales, value_scales, table, factor, cap, HEADS: tl.constexpr,
          HEAD_DIM: tl.constexpr, PART_0: tl.constexpr, PART_1: tl.constexpr,
          PAGE: tl.constexpr, BLOCK_N: tl.constexpr, FORMAT: tl.constexpr,
          HAS_SOFTCAP: tl.constexpr, MASKED: tl.constexpr):
    """Take the tiles [start, stop) into the running softmax.

    :param peak: (BLOCK_M,) highest score so far, -inf for none; total: sum of the weights
        2 ** (score - peak); out_0, out_1: sum of weight times value. All float32.
    :param factor: what a dot product is multiplied by, with log2(e) in it; with a softcap, see
        `_scores`.
    :returns: peak, total, out_0, out_1.
    """
    for tile in range(start, stop):
        first, lanes, positions, inside = tiles.locate(
            table, tile, begin, end, PAGE, BLOCK_N, MASKED)
        k_0, k_1 = tiles.load_keys(keys, key_scales, first, lanes, inside, head, q_0, HEADS,
                                   HEAD_DIM, PART_0, PART_1, FORMAT, MASKED)
        scores = tl.dot(q_0, k_0, input_precision='ieee')
        if PART_1 > 0:
            scores = tl.dot(q_1, k_1, scores, input_precision='ieee')
        if FORMAT == 'int8' or FORMAT == 'fp8':
            scores *= tiles.load_scales(key_scales, first, lanes, inside, head, HEADS, FORMAT,
                                        MASKED)[None, :]
        scores = _scores(scores, factor, cap, HAS_SOFTCAP)
        if MASKED:
            seen = (positions[None, :] >= low[:, None]) & (positions[None, :] < high[:, None])
            scores = tl.where(seen, scores, -float('inf'))
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        base = new_peak
        if MASKED:
            # A row that has seen nothing yet: -inf - -inf would be NaN.
            base = tl.where(new_peak == -float('inf'), 0.0, new_peak)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(peak - base)
        total = total * shrink + tl.sum(weights, 1)
        peak = new_peak
        v_0, v_1 = tiles.load_values(values, value_scales, first, lanes, inside, head, q_0, HEADS,
                                     HEAD_DIM, PART_0, PART_1, FORMAT, MASKED)
        if FORMAT == 'int8' or FORMAT == 'fp8':
            scale = tiles.load_scales(value_scales, first, lanes, inside, head, HEADS, FORMAT,
                                      MASKED)
            if v_0.dtype == tl.float16:
                # Scales may be below what float16 can hold: relative to the largest of the tile.
                largest = tl.max(scale, 0)
                scale *= 1.0 / tl.where(largest > 0.0, largest, 1.0)
                weights = (weights * scale[None, :]).to(tl.float16)
                out_0 = out_0 * shrink[:, None] + tl.dot(weights, v_0) * largest
                if PART_1 > 0:
                    out_1 = out_1 * shrink[:, None] + tl.dot(weights, v_1) * largest
            else:
                weights = (weights * scale[None, :]).to(v_0.dtype)
                out_0 = tl.dot(weights, v_0, out_0 * shrink[:, None], input_precision='ieee')
                if PART_1 > 0:
                    out_1 = tl.dot(weights, v_1, out_1 * shrink[:, None], input_precision='ieee')
        else:
            weights = weights.to(v_0.dtype)
            out_0 = tl.dot(weights, v_0, out_0 * shrink[:, None], input_precision='ieee')
            if PART_1 > 0:
                out_1 = tl.dot(weights, v_1, out_1 * shrink[:, None], input_precision='ieee')
    return peak, total, out_0, out_1


@triton.jit
def attend_tiles(start, stop, first, whole_from, whole_to, last, q_0, q_1, low, high, begin, end,
                 head, keys, values, key_scales, value_scales, table, factor, cap,
                 HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, PART_0: tl.constexpr,
                 PART_1: tl.constexpr, PAGE: tl.constexpr, BLOCK_M: tl.constexpr,
                 BLOCK_N: tl.constexpr, FORMAT: tl.constexpr, HAS_WINDOW: tl.constexpr,
                 HAS_SOFTCAP: tl.constexpr):
    """Attend to the tiles [start, stop) of those a block of rows sees, see `span`.

    :returns: peak (BLOCK_M,), total (BLOCK_M,), out_0 (BLOCK_M, PART_0) and out_1, not divided.
    """
    SECOND: tl.constexpr = PART_1 if PART_1 > 0 else 16
    if FORMAT == 'fp8' and q_0.dtype == tl.bfloat16:
        q_0, q_1, factor = _halves(q_0, q_1, factor, PART_1)
    peak = tl.full([BLOCK_M], -float('inf'), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    out_0 = tl.zeros([BLOCK_M, PART_0], tl.float32)
    out_1 = tl.zeros([BLOCK_M, SECOND], tl.float32)
    if HAS_WINDOW:
        peak, total, out_0, out_1 = sweep(
            tl.maximum(start, first), tl.minimum(stop, whole_from), q_0, q_1, peak, total, out_0,
            out_1, low, high, begin, end, head, keys, values, key_scales, value_scales, table,
            factor, cap, HEADS, HEAD_DIM, PART_0, PART_1, PAGE, BLOCK_N, FORMAT, HAS_SOFTCAP, True)
    peak, total, out_0, out_1 = sweep(
        tl.maximum(start, whole_from), tl.minimum(stop, whole_to), q_0, q_1, peak, total, out_0,
        out_1, low, high, begin, end, head, keys, values, key_scales, value_scales, table, factor,
        cap, HEADS, HEAD_DIM, PART_0, PART_1, PAGE, BLOCK_N, FORMAT, HAS_SOFTCAP, False)
    return sweep(
        tl.maximum(start, whole_to), tl.minimum(stop, last), q_0, q_1, peak, total, out_0, out_1,
        low, high, begin, end, head, keys, values, key_scales, value_scales, table, factor, cap,
        HEADS, HEAD_DIM, PART_0, PART_1, PAGE, BLOCK_N, FORMAT, HAS_SOFTCAP, True)


@triton.jit
def store_rows(out, start, valid, part_0, part_1, HEAD_DIM: tl.constexpr, PART_0: tl.constexpr,
               PART_1: tl.constexpr, FORMAT: tl.constexpr):
    """Write rows, (BLOCK_M, PART_0) and (BLOCK_M, PART_1), to out + start (BLOCK_M,) int64."""
    along = tiles.columns(0, PART_0, PART_1, FORMAT)
    tl.store(out + start[:, None] + along[None, :], part_0.to(out.dtype.element_ty),
             mask=valid[:, None] & (along < HEAD_DIM)[None, :])
    if PART_1 > 0:
        along = tiles.columns(1, PART_0, PART_1, FORMAT)
        tl.store(out + start[:, None] + along[None, :], part_1.to(out.dtype.element_ty),
                 mask=valid[:, None] & (along < HEAD_DIM)[None, :])


@triton.jit
def _halves(part_0, part_1, factor, PART_1: tl.constexpr):
    """Rows of bf16 as float16, which fp8 becomes by one instruction, relative to their largest.

    :returns: both parts, and `factor` for each row: (BLOCK_M, 1).
    """
    wide_0, wide_1 = part_0.to(tl.float32), part_1.to(tl.float32)
    largest = tl.max(tl.abs(wide_0), 1)
    if PART_1 > 0:
        largest = tl.maximum(largest, tl.max(tl.abs(wide_1), 1))
    largest = tl.where(largest > 0.0, largest, 1.0)[:, None]
    return ((wide_0 / largest).to(tl.float16), (wide_1 / largest).to(tl.float16),
            factor * largest)


@triton.jit
def _scores(dots, factor, cap, HAS_SOFTCAP: tl.constexpr):
    """Dot products to scores in base 2.

    Without a softcap, factor = scale * log2(e). With one, cap = softcap * log2(e) and
    factor = 2 * scale / softcap * log2(e): softcap * tanh(x) with tanh(x) = 2 / (1 + e**-2x) - 1,
    which is right at both ends, where (e**x - e**-x) / (e**x + e**-x) would be inf / inf.
    """
    if HAS_SOFTCAP:
        return (2.0 / (1.0 + tl.exp2(-dots * factor)) - 1.0) * cap
    else:
        return dots * factor
