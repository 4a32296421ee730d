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

"""The pool of blocks: which are free, used or cached, with reference counts and generations.

What lives here: numbers about blocks. What does not: their contents (storage.py), what they mean
(index.py), and when to evict (paged.py).

    free    references = 0, not published   on the free list, last released first
    used    references > 0                  on no list
    cached  references = 0, published       on the cached list, least recently used first

          take              publish                release
    free ------> used ------------------> used* ------------> cached
      ^           |                         ^                   |
      |  release  |                         +------ share ------+
      +-----------+                                             |
      +------------------------ unpublish ----------------------+

Both lists are intrusive and doubly linked: two arrays of neighbours, taken once, with a sentinel
of its own for each list behind the last block. Every operation touches a fixed number of entries a
block, whatever the size of the pool. Not thread-safe: one owner, the inference worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from robot_infer.errors import BudgetError


class PoolExhausted(BudgetError):
    """More blocks are needed at once than are free or may be evicted; nothing was changed."""

    def __init__(self, needed: int, free: int, evictable: int, total: int) -> None:
        super().__init__(
            'cache pages', expected=f'{needed} pages free or evictable',
            got=f'{free} free and {evictable} evictable of {total}',
            remedy='Raise cache.budget_bytes, or hold fewer prefixes at a time.')
        self.needed = needed
        self.free = free
        self.evictable = evictable
        self.total = total


class BlockPool:
    """`num_blocks` blocks, named 0 to num_blocks - 1; never grows.

    A run of blocks released together comes back in the same order when it is taken again, so
    that neighbours stay neighbours (a run of neighbours is read without a copy).
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f'num_blocks: expected at least 1; got {num_blocks}')
        self.num_blocks = num_blocks
        self._free, self._cached = num_blocks, num_blocks + 1  # the sentinels
        self._references = [0] * num_blocks
        self._generation = [0] * num_blocks
        self._published = [False] * num_blocks
        self._next = [*range(1, num_blocks + 1), 0, self._cached]
        self._previous = [num_blocks, *range(num_blocks), self._cached]
        self._num_free = num_blocks
        self._num_cached = 0

    @property
    def num_free(self) -> int:
        """Blocks that `take` can give."""
        return self._num_free

    @property
    def num_cached(self) -> int:
        """Blocks nobody refers to whose contents may be found again."""
        return self._num_cached

    @property
    def num_used(self) -> int:
        """Blocks somebody refers to."""
        return self.num_blocks - self._num_free - self._num_cached

    def references(self, block: int) -> int:
        """How often the block is held."""
        return self._references[block]

    def generation(self, block: int) -> int:
        """How often the block was taken afresh: contents of another generation are gone."""
        return self._generation[block]

    def is_published(self, block: int) -> bool:
        """Whether the block's contents may be found by others."""
        return self._published[block]

    def is_writable(self, block: int) -> bool:
        """Whether its one holder may write: nobody else holds it, and nobody can find it."""
        return self._references[block] == 1 and not self._published[block]

    def take(self, count: int) -> list[int]:
        """Take free blocks, each with one reference; their contents are undefined.

        :raises PoolExhausted: where fewer are free; nothing is changed then.
        """
        assert count >= 0, f'{count} blocks cannot be taken'
        if count > self._num_free:
            raise PoolExhausted(count, self._num_free, self._num_cached, self.num_blocks)
        following, references, generation = self._next, self._references, self._generation
        free = self._free
        block = following[free]
        taken = []
        for _ in range(count):
            taken.append(block)
            references[block] = 1
            generation[block] += 1
            block = following[block]
        following[free] = block
        self._previous[block] = free
        self._num_free -= count
        return taken

    def share(self, blocks: Sequence[int]) -> None:
        """Add a reference to each of these used or cached blocks."""
        references = self._references
        for block in blocks:
            if references[block] == 0:
                assert self._published[block], f'block {block} is free and cannot be shared'
                self._unlink(block)
                self._num_cached -= 1
            references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Give up one reference to each block.

        The last reference frees the block, or leaves it cached where it is published. Last block
        first: of a prefix the tail is evicted before the head, which more prefixes share.
        """
        references = self._references
        for block in reversed(blocks):
            left = references[block] - 1
            assert left >= 0, f'block {block} is released more often than it was taken'
            references[block] = left
            if left == 0:
                if self._published[block]:
                    self._link(block, self._previous[self._cached])
                    self._num_cached += 1
                else:
                    self._link(block, self._free)
                    self._num_free += 1

    def publish(self, block: int) -> None:
        """Say that a used block's contents may be found; from now on nobody may write it."""
        assert self._references[block] > 0, f'block {block} is not used and cannot be published'
        self._published[block] = True

    def unpublish(self, block: int) -> None:
        """Say that a block's contents may no longer be found; a cached block becomes free."""
        assert self._published[block], f'block {block} is not published'
        self._published[block] = False
        if self._references[block] == 0:
            self._unlink(block)
            self._num_cached -= 1
            self._link(block, self._free)
            self._num_free += 1

    def oldest_cached(self) -> int:
        """The cached block that was released longest ago."""
        assert self._num_cached, 'no block is cached'
        return self._next[self._cached]

    def free_blocks(self) -> Iterator[int]:
        """Free blocks, next to be taken first (for checks)."""
        return self._walk(self._free)

    def cached_blocks(self) -> Iterator[int]:
        """Cached blocks, next to be evicted first (for checks)."""
        return self._walk(self._cached)

    def invariants(self) -> None:
        """Check the books; O(num_blocks).

        :raises AssertionError: in words.
        """
        free, cached = list(self.free_blocks()), list(self.cached_blocks())
        used = [block for block, count in enumerate(self._references) if count > 0]
        assert len(free) == self._num_free, f'{len(free)} on the free list, {self._num_free} said'
        assert len(cached) == self._num_cached, (
            f'{len(cached)} on the cached list, {self._num_cached} said')
        assert sorted([*free, *cached, *used]) == list(range(self.num_blocks)), (
            f'free {len(free)} + used {len(used)} + cached {len(cached)} are not the '
            f'{self.num_blocks} blocks, each once')
        for block in free:
            assert not self._published[block], f'free block {block} is published'
        for block in cached:
            assert self._published[block], f'cached block {block} is not published'
        assert min(self._references) >= 0, 'a reference count is negative'

    def _link(self, block: int, before: int) -> None:
        after = self._next[before]
        self._next[before] = self._previous[after] = block
        self._previous[block], self._next[block] = before, after

    def _unlink(self, block: int) -> None:
        before, after = self._previous[block], self._next[block]
        self._next[before], self._previous[after] = after, before

    def _walk(self, sentinel: int) -> Iterator[int]:
        block = sentinel
        while True:
            following = self._next[block]
            assert self._previous[following] == block, f'links around {block} are broken'
            if following == sentinel:
                return
            yield following
            block = following
