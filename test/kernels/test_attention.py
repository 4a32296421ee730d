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

"""The one entry: against the float64 reference over shapes, limits, windows; and its refusals."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from robot_infer_kernels import append_kv, paged_attention, which_backend

HEAD_DIMS = [8, 24, 32, 64, 72, 80, 96, 128, 192, 256]
GROUPS = [1, 2, 3, 4, 5, 7, 16]
# For the half types this is the rounding of the result alone.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 4e-3, torch.float16: 6e-4}


def check(q, pages, limit, scale=None, tolerance=None, **options):
    """Compare with the reference: largest error relative to the largest value."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    arguments = (q, pages.kv, pages.table, pages.length, limit, scale)
    out = paged_attention(*arguments, **options)
    wanted = paged_attention(q.double(), pages.kv.double(), *arguments[2:], backend='reference',
                             **options)
    assert out.shape == q.shape and out.dtype == q.dtype and out.is_contiguous()
    assert bool(torch.isfinite(out).all()), 'something that was never written was read'
    error = (out.double() - wanted).abs().max() / wanted.abs().max()
    assert float(error) <= (tolerance or TOLERANCE[q.dtype]), f'relative error {float(error):.1e}'
    return out


@pytest.mark.parametrize('dtype', list(TOLERANCE))
@pytest.mark.parametrize('head_dim', HEAD_DIMS)
@pytest.mark.parametrize('group', GROUPS)
def test_every_head_size_and_group(make, head_dim, group, dtype):
    pages = make.pages(37, num_kv_heads=2, head_dim=head_dim, dtype=dtype)
    for num_tokens in (1, 4):
        q = make.normal(num_tokens, 2 * group, head_dim, dtype=dtype)
        check(q, pages, 37)
        check(q, pages, make.limits(num_tokens, 37))


@pytest.mark.parametrize('page_tokens', [8, 16, 64, 128])
@pytest.mark.parametrize('scattered', [False, True])
def test_lengths_around_page_edges(make, page_tokens, scattered):
    for edge in (page_tokens, 3 * page_tokens):
        for length in (edge - 1, edge, edge + 1):
            pages = make.pages(length, 3, 32, page_tokens, scattered)
            q = make.normal(5, 6, 32)
            check(q, pages, length)
            check(q, pages, torch.tensor([1, length, length, max(1, length - 1), 1]))


def test_one_token(make):
    pages = make.pages(1, 2, 16)
    out = check(make.normal(1, 4, 16), pages, 1)
    torch.testing.assert_close(out[0], pages.values[0].repeat_interleave(2, 0))


@pytest.mark.parametrize('limit', [
    pytest.param(lambda length, rows: length, id='all'),
    pytest.param(lambda length, rows: length // 2, id='int'),
    pytest.param(lambda length, rows: torch.full((rows,), length // 2), id='one block'),
    pytest.param(lambda length, rows: torch.arange(length - rows + 1, length + 1), id='causal'),
    pytest.param(lambda length, rows: torch.tensor([20] * 6 + [35] * (rows - 7) + [length]),
                 id='block-causal'),
    pytest.param(lambda length, rows: torch.randperm(length)[:rows] + 1, id='ragged'),
])
@pytest.mark.parametrize('window', [None, 1, 9, 64])
@pytest.mark.parametrize('softcap', [None, 3.0])
def test_limits_windows_and_caps(make, limit, window, softcap):
    torch.manual_seed(3)
    pages = make.pages(70, 2, 24)
    check(make.normal(12, 6, 24), pages, limit(70, 12), window=window, softcap=softcap)


def test_long_prefixes_with_far_apart_windows(make):
    """Whole tiles of keys are hidden from some rows, whose running maximum is then -inf."""
    pages = make.pages(1500, 1, 32, page_tokens=64)
    q = make.normal(40, 2, 32)
    limits = torch.linspace(1, 1500, 40).long()
    for window in (None, 3, 100):
        check(q, pages, limits, window=window)
    check(q, pages, limits.flip(0), window=3)


def test_peaked_scores(make):
    """Scores of some hundreds: one key takes all, nothing overflows."""
    pages = make.pages(100, 2, 64)
    check(100.0 * make.normal(8, 4, 64), pages, make.limits(8, 100), tolerance=1e-4)
    out = check(100.0 * make.normal(8, 4, 64), pages, 100, softcap=50.0, tolerance=1e-4)
    assert bool(torch.isfinite(out).all())


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_drawn_shapes(make_from, data):
    draw = data.draw
    make = make_from(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    page_tokens = draw(st.integers(1, 40))
    length, head_dim = draw(st.integers(1, 200)), draw(st.integers(8, 256))
    num_kv_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    num_tokens = draw(st.integers(1, 6))
    pages = make.pages(length, num_kv_heads, head_dim, page_tokens, draw(st.booleans()), dtype)
    limit = draw(st.one_of(
        st.integers(1, length),
        st.lists(st.integers(1, length), min_size=num_tokens, max_size=num_tokens)
        .map(torch.tensor)))
    check(make.normal(num_tokens, num_kv_heads * group, head_dim, dtype=dtype), pages, limit,
          scale=draw(st.sampled_from([head_dim ** -0.5, 0.01, 1.0 / head_dim])),
          window=draw(st.none() | st.integers(1, 250)),
          softcap=draw(st.none() | st.floats(0.5, 50.0)))


def test_what_a_row_may_not_see_does_not_touch_it(make, put):
    """Other valid keys behind the limit: the same bits."""
    length, limits = 60, torch.tensor([7, 16, 33, 60])
    q, blocks = make.normal(4, 6, 32), [4, 1, 0, 3]
    keys, values = make.normal(2, length, 2, 32)
    before = put(keys, values, 16, blocks, 6)
    out = paged_attention(q, before.kv, before.table, length, limits, 0.2)
    keys[33:], values[33:] = 50.0 * keys[33:], -values[33:]
    after = put(keys, values, 16, blocks, 6)
    changed = paged_attention(q, after.kv, after.table, length, limits, 0.2)
    assert torch.equal(out[:3], changed[:3])
    assert not torch.equal(out[3], changed[3])


def test_no_rows_give_no_rows(make):
    pages = make.pages(5, 2, 16)
    assert paged_attention(make.normal(0, 4, 16), pages.kv, pages.table, 5, 5, 1.0).shape == (
        0, 4, 16)


def test_pages_past_the_length_are_ignored(make):
    pages = make.pages(20, 2, 16)
    q = make.normal(3, 2, 16)
    longer = torch.cat([pages.table, torch.tensor([999])])
    assert torch.equal(paged_attention(q, pages.kv, longer, 20, 20, 1.0),
                       paged_attention(q, pages.kv, pages.table, 20, 20, 1.0))


@pytest.mark.parametrize('name,change', [
    ('q', dict(q=torch.zeros(3, 4))),
    ('q', dict(q=torch.zeros(3, 4, 24))),
    ('q', dict(q=torch.zeros(3, 5, 16))),
    ('q', dict(q=torch.zeros(3, 4, 16, dtype=torch.bfloat16))),
    ('kv', dict(q=torch.zeros(3, 4, 4), kv=torch.zeros(2, 9, 16, 2, 4))),
    ('kv', dict(kv=torch.zeros(9, 16, 2, 16))),
    ('kv', dict(kv=torch.zeros(3, 9, 16, 2, 16))),
    ('table', dict(table=torch.zeros(2, dtype=torch.int32))),
    ('table', dict(table=torch.zeros(2, 1, dtype=torch.int64))),
    ('table', dict(table=torch.tensor([0, 9]))),
    ('table', dict(table=torch.tensor([-1, 2]))),
    ('length', dict(length=33)),
    ('limit', dict(limit=0)),
    ('limit', dict(limit=21)),
    ('limit', dict(limit=torch.tensor([1, 0, 5]))),
    ('limit', dict(limit=torch.tensor([1, 21, 5]))),
    ('limit', dict(limit=torch.tensor([1, 2]))),
    ('limit', dict(limit=torch.tensor([1, 2, 3], dtype=torch.int32))),
    ('q', dict(q=torch.zeros(3, 0, 16))),
    ('kv', dict(kv=torch.zeros(2, 9, 16, 0, 16))),
    ('kv', dict(kv=torch.zeros(2, 9, 0, 2, 16), length=0)),
    ('kv', dict(q=torch.zeros(3, 4, 16, dtype=torch.int32),
                kv=torch.zeros(2, 9, 16, 2, 16, dtype=torch.int32))),
    ('kv', dict(q=torch.zeros(3, 4, 16, dtype=torch.complex64),
                kv=torch.zeros(2, 9, 16, 2, 16, dtype=torch.complex64))),
    ('limit', dict(limit=None)),
    ('length', dict(length=2.5)),
    ('scale', dict(scale=float('nan'))),
    ('scale', dict(scale=float('inf'))),
    ('softcap', dict(softcap=float('inf'))),
    ('window', dict(window=2.5)),
    ('window', dict(window=0)),
    ('softcap', dict(softcap=0.0)),
    ('softcap', dict(softcap=float('nan'))),
    ('backend', dict(backend='cuda')),
])
def test_a_wrong_argument_is_named(name, change):
    arguments = dict(q=torch.zeros(3, 4, 16), kv=torch.zeros(2, 9, 16, 2, 16),
                     table=torch.tensor([3, 4]), length=20, limit=20, scale=1.0)
    paged_attention(**arguments)
    with pytest.raises(ValueError, match=f'^{name}: expected'):
        paged_attention(**{**arguments, **change})


def test_a_window_beyond_every_length_hides_nothing_and_any_whole_number_counts(make):
    pages = make.pages(20, 2, 16)
    q = make.normal(3, 2, 16)
    plain = paged_attention(q, pages.kv, pages.table, 20, 20, 1.0)
    for window in (20, 2**31, 2**63, 2**64 + 1, np.int64(2**40)):
        assert torch.equal(plain, paged_attention(
            q, pages.kv, pages.table, np.int32(20), np.int64(20), 1.0, window=window))


def test_backend_by_device():
    assert which_backend('cpu') == 'cpu'
    with pytest.raises(ValueError, match='meta'):
        which_backend('meta')


@pytest.mark.parametrize('slots', [
    pytest.param([5], id='one'),
    pytest.param([14, 15, 16, 17, 18], id='neighbours across a page edge'),
    pytest.param([40, 3, 17, 16, 79], id='scattered'),
    pytest.param([5, 4, 3], id='backwards'),
    pytest.param([0, 1, 3], id='with a gap'),
    pytest.param([], id='none'),
])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_append_writes_its_slots_and_no_other(make, slots, dtype):
    count = len(slots)
    fused = make.normal(count, 3 * 2, 8, dtype=dtype)  # k and v as views of a fused projection
    k, v = fused[:, 2:4], fused[:, 4:6]
    kv = make.normal(2, 5, 16, 2, 8, dtype=dtype)
    wanted = kv.clone().flatten(1, 2)
    for row, slot in enumerate(slots):
        wanted[0, slot], wanted[1, slot] = k[row], v[row]
    append_kv(k, v, kv, torch.tensor(slots, dtype=torch.int64))
    assert torch.equal(kv.flatten(1, 2), wanted)


def test_append_into_a_plane_that_is_itself_a_view(make):
    whole = torch.zeros(2, 7, 20, 4, 8)
    kv = whole[:, 1:6, :16, 1:3]
    k, v = make.normal(2, 3, 2, 8)
    for slots in ([15, 16, 17], [3, 40, 16]):
        append_kv(k, v, kv, torch.tensor(slots))
        flat = kv.flatten(1, 2)
        assert torch.equal(flat[0, slots], k) and torch.equal(flat[1, slots], v)
    kv.zero_()
    assert not whole.any(), 'written outside the plane'


@pytest.mark.parametrize('name,change', [
    ('k', dict(k=torch.ones(3, 2, 8))),
    ('k', dict(k=torch.ones(2, 3, 8))),
    ('v', dict(v=torch.ones(2, 2, 9))),
    ('v', dict(v=torch.ones(2, 2, 8, dtype=torch.float64))),
    ('kv', dict(kv=torch.zeros(5, 16, 2, 8))),
    ('slots', dict(slots=torch.tensor([1, 80]))),
    ('slots', dict(slots=torch.tensor([-1, 4]))),
    ('slots', dict(slots=torch.tensor([1, 2], dtype=torch.int32))),
])
def test_append_refuses_by_name_and_writes_nothing(name, change):
    kv = torch.zeros(2, 5, 16, 2, 8)
    arguments = dict(k=torch.ones(2, 2, 8), v=torch.ones(2, 2, 8), kv=kv,
                     slots=torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=f'^{name}: expected'):
        append_kv(**{**arguments, **change})
    assert not kv.any()
