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

"""The operations beside attention on the CPU, from torch operations.

Called by elementwise.py with checked arguments; every result goes into `out`. What is narrower
than float32 is widened first, so that there is one rounding, at the end.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from robot_infer_kernels import reference_elementwise

# Both only move bytes, and the plain way is the fast one here.
copy_blocks = reference_elementwise.copy_blocks


def rotate(x: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None,
           interleaved: bool, out: torch.Tensor) -> None:
    """See `elementwise.rotate`."""
    rows = cos_sin[:x.shape[0]] if positions is None else cos_sin.index_select(0, positions)
    rotary_dim = rows.shape[1]
    cos, sin = rows.unsqueeze(1).chunk(2, -1)
    wide = x.float()
    turned = out if out.dtype == torch.float32 else torch.empty_like(out, dtype=torch.float32)
    first, second = _pairs(wide, rotary_dim, interleaved)
    turned_first, turned_second = _pairs(turned, rotary_dim, interleaved)
    torch.mul(first, cos, out=turned_first).addcmul_(second, sin, value=-1.0)
    torch.mul(second, cos, out=turned_second).addcmul_(first, sin)
    if rotary_dim < x.shape[2]:
        turned[..., rotary_dim:] = wide[..., rotary_dim:]
    if turned is not out:
        out.copy_(turned)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None,
             plus_one: bool, out: torch.Tensor) -> None:
    """See `elementwise.rms_norm`. Four short operations; F.rms_norm is eight and takes longer."""
    if residual is not None:
        x = residual.add_(x)
    x = x.float()
    share = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[1])
    scale = weight.float() + 1.0 if plus_one else weight.float()
    share.add_(eps).rsqrt_()
    if out.dtype == torch.float32:
        torch.mul(x, share, out=out).mul_(scale)
    else:
        out.copy_((x * share).mul_(scale))


def gated(form: str, gate_up: torch.Tensor, out: torch.Tensor) -> None:
    """See `elementwise.gated_silu`."""
    gate, up = gate_up.float().chunk(2, -1)
    through = F.silu(gate) if form == 'silu' else F.gelu(gate, approximate='tanh')
    if out.dtype == torch.float32:
        torch.mul(through, up, out=out)
    else:
        out.copy_(through.mul_(up))


def gather_rows(source: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
    """See `elementwise.gather_rows`."""
    torch.index_select(source, 0, rows, out=out)


def _pairs(x: torch.Tensor, rotary_dim: int, interleaved: bool
           ) -> tuple[torch.Tensor, torch.Tensor]:
    """First and second elements of the pairs that turn: views of (..., rotary_dim / 2)."""
    if interleaved:
        return x[..., 0:rotary_dim:2], x[..., 1:rotary_dim:2]
    half = rotary_dim // 2
    return x[..., :half], x[..., half:rotary_dim]
