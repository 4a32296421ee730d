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

"""Sequences: slots, page edges, copy-on-write, cuts, forks, snapshots."""

from __future__ import annotations

import pytest
import torch

from robot_infer.cache import PageKey, PoolExhausted, Sequence
from robot_infer.errors import BudgetError

PAGE = 4


@pytest.fixture
def cache(make_cache):
    """Twelve pages of four tokens, at most six a sequence."""
    return make_cache()


def write(cache, slots, values):
    """Write a value a token: K = value + plane, V = -K."""
    for number in range(cache.storage.num_planes):
        flat = cache.storage.plane(number).flatten(1, 2)
        numbers = torch.tensor(values, dtype=torch.float64)[:, None, None] + number
        flat[0, slots], flat[1, slots] = numbers, -numbers


def grow(cache, sequence, values):
    """Append tokens with these values."""
    write(cache, sequence.append(len(values)), values)


def read(cache, sequence):
    """The values of a sequence, through its block table; all planes must agree."""
    contents = set()
    for number in range(cache.storage.num_planes):
        plane = cache.storage.plane(number)[:, sequence.table].flatten(1, 2)[:, :sequence.length]
        assert torch.equal(plane[0], -plane[1])
        contents.add(tuple((plane[0, :, 0, 0] - number).tolist()))
    assert len(contents) == 1
    return list(contents.pop())


def state(cache):
    """Everything that must not change where an operation fails."""
    pool = cache.pool
    return (list(pool.free_blocks()), list(pool.cached_blocks()), list(pool._references),
            list(pool._generation), sorted(cache.index.entries()), cache.stats)


@pytest.mark.parametrize('length,pages', [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_pages_are_taken_as_tokens_need_them(cache, length, pages):
    sequence = Sequence(cache)
    slots = sequence.append(length)
    assert (sequence.length, sequence.num_blocks) == (length, pages)
    assert slots.tolist() == [block * PAGE + offset for block in sequence.blocks
                              for offset in range(PAGE)][:length]
    cache.invariants()


def test_token_by_token_equals_all_at_once(cache):
    slowly, at_once = Sequence(cache), Sequence(cache)
    slots = torch.cat([slowly.append(1) for _ in range(9)])
    assert slots.tolist() == [int(slowly.table[i // PAGE]) * PAGE + i % PAGE for i in range(9)]
    assert at_once.append(9).shape == slots.shape
    assert slowly.num_blocks == at_once.num_blocks == 3


def test_the_table_is_a_view_of_the_valid_part(cache):
    sequence = Sequence(cache)
    sequence.append(5)
    table = sequence.table
    assert table.tolist() == list(sequence.blocks) and table.dtype == torch.int64
    sequence.append(4)
    assert sequence.table.data_ptr() == table.data_ptr() and len(sequence.table) == 3


def test_a_shared_tail_is_copied_before_it_is_written(cache):
    parent = Sequence(cache)
    grow(cache, parent, [1, 2, 3, 4, 5, 6])
    child = parent.fork()
    assert child.blocks == parent.blocks and cache.stats.copies == 0
    grow(cache, child, [70, 80, 90])
    assert read(cache, child) == [1, 2, 3, 4, 5, 6, 70, 80, 90]
    assert child.blocks[0] == parent.blocks[0] and child.blocks[1] != parent.blocks[1]
    grow(cache, parent, [7])  # now the one holder of its tail
    assert read(cache, parent) == [1, 2, 3, 4, 5, 6, 7] and cache.stats.copies == 1
    assert read(cache, child) == [1, 2, 3, 4, 5, 6, 70, 80, 90]
    cache.invariants()


def test_a_shared_full_page_is_not_copied(cache):
    parent = Sequence(cache)
    grow(cache, parent, [1, 2, 3, 4])
    child = parent.fork()
    grow(cache, child, [5])
    assert cache.stats.copies == 0 and read(cache, child) == [1, 2, 3, 4, 5]


def test_a_published_tail_is_copied_before_it_is_written(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, [1, 2, 3, 4, 5])
    tail = sequence.blocks[1]
    cache.publish(sequence, (PageKey(4, b'4'), PageKey(5, b'5')))
    grow(cache, sequence, [6])
    assert sequence.blocks[1] != tail and read(cache, sequence) == [1, 2, 3, 4, 5, 6]
    assert list(cache.pool.cached_blocks()) == [tail]
    other = cache.open((PageKey(4, b'4'), PageKey(5, b'5')), 5)
    assert other.blocks[1] == tail and read(cache, other) == [1, 2, 3, 4, 5]
    cache.invariants()


def test_appending_nothing_changes_nothing(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, [1, 2])
    child = sequence.fork()
    before = state(cache)
    assert child.append(0).shape == (0,) and child.blocks == sequence.blocks
    assert state(cache) == before


def test_a_cut_releases_the_pages_past_it(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, list(range(11)))
    for length, pages in ((9, 3), (8, 2), (5, 2), (4, 1), (1, 1), (0, 0)):
        sequence.truncate(length)
        assert (sequence.num_blocks, cache.pool.num_used) == (pages, pages)
        assert read(cache, sequence) == list(range(length))
    grow(cache, sequence, [5])
    assert read(cache, sequence) == [5]


def test_a_cut_into_a_shared_page_copies_it_when_written(cache):
    parent = Sequence(cache)
    grow(cache, parent, [1, 2, 3, 4])
    child = parent.fork()
    child.truncate(2)
    grow(cache, child, [30, 40])
    assert read(cache, parent) == [1, 2, 3, 4] and read(cache, child) == [1, 2, 30, 40]


def test_a_snapshot_is_gone_back_to_as_often_as_wanted(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, [1, 2, 3, 4, 5])
    snapshot = sequence.snapshot()
    for suffix in ([6], [60, 70, 80, 90], []):
        grow(cache, sequence, suffix)
        sequence.restore(snapshot)
        assert read(cache, sequence) == [1, 2, 3, 4, 5]
        assert cache.pool.num_used == 2
    cache.invariants()


def test_a_snapshot_holds_across_copy_on_write(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, [1, 2, 3, 4, 5])
    snapshot, other = sequence.snapshot(), sequence.fork()
    grow(cache, sequence, [6, 7])
    sequence.restore(snapshot)
    assert read(cache, sequence) == read(cache, other) == [1, 2, 3, 4, 5]


def test_snapshots_nest(cache):
    sequence = Sequence(cache)
    marks = []
    for value in range(4):
        grow(cache, sequence, [value] * 3)
        marks.append(sequence.snapshot())
    for count in (4, 3, 2, 1):
        sequence.restore(marks[count - 1])
        assert sequence.length == 3 * count
    with pytest.raises(ValueError, match='not cut below'):
        sequence.restore(marks[1])


def test_a_snapshot_ends_with_the_tokens_it_means(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, [1, 2, 3, 4, 5])
    snapshot = sequence.snapshot()
    sequence.truncate(4)
    grow(cache, sequence, [50])
    for _ in range(2):
        with pytest.raises(ValueError, match='not cut below it since'):
            sequence.restore(snapshot)
        sequence.snapshot()  # of the same length and depth, but of other tokens
    assert read(cache, sequence) == [1, 2, 3, 4, 50]


def test_a_snapshot_belongs_to_its_sequence(cache):
    sequence = Sequence(cache)
    sequence.append(3)
    snapshot = sequence.snapshot()
    child = sequence.fork()
    child.snapshot()
    with pytest.raises(ValueError, match='of this sequence'):
        child.restore(snapshot)
    sequence.release()
    with pytest.raises(ValueError, match='snapshot'):
        sequence.restore(snapshot)


def test_snapshots_of_one_length_are_one(cache):
    """A long-lived sequence that is rolled back every step does not grow."""
    sequence = Sequence(cache)
    sequence.append(3)
    marks = {sequence.snapshot() for _ in range(100)}
    assert len(marks) == 1 and len(sequence._marks) == 1


def test_too_long_for_the_table_is_refused_and_changes_nothing(cache):
    sequence = Sequence(cache)
    grow(cache, sequence, list(range(23)))
    before = state(cache)
    with pytest.raises(BudgetError, match='at most 24 tokens .6 pages of 4.; got 25 tokens'):
        sequence.append(2)
    assert state(cache) == before and sequence.length == 23
    grow(cache, sequence, [23])
    assert read(cache, sequence) == list(range(24))


def test_a_full_pool_is_refused_and_changes_nothing(make_cache):
    cache = make_cache(num_blocks=3)
    sequence, other = Sequence(cache), Sequence(cache)
    grow(cache, sequence, [1, 2, 3, 4, 5])
    grow(cache, other, [9])
    child = sequence.fork()
    before = state(cache)
    for victim, count in ((sequence, 4), (child, 1), (other, 4)):
        with pytest.raises(PoolExhausted, match='0 free and 0 evictable of 3'):
            victim.append(count)
        assert state(cache) == before
        cache.invariants()
    assert read(cache, child) == [1, 2, 3, 4, 5]
    sequence.release()
    grow(cache, child, [6])
    assert read(cache, child) == [1, 2, 3, 4, 5, 6] and cache.stats.copies == 0


def test_a_released_sequence_is_over(cache):
    sequence = Sequence(cache)
    sequence.append(5)
    sequence.release()
    sequence.release()
    assert (sequence.length, cache.pool.num_used, cache.stats.sequences) == (0, 0, 0)
    for use in (lambda: sequence.append(1), sequence.fork, sequence.snapshot,
                lambda: sequence.truncate(0)):
        with pytest.raises(AssertionError, match='released sequence'):
            use()


@pytest.mark.parametrize('length', [-1, 6])
def test_a_cut_out_of_range_is_an_assertion(cache, length):
    sequence = Sequence(cache)
    sequence.append(5)
    with pytest.raises(AssertionError, match='cannot cut 5'):
        sequence.truncate(length)
    with pytest.raises(AssertionError, match='cannot be appended'):
        sequence.append(-1)
