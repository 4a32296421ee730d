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

"""What is compiled before deployment: every operation, called as the engine calls it.

A case calls a public entry with backend 'triton' on tensors of a policy's shapes. They are small
and empty, which the compiler does not see. What does not live here: compiling (ahead.py) and the
verdict (check.py). Imports no Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import functools
from typing import Literal

import torch

from robot_infer_kernels import elementwise
from robot_infer_kernels.attention import paged_attention
from robot_infer_kernels.gpu.targets import Target, fp8_refusal
from robot_infer_kernels.pages import FORMATS, Plane, format_of, zero_plane

_DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'fp16': torch.float16}
_ALL = tuple(FORMATS)
# A sequence long enough to be split, and a prefill long enough to fill any chip without.
_TABLE_TOKENS, _LONG_PREFILL = 4096, 16384


@dataclass(frozen=True)
class Shape:
    """What a policy asks of the kernels.

    :param name: of the policy. dtype: of queries and plain pages.
    :param suffix_tokens: rows of the action head. prefix_tokens: rows of a prefill.
    :param widths: of the rows that are normed. hidden: of the gated MLPs.
    :param options: also with a window and a soft cap.
    :param formats: of quantised pages, beside plain ones.
    """

    name: str
    num_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: Literal['fp32', 'bf16', 'fp16'] = 'bf16'
    page_tokens: int = 64
    suffix_tokens: int = 50
    prefix_tokens: int = 256
    widths: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    options: bool = False
    formats: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Name and numbers, for a title."""
        return (f'{self.name}: {self.num_heads}:{self.num_kv_heads} x {self.head_dim}, '
                f'{self.dtype}, pages of {self.page_tokens}')


@dataclass(frozen=True)
class Case:
    """One call. refusal: why it is not offered for this chip or shape; nothing is called then."""

    name: str
    run: Callable[[], object]
    refusal: str = ''


# The shapes of the policies this project is for (`--all-shapes`), and one that takes every other
# path: a head cut in two, pages smaller than a tile, a window, a soft cap.
SHAPES = (
    Shape('SmolVLA', 15, 5, 64, widths=(960, 720), hidden=(2560, 2048), formats=_ALL),
    Shape('pi0', 8, 1, 256, prefix_tokens=816, widths=(2048, 1024), hidden=(16384, 4096),
          formats=_ALL),
    Shape('32:8x128', 32, 8, 128, suffix_tokens=1, prefix_tokens=512, widths=(4096,),
          hidden=(14336,), formats=_ALL),
    Shape('12:4x96', 12, 4, 96, page_tokens=16, options=True, formats=_ALL),
)


def cases(shape: Shape, target: Target) -> Iterator[Case]:
    """Every operation for one policy and chip."""
    yield from attention_cases(shape)
    yield from elementwise_cases(shape)
    for form in shape.formats:
        yield from format_cases(shape, form, target)


def attention_cases(shape: Shape) -> Iterator[Case]:
    """One token, the suffix of an action head, and prefills, over plain pages.

    'any length' is what else can be reached by fewer tokens or shorter tables: all of warm-up.
    """
    plane = page(shape)
    rows = {'decode': 1, 'suffix': shape.suffix_tokens, 'prefill': shape.prefix_tokens,
            'long prefill': _LONG_PREFILL}
    for name, num_tokens in rows.items():
        yield Case(name, functools.partial(attend, shape, plane, num_tokens))
    yield Case('any length', functools.partial(attend_any, shape))
    if shape.options:
        for name in ('decode', 'long prefill'):
            yield Case(f'{name} with window and soft cap', functools.partial(
                attend, shape, plane, rows[name], window=1024, softcap=50.0))


def format_cases(shape: Shape, form: str, target: Target) -> Iterator[Case]:
    """What reads and writes pages, in one format of quantised pages."""
    words = fp8_refusal(target.capability) if form == 'fp8' else ''
    try:
        format_of(form).sizes(shape.head_dim)
    except ValueError as error:
        words = str(error)
    rows = {'decode': 1, 'suffix': shape.suffix_tokens, 'long prefill': _LONG_PREFILL}
    runs: dict[str, Callable[[], object]] = {
        name: functools.partial(attend_form, shape, form, count) for name, count in rows.items()}
    runs['any length'] = functools.partial(attend_any, shape, form)
    runs['rope and append'] = functools.partial(rope, shape, append=True, form=form)
    if shape.options:
        runs['decode with window and soft cap'] = functools.partial(
            attend_form, shape, form, 1, window=1024, softcap=50.0)
    for name, run in runs.items():
        yield Case(f'{name}, {form} pages', run, words)


def page(shape: Shape, form: str = 'plain') -> Plane:
    """One page of keys and of values; every page of a table may be the same one."""
    return zero_plane((2, 1, shape.page_tokens, shape.num_kv_heads, shape.head_dim), form,
                      _DTYPES[shape.dtype])


def attend_form(shape: Shape, form: str, num_tokens: int, window: int | None = None,
                softcap: float | None = None) -> torch.Tensor:
    """Call attention over pages of a format."""
    return attend(shape, page(shape, form), num_tokens, window, softcap)


def attend(shape: Shape, plane: Plane, num_tokens: int, window: int | None = None,
           softcap: float | None = None) -> torch.Tensor:
    """Call attention as the engine does."""
    length = max(_TABLE_TOKENS, num_tokens)
    table = torch.zeros(-(-length // shape.page_tokens), dtype=torch.int64)
    limit = torch.arange(length - num_tokens + 1, length + 1)
    query = torch.empty(num_tokens, shape.num_heads, shape.head_dim, dtype=_DTYPES[shape.dtype])
    return paged_attention(query, plane, table, length, limit, shape.head_dim ** -0.5,
                           window=window, softcap=softcap, backend='triton')


def attend_any(shape: Shape, form: str = 'plain') -> None:
    """Launch all that any number of tokens and any sequence can reach, as warm-up does."""
    from robot_infer_kernels.gpu.warm import AttentionShape

    most = max(shape.prefix_tokens, shape.suffix_tokens)
    AttentionShape(
        shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.page_tokens,
        max_pages=_TABLE_TOKENS // shape.page_tokens, tokens=range(1, most + 1),
        dtype=_DTYPES[shape.dtype], form=form).launch_all(torch.device('cpu'))


def elementwise_cases(shape: Shape) -> Iterator[Case]:
    """What stands beside attention; the residual is float32, as the models keep it."""
    dtype = _DTYPES[shape.dtype]
    yield Case('rope and append', functools.partial(rope, shape, append=True))
    yield Case('rope', functools.partial(rope, shape, append=False))
    if shape.options:
        yield Case('rope and append, interleaved', functools.partial(
            rope, shape, append=True, interleaved=True))
    for width in shape.widths:
        yield Case(f'norm of {width} with residual', functools.partial(
            norm, width, dtype, torch.zeros(1, width)))
    for hidden in shape.hidden:
        yield Case(f'gated silu of {hidden}', functools.partial(
            elementwise.gated_silu, torch.zeros(1, 2 * hidden, dtype=dtype), backend='triton'))
    if shape.widths:
        yield Case(f'norm of {shape.widths[0]} by 1 + weight', functools.partial(
            norm, shape.widths[0], dtype, plus_one=True))
        yield Case('gather of rows', functools.partial(
            elementwise.gather_rows, torch.zeros(1, shape.widths[0], dtype=dtype),
            torch.zeros(1, dtype=torch.int64), backend='triton'))
    if shape.hidden:
        yield Case(f'gated gelu of {shape.hidden[0]}', functools.partial(
            elementwise.gated_gelu, torch.zeros(1, 2 * shape.hidden[0], dtype=dtype),
            backend='triton'))
    two_blocks = page(shape).repeat(1, 2, 1, 1, 1).unsqueeze(0)
    yield Case('copy of blocks', functools.partial(
        elementwise.copy_blocks, two_blocks, torch.tensor([[0, 1]]), backend='triton'))


def rope(shape: Shape, append: bool, interleaved: bool = False, form: str = 'plain'
         ) -> torch.Tensor:
    """Turn one token of a fused projection, and write its keys and values."""
    heads, kv_heads = shape.num_heads, shape.num_kv_heads
    fused = torch.zeros(1, heads + 2 * kv_heads, shape.head_dim, dtype=_DTYPES[shape.dtype])
    cos_sin, one = torch.zeros(1, shape.head_dim), torch.zeros(1, dtype=torch.int64)
    if not append:
        return elementwise.rotate(fused[:, :heads], cos_sin, one, backend='triton')
    return elementwise.rope_append(
        fused[:, :heads], fused[:, heads:heads + kv_heads], fused[:, heads + kv_heads:], cos_sin,
        page(shape, form), one, one, interleaved, backend='triton')


def norm(width: int, dtype: torch.dtype, residual: torch.Tensor | None = None,
         plus_one: bool = False) -> torch.Tensor:
    """Norm one row; weights are float32."""
    return elementwise.rms_norm(torch.zeros(1, width, dtype=dtype), torch.zeros(width), 1e-6,
                                residual, plus_one, backend='triton')
