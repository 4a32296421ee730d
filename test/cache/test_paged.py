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

"""The paged cache as a whole: opening on what is known, evicting, statistics, invariants."""

from __future__ import annotations

import hashlib

import pytest
import torch

from robot_infer.cache import (
    BlockPool,
    CacheStats,
    KVStorage,
    PagedCache,
    PageKey,
    PoolExhausted,
    PrefixIndex,
    Sequence,
)
from robot_infer_kernels import append_kv
from robot_infer_kernels.pages import read_blocks

PAGE = 4


def edges(text, *inside):
    """Keys of a causal prefix, one a letter, at page edges and at the ends given."""
    ends = sorted({*range(PAGE, len(text) + 1, PAGE), *inside})
    return tuple(PageKey(end, hashlib.blake2b(text[:end].encode()).digest()) for end in ends)


def run(cache, text, *inside):
    """One step: open on what is known, append the rest, publish; returns (sequence, computed)."""
    keys = edges(text, *inside)
    sequence = cache.open(keys, len(text) - 1)
    computed = len(text) - sequence.length
    sequence.append(computed)
    cache.publish(sequence, keys)
    cache.invariants()
    return sequence, computed


def test_what_was_computed_is_not_computed_again(make_cache):
    cache = make_cache()
    for text, expected in (('abcdefghij', 10), ('abcdefghij', 1), ('abcdefghiX', 1),
                           ('abcdefXXXX', 6), ('Xbcdefghij', 10), ('abcdefghij', 1)):
        sequence, computed = run(cache, text, len(text) - 1)
        assert computed == expected, text
        sequence.release()
    stats = cache.stats
    assert (stats.opens, stats.hits, stats.tokens_hit) == (6, 4, 9 + 9 + 4 + 9)
    assert stats.pages_used == 0 and stats.sequences == 0


@pytest.mark.parametrize('name', ['int8', 'fp8', 'int4'])
def test_quantised_pages_are_found_copied_and_watched_as_plain_ones_are(name):
    storage, pool = KVStorage(2, 12, PAGE, 1, 32, torch.float32, poison=True,
                              kv_format=name), BlockPool(12)
    cache = PagedCache(storage, pool, PrefixIndex(pool, PAGE), 6)
    first, _ = run(cache, 'abcdefghij', 9)
    slots = torch.tensor([first.blocks[t // PAGE] * PAGE + t % PAGE for t in range(10)])
    for number in range(2):
        append_kv(*torch.randn(2, 10, 1, 32), storage.plane(number), slots)
    cache.clear()
    cache.publish(first, edges('abcdefghij', 9))
    second, computed = run(cache, 'abcdefghiX', 9)
    assert computed == 1 and second.blocks[2] != first.blocks[2] and cache.stats.copies == 1
    plane = storage.plane(1)
    copied, source = (read_blocks(plane, [each.blocks[2]], torch.float64)[:, 0, :1]
                      for each in (second, first))
    assert torch.equal(copied, source) and bool(source.isfinite().all())
    plane.scales[0, first.blocks[0], 0] = 3.0
    with pytest.raises(AssertionError, match=f'block {first.blocks[0]} was written'):
        cache.invariants()


def test_two_prefixes_alive_share_their_pages(make_cache):
    cache = make_cache()
    first, _ = run(cache, 'abcdefghij', 9)
    second, _ = run(cache, 'abcdefghiX', 9)
    assert first.blocks[:2] == second.blocks[:2] and first.blocks[2] != second.blocks[2]
    assert cache.stats.pages_used == 4
    first.release()
    second.release()


def test_an_open_finds_no_more_than_the_table_holds(make_cache):
    cache = make_cache()
    run(cache, 'abcdefghijkl')[0].release()
    narrow = PagedCache(cache.storage, cache.pool, cache.index, 2)
    assert narrow.open(edges('abcdefghijkl'), 12).length == 8


def test_cached_pages_make_room_oldest_first(make_cache):
    cache = make_cache(num_blocks=4)
    for text in ('aaaa', 'bbbb', 'cccc'):
        run(cache, text)[0].release()
    assert cache.stats.pages_cached == 3
    run(cache, 'dddddddd')
    assert cache.stats.evictions == 1
    for text, length in (('aaaaX', 0), ('bbbbX', 4), ('ccccX', 4)):
        sequence = cache.open(edges(text), 4)
        assert sequence.length == length
        sequence.release()


def test_pages_in_use_are_not_evicted_and_a_failure_evicts_nothing(make_cache):
    cache = make_cache(num_blocks=4)
    run(cache, 'aaaa')[0].release()
    held, _ = run(cache, 'bbbbbbbb')
    sequence = Sequence(cache)
    with pytest.raises(PoolExhausted, match='3 pages free or evictable; got 1 free and 1'):
        sequence.append(12)
    assert cache.stats.evictions == 0 and cache.stats.pages_cached == 1
    sequence.append(8)
    assert cache.stats.evictions == 1 and not set(held.blocks) & set(sequence.blocks)
    cache.invariants()


def test_pages_found_by_an_open_are_not_evicted_by_its_own_append(make_cache):
    cache = make_cache(num_blocks=3)
    run(cache, 'aaaabbbb')[0].release()
    sequence, computed = run(cache, 'aaaabbbbc')
    assert (computed, cache.stats.evictions) == (1, 0)
    sequence.release()
    run(cache, 'xxxx')[0].release()
    assert cache.stats.pages_total == 3 and cache.stats.pages_used == 0


def test_clear_forgets_prefixes_and_leaves_live_sequences(make_cache):
    cache = make_cache()
    held, _ = run(cache, 'abcdefgh')
    run(cache, 'xyzxyz')[0].release()
    cache.clear()
    assert cache.stats.pages_cached == 0 and cache.stats.pages_used == 2
    assert cache.open(edges('abcdefgh'), 7).length == 0
    cache.storage.plane(0)[:, held.blocks[0]] = 1.0  # private again: may be written
    cache.publish(held, edges('abcdefgh'))
    cache.invariants()


def test_fresh_pages_are_poisoned_where_asked_for(make_cache):
    for poison in (True, False):
        cache = make_cache(poison=poison)
        sequence = Sequence(cache)
        for number in range(2):
            cache.storage.plane(number)[:] = 1.0
        sequence.append(5)
        fresh = cache.storage.plane(1)[:, sequence.table]
        assert bool(fresh.isnan().all()) is poison


def test_a_write_into_a_published_page_is_found(make_cache):
    cache = make_cache()
    sequence, _ = run(cache, 'abcdef', 5)
    cache.storage.plane(1)[0, sequence.blocks[1], 1] = 3.0  # behind the published end
    cache.invariants()
    cache.storage.plane(1)[0, sequence.blocks[1], 0] = 3.0
    with pytest.raises(AssertionError, match='was written after it was published'):
        cache.invariants()
    with pytest.raises(AssertionError, match='was written after it was published'):
        cache.publish(sequence, edges('abcdef', 5))


@pytest.mark.parametrize('damage,words', [
    (lambda cache, sequence: cache.pool.share(sequence.blocks[:1]), '2 references, 1 in tables'),
    (lambda cache, sequence: cache.pool.release(sequence.blocks[-1:]), '0 references, 1 in'),
    (lambda cache, sequence: sequence._blocks.append(0), 'tokens in 4 pages'),
    (lambda cache, sequence: sequence._blocks.reverse(), 'block table'),
    (lambda cache, sequence: sequence._table.set(0, [11]), 'block table'),
    (lambda cache, sequence: sequence._marks.append((99, 1)), 'snapshots'),
    (lambda cache, sequence: cache.take(1), '1 references, 0 in tables'),
    (lambda cache, sequence: setattr(cache.pool, '_num_free', 2), 'free'),
])
def test_damaged_books_are_found_in_the_cache(make_cache, damage, words):
    cache = make_cache()
    sequence, _ = run(cache, 'abcdefghij')
    damage(cache, sequence)
    with pytest.raises(AssertionError, match=words):
        cache.invariants()


def test_statistics_are_plain_numbers(make_cache):
    cache = make_cache(num_blocks=12)
    held, _ = run(cache, 'abcdef')
    assert cache.stats == CacheStats(
        pages_used=2, pages_cached=0, pages_free=10, pages_total=12, sequences=1, opens=1, hits=0,
        tokens_hit=0, evictions=0, copies=0)
    held.fork().append(1)
    assert cache.stats.copies == 1 and cache.stats.sequences == 2


def test_parts_that_do_not_fit_together_are_an_assertion():
    storage, pool = KVStorage(1, 4, 4, 1, 8, torch.float32), BlockPool(4)
    for parts in ((storage, pool, PrefixIndex(BlockPool(4), 4)),
                  (storage, pool, PrefixIndex(pool, 8)),
                  (KVStorage(1, 5, 4, 1, 8, torch.float32), pool, PrefixIndex(pool, 4))):
        with pytest.raises(AssertionError):
            PagedCache(*parts, 4)


def test_a_step_costs_the_same_in_a_pool_of_any_size(make_cache, counted):
    """Touches of the pool's and the index's arrays in a step that hits, copies and evicts."""
    touches = set()
    for num_blocks in (64, 4096, 65_536):
        cache = make_cache(num_blocks=num_blocks, max_blocks=64, num_planes=1, poison=False)
        filler = cache.take(num_blocks - 12)  # so that every pool has to evict
        run_unchecked(cache, 'abcdefghij')
        read = counted(cache.pool, cache.index)
        for text in ('abcdefghiX', 'klmnopqrst', 'abcdefghij', 'uvwxyzuvwxyzuvwxyz', 'abcdefghij'):
            run_unchecked(cache, text)
        assert cache.stats.evictions > 0 and cache.stats.copies > 0
        touches.add(read())
        cache.pool.release(filler)
        cache.invariants()
    assert len(touches) == 1 and touches.pop() > 100


def run_unchecked(cache, text):
    """One step with a suffix that is rolled back, and nothing else."""
    keys = edges(text, len(text) - 1)
    sequence = cache.open(keys, len(text) - 1)
    sequence.append(len(text) - sequence.length)
    cache.publish(sequence, keys)
    snapshot = sequence.snapshot()
    sequence.append(7)
    sequence.restore(snapshot)
    sequence.release()
