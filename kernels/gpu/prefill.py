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

"""Attention of many rows over pages: one program a block of rows and KV head, one launch.

What lives here: the kernel. What does not: its pieces (online.py, tiles.py), and when it is taken
instead of decode.py (attention.py).
"""

from __future__ import annotations

import triton
import triton.language as tl

from robot_infer_kernels.gpu import online


@triton.jit(do_not_specialize=['num_tokens', 'token_stride', 'head_stride', 'window'],
            do_not_specialize_on_alignment=['table', 'length', 'limits', 'key_scales',
                                            'value_scales'])
def prefill(q, keys, values, key_scales, value_scales, table, length, limits, out,
            num_tokens, token_stride, head_stride, window, factor, cap,
            GROUP: tl.constexpr, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
            PART_0: tl.constexpr, PART_1: tl.constexpr, PAGE: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FORMAT: tl.constexpr,
            HAS_WINDOW: tl.constexpr, HAS_SOFTCAP: tl.constexpr):
    """Grid: (blocks of rows, KV heads); see attention.py for the arguments."""
    # The last rows see most: they begin first, so that the short ones fill the end.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)
    query, head, valid = online.rows_of(block, kv_head, num_tokens, GROUP, BLOCK_M)
    low, high = online.see(query, valid, limits, length, window, HAS_WINDOW)
    begin, end, first, whole_from, whole_to, last = online.span(
        low, high, valid, BLOCK_N, HAS_WINDOW)
    q_0, q_1 = online.load_queries(q, query, head, valid, token_stride, head_stride, HEAD_DIM,
                                   PART_0, PART_1, FORMAT)
    peak, total, out_0, out_1 = online.attend_tiles(
        first, last, first, whole_from, whole_to, last, q_0, q_1, low, high, begin, end, kv_head,
        keys, values, key_scales, value_scales, table, factor, cap, HEADS, HEAD_DIM, PART_0,
        PART_1, PAGE, BLOCK_M, BLOCK_N, FORMAT, HAS_WINDOW, HAS_SOFTCAP)
    share = 1.0 / tl.where(total > 0.0, total, 1.0)
    start = (query.to(tl.int64) * (HEADS * GROUP) + head) * HEAD_DIM
    online.store_rows(out, start, valid, out_0 * share[:, None], out_1 * share[:, None], HEAD_DIM,
                      PART_0, PART_1, FORMAT)
