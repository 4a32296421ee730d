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

"""The pool of blocks: states, order, refusals, and the same work in a pool of any size."""

from __future__ import annotations

import pytest

from robot_infer.cache import BlockPool, PoolExhausted
from robot_infer.errors import BudgetError


def counts(pool):
    """(free, used, cached)."""
    return pool.num_free, pool.num_used, pool.num_cached


def published(pool, count):
    """Take and publish blocks."""
    blocks = pool.take(count)
    for block in blocks:
        pool.publish(block)
    return blocks


def test_blocks_come_in_order_and_once():
    pool = BlockPool(6)
    assert pool.take(4) + pool.take(2) == [0, 1, 2, 3, 4, 5]
    assert counts(pool) == (0, 6, 0)


def test_released_neighbours_come_back_as_neighbours():
    pool = BlockPool(8)
    pool.take(2)
    run = pool.take(3)
    pool.take(2)
    pool.release(run)
    assert pool.take(3) == run == [2, 3, 4]


def test_evicted_neighbours_come_back_as_neighbours():
    pool = BlockPool(4)
    run = published(pool, 4)
    pool.release(run)
    for _ in run:
        pool.unpublish(pool.oldest_cached())
    assert pool.take(4) == run


def test_too_many_are_refused_with_numbers_and_nothing_is_changed():
    pool = BlockPool(5)
    pool.release(published(pool, 2))
    pool.take(1)
    before = list(pool.free_blocks())
    with pytest.raises(PoolExhausted, match='3 pages free or evictable; got 2 free and 2') as info:
        pool.take(3)
    error = info.value
    assert (error.needed, error.free, error.evictable, error.total) == (3, 2, 2, 5)
    assert isinstance(error, BudgetError)
    assert counts(pool) == (2, 1, 2) and list(pool.free_blocks()) == before
    pool.invariants()


def test_the_last_reference_frees():
    pool = BlockPool(3)
    (block,) = pool.take(1)
    pool.share([block])
    pool.release([block])
    assert counts(pool) == (2, 1, 0) and pool.references(block) == 1
    pool.release([block])
    assert counts(pool) == (3, 0, 0)


def test_a_published_block_stays_cached_and_can_be_shared_again():
    pool = BlockPool(3)
    (block,) = published(pool, 1)
    pool.release([block])
    assert counts(pool) == (2, 0, 1)
    pool.share([block])
    assert counts(pool) == (2, 1, 0) and pool.generation(block) == 1
    pool.release([block])
    assert list(pool.cached_blocks()) == [block]


def test_least_recently_used_first_and_the_tail_before_the_head():
    pool = BlockPool(6)
    first, second = published(pool, 3), published(pool, 2)
    pool.release(first)
    pool.release(second)
    assert list(pool.cached_blocks()) == [2, 1, 0, 4, 3]
    pool.share([1])
    pool.release([1])
    assert list(pool.cached_blocks()) == [2, 0, 4, 3, 1]


def test_a_generation_passes_each_time_a_block_is_taken():
    pool = BlockPool(2)
    for generation in (1, 2, 3):
        (block,) = pool.take(1)
        assert pool.generation(block) == generation
        pool.share([block])
        pool.publish(block)
        assert pool.generation(block) == generation
        pool.unpublish(block)
        pool.release([block, block])


def test_writable_means_held_once_and_not_to_be_found():
    pool = BlockPool(2)
    (block,) = pool.take(1)
    assert pool.is_writable(block)
    pool.share([block])
    assert not pool.is_writable(block)
    pool.release([block])
    assert pool.is_writable(block)
    pool.publish(block)
    assert not pool.is_writable(block)


@pytest.mark.parametrize('misuse,words', [
    (lambda pool: pool.release([2]), 'released more often'),
    (lambda pool: pool.release([0, 0]), 'released more often'),
    (lambda pool: pool.share([2]), 'is free and cannot be shared'),
    (lambda pool: pool.publish(2), 'is not used'),
    (lambda pool: pool.unpublish(0), 'is not published'),
    (lambda pool: pool.oldest_cached(), 'no block is cached'),
    (lambda pool: pool.take(-1), 'cannot be taken'),
])
def test_misuse_is_an_assertion_in_words(misuse, words):
    pool = BlockPool(4)
    pool.take(2)
    with pytest.raises(AssertionError, match=words):
        misuse(pool)


def test_an_empty_pool_is_refused():
    with pytest.raises(ValueError, match='num_blocks'):
        BlockPool(0)


def _swap_links(pool):
    pool._next[2], pool._next[3] = pool._next[3], pool._next[2]


@pytest.mark.parametrize('damage', [
    lambda pool: pool._references.__setitem__(0, 0),
    lambda pool: pool._references.__setitem__(4, 1),
    lambda pool: pool._references.__setitem__(0, -1),
    lambda pool: pool._published.__setitem__(4, True),
    lambda pool: pool._published.__setitem__(1, False),
    lambda pool: pool._previous.__setitem__(4, 5),
    lambda pool: pool._previous.__setitem__(2, 5),  # of the first free block
    lambda pool: setattr(pool, '_num_free', 3),
    lambda pool: setattr(pool, '_num_cached', 0),
    _swap_links,
])
def test_damaged_books_are_found(damage):
    """One block used, one cached, four free; then one entry is wrong."""
    pool = BlockPool(6)
    pool.take(1)
    pool.release(published(pool, 1))
    pool.invariants()
    damage(pool)
    with pytest.raises(AssertionError):
        pool.invariants()


def _one_of_everything(pool):
    blocks = published(pool, 8)
    pool.share(blocks)
    pool.release(blocks)
    pool.release(blocks)
    pool.share(blocks[2:5])
    pool.release(blocks[2:5])
    for _ in range(4):
        pool.unpublish(pool.oldest_cached())
    pool.release(pool.take(20))


def test_the_same_work_in_a_pool_of_any_size(counted):
    """Reads and writes of the arrays, counted: not one more in a pool a thousand times larger."""
    touches = set()
    for num_blocks in (64, 4096, 65_536):
        pool = BlockPool(num_blocks)
        pool.release(pool.take(num_blocks))
        read = counted(pool)
        _one_of_everything(pool)
        touches.add(read())
        pool.invariants()
    assert len(touches) == 1 and touches.pop() > 100
