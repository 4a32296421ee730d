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
"""

from __future__ import annotations

from dataclasses import dataclass, field
import functools
import math

import torch

HEAD_DIM_LOW, HEAD_DIM_HIGH = 8, 256
_MASK_TOKENS = 512


@dataclass(frozen=True)
class AttentionPlan:
    """Which keys the rows of a call see, and where they lie; made by `plan_attention`.

    kv_shape: of the planes it is for. pages: blocks of the valid tokens, in order. low, high: the
    lowest and the highest limit; keys [begin, high) are those that any row sees.
    """

    kv_shape: torch.Size
    num_tokens: int
    pages: list[int]
    length: int
    limit: int | torch.Tensor
    window: int | None
    low: int
    high: int
    # What the CPU backend found in planes it has read (a tensor is a key by identity).
    views: dict[torch.Tensor, tuple[torch.Tensor, torch.Tensor]] = field(
        default_factory=dict, init=False, repr=False, compare=False)

    @property
    def begin(self) -> int:
        """First key that any row sees."""
        return 0 if self.window is None else max(0, self.low - self.window)

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


def plan_attention(
    kv: torch.Tensor, table: torch.Tensor, length: int, limit: int | torch.Tensor,
    num_tokens: int, window: int | None = None,
) -> AttentionPlan:
    """Check and lay out what `num_tokens` queries will read, see `attention.paged_attention`.

    :param kv: any plane of the storage that the plan is for; only its shape is looked at.
    :param limit: must not change while the plan is in use.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    if kv.dim() != 5 or kv.shape[0] != 2:
        raise ValueError(f'kv: expected (2, num_blocks, page_tokens, num_kv_heads, head_dim); '
                         f'got {tuple(kv.shape)}')
    if not HEAD_DIM_LOW <= kv.shape[4] <= HEAD_DIM_HIGH:
        raise ValueError(f'kv: expected head_dim {HEAD_DIM_LOW}..{HEAD_DIM_HIGH}; '
                         f'got {kv.shape[4]}')
    pages = _pages(table, length, kv.shape[1], kv.shape[2])
    low, high = _limit_range(limit, num_tokens, length)
    if window is not None and window < 1:
        raise ValueError(f'window: expected at least 1 or None; got {window}')
    return AttentionPlan(kv.shape, num_tokens, pages, length, limit, window, low, high)


def _pages(table: torch.Tensor, length: int, num_blocks: int, page_tokens: int) -> list[int]:
    """Blocks of the pages that hold the first `length` tokens."""
    if table.dim() != 1 or table.dtype != torch.int64:
        raise ValueError(f'table: expected (num_pages,) int64; got {tuple(table.shape)} '
                         f'{table.dtype}')
    num_pages = -(-length // page_tokens)
    if num_pages > table.shape[0]:
        raise ValueError(f'length: expected at most {table.shape[0] * page_tokens} (table has '
                         f'{table.shape[0]} pages of {page_tokens} tokens); got {length}')
    pages = table[:num_pages].tolist()
    if pages and not (0 <= min(pages) and max(pages) < num_blocks):
        raise ValueError(f'table: expected blocks from 0 to {num_blocks - 1}; got {pages}')
    return pages


def _limit_range(limit: int | torch.Tensor, num_tokens: int, length: int) -> tuple[int, int]:
    """Lowest and highest limit; (length, length) where there is no row."""
    if isinstance(limit, int):
        low = high = limit
    else:
        if limit.dtype != torch.int64 or limit.shape != (num_tokens,):
            raise ValueError(f'limit: expected int or ({num_tokens},) int64; got '
                             f'{tuple(limit.shape)} {limit.dtype}')
        limits = limit.tolist()
        low, high = (min(limits), max(limits)) if limits else (length, length)
    if num_tokens and not 1 <= low <= high <= length:
        raise ValueError(f'limit: expected 1 to length = {length}; got {low} to {high}')
    return low, high


@functools.cache
def _mask_rows() -> torch.Tensor:
    """Row r hides the keys from r on: 1 MiB, made once, saves a third of a short call."""
    keys = torch.arange(_MASK_TOKENS)
    limits = torch.arange(_MASK_TOKENS + 1).unsqueeze(1)
    return torch.zeros(_MASK_TOKENS + 1, _MASK_TOKENS).masked_fill_(keys >= limits, -math.inf)
