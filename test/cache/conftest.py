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

"""What the tests of the cache share: small caches, and counting of memory touches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from robot_infer.cache import BlockPool, KVStorage, PagedCache, PrefixIndex


def small_cache(num_blocks: int = 12, page_tokens: int = 4, max_blocks: int = 6,
                num_planes: int = 2, poison: bool = True) -> PagedCache:
    """A cache whose every page is a handful of numbers."""
    storage = KVStorage(num_planes, num_blocks, page_tokens, 1, 2, torch.float64, poison=poison)
    pool = BlockPool(num_blocks)
    return PagedCache(storage, pool, PrefixIndex(pool, page_tokens), max_blocks)


class CountingList(list):
    """A list that counts how often its entries are read or written."""

    touches = 0

    def __getitem__(self, index):
        CountingList.touches += 1
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        CountingList.touches += 1
        super().__setitem__(index, value)

    def __iter__(self):
        CountingList.touches += len(self)
        return super().__iter__()


def count_touches(pool: BlockPool, index: PrefixIndex | None = None) -> Callable[[], int]:
    """Replace every array of the pool by a counting one; returns what reads the count."""
    for owner in filter(None, (pool, index)):
        for name, value in vars(owner).items():
            if isinstance(value, list):
                setattr(owner, name, CountingList(value))
    before = CountingList.touches
    return lambda: CountingList.touches - before


@pytest.fixture(scope='session')
def make_cache() -> Callable[..., PagedCache]:
    """The function that makes a small cache."""
    return small_cache


@pytest.fixture(scope='session')
def counted() -> Callable[..., Callable[[], int]]:
    """The function that makes a pool count its memory touches."""
    return count_touches
