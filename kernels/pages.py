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

"""What a plane of pages is: a plain tensor, or codes and scales (int8, fp8, int4).

What lives here: the formats, where each is offered, and quantising as its definition reads. Every
backend reproduces its codes and scales bit for bit. What does not: attention over them
(reference.py, cpu/attention.py, gpu/tiles.py), and the same arithmetic in Triton (gpu/write.py).

    format   a code            a scale for                             scale
    int8     -127 .. 127       each token and KV head, float32         largest / 127
    fp8      e4m3, |c| <= 448  each token and KV head, float32         largest / 448
    int4     -7 .. 7           each 32 elements of those, float16      largest / 7

`largest` is that of |x| over the elements that share a scale. In float32, each step rounded to
nearest even:

    scale    largest / top; 0 where largest < 2 ** -100; NaN where an element is not finite
    inverse  1 / scale; 0 where scale is 0 or NaN            (of the scale as stored)
    code     round(min(max(x * inverse, -top), top))         (x = 0 where it is not finite)

So there is no subnormal in between, which some chips flush. A head with an infinity or a NaN in it
is NaN to whoever attends to it, as over plain pages, and -0.0 is a code of zero. The scale of
int4 stops at 65504, the largest float16. What a page holds is code * scale, in real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import Literal

import torch

from robot_infer_kernels.backends import capability_of
from robot_infer_kernels.gpu.targets import fp8_refusal

FormatName = Literal['int8', 'fp8', 'int4']
GROUP = 32  # elements that share a scale of int4
TINY = 2.0 ** -100
HIGHEST_HALF = 65504.0
_INT4_ZERO = 8  # nibbles hold code + 8


@dataclass(frozen=True)
class Format:
    """How one format is stored.

    :param top: largest code. dtype: of stored elements, `packed` of them in each. group: elements
        that share a scale, 0: all of a head.
    """

    name: FormatName
    top: float
    dtype: torch.dtype
    scale_dtype: torch.dtype
    packed: int = 1
    group: int = 0

    def sizes(self, head_dim: int) -> tuple[int, int]:
        """Stored elements and scales of one head.

        :raises ValueError: where such heads cannot be stored.
        """
        if self.group and head_dim % self.group:
            raise ValueError(f'head_dim: expected a multiple of {self.group} for {self.name} pages'
                             f', whose scales are each for {self.group} elements; got {head_dim}')
        return head_dim // self.packed, head_dim // self.group if self.group else 1

    def head_bytes(self, head_dim: int) -> int:
        """Bytes that one head of one token takes, codes and scales.

        :raises ValueError: where such heads cannot be stored.
        """
        stored, groups = self.sizes(head_dim)
        return stored * self.dtype.itemsize + groups * self.scale_dtype.itemsize


FORMATS: dict[str, Format] = {each.name: each for each in (
    Format('int8', 127.0, torch.int8, torch.float32),
    Format('fp8', 448.0, torch.float8_e4m3fn, torch.float32),
    Format('int4', 7.0, torch.uint8, torch.float16, packed=2, group=GROUP))}


@dataclass(frozen=True, eq=False)
class QuantisedPlane:
    """One plane of pages in codes and scales; `shape` is that of the plain plane it stands for.

    With one more axis in front, that of planes, it is all of them (`copy_blocks`, `plane`).

    :param values: (2, num_blocks, page_tokens, num_kv_heads, stored_dim), contiguous; int4 has two
        codes in a byte, plus 8 each, the even element in the low nibble.
    :param scales: (2, num_blocks, page_tokens, num_kv_heads, num_groups), contiguous.
    :raises ValueError: where they do not fit the format.
    """

    values: torch.Tensor
    scales: torch.Tensor
    format: FormatName
    head_dim: int

    def __post_init__(self) -> None:
        kind = format_of(self.format)
        for name, tensor, dtype, size in zip(
                ('values', 'scales'), (self.values, self.scales), (kind.dtype, kind.scale_dtype),
                kind.sizes(self.head_dim)):
            wanted = (*self.values.shape[:-1], size)
            if tensor.shape != wanted or tensor.dtype != dtype or not tensor.is_contiguous():
                raise ValueError(f'{name}: expected {wanted} {dtype}, contiguous, for '
                                 f'{self.format} pages of head_dim {self.head_dim}; got '
                                 f'{tuple(tensor.shape)} {tensor.dtype}, strides '
                                 f'{tensor.stride()}')
        if self.scales.device != self.values.device:
            raise ValueError(f'scales: expected them on {self.values.device}, as values; got '
                             f'{self.scales.device}')

    @property
    def shape(self) -> torch.Size:
        """(2, num_blocks, page_tokens, num_kv_heads, head_dim)."""
        return torch.Size((*self.values.shape[:-1], self.head_dim))

    @property
    def device(self) -> torch.device:
        """Where codes and scales lie."""
        return self.values.device

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self.values.nbytes + self.scales.nbytes

    def dim(self) -> int:
        """Number of axes."""
        return self.values.dim()

    def plane(self, number: int) -> QuantisedPlane:
        """One of several planes."""
        return QuantisedPlane(self.values[number], self.scales[number], self.format,
                              self.head_dim)

    def raw(self) -> torch.Tensor:
        """The codes as bytes: torch moves those in every way, float8 not."""
        return self.values.view(torch.uint8)

    def poison(self, blocks: Sequence[int] | slice = slice(None)) -> None:
        """Make blocks NaN to whoever attends to them: their scales are, and fp8 codes are."""
        self.scales[..., blocks, :, :, :] = math.nan
        self.raw()[..., blocks, :, :, :] = 0x7f


Plane = torch.Tensor | QuantisedPlane


def format_of(name: str) -> Format:
    """A format by its name.

    :raises ValueError: for a name that is none.
    """
    if name not in FORMATS:
        raise ValueError(f'format: expected {", ".join(FORMATS)}; got {name!r}')
    return FORMATS[name]


def empty_plane(shape: Sequence[int], name: str, device: torch.device | str = 'cpu'
                ) -> QuantisedPlane:
    """Take memory for one plane, or several, of a plain shape; its content is anything.

    :param shape: (2, num_blocks, page_tokens, num_kv_heads, head_dim), or with planes in front.
    :raises ValueError: for an unknown format, or a head_dim it cannot store.
    """
    kind = format_of(name)
    stored, groups = kind.sizes(shape[-1])
    return QuantisedPlane(
        torch.empty((*shape[:-1], stored), dtype=kind.dtype, device=device),
        torch.empty((*shape[:-1], groups), dtype=kind.scale_dtype, device=device), kind.name,
        shape[-1])


def zero_plane(shape: Sequence[int], form: str, dtype: torch.dtype,
               device: torch.device | str = 'cpu') -> Plane:
    """Take memory for one plane, or several, filled with zeros.

    :param form: 'plain', of `dtype`; or a format.
    :raises ValueError: for an unknown format, or a head_dim it cannot store.
    """
    if form == 'plain':
        return torch.empty(tuple(shape), dtype=dtype, device=device).zero_()
    plane = empty_plane(shape, form, device)
    plane.raw().zero_()
    plane.scales.zero_()
    return plane


def quantise(x: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of heads, by the definition above.

    :param x: (..., head_dim), of any float type.
    :returns: (..., stored_dim) and (..., num_groups).
    :raises ValueError: for an unknown format, or a head_dim it cannot store.
    """
    kind = format_of(name)
    groups = kind.sizes(x.shape[-1])[1]
    wide = x.float().unflatten(-1, (groups, -1))
    finite = wide.abs() < math.inf
    largest = torch.where(finite, wide.abs(), math.inf).amax(-1, keepdim=True)
    scales = largest / kind.top
    if kind.scale_dtype == torch.float16:
        scales = scales.clamp(max=HIGHEST_HALF).half()
    scales = torch.where(largest < TINY, 0.0, scales)
    scales = torch.where(largest < math.inf, scales, math.nan)
    inverse = torch.where(scales > 0.0, 1.0 / scales.float(), 0.0)
    scaled = (torch.where(finite, wide, 0.0) * inverse).clamp(-kind.top, kind.top).flatten(-2)
    return _coded(scaled, kind), scales.squeeze(-1)


def dequantise(values: torch.Tensor, scales: torch.Tensor, name: str,
               dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """code * scale in `dtype`: exact in float64, in float32 rounded once.

    :param values: (..., stored_dim). scales: (..., num_groups).
    :returns: (..., head_dim).
    """
    kind = format_of(name)
    if kind.packed == 2:
        codes = torch.stack([values & 15, values >> 4], -1).flatten(-2).to(dtype) - _INT4_ZERO
    else:
        codes = values.to(dtype)
    return (codes.unflatten(-1, (scales.shape[-1], -1)) * scales.to(dtype).unsqueeze(-1)).flatten(
        -2)


def read_blocks(kv: Plane, blocks: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Some blocks of a plane as plain keys and values.

    :returns: (2, len(blocks), page_tokens, num_kv_heads, head_dim).
    """
    index = torch.tensor(blocks, dtype=torch.int64, device=kv.device)
    if isinstance(kv, torch.Tensor):
        return kv.index_select(1, index).to(dtype)
    values = kv.raw().index_select(1, index).view(kv.values.dtype)
    return dequantise(values, kv.scales.index_select(1, index), kv.format, dtype)


def refusal(name: str, device: torch.device) -> str:
    """Why pages of a format are not offered on a device; empty where they are."""
    format_of(name)
    if name != 'fp8' or device.type != 'cuda':
        return ''
    capability = capability_of(device)
    if capability is None:
        return f'fp8 pages on {device}: no GPU is seen'
    return fp8_refusal(capability)


def remark(name: str, device: torch.device) -> str:
    """What to know of a format on a device where it is offered."""
    if device.type == 'cpu' and name in ('fp8', 'int4'):
        return 'on a CPU made plain before each call: it saves memory, not time; int8 saves both'
    return ''


def _coded(scaled: torch.Tensor, kind: Format) -> torch.Tensor:
    """Numbers within -top .. top as stored elements."""
    if kind.name == 'fp8':
        return scaled.to(kind.dtype)
    codes = scaled.round()
    if kind.packed == 1:
        return codes.to(kind.dtype)
    low, high = (codes + _INT4_ZERO).to(torch.uint8).unflatten(-1, (-1, 2)).unbind(-1)
    return low | (high << 4)
