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

"""Attention of few rows over many keys: split along them, so that one sequence fills the chip.

What lives here: the kernel of one split, and the merge of splits by log-sum-exp, in the same
launch (the split that ends last) or in a second small one. What does not: the pieces (online.py,
tiles.py), and how many splits there are (attention.py).

    keys of a row     | split 0 | split 1 | split 2 | split 3 (empty) |
    each leaves        average of values a_s, and l_s = log2(sum of 2 ** score);  a = 0, l = -inf
    merged             sum of 2 ** (l_s - max l) a_s  /  sum of 2 ** (l_s - max l)

How many keys there are is read from device memory; the tiles are shared out over the splits of the
grid there, so a captured launch stays right when the sequence grows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from robot_infer_kernels.gpu import online, tiles


@triton.jit(do_not_specialize=['num_tokens', 'token_stride', 'head_stride', 'window'],
            do_not_specialize_on_alignment=['table', 'length', 'limits', 'key_scales',
                                            'value_scales'])
def decode(q, keys, values, key_scales, value_scales, table, length, limits, out,
           num_tokens, token_stride, head_stride, window, factor, cap, averages, sums, arrived,
           GROUP: tl.constexpr, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
           PART_0: tl.constexpr, PART_1: tl.constexpr, PAGE: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FORMAT: tl.constexpr,
           HAS_WINDOW: tl.constexpr, HAS_SOFTCAP: tl.constexpr, MERGE: tl.constexpr):
    """Grid: (splits, KV heads, blocks of rows); see attention.py for the arguments.

    :param averages: (num_tokens * num_heads, splits, HEAD_DIM) float32; sums: the same without
        the last axis; arrived: (KV heads * blocks of rows,) int32, zero before and after.
    :param MERGE: whether the last split of a block of rows merges and writes `out`.
    """
    split, kv_head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    num_splits = tl.num_programs(0)
    query, head, valid = online.rows_of(block, kv_head, num_tokens, GROUP, BLOCK_M)
    low, high = online.see(query, valid, limits, length, window, HAS_WINDOW)
    begin, end, first, whole_from, whole_to, last = online.span(
        low, high, valid, BLOCK_N, HAS_WINDOW)
    each = tl.cdiv(last - first, num_splits)
    start = tl.minimum(first + split * each, last)
    stop = tl.minimum(start + each, last)
    q_0, q_1 = online.load_queries(q, query, head, valid, token_stride, head_stride, HEAD_DIM,
                                   PART_0, PART_1, FORMAT)
    peak, total, out_0, out_1 = online.attend_tiles(
        start, stop, first, whole_from, whole_to, last, q_0, q_1, low, high, begin, end, kv_head,
        keys, values, key_scales, value_scales, table, factor, cap, HEADS, HEAD_DIM, PART_0,
        PART_1, PAGE, BLOCK_M, BLOCK_N, FORMAT, HAS_WINDOW, HAS_SOFTCAP)
    some = total > 0.0
    share = 1.0 / tl.where(some, total, 1.0)
    row = query.to(tl.int64) * (HEADS * GROUP) + head
    part = row * num_splits + split
    online.store_rows(averages, part * HEAD_DIM, valid, out_0 * share[:, None],
                      out_1 * share[:, None], HEAD_DIM, PART_0, PART_1, FORMAT)
    log_sum = tl.where(some, peak + tl.log2(tl.where(some, total, 1.0)), -float('inf'))
    tl.store(sums + part, log_sum, mask=valid)
    if MERGE:
        # All stores of this program come before its arrival, and the last to arrive has seen the
        # arrivals (release and acquire) of all others before it loads what they stored.
        tl.debug_barrier()
        counter = arrived + block * HEADS + kv_head
        if tl.atomic_add(counter, 1, sem='acq_rel', scope='gpu') == num_splits - 1:
            _merge_rows(averages, sums, out, row, valid, num_splits, HEAD_DIM, PART_0, PART_1,
                        BLOCK_M, FORMAT)
            tl.store(counter, 0)


@triton.jit
def _merge_rows(averages, sums, out, row, valid, num_splits, HEAD_DIM: tl.constexpr,
                PART_0: tl.constexpr, PART_1: tl.constexpr, BLOCK_M: tl.constexpr,
                FORMAT: tl.constexpr):
    """Merge the splits of a block of rows, one split after the other."""
    SECOND: tl.constexpr = PART_1 if PART_1 > 0 else 16
    peak = tl.full([BLOCK_M], -float('inf'), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    out_0 = tl.zeros([BLOCK_M, PART_0], tl.float32)
    out_1 = tl.zeros([BLOCK_M, SECOND], tl.float32)
    along = tiles.columns(0, PART_0, PART_1, FORMAT)[None, :]
    along_1 = along
    if PART_1 > 0:
        along_1 = tiles.columns(1, PART_0, PART_1, FORMAT)[None, :]
    for split in range(0, num_splits):
        part = row * num_splits + split
        log_sum = tl.load(sums + part, mask=valid, other=-float('inf'), cache_modifier='.cg')
        new_peak = tl.maximum(peak, log_sum)
        base = tl.where(new_peak == -float('inf'), 0.0, new_peak)
        shrink, weight = tl.exp2(peak - base), tl.exp2(log_sum - base)
        start = (part * HEAD_DIM)[:, None]
        average = tl.load(averages + start + along, mask=valid[:, None] & (along < HEAD_DIM),
                          other=0.0, cache_modifier='.cg')
        out_0 = out_0 * shrink[:, None] + average * weight[:, None]
        if PART_1 > 0:
            average = tl.load(averages + start + along_1, cache_modifier='.cg', other=0.0,
                              mask=valid[:, None] & (along_1 < HEAD_DIM))
            out_1 = out_1 * shrink[:, None] + average * weight[:, None]
        total = total * shrink + weight
        peak = new_peak
    share = (1.0 / tl.where(total > 0.0, total, 1.0))[:, None]
    online.store_rows(out, row * HEAD_DIM, valid, out_0 * share, out_1 * share, HEAD_DIM, PART_0,
                      PART_1, FORMAT)


@triton.jit(do_not_specialize=['num_rows', 'num_splits'])
def merge(averages, sums, out, num_rows, num_splits, HEAD_DIM: tl.constexpr,
          BLOCK_R: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr):
    """Merge the splits of BLOCK_R rows, BLOCK_S splits at a time. Grid: (blocks of rows,)."""
    rows = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    valid = rows < num_rows
    along = tl.arange(0, BLOCK_D)
    inside = along < HEAD_DIM
    start = rows.to(tl.int64) * num_splits
    peak = tl.full([BLOCK_R], -float('inf'), tl.float32)
    total = tl.zeros([BLOCK_R], tl.float32)
    merged = tl.zeros([BLOCK_R, BLOCK_D], tl.float32)
    for first in range(0, num_splits, BLOCK_S):
        splits = first + tl.arange(0, BLOCK_S)
        there = valid[:, None] & (splits < num_splits)[None, :]
        parts = start[:, None] + splits[None, :]
        log_sums = tl.load(sums + parts, mask=there, other=-float('inf'))
        average = tl.load(averages + parts[:, :, None] * HEAD_DIM + along[None, None, :],
                          mask=there[:, :, None] & inside[None, None, :], other=0.0)
        new_peak = tl.maximum(peak, tl.max(log_sums, 1))
        base = tl.where(new_peak == -float('inf'), 0.0, new_peak)
        shrink, weights = tl.exp2(peak - base), tl.exp2(log_sums - base[:, None])
        merged = merged * shrink[:, None] + tl.sum(average * weights[:, :, None], 1)
        total = total * shrink + tl.sum(weights, 1)
        peak = new_peak
    merged = merged / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(out + rows.to(tl.int64)[:, None] * HEAD_DIM + along[None, :],
             merged.to(out.dtype.element_ty), mask=valid[:, None] & inside[None, :])
