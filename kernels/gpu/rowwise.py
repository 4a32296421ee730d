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

"""Kernels that go over rows: norm, gates, and copies of blocks and rows.

What lives here: the kernels. What does not: the rotary embedding (rope.py), and who launches
(elementwise.py). All arithmetic is float32. Copies move words of 32 bits, four a load.

Strides and lengths that are arguments come in units of 16 bytes (`step`, `quads`): a kernel that
multiplies by what makes them elements loads 16 bytes at a time, one that takes elements, 2.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(math.log2(math.e))
# 2 sqrt(2 / pi): gelu(x) in its tanh form is x sigmoid(this (x + 0.044715 x^3)), since
# (1 + tanh(u)) / 2 = sigmoid(2 u).
_GELU = tl.constexpr(2.0 * math.sqrt(2.0 / math.pi))


@triton.jit(do_not_specialize=['x_step', 'residual_step'])
def rms_norm(x, weight, residual, out, x_step, residual_step, eps, WIDTH: tl.constexpr,
             PLUS_ONE: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr):
    """Norm one row a program. Grid: (rows,)."""
    ALIGN: tl.constexpr = 16 // (x.dtype.element_ty.primitive_bitwidth // 8)
    row = tl.program_id(0).to(tl.int64)
    along = tl.arange(0, BLOCK)
    inside = along < WIDTH
    values = tl.load(x + row * x_step * ALIGN + along, mask=inside,
                     other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        ALIGN_RESIDUAL: tl.constexpr = 16 // (residual.dtype.element_ty.primitive_bitwidth // 8)
        there = residual + row * residual_step * ALIGN_RESIDUAL + along
        values += tl.load(there, mask=inside, other=0.0).to(tl.float32)
        stored = values.to(residual.dtype.element_ty)
        tl.store(there, stored, mask=inside)
        values = stored.to(tl.float32)
    scale = tl.load(weight + along, mask=inside, other=0.0).to(tl.float32)
    if PLUS_ONE:
        scale += 1.0
    share = tl.rsqrt(tl.sum(values * values, 0) / WIDTH + eps)
    tl.store(out + row * WIDTH + along, (values * share * scale).to(out.dtype.element_ty),
             mask=inside)


@triton.jit(do_not_specialize=['step'])
def gated(gate_up, out, step, HIDDEN: tl.constexpr, FORM: tl.constexpr, BLOCK: tl.constexpr):
    """Gate a part of one row a program. Grid: (rows, parts)."""
    ALIGN: tl.constexpr = 16 // (gate_up.dtype.element_ty.primitive_bitwidth // 8)
    row = tl.program_id(0).to(tl.int64)
    along = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = along < HIDDEN
    start = gate_up + row * step * ALIGN
    gate = tl.load(start + along, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(start + HIDDEN + along, mask=inside, other=0.0).to(tl.float32)
    if FORM == 'silu':
        inner = gate
    else:
        inner = (gate + gate * gate * gate * 0.044715) * _GELU
    through = gate / (1.0 + tl.exp2(inner * -_LOG2_E))
    tl.store(out + row * HIDDEN + along, (through * up).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=['num_blocks', 'count'], do_not_specialize_on_alignment=['pairs'])
def copy_blocks(pages, pairs, num_blocks, count, WORDS: tl.constexpr, TOGETHER: tl.constexpr,
                BLOCK: tl.constexpr):
    """Copy the first `count` TOGETHER of the WORDS words of a block.

    Grid: (parts, pairs, planes * 2).
    """
    along = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pair, side = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    source = tl.load(pairs + 2 * pair)
    target = tl.load(pairs + 2 * pair + 1)
    start = pages + side * num_blocks * WORDS
    inside = along < count * TOGETHER
    words = tl.load(start + source * WORDS + along, mask=inside)
    tl.store(start + target * WORDS + along, words, mask=inside)


@triton.jit(do_not_specialize=['step'], do_not_specialize_on_alignment=['rows'])
def gather_rows(source, rows, out, step, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """Copy a part of one row a program. Grid: (rows, parts)."""
    number = tl.program_id(0).to(tl.int64)
    along = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = along < WORDS
    row = tl.load(rows + number)
    words = tl.load(source + row * step * 4 + along, mask=inside)
    tl.store(out + number * WORDS + along, words, mask=inside)
