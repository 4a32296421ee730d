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

"""Attention over quantised pages: against float64 over what they hold, and over what was written.

Tests marked `gpu` run the Triton kernels, in the watched interpreter where there is no GPU.
"""

from __future__ import annotations

import math

import pytest
import torch

from robot_infer_kernels import append_kv, paged_attention
from robot_infer_kernels.pages import FORMATS, QuantisedPlane, empty_plane, read_blocks

BACKENDS = ['cpu', pytest.param('triton', marks=pytest.mark.gpu)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}
# Of attention against float64 over what was never quantised, for normally distributed keys and
# values: what kernels/README.md says of each format.
STATED = {'int8': 0.01, 'fp8': 0.04, 'int4': 0.15}
GPU = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
LENGTH, BLOCKS, NUM_BLOCKS = 75, [5, 1, 6, 0, 3], 8


def place(backend: str) -> torch.device:
    """Where a backend wants its tensors."""
    return GPU if backend == 'triton' else torch.device('cpu')


def check_read(make, name, backend, dtype, heads=(6, 2, 64), page_tokens=16, num_tokens=5,
               window=None, softcap=None, factors=(1.0, 1.0, 1.0), limit=None, stated=math.inf
               ) -> None:
    """Attend over poisoned pages: against the values written, and against those read back."""
    num_heads, num_kv_heads, head_dim = heads
    q, k, v = (make.normal(count, size, head_dim) * factor for count, size, factor in zip(
        (num_tokens, LENGTH, LENGTH), (num_heads, num_kv_heads, num_kv_heads), factors))
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    table = torch.tensor(BLOCKS)
    slots = (table[:, None] * page_tokens + torch.arange(page_tokens)).flatten()[:LENGTH]
    plane = empty_plane((2, NUM_BLOCKS, page_tokens, num_kv_heads, head_dim), name)
    plane.poison()
    append_kv(k, v, plane, slots)
    limit = torch.arange(LENGTH - num_tokens + 1, LENGTH + 1) if limit is None else limit
    scale = head_dim ** -0.5
    rest = (LENGTH, limit, scale, window, softcap)
    there = QuantisedPlane(plane.values.to(place(backend)), plane.scales.to(place(backend)), name,
                           head_dim)
    seen = (limit if isinstance(limit, int) else limit.to(place(backend)))
    out = paged_attention(q.to(place(backend)), there, table.to(place(backend)), LENGTH, seen,
                          scale, window, softcap, backend=backend).cpu()
    assert out.dtype == dtype and bool(out.isfinite().all())
    exact = torch.full(plane.shape, math.nan, dtype=torch.float64)
    exact[:, table] = read_blocks(plane, BLOCKS, torch.float64)
    plain = torch.full(plane.shape, math.nan, dtype=torch.float64)
    append_kv(k.double(), v.double(), plain, slots)
    wanted = paged_attention(q.double(), exact, table, *rest, backend='reference')
    assert torch.equal(paged_attention(q.double(), plane, table, *rest, backend='reference'),
                       wanted)
    for name_of, other, tolerance in (
            ('what was read', wanted, TOLERANCE[dtype]),
            ('what was written', paged_attention(q.double(), plain, table, *rest,
                                                 backend='reference'), stated)):
        error = float((out.double() - other).norm() / other.norm())
        assert error <= tolerance, f'{error:.1e} from {name_of}'


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('name', FORMATS)
def test_attention_is_that_over_the_values_written(make, name, dtype, backend):
    check_read(make, name, backend, dtype, stated=STATED[name])
    check_read(make, name, backend, dtype, num_tokens=1, limit=LENGTH)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('head_dim', [32, 96, 128, 192, 256])
@pytest.mark.parametrize('name', FORMATS)
def test_every_head_size(make, name, head_dim, backend):
    check_read(make, name, backend, torch.bfloat16, (4, 1, head_dim), num_tokens=2)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('head_dim', [8, 72, 80])
@pytest.mark.parametrize('name', ['int8', 'fp8'])
def test_a_head_that_is_no_power_of_two_is_read(make, name, head_dim, backend):
    check_read(make, name, backend, torch.float32, (4, 1, head_dim), num_tokens=2)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('page_tokens', [16, 24, 64, 128])
@pytest.mark.parametrize('name', FORMATS)
def test_pages_limits_windows_and_soft_caps(make, name, page_tokens, backend):
    ragged = torch.tensor([1, 30, 31, 64, LENGTH])
    check_read(make, name, backend, torch.float32, (3, 1, 32), page_tokens, limit=ragged)
    check_read(make, name, backend, torch.float32, (3, 1, 32), page_tokens, limit=ragged,
               window=20, softcap=20.0)


@pytest.mark.parametrize('backend', BACKENDS)
@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float32])
@pytest.mark.parametrize('factors', [(1e6, 1e-6, 1.0), (1e-6, 1e6, 1.0), (1.0, 1.0, 1e-7),
                                     (1.0, 1.0, 1e7)])
@pytest.mark.parametrize('name', ['int8', 'fp8'])
def test_no_size_of_numbers_is_lost_on_the_way(make, name, factors, dtype, backend):
    """fp8 is multiplied as float16, which ends at 65504 and is coarse below 6e-5."""
    check_read(make, name, backend, dtype, factors=factors)
