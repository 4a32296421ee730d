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

"""The operations beside attention as their definitions read, in float64: the oracle of the others.

Called by elementwise.py with checked arguments; every result goes into `out`, rounded once.
"""

from __future__ import annotations

import math

import torch


def rotate(x: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None,
           interleaved: bool, out: torch.Tensor) -> None:
    """A pair (a, b) is the complex number a + ib, and turns by a product with cos + i sin."""
    rows = torch.arange(x.shape[0], device=x.device) if positions is None else positions
    cos, sin = cos_sin[rows].double()[:, None].chunk(2, -1)
    rotary_dim = cos_sin.shape[1]
    turning, passed = x.double().tensor_split([rotary_dim], -1)
    split = (turning.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else turning.chunk(2, -1))
    turned = torch.complex(*split) * torch.complex(cos, sin)
    both = (torch.view_as_real(turned).flatten(-2) if interleaved
            else torch.cat([turned.real, turned.imag], -1))
    out.copy_(torch.cat([both, passed], -1))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None,
             plus_one: bool, out: torch.Tensor) -> None:
    """x / sqrt(mean(x ** 2) + eps) * weight."""
    if residual is not None:
        x = residual.copy_(residual.double() + x.double())
    x = x.double()
    scale = weight.double() + 1.0 if plus_one else weight.double()
    out.copy_(x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * scale)


def gated(form: str, gate_up: torch.Tensor, out: torch.Tensor) -> None:
    """silu(x) = x / (1 + exp(-x)); gelu(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    gate, up = gate_up.double().chunk(2, -1)
    if form == 'silu':
        out.copy_(gate / (1.0 + torch.exp(-gate)) * up)
    else:
        inner = math.sqrt(2.0 / math.pi) * (gate + 0.044715 * gate ** 3)
        out.copy_(0.5 * gate * (1.0 + torch.tanh(inner)) * up)


def copy_blocks(pages: torch.Tensor, pairs: torch.Tensor, num_tokens: int) -> None:
    """The first tokens of each source block to its target, in all planes."""
    for source, target in pairs.tolist():
        pages[:, :, target, :num_tokens] = pages[:, :, source, :num_tokens]


def gather_rows(source: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
    """out[i] = source[rows[i]]."""
    out.copy_(source[rows])
