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


"""Projections on the CPU with weights of 8 or 4 bits: x -> x W^T + b by operations of torch.

What lives here: how a weight is quantised (the definition), the projections that keep it so, and
whether this torch can run them. What does not: which weights of a policy are quantised
(robot_infer/models/projections.py).

    int8    one scale a row of W, bfloat16: scale = amax / 127, code = round(w / scale), +-127
    int4    one scale and one zero for 32 entries of a row, bfloat16:
            scale = (max - min) / 15, zero = min + 8 scale, code = round((w - zero) / scale) + 8

    x is rounded to bfloat16, products are summed in float32, and the sum is rounded to bfloat16
    once before the bias is added in float32.

Which operation, by measurement (one thread of a Zen 4 server core with bfloat16 instructions,
torch 2.13, CPU microseconds from warm caches):

    out x in, rows                       3072 x 480: 16    48   139      512 x 96: 16    64
    float32 `F.linear`                              641  1786  4966                22    68
    int8 `_weight_int8pack_mm`                      658  1985  5897                41   138
    codes to bfloat16, F.linear, scale              518   959  2482                51    79

    the two int8 ways cost the same at 64 rows of 128 x 128, 23 of 512 x 96, 16 of 640 x 480,
    11 of 3072 x 480: at about 11 + 800,000 / entries rows

so: int8 runs the operation below that, and from there on writes its codes as bfloat16 (which
holds them exactly) into one buffer that all layers share. int4 has one way only, since the packed
form is torch's own secret; `make bench-linear` shows both against float32.

Traps: with float32 activations the same operations are 10 to 200 times slower (1274 us for one
row of the above); `_weight_int8pack_mm` reads beyond the weight where in_features is no multiple
of 16, gives wrong numbers, and now and then ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
from torch import Tensor
import torch.nn.functional as F  # noqa: N812 - torch's own custom

FORMATS = ('int8', 'int4')
GROUP = 32  # entries of a row that share a scale and a zero in int4
_UNPACK_FROM, _UNPACK_SHARE = 12, 800_000  # rows, and entries x rows
_INNER_TILES = 2  # of the packed form; the CPU ignores it


def unfit(form: str, out_features: int, in_features: int) -> str:
    """Why a weight of this shape cannot be kept in a format; '' where it can."""
    if form == 'int8':
        return '' if in_features % 16 == 0 else f'in_features {in_features} is no multiple of 16'
    if in_features % GROUP:
        return f'in_features {in_features} is no multiple of {GROUP}'
    return '' if out_features % 16 == 0 else f'out_features {out_features} is no multiple of 16'


def _refuse_unfit(form: str, weight: Tensor) -> None:
    """Refuse what the operation would read beyond, or answer wrongly.

    :raises ValueError: where the weight cannot be kept in the format.
    """
    if weight.dim() != 2:
        raise ValueError(f'weight: expected (out_features, in_features); got '
                         f'{tuple(weight.shape)}')
    words = unfit(form, *weight.shape)
    if words:
        raise ValueError(f'weight: expected a shape that fits {form}; got one whose {words}')


@functools.cache
def why_not(form: str) -> str:
    """Why this torch cannot run a format on the CPU; '' where it can, by a product of known value.

    The operations are torch's private ones: their names and arguments changed between versions,
    so what they compute is looked at, not the version.
    """
    assert form in FORMATS
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(48, 96, generator=generator)
    x = torch.randn(5, 96, generator=generator)
    try:
        project = Int8Linear(weight) if form == 'int8' else Int4Linear(weight)
        got = project(x)
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        return f'torch {torch.__version__}: {str(error).splitlines()[0]}'
    wanted = x.bfloat16().double() @ project.weight().t()
    if (got - wanted).norm() > 0.01 * wanted.norm():
        return f'torch {torch.__version__}: its operations for {form} weights give wrong numbers'
    return ''


# --- the definition -----------------------------------------------------------------------------

def quantise_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scales of a weight.

    :param weight: (out, in) float32.
    :returns: (out, in) int8 in -127..127, and (out,) bfloat16; a row of zeros has scale 0.
    """
    scales = (weight.abs().amax(1) / 127).bfloat16()
    return _codes(weight, scales.float()[:, None]).clamp_(-127, 127).to(torch.int8), scales


def quantise_int4(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, scales and zeros of a weight, in groups of 32 along its rows.

    :param weight: (out, in) float32; in is a multiple of 32.
    :returns: (out, in) int32 in 0..15, and (out, in / 32) bfloat16 each. An entry is
        (code - 8) scale + zero.
    """
    grouped = weight.unflatten(1, (-1, GROUP))
    low, high = grouped.amin(2), grouped.amax(2)
    scales = ((high - low) / 15).bfloat16()
    zeros = (low + 8 * scales.float()).bfloat16()
    codes = _codes(grouped - zeros.float()[..., None], scales.float()[..., None]) + 8
    return codes.clamp_(0, 15).to(torch.int32).flatten(1), scales, zeros


def _codes(values: Tensor, scales: Tensor) -> Tensor:
    """Whole numbers of scales, 0 where the scale is 0."""
    return torch.where(scales > 0, torch.round(values / scales), torch.zeros_like(values))


# --- the projections ----------------------------------------------------------------------------

class Scratch:
    """The buffer that unpacked weights are written to: one for all, as large as the largest."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0, dtype=torch.bfloat16 if _has_bf16() else torch.float32)

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self._buffer.nbytes

    def make_room(self, numel: int) -> None:
        """Be large enough for a weight; at load only."""
        if numel > self._buffer.numel():
            self._buffer = self._buffer.new_empty(numel)

    def unpack(self, codes: Tensor) -> Tensor:
        """Write codes as numbers; valid until the next call."""
        return self._buffer[:codes.numel()].view(codes.shape).copy_(codes)


class _Projection:
    """What the formats have in common; the interface of robot_infer.models.linear.Linear.

    :param weight: (out, in) float32, which is not kept.
    :param bias: (out,) or None.
    :param dtype: of the results.
    """

    def __init__(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._bias = None if bias is None else bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        """x: (num_rows, in), any floating dtype -> (num_rows, out) in `dtype`."""
        y = self._multiply(x.to(torch.bfloat16).contiguous())
        if self._bias is not None:
            y = y.float() + self._bias
        return y.to(self.dtype)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + this projection of x: (num_rows, out) float32."""
        return residual + self(x)

    def _multiply(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Int8Linear(_Projection):
    """A projection with a byte and a share of a row's scale for each entry of its weight."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *,
                 dtype: torch.dtype = torch.float32, scratch: Scratch | None = None) -> None:
        super().__init__(bias, dtype)
        _refuse_unfit('int8', weight)
        self._codes, self._scales = quantise_int8(weight.contiguous())
        self._wide_scales = self._scales.float()
        self._scratch = scratch or Scratch()
        self._scratch.make_room(weight.numel())
        self._unpack_from = _UNPACK_FROM + _UNPACK_SHARE // max(1, weight.numel())

    @property
    def nbytes(self) -> int:
        """Memory of the quantised weight, without bias and buffer."""
        return self._codes.nbytes + self._scales.nbytes + self._wide_scales.nbytes

    def weight(self) -> Tensor:
        """What the codes stand for: (out, in) float64."""
        return self._codes.double() * self._scales.double()[:, None]

    def _multiply(self, x: Tensor) -> Tensor:
        if x.shape[0] < self._unpack_from:
            return torch.ops.aten._weight_int8pack_mm(x, self._codes, self._scales)
        unpacked = self._scratch.unpack(self._codes)
        return F.linear(x.to(unpacked.dtype), unpacked).float().mul_(self._wide_scales)


class Int4Linear(_Projection):
    """A projection with half a byte, and an eighth for scale and zero, for each entry."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *,
                 dtype: torch.dtype = torch.float32) -> None:
        super().__init__(bias, dtype)
        _refuse_unfit('int4', weight)
        pack, self._operation = _int4_operations()
        codes, scales, zeros = quantise_int4(weight)
        self._packed = pack(codes)
        self._scales_and_zeros = torch.stack([scales.t(), zeros.t()], dim=-1).contiguous()

    @property
    def nbytes(self) -> int:
        """Memory of the quantised weight, without bias."""
        return self._packed.nbytes + self._scales_and_zeros.nbytes

    def weight(self) -> Tensor:
        """What the packed form stands for, read back through its products: (out, in) float64."""
        groups, out_features, _ = self._scales_and_zeros.shape
        ones = torch.eye(groups * GROUP, dtype=torch.bfloat16)
        # A sum of one product with 1 is rounded to bfloat16 alone: codes with scale 1 come exact.
        plain = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).expand(
            groups, out_features, 2).contiguous()
        codes = self._operation(ones, self._packed, GROUP, plain).double().t()
        scales, zeros = (self._scales_and_zeros[..., part].double().t()
                         .repeat_interleave(GROUP, dim=1) for part in (0, 1))
        return codes * scales + zeros

    def _multiply(self, x: Tensor) -> Tensor:
        return self._operation(x, self._packed, GROUP, self._scales_and_zeros)


def _has_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 faster than float32."""
    supported = getattr(torch.ops.mkldnn, '_is_mkldnn_bf16_supported', None)
    return bool(torch.backends.mkldnn.is_available() and supported is not None and supported())


@functools.cache
def _int4_operations() -> tuple[Callable[[Tensor], Tensor], Callable[..., Tensor]]:
    """Packing and product of this torch: the first way that gives back the codes it was given.

    torch 2.6 and newer have operations named for the CPU; before, the general ones took a CPU
    tensor, of one code an int32 or of two codes a byte.
    """
    aten, problem = torch.ops.aten, ''
    codes = torch.arange(32 * GROUP, dtype=torch.int32).mul_(7).remainder_(16).view(32, GROUP)
    plain = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).expand(1, 32, 2).contiguous()
    ones = torch.eye(GROUP, dtype=torch.bfloat16)
    ways = (('_convert_weight_to_int4pack_for_cpu', '_weight_int4pack_mm_for_cpu', _as_is),
            ('_convert_weight_to_int4pack', '_weight_int4pack_mm', _as_is),
            ('_convert_weight_to_int4pack', '_weight_int4pack_mm', _two_a_byte))
    for pack_name, product_name, arrange in ways:
        try:
            pack, product = getattr(aten, pack_name), getattr(aten, product_name)
            packed = pack(arrange(codes), _INNER_TILES)
            if torch.equal(product(ones, packed, GROUP, plain).t().int(), codes - 8):
                return (lambda given, pack=pack, arrange=arrange: pack(
                    arrange(given), _INNER_TILES)), product
            problem = problem or f'{product_name} gives wrong numbers'
        except (AttributeError, RuntimeError, NotImplementedError) as error:
            problem = problem or str(error).splitlines()[0]
    raise RuntimeError(f'no int4 product for the CPU ({problem})')


def _as_is(codes: Tensor) -> Tensor:
    return codes


def _two_a_byte(codes: Tensor) -> Tensor:
    return (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
