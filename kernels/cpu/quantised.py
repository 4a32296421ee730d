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

"""Quantised pages on the CPU by torch operations: writing them, and making them plain.

What lives here: what pages.py defines, in fewer and faster operations, bit for bit. What does not:
attention over int8 pages in C++ (attend.cpp), which makes nothing plain.

Measured on one thread of a Zen 4 server core: int8 codes and scales of 50 tokens of 5 x 64, keys
and values, 29 us, by the definition 121 us; 4096 tokens of them made plain from fp8 2.0 ms, by
torch's own conversion, which goes element by element, 44 ms.
"""

from __future__ import annotations

import math

import torch

from robot_infer_kernels.pages import FORMATS, TINY, QuantisedPlane, dequantise, quantise
from robot_infer_kernels.plan import AttentionPlan


def append(
    k: torch.Tensor, v: torch.Tensor, kv: QuantisedPlane, slots: torch.Tensor, where: list[int],
) -> None:
    """See `attention.append_kv`; `where` is `slots` as a list, not empty."""
    codes, scales = quantise_fast(torch.stack([k, v]), kv.format)
    first, count = where[0], len(where)
    neighbours = where == list(range(first, first + count))
    for pages, new in ((kv.raw(), codes.view(torch.uint8)), (kv.scales, scales)):
        tokens = pages.flatten(1, 2)  # a view: pages are contiguous
        if neighbours:
            tokens.narrow(1, first, count).copy_(new)
        else:
            tokens.index_copy_(1, slots, new)


def quantise_fast(x: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """As `pages.quantise`: heads of usual numbers need none of its special cases."""
    if name == 'int4':
        return quantise(x, name)
    wide = x.float()
    largest = wide.abs().amax(-1, keepdim=True)  # linalg.vector_norm takes fifteen times as long
    low, high = largest.aminmax()
    if not (low >= TINY and high < math.inf):  # NaN too
        return quantise(x, name)
    scales = largest / FORMATS[name].top
    # At most three roundings above the largest code, which rounds back to it.
    codes = wide * scales.reciprocal()
    return (codes.round_() if name == 'int8' else codes).to(FORMATS[name].dtype), scales


def read(kv: QuantisedPlane, plan: AttentionPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values that any row sees, each (1, num_kv_heads, high - begin, head_dim) float32.

    A copy, which nobody keeps: the pages may change.
    """
    page_tokens, pages = kv.shape[2], plan.seen_pages
    first, neighbours = pages[0], pages == list(range(pages[0], pages[0] + len(pages)))
    begin = plan.begin - plan.begin // page_tokens * page_tokens
    seen = []
    for side in (kv.raw(), kv.scales):
        some = (side[:, first:first + len(pages)] if neighbours
                else side.index_select(1, plan.seen_index))
        seen.append(some.flatten(1, 2)[:, begin:begin + plan.high - plan.begin])
    codes, scales = seen
    if kv.format == 'fp8':
        keys, values = widen_fp8(codes).mul_(scales)
    else:
        keys, values = dequantise(codes.view(kv.values.dtype), scales, kv.format)
    return keys.transpose(0, 1).unsqueeze(0), values.transpose(0, 1).unsqueeze(0)


def widen_fp8(codes: torch.Tensor) -> torch.Tensor:
    """Finite e4m3 codes, as bytes, to float32.

    Sign, exponent and mantissa lie in float16 as they do in e4m3, the exponent's bias is 15 and
    not 7: shifted into place they are the number times 2 ** -8, subnormal or not.
    """
    bits = codes.view(torch.int8).to(torch.int16)  # the sign fills the upper byte
    halves = (bits & 0x7f).bitwise_left_shift_(7).bitwise_or_(bits & -0x8000)
    return halves.view(torch.float16).float().mul_(256.0)
