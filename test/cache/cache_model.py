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

"""The brute-force cache that the state machine compares with: lists and dicts, no blocks.

Contents are real here: a page is a list of values, a sequence is its own list of values, and a
prefix's values are a function of everything its tokens may attend to (DESIGN 2.2), so that a page
found again must hold exactly what computing it again would give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import hashlib

from robot_infer.types import PageKey


@dataclass(frozen=True)
class Group:
    """An attention group of the prefix: token identities, causal or seeing each other."""

    ids: tuple[int, ...]
    causal: bool


@dataclass(frozen=True)
class Plan:
    """A prefix that is to be computed: groups in order."""

    groups: tuple[Group, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """Identities of all tokens."""
        return tuple(token for group in self.groups for token in group.ids)

    @property
    def group_ends(self) -> list[int]:
        """Where groups end."""
        ends, end = [], 0
        for group in self.groups:
            end += len(group.ids)
            ends.append(end)
        return ends

    def visible(self, token: int) -> tuple[int, ...]:
        """The identities that a token depends on."""
        for group, end in zip(self.groups, self.group_ends):
            if token < end:
                return self.ids[:token + 1 if group.causal else end]
        raise AssertionError(token)

    def keys(self, page_tokens: int) -> tuple[PageKey, ...]:
        """Keys at page edges and ends of groups."""
        total = len(self.ids)
        ends = sorted({*range(page_tokens, total + 1, page_tokens), *self.group_ends})
        return tuple(PageKey(end, _digest(self.visible(end - 1), end)) for end in ends)


def _digest(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


@dataclass(eq=False)
class Page:
    """A page by what it holds; `holders` sequences refer to it."""

    values: list[int]
    holders: int = 1
    digests: list[bytes] = field(default_factory=list)

    @property
    def published(self) -> bool:
        """Whether it may be found."""
        return bool(self.digests)


@dataclass(eq=False)
class Line:
    """A sequence: its pages, all its values, and how many of them follow its plan."""

    plan: Plan
    pages: list[Page] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    planned: int = 0


class Full(Exception):
    """Not enough pages; carries (needed, free, evictable)."""


class Model:
    """The whole cache, the slow way."""

    def __init__(self, num_pages: int, page_tokens: int, max_pages: int) -> None:
        self.num_pages, self.page_tokens, self.max_pages = num_pages, page_tokens, max_pages
        self.lines: list[Line] = []
        self.cached: list[Page] = []  # least recently used first
        self.known: dict[bytes, tuple[Page, int]] = {}
        self._interned: dict[object, int] = {}

    @property
    def used(self) -> int:
        """Pages held by sequences."""
        return len({id(page) for line in self.lines for page in line.pages})

    @property
    def free(self) -> int:
        """Pages neither held nor cached."""
        return self.num_pages - self.used - len(self.cached)

    def value(self, *what: object) -> int:
        """One number for each different thing, never the same for two."""
        return self._interned.setdefault(what, len(self._interned) + 1)

    def expected(self, plan: Plan, start: int, end: int) -> list[int]:
        """What computing tokens [start, end) of a plan gives."""
        return [self.value(plan.visible(token), token) for token in range(start, end)]

    def open(self, plan: Plan, max_length: int) -> Line:
        """Find the longest known prefix by trying every one, longest first."""
        limit = min(max_length, self.max_pages * self.page_tokens)
        keys = {key.end: key.digest for key in plan.keys(self.page_tokens)}
        line = Line(plan)
        for end in sorted((end for end in keys if end <= limit), reverse=True):
            wanted = [*range(self.page_tokens, end, self.page_tokens), end]
            found = [self.known.get(keys[edge]) for edge in wanted]
            if all(found):
                line.pages = [page for page, _ in found]
                line.values, line.planned = self.expected(plan, 0, end), end
                break
        for page in line.pages:
            self._hold(page)
        self.lines.append(line)
        return line

    def append(self, line: Line, values: list[int], follows_plan: bool) -> None:
        """Add values; raises Full, with nothing changed."""
        start, end = len(line.values), len(line.values) + len(values)
        if not values:
            return
        tail = line.pages[-1] if start % self.page_tokens else None
        moves = tail is not None and (tail.holders > 1 or tail.published)
        needed = -(-end // self.page_tokens) - len(line.pages) + moves
        if needed > self.free + len(self.cached):
            raise Full(needed, self.free, len(self.cached))
        for _ in range(needed - self.free):
            self.evict()
        if moves:
            line.pages[-1] = Page(tail.values[:start % self.page_tokens])
            self._drop(tail)
        for position, value in zip(range(start, end), values):
            if position % self.page_tokens == 0:
                line.pages.append(Page([]))
            page = line.pages[-1]
            del page.values[position % self.page_tokens:]
            page.values.append(value)
        line.values.extend(values)
        if follows_plan:
            line.planned = end

    def truncate(self, line: Line, length: int) -> None:
        """Keep the first values."""
        keep = -(-length // self.page_tokens)
        for page in reversed(line.pages[keep:]):
            self._drop(page)
        del line.pages[keep:], line.values[length:]
        line.planned = min(line.planned, length)

    def fork(self, line: Line) -> Line:
        """A second line over the same pages."""
        for page in line.pages:
            self._hold(page)
        child = Line(line.plan, list(line.pages), list(line.values), line.planned)
        self.lines.append(child)
        return child

    def release(self, line: Line) -> None:
        """Give all pages back."""
        self.truncate(line, 0)
        self.lines.remove(line)

    def publish(self, line: Line) -> tuple[PageKey, ...]:
        """Make the planned part findable; returns the keys for it."""
        keys = tuple(key for key in line.plan.keys(self.page_tokens) if key.end <= line.planned)
        for key in keys:
            if key.digest not in self.known:
                page = line.pages[(key.end - 1) // self.page_tokens]
                self.known[key.digest] = (page, key.end)
                page.digests.append(key.digest)
        return keys

    def evict(self) -> None:
        """Forget the least recently used cached page."""
        page = self.cached.pop(0)
        for digest in page.digests:
            del self.known[digest]

    def clear(self) -> None:
        """Forget every published page."""
        for page, _ in self.known.values():
            page.digests.clear()
        self.known.clear()
        self.cached.clear()

    def _hold(self, page: Page) -> None:
        if page.holders == 0:
            self.cached.remove(page)
        page.holders += 1

    def _drop(self, page: Page) -> None:
        page.holders -= 1
        if page.holders == 0 and page.published:
            self.cached.append(page)
