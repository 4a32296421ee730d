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

"""The page budget: what is laid out is enough for every step, and a small budget says why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
import math

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from robot_infer.budget.pages import plan_pages
from robot_infer.cache import BlockPool, KVStorage, PagedCache, PrefixIndex
from robot_infer.config import CacheSettings
from robot_infer.errors import BudgetError, ConfigError
from robot_infer.policies.base import PrefixShape
from robot_infer.types import PageKey

SMOLVLA = PrefixShape(num_planes=24, num_heads=15, num_kv_heads=5, head_dim=64, max_prefix=177,
                      image_tokens=64, width=960, dtype=torch.bfloat16)


def test_smolvla_arithmetic_by_hand():
    cache = CacheSettings(budget_bytes=100_000_000, page_tokens=64, embeddings_per_camera=4)
    plan = plan_pages(SMOLVLA, num_cameras=2, horizon=50, cache=cache)
    block = 24 * 2 * 64 * 5 * 64 * 2
    embeddings = 2 * 4 * 64 * 960 * 2
    assert plan.num_blocks == (100_000_000 - embeddings) // block
    assert [line.num_bytes for line in plan.lines] == [plan.num_blocks * block, embeddings]
    assert sum(line.num_bytes for line in plan.lines) <= 100_000_000


@pytest.mark.parametrize('kv_format,head_bytes,words', [
    ('int8', 68, '(64 bytes + a scale of 4)'), ('fp8', 68, '(64 bytes + a scale of 4)'),
    ('int4', 36, '(32 bytes + 2 scales of 2)')])
def test_quantised_pages_are_counted_with_their_scales(kv_format, head_bytes, words):
    cache = CacheSettings(budget_bytes=100_000_000, page_tokens=64, kv_format=kv_format)
    plan = plan_pages(SMOLVLA, num_cameras=2, horizon=50, cache=cache)
    block = 24 * 2 * 64 * 5 * head_bytes
    assert block == KVStorage.bytes_per_block(24, 64, 5, 64, torch.bfloat16, kv_format)
    assert plan.num_blocks == (100_000_000 - plan.lines[1].num_bytes) // block
    assert plan.lines[0].num_bytes == plan.num_blocks * block
    assert plan.lines[1].num_bytes == 2 * 4 * 64 * 960 * 2  # embeddings stay in bf16
    assert words in plan.lines[0].arithmetic and f'= {block} bytes a page' in (
        plan.lines[0].arithmetic)


def test_int4_of_heads_that_are_no_whole_groups_is_refused():
    with pytest.raises(ConfigError, match='cache.kv_format: expected auto, int8 or fp8.*and 72'):
        plan_pages(replace(SMOLVLA, head_dim=72), 2, 50, CacheSettings(kv_format='int4'))


def test_too_small_a_budget_fails_with_the_arithmetic_and_the_named_sum_is_enough():
    cache = CacheSettings(budget_bytes=1_000_000, page_tokens=64, embeddings_per_camera=4)
    with pytest.raises(BudgetError, match='2 prefixes of 177 tokens = 3 \\+ 1 pages') as caught:
        plan_pages(SMOLVLA, 2, 50, cache)
    needed = int(caught.value.expected.split('at least ')[1].split(' bytes')[0])
    assert plan_pages(SMOLVLA, 2, 50, cache.model_copy(update={'budget_bytes': needed}))
    with pytest.raises(BudgetError):
        plan_pages(SMOLVLA, 2, 50, cache.model_copy(update={'budget_bytes': needed - 1}))


@dataclass
class _Live:
    cache: PagedCache
    read: object = None

    def step(self, prefix: int, fresh: int, horizon: int) -> None:
        """The engine's use of pages in one step: a cold prefill, a copied tail, a suffix."""
        sequence = self.cache.open((), 0)
        if prefix > 1:
            sequence.append(prefix - 1)
            page = self.cache.storage.page_tokens
            ends = sorted({*range(page, prefix, page), prefix - 1})
            self.cache.publish(sequence, [PageKey(end, b'%d %d' % (fresh, end)) for end in ends])
        sequence.append(1)
        snapshot = sequence.snapshot()
        sequence.append(horizon)
        sequence.restore(snapshot)
        if self.read is not None:
            self.read.release()
        self.read = sequence


@given(page=st.sampled_from([1, 4, 16]), longest=st.integers(2, 70), horizon=st.integers(1, 40),
       prefixes=st.lists(st.integers(2, 70), min_size=1, max_size=12))
def test_an_accepted_layout_never_runs_out_of_pages(page, longest, horizon, prefixes):
    shape = replace(SMOLVLA, num_planes=1, num_kv_heads=1, head_dim=8, max_prefix=longest,
                    dtype=torch.float32)
    smallest = _smallest(shape, horizon, page)
    plan = plan_pages(shape, 1, horizon, smallest)
    pool = BlockPool(plan.num_blocks)
    storage = KVStorage(1, plan.num_blocks, page, 1, 8, torch.float32)
    live = _Live(PagedCache(storage, pool, PrefixIndex(pool, page), plan.blocks_per_sequence))
    for number, prefix in enumerate(prefixes):
        live.step(min(prefix, longest), number, horizon)
    live.cache.invariants()


def _smallest(shape: PrefixShape, horizon: int, page: int) -> CacheSettings:
    cache = CacheSettings(budget_bytes=1, page_tokens=page, embeddings_per_camera=1)
    with pytest.raises(BudgetError) as caught:
        plan_pages(shape, 1, horizon, cache)
    needed = int(caught.value.expected.split('at least ')[1].split(' bytes')[0])
    assert needed >= math.ceil(shape.max_prefix / page)
    return cache.model_copy(update={'budget_bytes': needed})
