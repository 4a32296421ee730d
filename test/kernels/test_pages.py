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

"""Quantised pages: what is written is what the definition says, bit for bit; copies and refusals.

What attention over them is: test_pages_attention.py.

Tests marked `gpu` run the Triton kernels, in the watched interpreter where there is no GPU.
"""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from robot_infer_kernels import append_kv, copy_blocks, paged_attention, rope_append, rotary
from robot_infer_kernels.pages import (
    FORMATS,
    QuantisedPlane,
    dequantise,
    empty_plane,
    quantise,
    refusal,
    remark,
    zero_plane,
)

BACKENDS = ['cpu', pytest.param('triton', marks=pytest.mark.gpu)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
GPU = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
BLOCKS, NUM_BLOCKS = [5, 1, 6, 0, 3], 8


def place(backend: str) -> torch.device:
    """Where a backend wants its tensors."""
    return GPU if backend == 'triton' else torch.device('cpu')


def append(backend: str, k, v, kv, slots) -> None:
    """Write with one backend; on a GPU `append_kv` is the kernel itself."""
    if backend == 'triton':
        from robot_infer_kernels.gpu import elementwise

        elementwise.append(k, v, kv, slots)
    else:
        append_kv(k, v, kv, slots)


def poisoned(name: str, heads: int, head_dim: int, backend: str, page_tokens: int = 16
             ) -> QuantisedPlane:
    """A plane that nobody has written."""
    plane = empty_plane((2, NUM_BLOCKS, page_tokens, heads, head_dim), name, place(backend))
    plane.poison()
    return plane


def slots(length: int, page_tokens: int, backend: str) -> torch.Tensor:
    """Where the tokens of a sequence lie."""
    table = torch.tensor(BLOCKS)
    return (table[:, None] * page_tokens + torch.arange(page_tokens)).flatten()[:length].to(
        place(backend))


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit, and NaN where NaN is."""
    one, other = one.cpu(), other.cpu()
    if one.dtype == torch.float8_e4m3fn:
        return torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    if not one.dtype.is_floating_point:
        return torch.equal(one, other)
    bits = torch.int16 if one.dtype == torch.float16 else torch.int32
    nan = one.isnan()
    return torch.equal(nan, other.isnan()) and torch.equal(
        one.masked_fill(nan, 0.0).view(bits), other.masked_fill(nan, 0.0).view(bits))


def check_written(name: str, backend: str, k: torch.Tensor, v: torch.Tensor) -> None:
    """Write heads and hold every code and scale against the definition; nothing else is touched.
    """
    length, heads, head_dim = k.shape
    plane, where = poisoned(name, heads, head_dim, backend), slots(length, 16, backend)
    untouched = poisoned(name, heads, head_dim, backend)
    append(backend, k.to(place(backend)), v.to(place(backend)), plane, where)
    for side, written in enumerate((k, v)):
        codes, scales = quantise(written, name)
        assert same(plane.values[side].flatten(0, 1).view(torch.uint8)[where],
                    codes.view(torch.uint8))
        assert same(plane.scales[side].flatten(0, 1)[where], scales)
    rest = torch.ones(NUM_BLOCKS * 16, dtype=torch.bool)
    rest[where.cpu()] = False
    for mine, before in ((plane.raw(), untouched.raw()), (plane.scales, untouched.scales)):
        assert same(mine.cpu().flatten(1, 2)[:, rest], before.cpu().flatten(1, 2)[:, rest])


# --- The definition -----------------------------------------------------------------------------


def head(*numbers: float, size: int = 32) -> torch.Tensor:
    """A head of these elements, then zeros."""
    return torch.tensor([*numbers, *[0.0] * (size - len(numbers))])


def test_int8_by_hand():
    codes, scales = quantise(head(127.0, -127.0, 0.5, 1.5, 2.5, -0.5, -0.0, 1e-40), 'int8')
    assert codes.tolist()[:8] == [127, -127, 0, 2, 2, 0, 0, 0] and scales.tolist() == [1.0]
    codes, scales = quantise(head(1.0, 0.5), 'int8')
    assert codes.tolist()[:2] == [127, 64]
    assert scales.item() == np.float32(1.0) / np.float32(127.0)


def test_fp8_by_hand():
    codes, scales = quantise(head(448.0, -448.0, 17.0, 19.0, 2.0 ** -9, -0.0), 'fp8')
    assert codes.float().tolist()[:6] == [448.0, -448.0, 16.0, 20.0, 2.0 ** -9, -0.0]
    assert scales.tolist() == [1.0] and codes.dtype == torch.float8_e4m3fn


def test_int4_by_hand():
    codes, scales = quantise(torch.cat([head(7.0, -7.0, 0.5, 1.5), head(-3.5, 3.0)]), 'int4')
    assert scales.tolist() == [1.0, 0.5] and scales.dtype == torch.float16
    assert codes.tolist()[:2] == [15 | 1 << 4, 8 | 10 << 4]
    assert codes.tolist()[16:18] == [1 | 14 << 4, 8 | 8 << 4]


@pytest.mark.parametrize('name', FORMATS)
def test_a_head_of_nothing_is_zero(name):
    for numbers in ((0.0, -0.0), (1e-40, -3e-42), (2.0 ** -101,)):
        codes, scales = quantise(head(*numbers), name)
        assert scales.tolist() == [0.0]
        assert not dequantise(codes, scales, name).any()


@pytest.mark.parametrize('name', FORMATS)
@pytest.mark.parametrize('bad', [math.inf, -math.inf, math.nan])
def test_a_head_with_an_infinity_or_a_nan_is_nan(name, bad):
    codes, scales = quantise(torch.stack([head(1.0, bad), head(1.0, 2.0)]), name)
    read = dequantise(codes, scales, name)
    assert bool(read[0].isnan().all()) and bool(read[1].isfinite().all())


@pytest.mark.parametrize('name', FORMATS)
@pytest.mark.parametrize('largest', [3.4e38, 1e20, 1.0, 1e-20, 2.0 ** -100])
def test_any_size_of_number_is_kept_to_half_a_step(make, name, largest):
    """Half a step of the largest code; int4 stops at 7 * 65504 and below 2 ** -24."""
    if name == 'int4':
        largest = min(max(largest, 1e-4), 4e5)
    x = make.normal(7, 64).clamp(-3, 3) / 3
    x[:, ::32] = 1.0
    x *= largest
    codes, scales = quantise(x, name)
    read = dequantise(codes, scales, name, torch.float64)
    step = {'int8': 1 / 127, 'fp8': 1 / 14, 'int4': 1 / 7}[name] * largest
    assert float((read - x.double()).abs().max()) <= 0.5 * step * (1 + 1e-2)


def test_huge_numbers_stop_at_the_largest_scale_of_int4():
    codes, scales = quantise(head(3e38, -1.0), 'int4')
    assert scales.tolist() == [65504.0] and dequantise(codes, scales, 'int4')[0] == 7 * 65504.0


# --- What is written ----------------------------------------------------------------------------


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('name', FORMATS)
def test_codes_and_scales_are_those_of_the_definition(make, name, dtype, backend):
    for heads, head_dim in ((1, 32), (5, 64), (2, 96), (1, 256)):
        check_written(name, backend, make.normal(9, heads, head_dim, dtype=dtype),
                      make.normal(9, heads, head_dim, dtype=dtype) * 1e-3)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('name', ['int8', 'fp8'])
def test_a_head_that_is_no_power_of_two_is_written(make, name, backend):
    for head_dim in (8, 72, 80):
        check_written(name, backend, *make.normal(2, 5, 3, head_dim))


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('name', FORMATS)
def test_numbers_at_the_edges_are_written_as_defined(make, name, backend):
    edges = [0.0, -0.0, 1e-40, -1e-45, 2.0 ** -100, 2.0 ** -101, 6e-8, 1e-4, 3.4e38, -3.4e38, 4e5,
             5e5, math.inf, -math.inf, math.nan]
    k = make.normal(len(edges), 2, 64)
    k[:, 0, 3] = torch.tensor(edges)
    k[:, 1] = torch.tensor(edges)[:, None]
    v = k.roll(1, -1) * torch.tensor([1.0, -1.0]).repeat(32)
    check_written(name, backend, k, v)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('name', FORMATS)
def test_ties_go_to_the_even_code(name, backend):
    """Elements half way between codes: scale 1, so that they are that exactly."""
    top = FORMATS[name].top
    halves = torch.arange(-62.0, 62.0, 0.5)[:248].view(4, 2, 31).clamp(-top, top)
    k = torch.cat([torch.full((4, 2, 1), top), halves], -1)
    check_written(name, backend, k, -k)


@pytest.mark.parametrize('backend', BACKENDS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2 ** 31), name=st.sampled_from(list(FORMATS)))
def test_any_bits_are_written_as_defined(backend, seed, name):
    bits = np.random.default_rng(seed).integers(0, 2 ** 32, (2, 6, 2, 64), np.uint32)
    # Half of the heads with exponents that are near each other.
    bits[:, ::2] = bits[:, ::2] & 0x81ffffff | 0x3e000000
    check_written(name, backend, *torch.from_numpy(bits.view(np.float32)))


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('name', FORMATS)
def test_rope_append_writes_what_the_turned_keys_are(make, name, dtype, backend):
    """A key is rounded to the model's dtype before it is quantised, as an append would have it."""
    q, k, v = (make.normal(4, heads, 64, dtype=dtype).to(place(backend)) for heads in (6, 2, 2))
    cos_sin = rotary.default(64, 1e4).table(torch.arange(4)).to(place(backend))
    plain = torch.zeros(2, NUM_BLOCKS, 16, 2, 64, dtype=dtype, device=place(backend))
    plane, where = poisoned(name, 2, 64, backend), slots(4, 16, backend)
    turned = rope_append(q, k, v, cos_sin, plain, where, backend=backend)
    assert torch.equal(rope_append(q, k, v, cos_sin, plane, where, backend=backend), turned)
    for side in range(2):
        codes, scales = quantise(plain[side].flatten(0, 1)[where].cpu(), name)
        assert same(plane.values[side].flatten(0, 1).view(torch.uint8)[where],
                    codes.view(torch.uint8))
        assert same(plane.scales[side].flatten(0, 1)[where], scales)


def test_the_fast_way_of_the_cpu_gives_the_bits_of_the_definition(make):
    from robot_infer_kernels.cpu import quantised

    for name in ('int8', 'fp8'):
        for x in (make.normal(50, 5, 64), make.normal(3, 2, 72) * 1e30,
                  make.normal(200, 1, 96, dtype=torch.bfloat16) * 1e-20, torch.zeros(2, 1, 32)):
            for mine, defined in zip(quantised.quantise_fast(x, name), quantise(x, name)):
                assert same(mine, defined)
    codes = torch.tensor([code for code in range(256) if code & 0x7f != 0x7f], dtype=torch.uint8)
    assert same(quantised.widen_fp8(codes), codes.view(torch.float8_e4m3fn).float())


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('name', FORMATS)
def test_an_infinite_key_makes_nan_of_who_sees_it_and_of_nobody_else(make, name, backend):
    plane, where = poisoned(name, 1, 32, backend), slots(20, 16, backend)
    k, v = make.normal(2, 20, 1, 32).to(place(backend))
    k[15, 0, 3] = math.inf
    append(backend, k, v, plane, where)
    q, table = make.normal(2, 2, 32).to(place(backend)), torch.tensor(BLOCKS).to(place(backend))
    before, behind = (paged_attention(q, plane, table, 20, limit, 0.2, backend=backend).cpu()
                      for limit in (15, 16))
    assert bool(before.isfinite().all()) and bool(behind.isnan().all())


# --- Copies, refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('num_tokens', [None, 1, 5])
@pytest.mark.parametrize('heads', [1, 5])
@pytest.mark.parametrize('name', FORMATS)
def test_blocks_are_copied_with_their_scales(make, name, heads, num_tokens, backend):
    planes = empty_plane((3, 2, 6, 8, heads, 32), name, place(backend))
    planes.poison()
    for number in range(3):
        append(backend, *make.normal(2, 16, heads, 32).to(place(backend)), planes.plane(number),
               torch.arange(8, 24, device=place(backend)))
    before = planes.raw().clone(), planes.scales.clone()
    copy_blocks(planes, torch.tensor([[1, 4], [2, 0]], device=place(backend)), num_tokens, backend)
    count = 8 if num_tokens is None else num_tokens
    for mine, was in zip((planes.raw(), planes.scales), before):
        wanted = was.clone()
        wanted[:, :, [4, 0], :count] = was[:, :, [1, 2], :count]
        assert same(mine, wanted)


@pytest.mark.parametrize('head_dim', [8, 40, 72, 80])
def test_int4_wants_heads_of_whole_groups(head_dim):
    for call in (lambda: empty_plane((2, 1, 8, 1, head_dim), 'int4'),
                 lambda: zero_plane((2, 1, 8, 1, head_dim), 'int4', torch.float32),
                 lambda: quantise(torch.zeros(head_dim), 'int4')):
        with pytest.raises(ValueError, match=f'^head_dim: expected a multiple of 32 for int4 '
                                             f'pages.*; got {head_dim}'):
            call()


@pytest.mark.parametrize('name,change,words', [
    ('values', lambda v, s: (v.float(), s, 'int8', 32), 'torch.int8'),
    ('values', lambda v, s: (v, s, 'int8', 40), r'\(2, 4, 8, 2, 40\)'),
    ('values', lambda v, s: (v.transpose(1, 2), s, 'int8', 32), 'contiguous'),
    ('scales', lambda v, s: (v, s[:, :3], 'int8', 32), r'\(2, 4, 8, 2, 1\)'),
    ('scales', lambda v, s: (v, s.half(), 'int8', 32), 'torch.float32'),
    ('format', lambda v, s: (v, s, 'int2', 32), "int8, fp8, int4; got 'int2'")])
def test_a_plane_that_does_not_fit_its_format_is_refused(name, change, words):
    plane = empty_plane((2, 4, 8, 2, 32), 'int8')
    with pytest.raises(ValueError, match=f'^{name}: expected .*{words}'):
        QuantisedPlane(*change(plane.values, plane.scales))


def test_what_is_written_must_be_floats_of_one_dtype():
    plane = empty_plane((2, 4, 8, 2, 32), 'int8')
    k, where = torch.zeros(3, 2, 32), torch.arange(3)
    for bad in (k.double(), k.bfloat16(), k[:, :1]):
        with pytest.raises(ValueError, match='^v: expected .* torch.bfloat16 or torch.float16'):
            append_kv(k, bad, plane, where)
    with pytest.raises(ValueError, match='^slots: expected 0 to 31'):
        append_kv(k, k, plane, where + 30)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.is_available(), reason='the chip here is asked, not another')
def test_fp8_is_not_offered_on_orin_and_the_error_says_int8(monkeypatch):
    from robot_infer_kernels.gpu import compiling, elementwise

    monkeypatch.setitem(compiling._STATE, 'capability', 87)
    plane = empty_plane((2, 4, 8, 2, 32), 'fp8')
    q, table = torch.zeros(3, 2, 32), torch.arange(1)
    with pytest.raises(ValueError, match='^kv: fp8 pages .* sm_87 .*Jetson Orin.*Use int8'):
        paged_attention(q, plane, table, 3, 3, 1.0, backend='triton')
    with pytest.raises(ValueError, match='^kv: fp8 pages .* sm_87 .*Use int8'):
        elementwise.append(q, q, plane, torch.arange(3))


@pytest.mark.parametrize('capability,offered', [((8, 0), False), ((8, 7), False), ((8, 9), True),
                                                ((9, 0), True), ((12, 0), True)])
def test_who_is_offered_fp8(monkeypatch, capability, offered):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'get_device_capability', lambda device: capability)
    device = torch.device('cuda')
    assert (refusal('fp8', device) == '') is offered
    assert refusal('int8', device) == refusal('int4', device) == ''


def test_a_cpu_takes_every_format_and_int8_for_speed():
    device = torch.device('cpu')
    assert all(refusal(name, device) == '' for name in FORMATS)
    assert remark('int8', device) == '' and 'int8' in remark('fp8', device)


def test_bytes_are_counted_with_scales():
    for name, head_bytes in (('int8', 68), ('fp8', 68), ('int4', 36)):
        plane = empty_plane((2, 3, 16, 5, 64), name)
        assert plane.nbytes == 2 * 3 * 16 * 5 * head_bytes
        assert FORMATS[name].head_bytes(64) == head_bytes


@pytest.mark.gpu
@pytest.mark.parametrize('name', FORMATS)
def test_warm_up_knows_every_key_of_a_format(monkeypatch, name):
    """Lengths, tables and where planes begin change; scales need not begin at 16 bytes."""
    from robot_infer_kernels.gpu import launch, warm
    from robot_infer_kernels.gpu.warm_elementwise import RopeShape

    ledger = launch.Ledger()
    for module in (launch, warm):
        monkeypatch.setattr(module, 'LEDGER', ledger)
    monkeypatch.setattr(launch, '_WORKSPACES', {})
    warm.warm_up([
        warm.AttentionShape(2, 1, 32, page_tokens=9, max_pages=5, tokens=(1, 3),
                            dtype=torch.float32, form=name),
        RopeShape(2, 1, 32, dtype=torch.float32, form=name)], GPU)
    known = len(ledger.keys)
    planes = zero_plane((3, 2, 5, 9, 1, 32), name, torch.float32, GPU)
    assert planes.plane(1).scales.data_ptr() % 16
    cos_sin = torch.ones(9, 32, device=GPU)
    for number, length in enumerate((1, 16, 8, 9, 10, 45)):
        plane, tokens = planes.plane(number % 3), 1 if length < 9 else 3
        table, count = torch.arange(-(-length // 9), device=GPU), torch.arange(tokens, device=GPU)
        q, k, v = torch.zeros(3, tokens, 2, 32, device=GPU)
        rope_append(q, k[:, :1], v[:, :1], cos_sin, plane, count + number, count,
                    backend='triton')
        paged_attention(q, plane, table, length, torch.full((tokens,), length, device=GPU), 0.2,
                        backend='triton')
    assert len(ledger.keys) == known and ledger.num_late == 0, ledger.late
