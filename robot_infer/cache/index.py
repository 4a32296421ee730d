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

"""The prefix index: from the key of a prefix to the blocks that hold it.

What lives here: keys and the blocks published under them. What does not: how a key is made
(prompt/layout.py has the one rule for exact reuse), and the blocks' order of eviction (pool.py).

    tokens   0 ........ 64 ........ 128 ....... 176 177
    pages    |  block 7  |  block 8  |  block 9   |  |
    keys              end 64      end 128     end 176      the last one lies inside a page

An entry may be found as long as its block is published in the generation it was published in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from robot_infer.cache.pool import BlockPool
from robot_infer.types import PageKey


@dataclass(frozen=True)
class Match:
    """A prefix found in pages.

    blocks: the pages of tokens [0, length), of which the last may be used in part. Each block
    carries a reference for the caller, who releases it.
    """

    blocks: tuple[int, ...]
    length: int


# (block, generation, end): a plain tuple, since one is made for every page published.
_Entry = tuple[int, int, int]


class PrefixIndex:
    """Keys of published pages; least recently used pages are evicted first."""

    def __init__(self, pool: BlockPool, page_tokens: int) -> None:
        if page_tokens < 1:
            raise ValueError(f'page_tokens: expected at least 1; got {page_tokens}')
        self.pool = pool
        self.page_tokens = page_tokens
        self.num_evicted = 0
        self._entries: dict[bytes, _Entry] = {}
        # The keys of each block: the page's edge, and ends of groups inside the page.
        self._digests: list[list[bytes]] = [[] for _ in range(pool.num_blocks)]

    def __len__(self) -> int:
        """Number of keys."""
        return len(self._entries)

    def match(self, keys: Sequence[PageKey], max_length: int) -> Match:
        """Find the longest known prefix of at most `max_length` tokens.

        Full pages are followed in order until one is unknown; then the longest known end inside
        the next page is taken. The blocks found are shared: they stay until they are released.

        :param keys: by ascending end, with one at every page edge.
        :param max_length: one less than the tokens wanted, so that one is left to compute.
        """
        page_tokens = self.page_tokens
        blocks: list[int] = []
        tail: _Entry | None = None
        for key in keys:
            full = key.end % page_tokens == 0
            page = (key.end - 1) // page_tokens
            if key.end > max_length or page != len(blocks):
                break
            entry = self._find(key)
            if full:
                if entry is None:
                    break
                blocks.append(entry[0])
                tail = None
            elif entry is not None:
                tail = entry
        length = len(blocks) * page_tokens
        if tail is not None:
            block, _, length = tail
            blocks.append(block)
        self.pool.share(blocks)
        return Match(tuple(blocks), length)

    def publish(self, keys: Sequence[PageKey], blocks: Sequence[int], length: int) -> None:
        """Make the first `length` tokens findable; the caller still holds the blocks.

        Where a key is already known, the block known under it is kept and the new one stays
        private: both hold the same contents.
        """
        for key in keys:
            if key.end > length:
                break
            if self._find(key) is not None:
                continue
            block = blocks[(key.end - 1) // self.page_tokens]
            self.pool.publish(block)
            self._entries[key.digest] = (block, self.pool.generation(block), key.end)
            self._digests[block].append(key.digest)

    def evict(self, count: int) -> list[int]:
        """Free the `count` least recently used cached blocks (or as many as there are)."""
        evicted = []
        for _ in range(min(count, self.pool.num_cached)):
            block = self.pool.oldest_cached()
            self._forget(block)
            evicted.append(block)
        self.num_evicted += len(evicted)
        return evicted

    def clear(self) -> None:
        """Forget every key; cached blocks become free, used ones become private."""
        for block in {block for block, _, _ in self._entries.values()}:
            self._forget(block)

    def entries(self) -> Iterator[tuple[bytes, int, int, int]]:
        """(digest, block, generation, end) of every key (for checks)."""
        for digest, entry in self._entries.items():
            yield digest, *entry

    def invariants(self) -> None:
        """Check that keys and published blocks agree; O(keys + blocks).

        :raises AssertionError: in words.
        """
        pool = self.pool
        for digest, block, generation, end in self.entries():
            name = digest.hex()[:8]
            assert pool.is_published(block), f'key {name}: its block {block} is not published'
            assert generation == pool.generation(block), (
                f'key {name}: generation {generation} of block {block}, which is in generation '
                f'{pool.generation(block)}')
            assert digest in self._digests[block], f'key {name}: unknown to its block {block}'
            assert end > 0, f'key {name}: ends at {end}'
        known = sum(len(digests) for digests in self._digests)
        assert known == len(self._entries), f'blocks name {known} keys, not {len(self)}'
        for block in range(pool.num_blocks):
            assert pool.is_published(block) == bool(self._digests[block]), (
                f'block {block}: published is {pool.is_published(block)}, but it has '
                f'{len(self._digests[block])} keys')

    def _find(self, key: PageKey) -> _Entry | None:
        """The entry of a key, if what was published is still there."""
        entry = self._entries.get(key.digest)
        if entry is None:
            return None
        block, generation, end = entry
        assert end == key.end, f'one digest for ends {end} and {key.end}'
        if self.pool.generation(block) == generation and self.pool.is_published(block):
            return entry
        del self._entries[key.digest]  # the block was taken away behind our back
        self._digests[block].remove(key.digest)
        return None

    def _forget(self, block: int) -> None:
        for digest in self._digests[block]:
            del self._entries[digest]
        self._digests[block].clear()
        self.pool.unpublish(block)
