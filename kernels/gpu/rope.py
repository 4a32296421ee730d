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

"""Rotary embedding of queries and keys, and keys and values into their pages, in one launch.

What lives here: the kernel. One program is one token and one block of heads: of queries, or of
keys and values. What does not: how a format of pages is written (write.py), and who launches
(elementwise.py).

A head is one row of a tile, its columns in order, whichever way its pairs lie:

    half-split    x * cos + partner * (-sin | +sin), the partner loaded a second time (it is in L1)
    interleaved   pairs are neighbours: split in registers, turned, joined
"""

from __future__ import annotations

import triton
import triton.language as tl

from robot_infer_kernels.gpu import write


@triton.jit
def _load_heads(start, head_step, heads, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
                BLOCK_D: tl.constexpr):
    """Rows of one token as they are: (BLOCK_H, BLOCK_D)."""
    ALIGN: tl.constexpr = 16 // (start.dtype.element_ty.primitive_bitwidth // 8)
    along = tl.arange(0, BLOCK_D)
    row = heads * head_step * ALIGN
    return tl.load(start + row[:, None] + along[None, :], other=0.0,
                   mask=(heads < HEADS)[:, None] & (along < HEAD_DIM)[None, :])


@triton.jit
def _turned(start, head_step, heads, turn, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
            ROTARY: tl.constexpr, INTERLEAVED: tl.constexpr, BLOCK_H: tl.constexpr,
            BLOCK_D: tl.constexpr):
    """Rows of one token, turned: (BLOCK_H, BLOCK_D) float32.

    :param turn: where cosines, then sines of the token begin, ROTARY in all; what lies beyond
        the elements that turn is passed through: cosine 1, sine 0.
    """
    ALIGN: tl.constexpr = 16 // (start.dtype.element_ty.primitive_bitwidth // 8)
    HALF: tl.constexpr = ROTARY // 2
    rows = _load_heads(start, head_step, heads, HEADS, HEAD_DIM, BLOCK_D).to(tl.float32)
    if INTERLEAVED:
        pair = tl.arange(0, BLOCK_D // 2)
        turns = pair < HALF
        cos = tl.load(turn + pair, mask=turns, other=1.0)[None, :]
        sin = tl.load(turn + HALF + pair, mask=turns, other=0.0)[None, :]
        first, second = tl.split(tl.reshape(rows, [BLOCK_H, BLOCK_D // 2, 2]))
        both = tl.join(first * cos - second * sin, second * cos + first * sin)
        return tl.reshape(both, [BLOCK_H, BLOCK_D])
    else:
        along = tl.arange(0, BLOCK_D)
        turns = along < ROTARY
        cos = tl.load(turn + along % HALF, mask=turns, other=1.0)
        sin = tl.load(turn + HALF + along % HALF, mask=turns, other=0.0)
        sin = tl.where(along < HALF, -sin, sin)
        row = heads * head_step * ALIGN
        partner = tl.load(start + row[:, None] + ((along + HALF) % ROTARY)[None, :], other=0.0,
                          mask=(heads < HEADS)[:, None] & turns[None, :]).to(tl.float32)
        return rows * cos[None, :] + partner * sin[None, :]


@triton.jit
def _queries(q, out, turn, token, heads, q_token, q_head, Q_HEADS: tl.constexpr,
             HEAD_DIM: tl.constexpr, ROTARY: tl.constexpr, INTERLEAVED: tl.constexpr,
             BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr):
    """Turn some query heads of one token into `out`."""
    ALIGN: tl.constexpr = 16 // (q.dtype.element_ty.primitive_bitwidth // 8)
    start = q + token * q_token * ALIGN
    rows = _turned(start, q_head, heads, turn, Q_HEADS, HEAD_DIM, ROTARY, INTERLEAVED, BLOCK_H,
                   BLOCK_D)
    along = tl.arange(0, BLOCK_D)
    row = (token * Q_HEADS + heads) * HEAD_DIM
    tl.store(out + row[:, None] + along[None, :], rows.to(out.dtype.element_ty),
             mask=(heads < Q_HEADS)[:, None] & (along < HEAD_DIM)[None, :])


@triton.jit
def _append(k, v, keys, values, key_scales, value_scales, slots, turn, token, heads, k_token,
            k_head, v_token, v_head, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
            ROTARY: tl.constexpr, INTERLEAVED: tl.constexpr, BLOCK_H: tl.constexpr,
            BLOCK_D: tl.constexpr, FORMAT: tl.constexpr):
    """Turn some heads of the keys of one token and write them, and the values as they are."""
    ALIGN: tl.constexpr = 16 // (k.dtype.element_ty.primitive_bitwidth // 8)
    slot = tl.load(slots + token)
    start = k + token * k_token * ALIGN
    if ROTARY > 0:
        rows = _turned(start, k_head, heads, turn, KV_HEADS, HEAD_DIM, ROTARY, INTERLEAVED,
                       BLOCK_H, BLOCK_D).to(k.dtype.element_ty)
    else:
        rows = _load_heads(start, k_head, heads, KV_HEADS, HEAD_DIM, BLOCK_D)
    write.store_token(keys, key_scales, slot, heads, rows, KV_HEADS, HEAD_DIM, BLOCK_D, FORMAT)
    start = v + token * v_token * ALIGN
    rows = _load_heads(start, v_head, heads, KV_HEADS, HEAD_DIM, BLOCK_D)
    write.store_token(values, value_scales, slot, heads, rows, KV_HEADS, HEAD_DIM, BLOCK_D,
                      FORMAT)


@triton.jit(do_not_specialize=['q_token', 'q_head', 'k_token', 'k_head', 'v_token', 'v_head'],
            do_not_specialize_on_alignment=['positions', 'slots', 'key_scales', 'value_scales'])
def rope_append(q, k, v, cos_sin, positions, slots, out, keys, values, key_scales, value_scales,
                q_token, q_head, k_token, k_head, v_token, v_head, Q_HEADS: tl.constexpr,
                KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, ROTARY: tl.constexpr,
                INTERLEAVED: tl.constexpr, HAS_POSITIONS: tl.constexpr, BLOCK_H: tl.constexpr,
                BLOCK_D: tl.constexpr, FORMAT: tl.constexpr):
    """Grid: (tokens, blocks of query heads + blocks of KV heads).

    Without queries (Q_HEADS 0), without keys and values (KV_HEADS 0) or without a rotation
    (ROTARY 0) their arguments are None. q_token to v_head: strides, in 16 bytes, which is how
    the compiler knows that rows begin there.
    """
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    turn = cos_sin
    if ROTARY > 0:
        position = token
        if HAS_POSITIONS:
            position = tl.load(positions + token)
        turn = cos_sin + position * ROTARY
    Q_BLOCKS: tl.constexpr = (Q_HEADS + BLOCK_H - 1) // BLOCK_H
    heads = tl.arange(0, BLOCK_H)
    if KV_HEADS == 0:
        _queries(q, out, turn, token, block * BLOCK_H + heads, q_token, q_head, Q_HEADS, HEAD_DIM,
                 ROTARY, INTERLEAVED, BLOCK_H, BLOCK_D)
    elif Q_HEADS == 0:
        _append(k, v, keys, values, key_scales, value_scales, slots, turn, token,
                block * BLOCK_H + heads, k_token, k_head, v_token, v_head, KV_HEADS, HEAD_DIM,
                ROTARY, INTERLEAVED, BLOCK_H, BLOCK_D, FORMAT)
    elif block < Q_BLOCKS:
        _queries(q, out, turn, token, block * BLOCK_H + heads, q_token, q_head, Q_HEADS, HEAD_DIM,
                 ROTARY, INTERLEAVED, BLOCK_H, BLOCK_D)
    else:
        _append(k, v, keys, values, key_scales, value_scales, slots, turn, token,
                (block - Q_BLOCKS) * BLOCK_H + heads, k_token, k_head, v_token, v_head, KV_HEADS,
                HEAD_DIM, ROTARY, INTERLEAVED, BLOCK_H, BLOCK_D, FORMAT)
