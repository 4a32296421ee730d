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

"""The prefix index: what is found, what is pinned, what is evicted."""

from __future__ import annotations

import hashlib

import pytest

from robot_infer.cache import BlockPool, Match, PageKey, PrefixIndex

PAGE = 4


def keys_of(text, ends):
    """Keys of a causal prefix: each covers the letters up to its end."""
    return tuple(PageKey(end, hashlib.blake2b(text[:end].encode()).digest()) for end in ends)


def edges(text, *inside):
    """Keys at all page edges, and at the ends given."""
    return keys_of(text, sorted({*range(PAGE, len(text) + 1, PAGE), *inside}))


@pytest.fixture
def pool():
    return BlockPool(12)


@pytest.fixture
def index(pool):
    return PrefixIndex(pool, PAGE)


def put(index, keys, length):
    """Publish a prefix in fresh blocks and release it; returns its blocks."""
    blocks = index.pool.take(-(-length // PAGE))
    index.publish(keys, blocks, length)
    index.pool.release(blocks)
    return blocks


def found(index, keys, max_length):
    """Match, release, and return what was found."""
    match = index.match(keys, max_length)
    index.pool.release(match.blocks)
    index.invariants()
    index.pool.invariants()
    return match


def test_nothing_is_found_in_an_empty_index(index):
    assert found(index, edges('abcdefgh'), 7) == Match((), 0)
    assert found(index, (), 7) == Match((), 0)


def test_the_longest_run_of_full_pages_is_found(index):
    a, b, c = put(index, edges('abcdefghijkl'), 12)
    assert found(index, edges('abcdefghijkl'), 100) == Match((a, b, c), 12)
    assert found(index, edges('abcdefghijXX'), 100) == Match((a, b), 8)
    assert found(index, edges('Xbcdefghijkl'), 100) == Match((), 0)


@pytest.mark.parametrize('max_length,length', [(12, 12), (11, 8), (8, 8), (7, 4), (3, 0), (0, 0)])
def test_at_least_one_token_is_left(index, max_length, length):
    put(index, edges('abcdefghijkl'), 12)
    assert found(index, edges('abcdefghijkl'), max_length).length == length


def test_an_end_inside_a_page_is_found_behind_its_full_pages(index):
    blocks = put(index, edges('abcdefghij', 6, 9, 10), 10)
    assert found(index, edges('abcdefghij', 6, 9, 10), 10) == Match(tuple(blocks), 10)
    assert found(index, edges('abcdefghij', 6, 9, 10), 9) == Match(tuple(blocks), 9)
    assert found(index, edges('abcdefghiX', 9, 10), 10) == Match(tuple(blocks), 9)
    assert found(index, edges('abcdefghij', 6, 9, 10), 8) == Match(tuple(blocks[:2]), 8)
    assert found(index, edges('abcdefgX', 6), 8) == Match(tuple(blocks[:2]), 6)


def test_a_full_page_wins_over_an_end_inside_it(index):
    blocks = put(index, edges('abcdefgh', 6), 8)
    assert found(index, edges('abcdefgh', 6), 8) == Match(tuple(blocks), 8)


def test_a_tail_of_an_unknown_page_may_be_known(index):
    """The first prefix ends inside a page; the second goes on differently in it."""
    blocks = put(index, edges('abcdef', 6), 6)
    assert found(index, edges('abcdefgh', 6), 7) == Match(tuple(blocks), 6)


def test_no_chain_goes_on_behind_a_gap(index, pool):
    keys = edges('abcdefghijkl', 10)
    put(index, keys, 12)
    index.evict(1)  # the tail goes first
    assert found(index, keys, 12).length == 8
    first = index.match(keys[:1], 4)  # pin the head, so that the middle is the oldest
    index.evict(1)
    pool.release(first.blocks)
    assert found(index, keys, 12) == Match(first.blocks, 4)


def test_keys_without_a_page_edge_stop_the_chain(index):
    keys = edges('abcdefghijkl')
    put(index, keys, 12)
    assert found(index, (keys[0], keys[2]), 12).length == 4
    assert found(index, keys[1:], 12).length == 0


def test_a_bidirectional_prefix_is_found_whole_or_not_at_all(index):
    """Every page's key holds the digest of the whole group, as prompt/layout.py makes it."""
    def keys(pixels):
        return tuple(PageKey(end, hashlib.blake2b(f'{pixels}{end}'.encode()).digest())
                     for end in (4, 8, 10))
    put(index, keys('frame 1'), 10)
    assert found(index, keys('frame 1'), 10).length == 10
    assert found(index, keys('frame 2'), 10).length == 0


def test_a_match_pins_its_pages(index, pool):
    blocks = put(index, edges('abcdefgh'), 8)
    match = index.match(edges('abcdefgh'), 4)
    assert match.blocks == (blocks[0],) and pool.references(blocks[0]) == 1
    assert index.evict(10) == [blocks[1]]
    pool.release(match.blocks)
    assert index.evict(10) == [blocks[0]]


def test_pages_in_use_are_never_evicted(index, pool):
    blocks = pool.take(2)
    index.publish(edges('abcdefgh'), blocks, 8)
    assert index.evict(10) == [] and pool.num_used == 2
    assert found(index, edges('abcdefgh'), 8).length == 8


def test_least_recently_used_prefixes_go_first(index):
    first, second = put(index, edges('abcd'), 4), put(index, edges('efgh'), 4)
    found(index, edges('abcd'), 4)
    assert index.evict(1) == second
    assert index.evict(1) == first
    assert len(index) == 0 and index.num_evicted == 2


def test_evicted_pages_are_forgotten_with_all_their_keys(index):
    put(index, edges('abcdef', 5, 6), 6)
    assert len(index) == 3
    index.evict(1)
    assert len(index) == 1
    index.evict(1)
    assert len(index) == 0
    index.invariants()


def test_a_retaken_block_is_not_mistaken_for_what_it_held(index, pool):
    """Even where the block is taken away without the index being told."""
    keys = edges('abcd')
    (block,) = put(index, keys, 4)
    pool.unpublish(block)
    assert index.match(keys, 4) == Match((), 0)
    index.publish(keys, pool.take(1), 4)
    pool.unpublish(block)
    pool.release([block])
    other = edges('wxyz')
    assert pool.take(1) == [block]
    pool.publish(block)
    assert index.match(keys, 4) == Match((), 0), 'published again, but in another generation'
    index.publish(other, [block], 4)
    index.invariants()
    assert index.match(other, 4) == Match((block,), 4)


def test_of_equal_prefixes_the_first_is_kept(index, pool):
    keys = edges('abcdefgh')
    first, second = pool.take(2), pool.take(2)
    index.publish(keys, first, 8)
    index.publish(keys, second, 8)
    assert not pool.is_published(second[0])
    pool.release(second)
    pool.release(first)
    assert (pool.num_free, pool.num_cached) == (10, 2)
    assert found(index, keys, 8) == Match(tuple(first), 8)


def test_a_chain_may_go_through_pages_of_several_prefixes(index, pool):
    first, second = pool.take(1), pool.take(2)
    index.publish(edges('abcd'), first, 4)
    index.publish(edges('abcdefgh'), second, 8)
    assert index.match(edges('abcdefgh'), 8) == Match((first[0], second[1]), 8)


def test_only_keys_within_the_length_are_published(index):
    put(index, edges('abcdefgh', 6, 7), 6)
    assert found(index, edges('abcdefgh', 6, 7), 8).length == 6
    assert len(index) == 2


def test_clear_forgets_all_and_leaves_pages_in_use_to_their_holders(index, pool):
    used = pool.take(1)
    index.publish(edges('abcd'), used, 4)
    put(index, edges('efgh'), 4)
    index.clear()
    assert len(index) == 0 and (pool.num_used, pool.num_cached) == (1, 0)
    assert pool.is_writable(used[0])
    index.invariants()


@pytest.mark.parametrize('damage,words', [
    (lambda index: index.pool.unpublish(0), 'not published'),
    (lambda index: index.pool._generation.__setitem__(0, 9), 'generation'),
    (lambda index: index._digests[0].clear(), 'unknown to its block'),
    (lambda index: index._digests[0].append(b'x'), 'name 2 keys'),
    (lambda index: index.pool.publish(index.pool.take(1)[0]), 'has 0 keys'),
])
def test_damaged_books_are_found_in_the_index(index, damage, words):
    put(index, edges('abcd'), 4)
    damage(index)
    with pytest.raises(AssertionError, match=words):
        index.invariants()


def test_an_empty_page_is_refused(pool):
    with pytest.raises(ValueError, match='page_tokens'):
        PrefixIndex(pool, 0)
