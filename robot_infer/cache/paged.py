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

"""The paged cache: storage, pool, index and the sequences alive, under one roof.

What lives here: who may take pages, when to evict for them, statistics, and the one check of all
invariants. What does not: tensors (storage.py) and keys (prompt/layout.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Keys
from dataclasses import dataclass

from robot_infer.cache.index import PrefixIndex
from robot_infer.cache.pool import BlockPool, PoolExhausted
from robot_infer.cache.sequence import Sequence
from robot_infer.cache.storage import KVStorage
from robot_infer.types import PageKey


@dataclass(frozen=True)
class CacheStats:
    """Pages now, and what happened since the start.

    opens: sequences opened; hits: those that found a prefix; tokens_hit: tokens found;
    evictions: pages evicted; copies: pages copied on write; sequences: alive now.
    """

    pages_used: int
    pages_cached: int
    pages_free: int
    pages_total: int
    sequences: int
    opens: int
    hits: int
    tokens_hit: int
    evictions: int
    copies: int


@dataclass(frozen=True)
class _Seal:
    """What a page held when it was published."""

    generation: int
    num_tokens: int
    fingerprint: bytes


class PagedCache:
    """Sequences over one pool of pages, which find each other's published prefixes.

    With poisoned storage (for debugging) it also remembers what published pages held, and
    `invariants` tells where one was written later.

    :param max_blocks_per_sequence: room in each block table.
    """

    def __init__(self, storage: KVStorage, pool: BlockPool, index: PrefixIndex,
                 max_blocks_per_sequence: int) -> None:
        assert index.pool is pool, 'the index is over another pool'
        assert storage.num_blocks == pool.num_blocks, (
            f'{storage.num_blocks} blocks of storage, {pool.num_blocks} in the pool')
        assert storage.page_tokens == index.page_tokens, (
            f'pages of {storage.page_tokens} and of {index.page_tokens} tokens')
        self.storage, self.pool, self.index = storage, pool, index
        self.max_blocks_per_sequence = max_blocks_per_sequence
        self._alive: dict[int, Sequence] = {}
        self._seals: dict[int, _Seal] = {}  # by block; kept only with poisoned storage
        self._opens = self._hits = self._tokens_hit = self._copies = 0

    @property
    def stats(self) -> CacheStats:
        """Pages now, and what happened since the start."""
        pool = self.pool
        return CacheStats(
            pages_used=pool.num_used, pages_cached=pool.num_cached, pages_free=pool.num_free,
            pages_total=pool.num_blocks, sequences=len(self._alive), opens=self._opens,
            hits=self._hits, tokens_hit=self._tokens_hit, evictions=self.index.num_evicted,
            copies=self._copies)

    def open(self, keys: Keys[PageKey] = (), max_length: int = 0) -> Sequence:
        """Start a sequence on the longest known prefix of at most `max_length` tokens.

        :param max_length: one less than the tokens wanted, so that one is left to compute.
        """
        room = self.max_blocks_per_sequence * self.storage.page_tokens
        match = self.index.match(keys, min(max_length, room))
        self._opens += 1
        self._hits += match.length > 0
        self._tokens_hit += match.length
        return Sequence(self, match.blocks, match.length)

    def publish(self, sequence: Sequence, keys: Keys[PageKey]) -> None:
        """Make the sequence's tokens findable, up to the last key that it reaches."""
        self.index.publish(keys, sequence.blocks, sequence.length)
        if self.storage.poison:
            self._seal(keys, sequence.blocks, sequence.length)

    def clear(self) -> None:
        """Forget every published prefix; sequences alive keep their pages."""
        self.index.clear()
        self._seals.clear()

    def take(self, count: int) -> list[int]:
        """Take pages, evicting the least recently used cached ones as needed (for sequences).

        :raises PoolExhausted: where there are not enough; nothing is evicted then.
        """
        pool = self.pool
        missing = count - pool.num_free
        if missing > pool.num_cached:
            raise PoolExhausted(count, pool.num_free, pool.num_cached, pool.num_blocks)
        if missing > 0:
            self.index.evict(missing)
        blocks = pool.take(count)
        self.storage.refresh(blocks)
        return blocks

    def copy(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first tokens of a page (for sequences: copy-on-write)."""
        self.storage.copy_block(source, target, num_tokens)
        self._copies += 1

    def enrol(self, sequence: Sequence) -> None:
        """Count a sequence among those alive (for sequences)."""
        self._alive[id(sequence)] = sequence

    def dismiss(self, sequence: Sequence) -> None:
        """Count a sequence no more (for sequences)."""
        del self._alive[id(sequence)]

    def invariants(self) -> None:
        """Check everything; slow, for tests and for the debug switch.

        :raises AssertionError: in words.
        """
        pool = self.pool
        assert pool.num_free + pool.num_used + pool.num_cached == pool.num_blocks, (
            f'free {pool.num_free} + used {pool.num_used} + cached {pool.num_cached} are not '
            f'{pool.num_blocks}')
        pool.invariants()
        self.index.invariants()
        held: Counter[int] = Counter()
        for sequence in self._alive.values():
            sequence.invariants()
            held.update(sequence.blocks)
        for block in range(pool.num_blocks):
            assert pool.references(block) == held[block], (
                f'block {block}: {pool.references(block)} references, {held[block]} in tables')
        self._check_seals()

    def _seal(self, keys: Keys[PageKey], blocks: Keys[int], length: int) -> None:
        """Note what stands in the published pages; what was noted before stays noted."""
        self._check_seals()
        page_tokens = self.storage.page_tokens
        for key in keys:
            if key.end > length:
                break
            block, tokens = blocks[(key.end - 1) // page_tokens], (key.end - 1) % page_tokens + 1
            if self.pool.is_published(block):
                self._seals[block] = _Seal(self.pool.generation(block), tokens,
                                           self.storage.fingerprint(block, tokens))

    def _check_seals(self) -> None:
        for block, seal in self._seals.items():
            if self.pool.is_published(block) and self.pool.generation(block) == seal.generation:
                assert self.storage.fingerprint(block, seal.num_tokens) == seal.fingerprint, (
                    f'block {block} was written after it was published')
