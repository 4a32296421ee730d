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

"""What `warm_up` launches of the operations beside attention: one shape, one compile key.

A shape says what is compiled in: widths, dtypes, options. How many rows come, how they are strided
and where they lie changes nothing. What does not live here: the seal (warm.py, launch.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from robot_infer_kernels import elementwise
from robot_infer_kernels.pages import zero_plane


@dataclass(frozen=True)
class RopeShape:
    """`rope_append`, or `rotate` where `num_kv_heads` is 0.

    :param rotary_dim: None: the whole head. positions: whether they are given. form: format of
        the pages.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int | None = None
    interleaved: bool = False
    positions: bool = True
    dtype: torch.dtype = torch.bfloat16
    form: str = 'plain'

    def launch_all(self, device: torch.device) -> None:
        """Turn and write one token."""
        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=self.dtype, device=device)

        one = torch.zeros(1, dtype=torch.int64, device=device)
        cos_sin = torch.zeros(1, self.rotary_dim or self.head_dim, device=device)
        q, positions = zeros(1, self.num_heads, self.head_dim), one if self.positions else None
        if not self.num_kv_heads:
            elementwise.rotate(q, cos_sin, positions, self.interleaved, backend='triton')
            return
        k, v = zeros(2, 1, self.num_kv_heads, self.head_dim)
        kv = zero_plane((2, 1, 8, self.num_kv_heads, self.head_dim), self.form, self.dtype, device)
        elementwise.rope_append(q, k, v, cos_sin, kv, one, positions, self.interleaved,
                                backend='triton')


@dataclass(frozen=True)
class NormShape:
    """`rms_norm`. residual: its dtype; None: without one. out: None: as x."""

    width: int
    dtype: torch.dtype = torch.bfloat16
    residual: torch.dtype | None = None
    out: torch.dtype | None = None
    weight: torch.dtype = torch.float32
    plus_one: bool = False

    def launch_all(self, device: torch.device) -> None:
        """Norm one row."""
        def zeros(dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(1, self.width, dtype=dtype, device=device)

        elementwise.rms_norm(
            zeros(self.dtype), zeros(self.weight)[0], 1e-6,
            None if self.residual is None else zeros(self.residual), self.plus_one,
            zeros(self.out or self.dtype), backend='triton')


@dataclass(frozen=True)
class GateShape:
    """`gated_silu` or `gated_gelu`, of `hidden` columns."""

    hidden: int
    form: Literal['silu', 'gelu'] = 'silu'
    dtype: torch.dtype = torch.bfloat16

    def launch_all(self, device: torch.device) -> None:
        """Gate one row."""
        function = elementwise.gated_silu if self.form == 'silu' else elementwise.gated_gelu
        function(torch.zeros(1, 2 * self.hidden, dtype=self.dtype, device=device),
                 backend='triton')


@dataclass(frozen=True)
class CopyShape:
    """`copy_blocks`: page_tokens times num_kv_heads times head_dim elements a side of a block."""

    page_tokens: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.bfloat16

    def launch_all(self, device: torch.device) -> None:
        """Copy one block."""
        pages = torch.zeros(1, 2, 2, self.page_tokens, self.num_kv_heads, self.head_dim,
                            dtype=self.dtype, device=device)
        elementwise.copy_blocks(pages, torch.tensor([[0, 1]], device=device), backend='triton')


@dataclass(frozen=True)
class GatherShape:
    """`gather_rows` of `width` columns."""

    width: int
    dtype: torch.dtype = torch.bfloat16

    def launch_all(self, device: torch.device) -> None:
        """Gather one row."""
        elementwise.gather_rows(torch.zeros(1, self.width, dtype=self.dtype, device=device),
                                torch.zeros(1, dtype=torch.int64, device=device),
                                backend='triton')
