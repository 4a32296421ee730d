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

What lives here: how rows in the dtype of the model become a format's bytes. What does not: where
rows come from (rope.py), and how they are read again (tiles.py).

    SIDE     (num_blocks, PAGE, HEADS, stored_dim), contiguous: keys or values
    SCALES   (num_blocks, PAGE, HEADS, num_groups), contiguous; None for plain pages
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def store_token(side, scales, slot, heads, rows, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
                BLOCK_D: tl.constexpr, FORMAT: tl.constexpr):
    """Write some heads of the token in a slot.

    :param slot: scalar int64, block * PAGE + offset.
    :param heads: (BLOCK_H,), those from HEADS on are left out.
    :param rows: (BLOCK_H, BLOCK_D), whole heads with their columns in order, in the dtype that an
        append of them would have had: a format that rounds further begins from there.
    """
    along = tl.arange(0, BLOCK_D)
    inside = (heads < HEADS)[:, None] & (along < HEAD_DIM)[None, :]
    start = (slot * HEADS + heads) * HEAD_DIM
    tl.store(side + start[:, None] + along[None, :], rows.to(side.dtype.element_ty), mask=inside)
