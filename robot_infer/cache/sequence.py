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

"""One sequence of tokens in pages: a block table and a length.

What lives here: growing, cutting, forking and going back, with copy-on-write. What does not:
what stands in the pages (whoever appends writes keys and values into the slots it is given).

    page edges   |           |           |           |
    tokens       0 ...................... length          num_blocks = ceil(length / page_tokens)
    blocks       |  shared   |  shared   |   tail    |

Only the tail is ever written, and only while this sequence is its one holder and nobody can find
it; otherwise `append` first moves the tail's tokens into a block of its own.
"""

from __future__ import annotations

from collections.abc import Sequence as Blocks
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from robot_infer.cache.storage import BlockTable
from robot_infer.errors import BudgetError

if TYPE_CHECKING:
    import torch

    from robot_infer.cache.paged import PagedCache


@dataclass(frozen=True)
class Snapshot:
    """A point of a sequence to go back to, as long as the sequence was not cut below it."""

    sequence: Sequence = field(repr=False)
    length: int
    serial: int
    depth: int


class Sequence:
    """Tokens in pages; made by `PagedCache.open`, given back by `release`.

    :param cache: where pages come from.
    :param blocks: pages already held for this sequence, which takes over their references.
    :param length: tokens in them.
    """

    def __init__(self, cache: PagedCache, blocks: Blocks[int] = (), length: int = 0) -> None:
        page_tokens = cache.storage.page_tokens
        assert len(blocks) == -(-length // page_tokens), f'{len(blocks)} pages, {length} tokens'
        assert len(blocks) <= cache.max_blocks_per_sequence, 'more pages than the table has room'
        self._cache = cache
        self._page_tokens = page_tokens
        self._blocks = list(blocks)
        self._length = length
        self._table = BlockTable(cache.max_blocks_per_sequence, page_tokens, cache.storage.device)
        self._table.set(0, self._blocks)
        # Snapshots that still hold: (length, serial), lengths ascending, see `snapshot`.
        self._marks: list[tuple[int, int]] = []
        self._serial = 0
        self._open = True
        cache.enrol(self)

    @property
    def length(self) -> int:
        """Tokens held, whose keys and values are written or about to be."""
        return self._length

    @property
    def num_blocks(self) -> int:
        """Pages held."""
        return len(self._blocks)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Block of each page."""
        return tuple(self._blocks)

    @property
    def table(self) -> torch.Tensor:
        """Block of each page: (num_blocks,) int64, a view that later appends may change."""
        return self._table.view(len(self._blocks))

    def append(self, num_tokens: int) -> torch.Tensor:
        """Make room for tokens behind the last one.

        :returns: (num_tokens,) int64 slots, block * page_tokens + offset, for `append_kv`.
        :raises PoolExhausted: where pages are missing; nothing is changed then.
        :raises BudgetError: where the block table is too short; nothing is changed then.
        """
        assert self._open, 'a released sequence cannot grow'
        assert num_tokens >= 0, f'{num_tokens} tokens cannot be appended'
        start, end = self._length, self._length + num_tokens
        if num_tokens == 0:
            return self._table.slots(start, end)
        held, wanted = len(self._blocks), -(-end // self._page_tokens)
        if wanted > self._cache.max_blocks_per_sequence:
            limit = self._cache.max_blocks_per_sequence
            raise BudgetError(
                'sequence', expected=f'at most {limit * self._page_tokens} tokens ({limit} pages '
                f'of {self._page_tokens})', got=f'{end} tokens',
                remedy='Raise max_blocks_per_sequence, or shorten the prefix.')
        in_tail = start % self._page_tokens
        move_tail = in_tail > 0 and not self._cache.pool.is_writable(self._blocks[-1])
        fresh = self._cache.take(wanted - held + move_tail)
        if move_tail:
            tail = self._blocks.pop()
            self._cache.copy(tail, fresh[0], in_tail)
            self._cache.pool.release((tail,))
        self._table.set(len(self._blocks), fresh)
        self._blocks.extend(fresh)
        self._length = end
        return self._table.slots(start, end)

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens; pages past them are released."""
        assert self._open, 'a released sequence cannot be cut'
        assert 0 <= num_tokens <= self._length, f'cannot cut {self._length} to {num_tokens}'
        keep = -(-num_tokens // self._page_tokens)
        if keep < len(self._blocks):
            self._cache.pool.release(self._blocks[keep:])
            del self._blocks[keep:]
        self._length = num_tokens
        while self._marks and self._marks[-1][0] > num_tokens:
            self._marks.pop()

    def fork(self) -> Sequence:
        """Make a second sequence with the same tokens; all pages are shared, none is copied."""
        assert self._open, 'a released sequence cannot be forked'
        self._cache.pool.share(self._blocks)
        return Sequence(self._cache, self._blocks, self._length)

    def snapshot(self) -> Snapshot:
        """Remember this length; O(1), no page is held for it.

        A cut below a snapshot ends it, since the tokens it means are gone. The snapshots that
        hold therefore form a stack of ascending lengths, at most one for each length.
        """
        assert self._open, 'a released sequence has no snapshots'
        if not self._marks or self._marks[-1][0] < self._length:
            self._serial += 1
            self._marks.append((self._length, self._serial))
        return Snapshot(self, self._length, self._marks[-1][1], len(self._marks) - 1)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which stays good; O(1) besides releasing the pages past it.

        :raises ValueError: where it is another sequence's, or the sequence was cut below it.
        """
        mark = self._marks[snapshot.depth:snapshot.depth + 1]
        if snapshot.sequence is not self or mark != [(snapshot.length, snapshot.serial)]:
            raise ValueError('snapshot: expected one of this sequence, which was not cut below '
                             f'it since; got {snapshot}')
        self.truncate(snapshot.length)

    def release(self) -> None:
        """Give all pages back; the sequence is over. A second release does nothing."""
        if self._open:
            self.truncate(0)
            self._marks.clear()
            self._open = False
            self._cache.dismiss(self)

    def invariants(self) -> None:
        """Check the table against the list of blocks.

        :raises AssertionError: in words.
        """
        wanted = -(-self._length // self._page_tokens)
        assert wanted == len(self._blocks), f'{self._length} tokens in {len(self._blocks)} pages'
        assert self.table.tolist() == self._blocks, (
            f'block table {self.table.tolist()} is not {self._blocks}')
        assert all(0 <= block < self._cache.pool.num_blocks for block in self._blocks), (
            f'block table {self._blocks} is out of range')
        assert len(set(self._blocks)) == len(self._blocks), f'a block twice in {self._blocks}'
        lengths = [length for length, _ in self._marks]
        assert lengths == sorted(set(lengths)) and all(n <= self._length for n in lengths), (
            f'snapshots {lengths} of a sequence of {self._length}')
