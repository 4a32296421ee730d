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

"""Plans: one serves many planes and gives the bits of unplanned calls; its mask and refusals."""

from __future__ import annotations

import pytest
import torch

from robot_infer_kernels import paged_attention, plan_attention, planned_attention


@pytest.mark.parametrize('window', [None, 5])
@pytest.mark.parametrize('backend', ['cpu', 'reference'])
def test_one_plan_gives_every_plane_the_bits_of_calls_without_it(make, put, window, backend):
    length, blocks, limits = 40, [4, 1, 0], make.limits(6, 40)
    plan = None
    for softcap in (None, 4.0, None):
        keys, values = make.normal(2, length, 2, 32)
        pages, q = put(keys, values, 16, blocks, 6), make.normal(6, 4, 32)
        plan = plan or plan_attention(pages.kv, pages.table, length, limits, 6, window)
        out = planned_attention(q, pages.kv, plan, 0.2, softcap, backend)
        wanted = paged_attention(q, pages.kv, pages.table, length, limits, 0.2, window, softcap,
                                 backend)
        assert torch.equal(out, wanted)


@pytest.mark.parametrize('end', [1, 511, 512, 513, 700])
@pytest.mark.parametrize('window', [None, 3])
def test_the_mask_shows_the_keys_below_the_limit_and_in_the_window(end, window):
    limit = torch.tensor([1, max(1, end // 2), end])
    kv = torch.zeros(2, 1, 700, 1, 8)
    plan = plan_attention(kv, torch.tensor([0]), end, limit, 3, window)
    assert (plan.begin, plan.high) == (0, end)
    if end == 1:
        assert plan.mask is None  # every row sees the same keys
        return
    keys = torch.arange(end)
    seen = keys < limit[:, None]
    if window:
        seen &= keys >= limit[:, None] - window
    assert torch.equal(plan.mask == 0.0, seen)
    assert bool(torch.isneginf(plan.mask[~seen]).all())


def test_equal_limits_need_no_mask_and_a_window_moves_the_first_key(make):
    pages = make.pages(70, 2, 24)
    for limit in (60, torch.full((4,), 60)):
        plan = plan_attention(pages.kv, pages.table, 70, limit, 4, window=None)
        assert plan.mask is None and (plan.begin, plan.high) == (0, 60)
    plan = plan_attention(pages.kv, pages.table, 70, torch.tensor([50, 60]), 2, window=7)
    assert (plan.begin, plan.high) == (43, 60) and plan.mask.shape == (2, 17)


@pytest.mark.parametrize('name,change', [
    ('q', dict(q=torch.zeros(2, 4, 16))),
    ('q', dict(q=torch.zeros(3, 4, 24))),
    ('q', dict(q=torch.zeros(3, 5, 16))),
    ('q', dict(q=torch.zeros(3, 64))),
    ('q', dict(q=torch.zeros(3, 4, 16, dtype=torch.bfloat16))),
    ('kv', dict(kv=torch.zeros(2, 9, 8, 2, 16))),
    ('kv', dict(kv=torch.zeros(2, 5, 16, 2, 16))),
])
def test_a_call_that_is_not_as_planned_is_refused(name, change):
    kv = torch.zeros(2, 9, 16, 2, 16)
    plan = plan_attention(kv, torch.tensor([3, 4]), 20, 20, 3)
    arguments = dict(q=torch.zeros(3, 4, 16), kv=kv, plan=plan, scale=1.0)
    planned_attention(**arguments)
    with pytest.raises(ValueError, match=f'^{name}: expected'):
        planned_attention(**{**arguments, **change})
