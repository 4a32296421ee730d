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

"""Projections x -> x W^T + b: what dtype they compute in, and how their weight lies in memory.

On an x86 CPU a large weight is laid out once in oneDNN's own blocks, in place of the plain one:
rows x in x out, one thread of a Zen 4 server core, torch 2.13 fp32, plain (MKL) against packed,
in microseconds:

    1024 x  448 x 1792    16500    15000        50 x  360 x 2048     812      655
     139 x  480 x 3072     4900     3790         1 x  480 x 3072     124       93
      50 x  384 x  360      153      141        16 x   96 x  512      21       27

so: from 2^17 entries on. A number of rows met for the first time costs oneDNN about 0.4 ms for
each shape of weight, once (a prompt of another length). The layout is chosen by the shape alone,
never by a race at start, so that equal inputs give equal bits in every process.
"""

from __future__ import annotations

import platform

import torch
from torch import Tensor
import torch.nn.functional as F

_PACK_FROM = 1 << 17


class Linear:
    """One projection, ready to run.

    :param weight: (out, in), in the dtype to compute in.
    :param bias: (out,) or None.
    :param rows: about as many rows as it will usually see; it takes any number.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, rows: int) -> None:
        self.dtype = weight.dtype
        self._bias = bias
        self._packed = _can_pack(weight)
        self._weight = (torch.ops.mkldnn._reorder_linear_weight(weight, rows) if self._packed
                        else weight)
        adds = not self._packed and bias is None and weight.dtype == torch.float32
        self._transposed = weight.t() if adds else None

    def __call__(self, x: Tensor) -> Tensor:
        """x: (num_rows, in), any floating dtype -> (num_rows, out) in the dtype of the weight."""
        if x.dtype != self.dtype:
            x = x.to(self.dtype)
        if self._packed:
            return torch.ops.mkldnn._linear_pointwise.default(
                x, self._weight, self._bias, 'none', [], '')
        return F.linear(x, self._weight, self._bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + this projection of x: (num_rows, out) float32; one operation where it can."""
        if self._transposed is not None:
            return torch.addmm(residual, x, self._transposed)
        return residual + self(x)


def _can_pack(weight: Tensor) -> bool:
    """Whether packing is worth it, and this torch on this machine can."""
    if weight.numel() < _PACK_FROM or weight.device.type != 'cpu':
        return False
    if platform.machine().lower() not in ('x86_64', 'amd64'):
        return False  # not measured elsewhere
    operations = torch.ops.mkldnn
    if not (torch.backends.mkldnn.is_available()
            and hasattr(operations, '_reorder_linear_weight')
            and hasattr(operations, '_linear_pointwise')):
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and hasattr(operations, '_is_mkldnn_bf16_supported')
        and operations._is_mkldnn_bf16_supported())
