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

"""Sequences that grow, end and wait in one pool: who has what of it, step by step.

The line of those that wait never ends. Each sequence arrives with half of its tokens, its prompt,
and writes the rest, so many each step. The first in line is let in where there is room for it:

    LONGEST     a contiguous range of the longest length: nobody knows where a sequence will end
    KNOWN       a contiguous range of its own final length, in the first gap that is large enough:
                what would be, if lengths were known before
    PAGES       pages for what is written; one more when the last is full. Where none is free, the
                sequence that came last goes back to the head of the line and begins anew. So that
                this is rare, none is let in that would leave less than a 32nd of the pool free

Of the pool, after each step:

    used        holds a token
    reserved    held for a token that its sequence will write later
    internal    held by a sequence that will never use it
    external    held by nobody, and the first in line has no room in it

Only whole numbers are computed with, so that page.js can compute the very same.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from robot_infer.budget.fragmentation import check_lengths, check_pool

LIFETIME = 256  # steps in which a sequence could write the longest length
STEPS = 2 * LIFETIME  # the second half counts: sequences of all ages are in the pool by then
SPARE = 32  # a part of this many of the pool is left free when a sequence is let in by pages


class Scheme(Enum):
    """How sequences are stored."""

    LONGEST = 'contiguous, longest length reserved'
    KNOWN = 'contiguous, final length known'
    PAGES = 'pages'


@dataclass(frozen=True)
class Shares:
    """Sums over the steps that count, in tokens; used + reserved + internal + external = pool.

    :param live: sequences in the pool, summed likewise.
    :param ended: sequences that ended in those steps.
    :param restarted: sequences that were sent back for want of a page.
    """

    pool: int
    used: int
    reserved: int
    internal: int
    external: int
    live: int
    ended: int
    restarted: int
    steps: int

    def share_of(self, kind: str) -> float:
        """Mean share of the pool that is used, reserved, internal or external."""
        return getattr(self, kind) / (self.pool * self.steps)

    @property
    def mean_live(self) -> float:
        """Sequences in the pool, mean."""
        return self.live / self.steps


class _Live:
    __slots__ = ('length', 'written', 'size', 'start', 'gone')

    def __init__(self, length: int, written: int, size: int, start: int) -> None:
        self.length, self.written = length, written
        self.size, self.start = size, start  # its tokens of the pool; where a range begins
        self.gone = False


def share(lengths: Sequence[int], scheme: Scheme, block: int, pool_tokens: int, max_len: int,
          ) -> Shares:
    """Let sequences of `lengths`, over and over in this order, through a pool.

    :param block: tokens of a page; of no matter to the contiguous schemes.
    :raises ConfigError: where a length is not from 1 to `max_len`, or a block less than 1.
    :raises BudgetError: where the pool cannot hold a sequence of the longest length.
    """
    check_lengths(lengths, max_len)
    check_pool(pool_tokens, max_len, block if scheme is Scheme.PAGES else 1)
    return _Pool(lengths, scheme, block, pool_tokens, max_len).run()


class _Pool:
    def __init__(self, lengths: Sequence[int], scheme: Scheme, block: int, pool_tokens: int,
                 max_len: int) -> None:
        self.lengths, self.next = [int(one) for one in lengths], 0
        self.scheme, self.block, self.pool, self.max_len = scheme, block, pool_tokens, max_len
        self.stride = max(1, max_len // LIFETIME)
        self.free = pool_tokens // block * block if scheme is Scheme.PAGES else pool_tokens
        self.spare = self.free // SPARE if scheme is Scheme.PAGES else 0
        self.live: list[_Live] = []  # in the order they came
        self.ranges: list[tuple[int, int]] = []  # start and end of contiguous ones, in order
        self.back: list[int] = []  # lengths of those sent back, the first in line last
        self.ended = self.restarted = 0

    def run(self) -> Shares:
        sums = [0] * 7
        for step in range(STEPS):
            self.admit()
            if step >= STEPS - LIFETIME:
                sums = [a + b for a, b in zip(sums, self.shares())]
            self.ended = self.restarted = 0
            self.grow()
        return Shares(self.pool, *sums, steps=LIFETIME)

    def shares(self) -> tuple[int, ...]:
        """What is used, reserved, internal, external now; live; ended and restarted before."""
        used = sum(one.written for one in self.live)
        taken = sum(one.size for one in self.live)
        wanted = sum(min(one.size, one.length) for one in self.live)
        return (used, wanted - used, taken - wanted, self.pool - taken, len(self.live),
                self.ended, self.restarted)

    def grow(self) -> None:
        """Let each write its tokens of a step, those first that came first; or end."""
        for one in self.live:
            if one.gone:
                continue
            one.written += min(self.stride, one.length - one.written)
            while one.size < one.written and not one.gone:
                pages = min(-(-(one.written - one.size) // self.block), self.free // self.block)
                self.free -= pages * self.block
                one.size += pages * self.block
                if one.size < one.written:
                    self.send_back()
            if one.written == one.length and not one.gone:
                self.end(one)
        self.live = [one for one in self.live if not one.gone]

    def send_back(self) -> None:
        last = next(one for one in reversed(self.live) if not one.gone)
        last.gone = True
        self.free += last.size
        self.back.append(last.length)
        self.restarted += 1

    def end(self, one: _Live) -> None:
        one.gone = True
        self.free += one.size
        self.ended += 1
        if self.scheme is not Scheme.PAGES:
            self.ranges.remove((one.start, one.start + one.size))

    def admit(self) -> None:
        """Let in from the head of the line as long as there is room."""
        while (start := self.room(self.first_in_line()[2])) is not None:
            length, prompt, size = self.first_in_line()
            if self.back:
                self.back.pop()
            else:
                self.next = (self.next + 1) % len(self.lengths)
            self.free -= size
            self.live.append(_Live(length, prompt, size, start))
            if self.scheme is not Scheme.PAGES:
                insort(self.ranges, (start, start + size))

    def first_in_line(self) -> tuple[int, int, int]:
        """Its length, its prompt, and what it takes of the pool at first."""
        length = self.back[-1] if self.back else self.lengths[self.next]
        prompt = (length + 1) // 2
        if self.scheme is Scheme.LONGEST:
            return length, prompt, self.max_len
        if self.scheme is Scheme.KNOWN:
            return length, prompt, length
        return length, prompt, -(-prompt // self.block) * self.block

    def room(self, size: int) -> int | None:
        """Where a sequence of `size` can begin, if anywhere; pages need not lie together."""
        if self.scheme is Scheme.PAGES:
            # An empty pool lets anyone in, or a long one could wait for ever.
            return 0 if size + self.spare * bool(self.live) <= self.free else None
        if size > self.free:
            return None
        end = 0
        for first, last in self.ranges:
            if first - end >= size:
                return end
            end = last
        return end if self.pool - end >= size else None
