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

"""The Triton kernels against float64: on a GPU where there is one, in the interpreter elsewhere.

The same tests in both cases (`pytest -m gpu` selects them). In the interpreter every address is
checked (interpreter.py), and every slot of a page outside the valid tokens is NaN in both.
"""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

from robot_infer_kernels import paged_attention, plan_attention, planned_attention

pytest.importorskip('triton', reason='triton is not installed')

from robot_infer_kernels.gpu import chips  # noqa: E402
from robot_infer_kernels.gpu.attention import Choice, attend, choose  # noqa: E402

pytestmark = pytest.mark.gpu

DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}
HEAD_DIMS = [32, 64, 72, 80, 96, 128, 192, 256]

# Few rows a tile, so that a test has several blocks of rows; on a chip the table says how many.
PREFILL = Choice(chips.Tile(16, 32, 4, 3), 1)
SPLIT = Choice(chips.Tile(16, 32, 4, 3), 3)
MERGED = dataclasses.replace(SPLIT, merge_here=True)
KERNELS = {'prefill': PREFILL, 'decode': SPLIT, 'decode, last split merges': MERGED}

LIMITS = {
    'all': lambda length, rows: length,
    'one block': lambda length, rows: torch.full((rows,), length - length // 4),
    'causal': lambda length, rows: torch.arange(length - rows + 1, length + 1),
    'block-causal': lambda length, rows: torch.tensor(
        [length // 3] * (rows // 2) + [length // 2] * (rows - rows // 2 - 1) + [length]),
    'ragged': lambda length, rows: torch.linspace(1, length ** 0.5, rows).square().long(),
}


def there(value):
    """A tensor on the device of the tests; other values as they are."""
    return value.to(DEVICE) if isinstance(value, torch.Tensor) else value


def check(q, pages, limit, choice=None, window=None, softcap=None, scale=None):
    """Compare with the reference in float64: ||out - wanted|| / ||wanted||."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    kv = there(pages.kv)
    plan = plan_attention(kv, there(pages.table), pages.length, there(limit), q.shape[0], window)
    if choice is None:
        out = planned_attention(there(q), kv, plan, scale, softcap, backend='triton')
    else:
        out = attend(there(q), kv, plan, scale, softcap, choice)
    wanted = paged_attention(q.double(), pages.kv.double(), pages.table, pages.length, limit,
                             scale, window, softcap, backend='reference')
    assert out.shape == q.shape and out.dtype == q.dtype and out.is_contiguous()
    out = out.cpu().double()
    assert bool(torch.isfinite(out).all()), 'something that was never written was read'
    error = float((out - wanted).norm() / wanted.norm())
    assert error <= TOLERANCE[q.dtype], f'relative error {error:.1e}'
    return out


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('head_dim', HEAD_DIMS)
def test_every_head_size(make, head_dim, dtype):
    pages = make.pages(75, 1, head_dim, 32, dtype=dtype)
    q = make.normal(4, 4, head_dim, dtype=dtype)
    for choice in (PREFILL, dataclasses.replace(SPLIT, num_splits=2)):
        check(q, pages, LIMITS['causal'](75, 4), choice)


@pytest.mark.parametrize('group', range(1, 17))
def test_every_group(make, group):
    pages = make.pages(40, 2, 32, 32)
    q = make.normal(2, 2 * group, 32)
    for choice in (PREFILL, dataclasses.replace(SPLIT, num_splits=2)):
        check(q, pages, torch.tensor([33, 40]), choice)


@pytest.mark.parametrize('page_tokens', [8, 16, 24, 32, 64, 128])
@pytest.mark.parametrize('kernel', ['prefill', 'decode'])
def test_lengths_around_the_edges_of_pages_tiles_and_splits(make, page_tokens, kernel):
    choice = KERNELS[kernel]
    tile = choice.tile.block_n
    edges = {1, page_tokens, tile, 3 * tile, 6 * tile}
    lengths = sorted({edge + step for edge in edges for step in (-1, 0, 1)} - {0})
    for length in lengths if page_tokens in (16, 64) else lengths[::2]:
        pages = make.pages(length, 1, 32, page_tokens)
        check(make.normal(1, 3, 32), pages, length, choice)


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('limit', LIMITS)
@pytest.mark.parametrize('window', [None, 1, 9, 64])
def test_limits_and_windows(make, kernel, limit, window):
    length, rows = 101, 11
    pages = make.pages(length, 1, 32, 32 if window else 16)
    softcap = 20.0 if window in (None, 9) else None
    check(make.normal(rows, 3, 32), pages, LIMITS[limit](length, rows), KERNELS[kernel], window,
          softcap)


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('softcap', [0.5, 30.0])
def test_softcap_of_scores_far_beyond_it(make, kernel, softcap):
    """Scores up to 10 ** 5: exp of them is infinite, and the cap must not be inf / inf."""
    pages = make.pages(70, 1, 32, 32)
    check(make.normal(3, 2, 32), pages, 70, KERNELS[kernel], softcap=softcap, scale=1e4)
    check(make.normal(3, 2, 32), pages, 70, KERNELS[kernel], softcap=softcap, scale=0.3)


@pytest.mark.parametrize('kernel', ['decode', 'decode, last split merges'])
@pytest.mark.parametrize('length', [1, 33, 65, 70])
@pytest.mark.parametrize('num_splits', [2, 9, 20])
def test_empty_splits_add_nothing(make, kernel, length, num_splits):
    pages = make.pages(length, 2, 32, 32)
    check(make.normal(1, 4, 32), pages, length,
          dataclasses.replace(KERNELS[kernel], num_splits=num_splits))


def test_a_split_that_only_some_rows_see(make):
    """The last rows see three tiles, the first one key: their later splits are empty."""
    pages = make.pages(90, 1, 32, 32)
    for kernel in KERNELS.values():
        check(make.normal(8, 2, 32), pages, torch.tensor([1, 1, 1, 2, 90, 90, 90, 90]), kernel)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize('heads', [(15, 5, 64), (8, 1, 256)])
def test_suffixes_of_the_policies_by_the_table_of_the_chip(make, heads, dtype):
    """SmolVLA's and pi0's shapes, through the entry; causal among the action tokens."""
    num_heads, num_kv_heads, head_dim = heads
    num_tokens = 10 if DEVICE.type == 'cpu' else 50
    length = 130 + num_tokens
    pages = make.pages(length, num_kv_heads, head_dim, 64, dtype=dtype)
    q = make.normal(num_tokens, num_heads, head_dim, dtype=dtype)
    check(q, pages, LIMITS['causal'](length, num_tokens))
    check(q[:1], pages, length)


def test_queries_may_be_a_view_of_a_fused_projection(make):
    pages = make.pages(50, 2, 32, 32)
    fused = make.normal(5, 4 + 2 + 2, 32)
    for kernel in KERNELS.values():
        check(fused[:, :4], pages, 50, kernel)


@pytest.mark.parametrize('kernel', KERNELS)
def test_limits_in_any_order_are_served_outside_debug_mode(make, kernel):
    pages = make.pages(90, 1, 32, 32)
    check(make.normal(9, 2, 32), pages, make.limits(9, 90), KERNELS[kernel], window=20)


@pytest.mark.parametrize('kernel', KERNELS)
def test_one_launch_serves_every_length_table_and_limit(make, kernel):
    """What a captured graph replays: one plan, whose tensors change between the calls."""
    choice, num_tokens = KERNELS[kernel], 3
    pages = make.pages(120, 1, 32, 32)
    kv, q = there(pages.kv), there(make.normal(num_tokens, 2, 32))
    table = there(torch.zeros(4, dtype=torch.int64))
    length = there(torch.zeros(1, dtype=torch.int32))
    limit = there(torch.ones(num_tokens, dtype=torch.int64))
    plan = plan_attention(kv, table, length, limit, num_tokens)
    for known in (120, 3, 64, 97, 33):
        seen = torch.arange(known - num_tokens + 1, known + 1)
        table.copy_(there(torch.cat([pages.table[:-(-known // 32)],
                                   torch.full((4 - -(-known // 32),), 2 ** 40)])))
        length.fill_(known)
        limit.copy_(there(seen))
        out = attend(q, kv, plan, 0.2, None, choice).cpu().double()
        wanted = paged_attention(q.cpu().double(), pages.kv.double(), pages.table, known, seen,
                                 0.2, backend='reference')
        assert float((out - wanted).norm() / wanted.norm()) <= 1e-5


@pytest.mark.parametrize('kernel', KERNELS)
def test_what_a_row_may_not_see_does_not_touch_it(make, put, kernel):
    limits = torch.tensor([7, 16, 33, 80])
    q, blocks = make.normal(4, 2, 32), [4, 1, 3]
    keys, values = make.normal(2, 80, 1, 32)
    outs = []
    for factor in (1.0, 50.0):
        keys[33:] *= factor
        values[33:] *= -factor
        outs.append(check(q, put(keys, values, 32, blocks, 6), limits, KERNELS[kernel]))
    assert torch.equal(outs[0][:3], outs[1][:3])
    assert not torch.equal(outs[0][3], outs[1][3])


def test_a_pool_of_more_than_2_to_the_31_elements(make):
    """Blocks behind the range of int32, in memory that is reserved but for them never touched."""
    page_tokens, num_kv_heads, head_dim, length = 64, 8, 128, 100
    num_blocks = 2 ** 31 // (page_tokens * num_kv_heads * head_dim) + 3
    pages = make.pages(length, num_kv_heads, head_dim, page_tokens, dtype=torch.bfloat16)
    kv = torch.empty(2, num_blocks, *pages.kv.shape[2:], dtype=torch.bfloat16, device=DEVICE)
    table = torch.tensor([num_blocks - 1, num_blocks - 3])
    kv[:, table] = there(pages.kv[:, pages.table])
    q = make.normal(1, 2 * num_kv_heads, head_dim, dtype=torch.bfloat16)
    plan = plan_attention(kv, there(table), length, length, 1)
    for page_gather in (PREFILL, SPLIT):
        out = attend(there(q), kv, plan, 0.1, None, page_gather).cpu().double()
        wanted = paged_attention(q.double(), pages.kv.double(), pages.table, length, length, 0.1,
                                 backend='reference')
        assert float((out - wanted).norm() / wanted.norm()) <= 1e-2


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_shape(make_from, data):
    draw = data.draw
    make = make_from(draw(st.integers(0, 2 ** 31)))
    head_dim = 8 * draw(st.integers(1, 32))
    num_kv_heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 16))
    num_tokens, length = draw(st.integers(1, 6)), draw(st.integers(1, 150))
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    tile = chips.Tile(draw(st.sampled_from([16, 32])), draw(st.sampled_from([16, 32, 64])), 4, 3)
    choice = Choice(tile, draw(st.integers(1, 4)), draw(st.booleans()))
    pages = make.pages(length, num_kv_heads, head_dim, draw(st.integers(8, 128)), dtype=dtype)
    limit = draw(st.one_of(st.integers(1, length), st.just('ragged')))
    if limit == 'ragged':
        limit = make.limits(num_tokens, length).sort().values
    check(make.normal(num_tokens, num_kv_heads * group, head_dim, dtype=dtype), pages, limit,
          choice, draw(st.one_of(st.none(), st.integers(1, 160))),
          draw(st.one_of(st.none(), st.floats(1.0, 50.0))))


def test_few_rows_are_split_until_they_fill_the_chip_and_many_are_not():
    shape = dict(num_heads=15, num_kv_heads=5, head_dim=64, page_tokens=64, element_bytes=2)
    for on, chip in chips.CHIPS.items():
        known = dict(on=on, num_sms=chip.num_sms, **shape)
        one = choose(num_tokens=1, num_pages=64, **known)
        assert 1 < one.num_splits <= min(64, chips.MAX_SPLITS)
        assert one.num_splits * 5 <= chip.blocks_per_sm * chip.num_sms
        assert choose(num_tokens=1, num_pages=1, **known).num_splits == 1
        assert choose(num_tokens=8192, num_pages=256, **known).num_splits == 1
    with pytest.raises(ValueError, match='expected compute capability 8.0 or newer; got 7.5'):
        chips.chip(75)


@pytest.mark.parametrize('head_dim,parts', [
    (8, (16, 0)), (16, (16, 0)), (24, (32, 0)), (40, (64, 0)), (64, (64, 0)), (72, (64, 32)),
    (80, (64, 32)), (96, (64, 32)), (104, (128, 0)), (192, (256, 0)), (256, (256, 0))])
def test_a_head_is_one_or_two_powers_of_two(head_dim, parts):
    assert chips.parts(head_dim) == parts
