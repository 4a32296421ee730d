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

"""The operations beside attention: every backend against float64, on poisoned memory.

Tests marked `gpu` run the Triton kernels, in the watched interpreter where there is no GPU.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

from robot_infer_kernels import (
    append_kv,
    copy_blocks,
    gated_gelu,
    gated_silu,
    gather_rows,
    rms_norm,
    rope_append,
    rotary,
    rotate,
)

BACKENDS = ['cpu', pytest.param('triton', marks=pytest.mark.gpu)]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}
DTYPES = list(TOLERANCE)
GPU = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
NAN = math.nan


def place(backend: str) -> torch.device:
    """Where a backend wants its tensors."""
    return GPU if backend == 'triton' else torch.device('cpu')


def poisoned(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Memory that nobody has written."""
    return torch.full(shape, NAN, dtype=dtype, device=device)


def close(out: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype | None = None) -> None:
    """Hold a result against float64: ||out - wanted|| / ||wanted||."""
    out, wanted = out.cpu(), wanted.cpu().double()
    assert bool(torch.isfinite(out).all()), 'something that was never written was read'
    error = float((out.double() - wanted).norm() / wanted.norm())
    assert error <= TOLERANCE[dtype or out.dtype], f'relative error {error:.1e}'


def check_rope(make, backend, dtype, heads, head_dim, rotary_dim, interleaved=False, num_tokens=3,
               page_tokens=16, with_positions=True):
    """Tokens of a fused projection with poison beside it, into a poisoned plane."""
    device, (num_heads, num_kv_heads) = place(backend), heads
    ends = [num_heads, num_heads + num_kv_heads, num_heads + 2 * num_kv_heads]
    fused = poisoned(num_tokens, ends[2] + 1, head_dim, dtype=dtype, device=device)
    fused[:, :ends[2]] = make.normal(num_tokens, ends[2], head_dim, dtype=dtype).to(device)
    q, k, v, _ = fused.tensor_split(ends, 1)
    positions = torch.randperm(50, generator=make.generator)[:num_tokens]
    if not with_positions:
        positions = torch.arange(num_tokens)
    cos_sin = poisoned(50, rotary_dim, dtype=torch.float32, device=device)
    cos_sin[positions] = rotary.yarn(rotary_dim, 1000.0, 2.0, 64).table(positions).to(device)
    num_blocks = -(-num_tokens // page_tokens) + 2
    slots = torch.randperm(num_blocks * page_tokens, generator=make.generator)[:num_tokens]
    kv = poisoned(2, num_blocks, page_tokens, num_kv_heads, head_dim, dtype=dtype, device=device)
    out = poisoned(num_tokens, num_heads, head_dim, dtype=dtype, device=device)
    there = positions.to(device) if with_positions else None
    assert rope_append(q, k, v, cos_sin, kv, slots.to(device), there, interleaved, out,
                       backend) is out
    wanted_kv = kv.cpu().double().fill_(NAN)
    wanted = rope_append(q.cpu().double(), k.cpu().double(), v.cpu().double(), cos_sin.cpu(),
                         wanted_kv, slots, positions, interleaved, backend='reference')
    close(out, wanted)
    written, wanted_kv = kv.cpu().flatten(1, 2), wanted_kv.flatten(1, 2)
    close(written[0, slots], wanted_kv[0, slots])
    assert torch.equal(written[1, slots], v.cpu())
    untouched = torch.ones(num_blocks * page_tokens, dtype=torch.bool)
    untouched[slots] = False
    assert bool(written[:, untouched].isnan().all()), 'written outside its slots'
    close(rotate(q, cos_sin, there, interleaved, backend=backend), wanted)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('interleaved', [False, True])
@pytest.mark.parametrize('head_dim,rotary_dim', [
    (16, 16), (64, 64), (72, 72), (80, 80), (96, 96), (96, 48), (128, 32), (256, 256), (64, 2)])
def test_rope_append_of_every_head_size(make, backend, dtype, interleaved, head_dim, rotary_dim):
    check_rope(make, backend, dtype, (3, 1), head_dim, rotary_dim, interleaved)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('heads', [(1, 1), (15, 5), (8, 1), (32, 8), (7, 7), (1, 16)])
def test_rope_append_of_every_grouping(make, backend, heads):
    check_rope(make, backend, torch.bfloat16, heads, 64, 64, num_tokens=2)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('num_tokens', [1, 7, 8, 50])
@pytest.mark.parametrize('page_tokens', [8, 64])
def test_rope_append_of_any_number_of_tokens(make, backend, num_tokens, page_tokens):
    check_rope(make, backend, torch.float32, (2, 1), 32, 32, num_tokens=num_tokens,
               page_tokens=page_tokens, with_positions=num_tokens != 7)


@pytest.mark.parametrize('backend', BACKENDS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_rope_append_of_any_shape(make_from, backend, data):
    draw = data.draw
    head_dim = 8 * draw(st.integers(1, 32))
    num_kv_heads = draw(st.integers(1, 3))
    heads = (num_kv_heads * draw(st.integers(1, 8)), num_kv_heads)
    check_rope(make_from(draw(st.integers(0, 2 ** 31))), backend, draw(st.sampled_from(DTYPES)),
               heads, head_dim, 2 * draw(st.integers(1, head_dim // 2)), draw(st.booleans()),
               draw(st.integers(1, 4)), draw(st.integers(1, 20)), draw(st.booleans()))


@pytest.mark.parametrize('backend', ['reference', *BACKENDS])
def test_both_layouts_turn_as_transformers_does(backend):
    for case in json.loads((Path(__file__).parent / 'data/rotary.json').read_text())['rotations']:
        table = rotary.yarn(8, case['base'], case['factor'], case['trained_length']).table(151)
        out = rotate(torch.tensor(case['q'], device=place(backend)), table.to(place(backend)),
                     torch.tensor(case['positions'], device=place(backend)),
                     case['layout'] == 'interleaved', backend=backend)
        close(out, torch.tensor(case['rotated']))


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', DTYPES)
def test_rope_append_is_rotate_and_append_to_the_bit(make, backend, dtype):
    """What a page holds does not depend on which way it was written."""
    q, k, v = make.normal(3, 4, 2, 32, dtype=dtype).to(place(backend))
    cos_sin = rotary.default(32).table(9)[5:].contiguous().to(place(backend))
    slots = torch.tensor([3, 40, 9, 17], device=place(backend))
    fused, apart = torch.zeros(2, 2, 3, 16, 2, 32, dtype=dtype, device=place(backend))
    rope_append(q, k, v, cos_sin, fused, slots, backend=backend)
    append_kv(rotate(k, cos_sin, backend=backend), v, apart, slots)
    assert torch.equal(fused, apart)


@pytest.mark.gpu
def test_an_append_without_rotation_is_one_launch_too(make):
    from robot_infer_kernels.gpu.elementwise import append

    k, v = make.normal(2, 5, 3, 24).to(GPU)
    slots = torch.tensor([5, 31, 0, 16, 15], device=GPU)
    kv, wanted = torch.zeros(2, 2, 2, 16, 3, 24, device=GPU)
    append(k, v, kv, slots)
    append_kv(k, v, wanted, slots)
    assert torch.equal(kv, wanted)


@pytest.mark.gpu
def test_rope_append_into_a_pool_of_more_than_2_to_the_31_elements(make):
    num_blocks = 2 ** 31 // (64 * 8 * 128) + 3
    kv = torch.empty(2, num_blocks, 64, 8, 128, dtype=torch.bfloat16, device=GPU)
    q, k, v = make.normal(3, 2, 8, 128, dtype=torch.bfloat16).to(GPU)
    cos_sin = torch.cat([torch.ones(2, 64), torch.zeros(2, 64)], 1).to(GPU)
    slots = torch.tensor([num_blocks * 64 - 1, num_blocks * 64 - 70], device=GPU)
    rope_append(q, k, v, cos_sin, kv, slots, backend='triton')
    for side, written in ((0, k), (1, v)):
        assert torch.equal(kv[side, -1, -1], written[0])
        assert torch.equal(kv[side, -2, -6], written[1])


def check_norm(make, backend, dtype, num_rows, width, residual=None, plus_one=False,
               weight=torch.float32, out=None):
    """Rows with poison beside them."""
    device = place(backend)
    x = poisoned(num_rows, width + 8, dtype=dtype, device=device)[:, :width]
    x.copy_(make.normal(num_rows, width))
    scale = make.normal(width, dtype=weight).to(device)
    total = None if residual is None else poisoned(
        num_rows, width + 16, dtype=residual, device=device)[:, :width].copy_(
            3.0 * make.normal(num_rows, width))
    wanted_total = None if total is None else total.cpu().double()
    wanted = rms_norm(x.cpu().double(), scale.cpu().double(), 1e-5, wanted_total, plus_one,
                      backend='reference')
    given_out = None if out is None else poisoned(num_rows, width, dtype=out, device=device)
    got = rms_norm(x, scale, 1e-5, total, plus_one, given_out, backend)
    assert got is given_out or given_out is None and got.dtype == dtype
    narrow = residual is not None and residual.itemsize < got.dtype.itemsize
    close(got, wanted, residual if narrow else got.dtype)
    if total is not None:
        close(total, wanted_total)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('width', [8, 96, 720, 960, 2048, 4096])
def test_norm_of_every_width(make, backend, dtype, width):
    check_norm(make, backend, dtype, 2, width)
    check_norm(make, backend, dtype, 1, width, plus_one=True, weight=torch.bfloat16)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('residual', DTYPES)
@pytest.mark.parametrize('out', [None, torch.bfloat16, torch.float32])
def test_norm_of_what_the_residual_becomes(make, backend, dtype, residual, out):
    for plus_one in (False, True):
        check_norm(make, backend, dtype, 3, 104, residual, plus_one, out=out)


@pytest.mark.parametrize('backend', BACKENDS)
def test_norm_in_place_and_of_zeros(make, backend):
    x = make.normal(4, 64).to(place(backend))
    x[2] = 0.0
    weight = torch.ones(64, device=place(backend))
    wanted = rms_norm(x.cpu().double(), weight.cpu(), 1e-6, backend='reference')
    assert rms_norm(x, weight, 1e-6, out=x, backend=backend) is x
    close(x, wanted)
    assert not x[2].any()


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('gate', [gated_silu, gated_gelu])
@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('hidden', [8, 1000, 1024, 2560])
def test_gates_of_every_width(make, backend, gate, dtype, hidden):
    gate_up = poisoned(3, 2 * hidden + 8, dtype=dtype, device=place(backend))[:, :2 * hidden]
    gate_up.copy_(2.0 * make.normal(3, 2 * hidden))
    out = poisoned(3, hidden, dtype=dtype, device=place(backend))
    assert gate(gate_up, out, backend) is out
    close(out, gate(gate_up.cpu().double(), backend='reference'))


@pytest.mark.filterwarnings('ignore:overflow encountered in exp2:RuntimeWarning')
@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('gate', [gated_silu, gated_gelu])
def test_gates_far_from_zero_are_shut_or_open(backend, gate):
    x = torch.tensor([-3e12, -1e4, -100.0, -9.0, 0.0, 9.0, 1e4, 3e12])
    out = gate(torch.cat([x, torch.ones(8)])[None].to(place(backend)), backend=backend)[0].cpu()
    wanted = gate(torch.cat([x, torch.ones(8)])[None].double(), backend='reference')[0]
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('backend', BACKENDS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_norms_and_gates_of_any_shape(make_from, backend, data):
    draw, kinds = data.draw, st.sampled_from(DTYPES)
    make, width = make_from(draw(st.integers(0, 2 ** 31))), 8 * draw(st.integers(1, 200))
    num_rows, dtype = draw(st.integers(1, 4)), draw(kinds)
    check_norm(make, backend, dtype, num_rows, width, draw(st.none() | kinds),
               draw(st.booleans()), draw(kinds), draw(st.none() | kinds))
    gate_up = make.normal(num_rows, 2 * width, dtype=dtype)
    for gate in (gated_silu, gated_gelu):
        close(gate(gate_up.to(place(backend)), backend=backend),
              gate(gate_up.double(), backend='reference'))


@pytest.mark.parametrize('backend', ['reference', *BACKENDS])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize('num_tokens', [None, 16, 5, 0])
def test_blocks_are_copied_in_all_planes_and_nothing_else(make, backend, dtype, num_tokens):
    pages = (50.0 * make.normal(3, 2, 7, 16, 2, 48)).to(dtype).to(place(backend))
    pairs, wanted = [(0, 6), (5, 2), (0, 3)], pages.clone()
    for source, target in pairs:
        wanted[:, :, target, :num_tokens] = wanted[:, :, source, :num_tokens]
    copy_blocks(pages, torch.tensor(pairs, device=place(backend)), num_tokens, backend)
    assert torch.equal(pages, wanted)
    copy_blocks(pages, torch.zeros(0, 2, dtype=torch.int64, device=place(backend)),
                backend=backend)
    assert torch.equal(pages, wanted)


@pytest.mark.parametrize('backend', ['reference', *BACKENDS])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize('width', [16, 960, 1104])
def test_rows_are_gathered_in_any_order(make, backend, dtype, width):
    source = (50.0 * make.normal(9, width + 16)).to(dtype).to(place(backend))[:, :width]
    rows = torch.tensor([8, 0, 0, 3, 8], device=place(backend))
    out = torch.zeros(7, width, dtype=dtype, device=place(backend))
    got = gather_rows(source, rows, out[1:6], backend)
    assert got.data_ptr() == out[1].data_ptr() and torch.equal(got, source[rows])
    assert not out[0].any() and not out[6].any()
    assert torch.equal(gather_rows(source, rows, backend=backend), source[rows])
