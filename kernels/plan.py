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

"""What one shape of attention call reads: checked and laid out once, run on any number of planes.

A chunk of actions runs the same attention over and over, with other numbers each time: which keys
lie where, and who sees which, is the same in every layer and denoising step. Here stand the checks
of all that and what follows from it (FlashInfer's plan and run). What does not: queries, keys and
values.

On a CPU a plan reads the values of table, length and limit once, when it is made. A plan for a
GPU, or one whose length is a tensor, is `live`: nothing is read on the host, the kernels read the
tensors at each launch, and whoever changes them changes what the next launch sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
import functools
import math
import operator

import torch

from robot_infer_kernels.debug import debugging
from robot_infer_kernels.pages import Plane

HEAD_DIM_LOW, HEAD_DIM_HIGH = 8, 256
_MASK_TOKENS = 512
_WIDEST = 2**31 - 1  # a window beyond every length: the kernels count in int32


@dataclass(frozen=True)
class AttentionPlan:
    """Which keys the rows of a call see, and where they lie; made by `plan_attention`.

    kv_shape: of the planes it is for. table: (num_pages,) int64. length: int, or (1,) int32.
    limit: int, or (num_tokens,) int64. live: whether table, length and limit may change between
    calls; a plan that is not live holds values that were checked.
    """

    kv_shape: torch.Size
    num_tokens: int
    table: torch.Tensor
    length: int | torch.Tensor
    limit: int | torch.Tensor
    window: int | None
    live: bool = False
    # What the CPU backend found in planes it has read (a tensor is a key by identity).
    views: dict[torch.Tensor, tuple[torch.Tensor, torch.Tensor]] = field(
        default_factory=dict, init=False, repr=False, compare=False)
    # What its C++ kernel needs to know of them: by plane, number of heads and dtype of queries.
    prepared: dict[tuple[Plane, int, torch.dtype], object] = field(
        default_factory=dict, init=False, repr=False, compare=False)

    @property
    def begin(self) -> int:
        """First key that any row sees."""
        return 0 if self.window is None else max(0, self.low - self.window)

    @property
    def low(self) -> int:
        """Lowest limit."""
        return self._limit_range[0]

    @property
    def high(self) -> int:
        """Highest limit; keys [begin, high) are those that any row sees."""
        return self._limit_range[1]

    @functools.cached_property
    def pages(self) -> list[int]:
        """Blocks of the valid tokens, in order."""
        return self.table[:-(-int(self.length) // self.kv_shape[2])].tolist()

    @functools.cached_property
    def _limit_range(self) -> tuple[int, int]:
        """Lowest and highest limit; (length, length) where there is no row."""
        if isinstance(self.limit, int):
            return self.limit, self.limit
        limits = self.limit.tolist()
        return (min(limits), max(limits)) if limits else (int(self.length), int(self.length))

    @functools.cached_property
    def seen_pages(self) -> list[int]:
        """Blocks of the pages that hold keys any row sees, in order."""
        page_tokens = self.kv_shape[2]
        return self.pages[self.begin // page_tokens:-(-self.high // page_tokens)]

    @functools.cached_property
    def seen_index(self) -> torch.Tensor:
        """`seen_pages` as int64, to gather by."""
        return torch.tensor(self.seen_pages)

    @functools.cached_property
    def mask(self) -> torch.Tensor | None:
        """(num_tokens, high - begin) float32: 0 where row i sees key begin + j, -inf elsewhere.

        None where every row sees all of them.
        """
        if self.low == self.high:
            return None
        if self.window is None and self.high <= _MASK_TOKENS:
            return _mask_rows()[:, :self.high].index_select(0, self.limit)
        keys = torch.arange(self.begin, self.high)
        hidden = keys >= self.limit.unsqueeze(1)
        if self.window is not None:
            hidden |= keys < (self.limit - self.window).unsqueeze(1)
        return torch.zeros(hidden.shape).masked_fill_(hidden, -math.inf)

    @functools.cached_property
    def length_there(self) -> torch.Tensor:
        """`length` as a kernel reads it: (1,) int32 beside the table. No synchronisation."""
        if isinstance(self.length, torch.Tensor):
            return self.length
        return torch.full((1,), self.length, dtype=torch.int32, device=self.table.device)

    @functools.cached_property
    def limits_there(self) -> torch.Tensor:
        """`limit` as a kernel reads it: (num_tokens,) int64 beside the table."""
        if isinstance(self.limit, torch.Tensor):
            return self.limit
        return torch.full((self.num_tokens,), self.limit, dtype=torch.int64,
                          device=self.table.device)

    def settled(self) -> AttentionPlan:
        """A plan of the values that a live plan has now, on the host; itself, if it is none.

        :raises ValueError: where the values do not fit.
        """
        if not self.live:
            return self
        plan = replace(self, table=self.table.cpu(), length=int(self.length), live=False,
                       limit=self.limit if isinstance(self.limit, int) else self.limit.cpu())
        plan.check_values()
        return plan

    def check_values(self) -> None:
        """Check table, length and limit; reads them, so on a GPU it waits for it.

        :raises ValueError: where a value does not fit; its name stands in the message.
        """
        num_blocks, page_tokens = self.kv_shape[1:3]
        length, num_pages = int(self.length), self.table.shape[0]
        if not 0 <= length <= num_pages * page_tokens:
            raise ValueError(f'length: expected 0 to {num_pages * page_tokens} (table has '
                             f'{num_pages} pages of {page_tokens} tokens); got {length}')
        pages = self.table[:-(-length // page_tokens)].tolist() if self.live else self.pages
        if pages and not (0 <= min(pages) and max(pages) < num_blocks):
            raise ValueError(f'table: expected blocks from 0 to {num_blocks - 1}; got {pages}')
        limits = self.limit.tolist() if isinstance(self.limit, torch.Tensor) else [self.limit]
        if self.num_tokens and not 1 <= min(limits) <= max(limits) <= length:
            raise ValueError(f'limit: expected 1 to length = {length}; got {min(limits)} to '
                             f'{max(limits)}')
        if debugging():
            for row in range(1, len(limits)):
                if limits[row] < limits[row - 1]:
                    raise ValueError(f'limit: expected limits that never decrease; got '
                                     f'{limits[row]} after {limits[row - 1]} in row {row}')


def plan_attention(
    kv: Plane, table: torch.Tensor, length: int | torch.Tensor,
    limit: int | torch.Tensor, num_tokens: int, window: int | None = None,
) -> AttentionPlan:
    """Check and lay out what `num_tokens` queries will read, see `attention.paged_attention`.

    :param kv: any plane of the storage that the plan is for; only its shape and device count.
    :param limit: must not change while the plan is in use, unless the plan is live.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    shape = kv.shape
    if len(shape) != 5 or shape[0] != 2:
        raise ValueError(f'kv: expected (2, num_blocks, page_tokens, num_kv_heads, head_dim); '
                         f'got {tuple(shape)}')
    if min(shape[2:4]) < 1:
        raise ValueError(f'kv: expected pages of at least one token, and at least one head; got '
                         f'{tuple(shape)}')
    if not HEAD_DIM_LOW <= shape[4] <= HEAD_DIM_HIGH:
        raise ValueError(f'kv: expected head_dim {HEAD_DIM_LOW}..{HEAD_DIM_HIGH}; got {shape[4]}')
    _check_index('table', table, '(num_pages,) int64', torch.int64, table.dim() == 1, kv.device)
    if isinstance(length, torch.Tensor):
        _check_index('length', length, 'int or (1,) int32', torch.int32, length.shape == (1,),
                     kv.device)
    if isinstance(limit, torch.Tensor):
        _check_index('limit', limit, f'int or ({num_tokens},) int64', torch.int64,
                     limit.shape == (num_tokens,), kv.device)
    length, limit = _whole('length', length), _whole('limit', limit)
    if window is not None:
        window = min(_whole('window', window), _WIDEST)
        if window < 1:
            raise ValueError(f'window: expected at least 1 or None; got {window}')
    live = kv.device.type != 'cpu' or isinstance(length, torch.Tensor)
    plan = AttentionPlan(shape, num_tokens, table, length, limit, window, live)
    if not live:
        plan.check_values()
    return plan


def _whole(name: str, value: int | torch.Tensor) -> int | torch.Tensor:
    """Any whole number as an int; a tensor as it is."""
    if isinstance(value, torch.Tensor):
        return value
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(f'{name}: expected a whole number; got {value!r}') from error


def _check_index(name: str, tensor: torch.Tensor, wanted: str, dtype: torch.dtype, fits: bool,
                 device: torch.device) -> None:
    """Check what table, length and limit have in common."""
    if not fits or tensor.dtype != dtype:
        raise ValueError(f'{name}: expected {wanted}; got {tuple(tensor.shape)} {tensor.dtype}')
    if tensor.device != device:
        raise ValueError(f'{name}: expected it on {device}, as kv; got {tensor.device}')
    if not tensor.is_contiguous():
        raise ValueError(f'{name}: expected contiguous numbers; got stride {tensor.stride()}')


@functools.cache
def _mask_rows() -> torch.Tensor:
    """Row r hides the keys from r on: 1 MiB, made once, saves a third of a short call."""
    keys = torch.arange(_MASK_TOKENS)
    limits = torch.arange(_MASK_TOKENS + 1).unsqueeze(1)
    return torch.zeros(_MASK_TOKENS + 1, _MASK_TOKENS).masked_fill_(keys >= limits, -math.inf)
