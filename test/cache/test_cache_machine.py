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

"""The paged cache against the brute-force model, with real contents in real storage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
import sys

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
import pytest
import torch

from robot_infer.cache import (
    BlockPool,
    KVStorage,
    PagedCache,
    PoolExhausted,
    PrefixIndex,
    Sequence,
    Snapshot,
)
from robot_infer.errors import BudgetError

sys.path.insert(0, str(Path(__file__).parent))
from cache_model import Full, Group, Line, Model, Plan  # noqa: E402

NUM_PLANES = 2

# Few groups, so that prefixes often begin alike: frames, words, a state.
GROUPS = [Group((1,) * 5, False), Group((2,) * 5, False), Group((3,) * 8, False),
          Group((4, 5, 6), True), Group((4, 5, 7, 8), True), Group((9,), False),
          Group((10,), False)]
PLANS = st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4).map(lambda g: Plan(tuple(g)))
WHICH = st.integers(0, 1000)


@dataclass
class Mark:
    """A snapshot, and the shortest its sequence has been since."""

    sequence: Sequence
    snapshot: Snapshot
    line: Line
    length: int
    shortest: int


class CacheMachine(RuleBasedStateMachine):
    """Does everything twice: to the cache and to the model."""

    @initialize(num_blocks=st.integers(2, 16), page_tokens=st.sampled_from([1, 2, 3, 4, 8]),
                max_blocks=st.integers(1, 9))
    def build(self, num_blocks, page_tokens, max_blocks):
        storage = KVStorage(NUM_PLANES, num_blocks, page_tokens, 1, 2, torch.float64, poison=True)
        pool = BlockPool(num_blocks)
        self.cache = PagedCache(storage, pool, PrefixIndex(pool, page_tokens), max_blocks)
        self.model = Model(num_blocks, page_tokens, max_blocks)
        self.pairs: list[tuple[Sequence, Line]] = []
        self.marks: list[Mark] = []
        self.scratch = 0

    def pick(self, which):
        return self.pairs[which % len(self.pairs)]

    # -- what can happen ------------------------------------------------------------------------

    @rule(plan=PLANS, leave_one=st.booleans())
    def open(self, plan, leave_one):
        keys = plan.keys(self.model.page_tokens)
        most = len(plan.ids) - leave_one
        sequence, line = self.cache.open(keys, most), self.model.open(plan, most)
        assert sequence.length == len(line.values) <= most
        self.pairs.append((sequence, line))

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH, count=st.integers(0, 12))
    def append_what_the_plan_says(self, which, count):
        sequence, line = self.pick(which)
        start = len(line.values)
        if line.planned == start:
            end = min(start + count, len(line.plan.ids))
            self.append(sequence, line, self.model.expected(line.plan, start, end), True)

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH, count=st.one_of(st.integers(0, 9), st.integers(10, 80)))
    def append_scratch(self, which, count):
        self.append(*self.pick(which), self.fresh_values(count), False)

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH, extra=st.integers(1, 3))
    def ask_for_more_than_there_is(self, which, extra):
        pages = self.model.free + len(self.model.cached) + extra
        count = pages * self.model.page_tokens
        self.append(*self.pick(which), self.fresh_values(count), False)

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH, part=st.floats(0.0, 1.0))
    def truncate(self, which, part):
        sequence, line = self.pick(which)
        self.cut(sequence, line, int(part * len(line.values)))

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH)
    def fork(self, which):
        sequence, line = self.pick(which)
        self.pairs.append((sequence.fork(), self.model.fork(line)))

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH)
    def snapshot(self, which):
        sequence, line = self.pick(which)
        length = len(line.values)
        self.marks.append(Mark(sequence, sequence.snapshot(), line, length, length))

    @precondition(lambda self: self.marks)
    @rule(which=WHICH)
    def restore(self, which):
        mark = self.marks[which % len(self.marks)]
        good = mark.shortest >= mark.length and any(line is mark.line for _, line in self.pairs)
        if good:
            mark.sequence.restore(mark.snapshot)
            self.model.truncate(mark.line, mark.length)
            self.note(mark.line)
        else:
            before = self.state()
            with pytest.raises(ValueError, match='snapshot'):
                mark.sequence.restore(mark.snapshot)
            assert self.state() == before

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH)
    def publish(self, which):
        sequence, line = self.pick(which)
        self.cache.publish(sequence, self.model.publish(line))

    @rule(count=st.integers(0, 5))
    def evict(self, count):
        expected = min(count, len(self.model.cached))
        for _ in range(expected):
            self.model.evict()
        assert len(self.cache.index.evict(count)) == expected

    @rule(sure=st.integers(0, 9))
    def clear(self, sure):
        if sure == 0:
            self.cache.clear()
            self.model.clear()

    @precondition(lambda self: self.pairs)
    @rule(which=WHICH)
    def release(self, which):
        sequence, line = self.pairs.pop(which % len(self.pairs))
        sequence.release()
        self.model.release(line)

    @rule(plan=PLANS, suffix=st.integers(1, 6), keep=st.booleans())
    def step(self, plan, suffix, keep):
        """One inference step: open, compute the rest, publish, a suffix rolled back."""
        self.open(plan, True)
        sequence, line = self.pairs[-1]
        rest = self.model.expected(plan, len(line.values), len(plan.ids))
        if self.append(sequence, line, rest, True):
            self.cache.publish(sequence, self.model.publish(line))
            snapshot, length = sequence.snapshot(), sequence.length
            if self.append(sequence, line, self.fresh_values(suffix), False):
                sequence.restore(snapshot)
                self.model.truncate(line, length)
        if not keep:
            self.release(len(self.pairs) - 1)

    # -- how it is done -------------------------------------------------------------------------

    def fresh_values(self, count):
        """Values that no other token has."""
        self.scratch += count
        return [-value for value in range(self.scratch - count + 1, self.scratch + 1)]

    def append(self, sequence, line, values, follows_plan):
        """Append to both, or be refused by both and change nothing; returns whether it worked."""
        before = self.state()
        room = self.model.max_pages * self.model.page_tokens
        if len(line.values) + len(values) > room:
            with pytest.raises(BudgetError, match=f'at most {room} tokens'):
                sequence.append(len(values))
            assert self.state() == before
            return False
        try:
            self.model.append(line, values, follows_plan)
        except Full as full:
            with pytest.raises(PoolExhausted) as info:
                sequence.append(len(values))
            error = info.value
            assert (error.needed, error.free, error.evictable) == full.args
            assert self.state() == before
            return False
        self.write(sequence.append(len(values)), values)
        return True

    def cut(self, sequence, line, length):
        sequence.truncate(length)
        self.model.truncate(line, length)
        self.note(line)

    def note(self, line):
        """Remember how short a sequence has been."""
        for mark in self.marks:
            if mark.line is line:
                mark.shortest = min(mark.shortest, len(line.values))

    def write(self, slots, values):
        numbers = torch.tensor(values, dtype=torch.float64)[:, None, None]
        for number in range(NUM_PLANES):
            flat = self.cache.storage.plane(number).flatten(1, 2)
            flat[0, slots], flat[1, slots] = numbers + number / 2, -numbers

    def state(self):
        """Everything that a refused operation must leave alone."""
        pool = self.cache.pool
        return (list(pool.free_blocks()), list(pool.cached_blocks()), list(pool._references),
                list(pool._generation), sorted(self.cache.index.entries()), self.cache.stats,
                [(sequence.length, sequence.blocks) for sequence, _ in self.pairs])

    # -- what must hold after each of them ------------------------------------------------------

    @invariant()
    def books_are_right(self):
        self.cache.invariants()

    @invariant()
    def pages_are_as_the_model_counts_them(self):
        pool, model = self.cache.pool, self.model
        assert (pool.num_used, pool.num_cached, pool.num_free) == (
            model.used, len(model.cached), model.free)
        assert len(self.cache.index) == len(model.known)

    @invariant()
    def contents_are_what_the_model_holds(self):
        for sequence, line in self.pairs:
            assert sequence.length == len(line.values)
            for number in range(NUM_PLANES):
                plane = self.cache.storage.plane(number)[:, sequence.table]
                keys, values = plane.flatten(1, 2)[:, :sequence.length, 0]
                assert ((keys - number / 2) == -values).all()
                assert (-values[:, 1]).tolist() == line.values

    def teardown(self):
        if hasattr(self, 'pairs'):
            while self.pairs:
                self.release(0)
            self.cache.invariants()
            assert self.cache.stats.pages_used == self.cache.stats.sequences == 0


CacheMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None)
TestCacheMachine = CacheMachine.TestCase
