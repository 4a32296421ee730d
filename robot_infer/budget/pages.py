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

"""The fixed budget for pages and image embeddings, laid out before anything is allocated.

Blocks that must exist so that no step can fail:

    live prefixes   2 (the one being read, the one being filled), each the longest prefix,
                    and one copied page each (a published page is never written)
    suffix          the action tokens of one chunk, beginning inside a page
What the budget holds beyond that keeps older prefixes for reuse.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Protocol

from robot_infer.budget.kv import find_format
from robot_infer.budget.lines import MemoryLine
from robot_infer.config import CacheSettings
from robot_infer.errors import BudgetError, ConfigError

LIVE_PREFIXES = 2


@dataclass(frozen=True)
class PagePlan:
    """num_blocks: pages in the pool; blocks_per_sequence: the longest block table."""

    num_blocks: int
    blocks_per_sequence: int
    lines: tuple[MemoryLine, ...]

    @property
    def num_bytes(self) -> int:
        """All that will be taken."""
        return sum(line.num_bytes for line in self.lines)


class _Shape(Protocol):
    num_planes: int
    num_kv_heads: int
    head_dim: int
    max_prefix: int
    image_tokens: int
    width: int
    dtype: object


@dataclass(frozen=True)
class PageNeed:
    """What must fit, before it is known how much there is.

    num_blocks: pages without which a step could fail; words: of one page.
    """

    num_blocks: int
    prefix_blocks: int
    suffix_blocks: int
    block_bytes: int
    embedding_bytes: int
    words: str

    @property
    def num_bytes(self) -> int:
        """The smallest `cache.budget_bytes`."""
        return self.num_blocks * self.block_bytes + self.embedding_bytes


def need_pages(shape: _Shape, num_cameras: int, horizon: int, cache: CacheSettings) -> PageNeed:
    """Count the pages that every step needs.

    :param shape: of a policy's prefix (policies.base.PrefixShape).
    :raises ConfigError: where `cache.kv_format` is not for heads of this policy's size.
    """
    value_bytes = shape.dtype.itemsize  # type: ignore[attr-defined]
    page = cache.page_tokens
    head_bytes, head_words = _head_bytes(cache.kv_format, shape.head_dim, value_bytes)
    block_bytes = shape.num_planes * 2 * page * shape.num_kv_heads * head_bytes
    prefix_blocks = math.ceil(shape.max_prefix / page)
    suffix_blocks = math.ceil(horizon / page) + 1
    return PageNeed(
        num_blocks=LIVE_PREFIXES * (prefix_blocks + 1) + suffix_blocks,
        prefix_blocks=prefix_blocks, suffix_blocks=suffix_blocks, block_bytes=block_bytes,
        embedding_bytes=(num_cameras * cache.embeddings_per_camera * shape.image_tokens
                         * shape.width * value_bytes),
        words=f'{shape.num_planes} planes x 2 x {page} tokens x {shape.num_kv_heads} heads x '
              f'{head_words} = {block_bytes} bytes a page')


def plan_pages(shape: _Shape, num_cameras: int, horizon: int, cache: CacheSettings) -> PagePlan:
    """Lay out the budget.

    :param shape: of a policy's prefix (policies.base.PrefixShape).
    :raises ConfigError: where `cache.kv_format` is not for heads of this policy's size.
    :raises BudgetError: where `cache.budget_bytes` is too small, with the arithmetic.
    """
    need = need_pages(shape, num_cameras, horizon, cache)
    num_blocks = (cache.budget_bytes - need.embedding_bytes) // need.block_bytes
    embeddings = (f'{num_cameras} cameras x {cache.embeddings_per_camera} frames x '
                  f'{shape.image_tokens} tokens x {shape.width} x '
                  f'{shape.dtype.itemsize} bytes')  # type: ignore[attr-defined]
    if num_blocks < need.num_blocks:
        raise BudgetError(
            'parameter cache.budget_bytes', expected=f'at least {need.num_bytes} bytes: '
            f'{LIVE_PREFIXES} prefixes of {shape.max_prefix} tokens = {need.prefix_blocks} + 1 '
            f'pages each, {need.suffix_blocks} pages for {horizon} action tokens, so '
            f'{need.num_blocks} pages; {need.words}; and {need.embedding_bytes} bytes of '
            f'embeddings ({embeddings})', got=f'{cache.budget_bytes} bytes',
            remedy='Raise the budget, or lower cache.page_tokens or cache.embeddings_per_camera, '
            'or use policy.dtype bf16 or cache.kv_format int8.')
    return PagePlan(
        num_blocks=num_blocks,
        blocks_per_sequence=need.prefix_blocks + 1 + need.suffix_blocks,
        lines=(
            MemoryLine('pages', num_blocks * need.block_bytes, f'{num_blocks} pages; '
                       f'{need.words}', kind='kv'),
            MemoryLine('image embeddings', need.embedding_bytes, embeddings, kind='embeddings',
                       per_camera=(need.embedding_bytes // num_cameras,) * num_cameras
                       if num_cameras else ())))


def _head_bytes(kv_format: str, head_dim: int, value_bytes: int) -> tuple[int, str]:
    """Bytes of one head of one token, codes and scales, and how they come about."""
    if kv_format == 'auto':
        return head_dim * value_bytes, f'{head_dim} x {value_bytes} bytes'
    form = find_format(kv_format)
    group = form.scale_group or head_dim
    if head_dim % group:
        raise ConfigError(
            'parameter cache.kv_format', expected=f'auto, int8 or fp8: int4 has a scale for each '
            f'{group} elements, and {head_dim}, the size of this policy\'s heads, is no '
            'multiple of that', got=kv_format, remedy='Use int8.')
    scales = f'{head_dim // group} scales' if form.scale_group else 'a scale'
    return form.head_bytes(head_dim), (
        f'({form.values_only.head_bytes(head_dim)} bytes + {scales} of {form.scale_bytes})')
