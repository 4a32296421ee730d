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

"""Projections: the same numbers packed and plain, any number of rows, and clean ways back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from robot_infer.models import linear
from robot_infer.models.linear import Linear


def _make(width_in: int, width_out: int, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(width_in)
    weight = torch.randn(width_out, width_in, generator=generator) * width_in ** -0.5
    return weight.to(dtype), torch.randn(width_out, generator=generator).to(dtype)


@pytest.mark.parametrize('rows', [1, 7, 64])
@pytest.mark.parametrize('with_bias', [False, True])
@pytest.mark.parametrize('sizes', [(24, 40), (360, 2048), (1024, 360)])
def test_equals_its_definition_for_any_number_of_rows(sizes, with_bias, rows):
    weight, bias = _make(*sizes)
    project = Linear(weight, bias if with_bias else None, rows=16)
    x = torch.randn(rows, sizes[0], generator=torch.Generator().manual_seed(1))
    wanted = F.linear(x.double(), weight.double(), bias.double() if with_bias else None)
    torch.testing.assert_close(project(x).double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('with_bias', [False, True])
@pytest.mark.parametrize('sizes', [(24, 40), (360, 2048)])
def test_adding_to_a_residual_is_the_sum_in_float32(sizes, with_bias, dtype):
    weight, bias = _make(*sizes, dtype=dtype)
    project = Linear(weight, bias if with_bias else None, rows=16)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(5, sizes[0], generator=generator).to(dtype)
    residual = torch.randn(5, sizes[1], generator=generator)
    before = residual.clone()
    out = project.add_to(residual, x)
    assert out.dtype == torch.float32 and torch.equal(residual, before)
    torch.testing.assert_close(out, residual + project(x).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('sizes', [(24, 40), (360, 2048)])
def test_computes_in_the_dtype_of_its_weight(sizes):
    weight, bias = _make(*sizes, dtype=torch.bfloat16)
    project = Linear(weight, bias, rows=4)
    x = torch.randn(4, sizes[0], generator=torch.Generator().manual_seed(1))
    out = project(x)
    assert project.dtype == out.dtype == torch.bfloat16
    wanted = F.linear(x.bfloat16().double(), weight.double(), bias.double())
    torch.testing.assert_close(out.double(), wanted, rtol=1e-2, atol=2e-2)


def test_two_made_of_one_weight_give_the_same_bits():
    weight, bias = _make(360, 2048)
    x = torch.randn(50, 360, generator=torch.Generator().manual_seed(1))
    first, second = (Linear(weight, bias, rows=50) for _ in range(2))
    assert torch.equal(first(x), second(x))


@pytest.mark.parametrize('missing', ['machine', 'mkldnn'])
def test_a_machine_that_cannot_pack_runs_plain(monkeypatch, missing):
    if missing == 'machine':
        monkeypatch.setattr(linear.platform, 'machine', lambda: 'aarch64')
    else:
        monkeypatch.setattr(torch.backends.mkldnn, 'is_available', lambda: False)
    weight, bias = _make(360, 2048)
    project = Linear(weight, bias, rows=50)
    x = torch.randn(50, 360, generator=torch.Generator().manual_seed(1))
    assert torch.equal(project(x), F.linear(x, weight, bias))
    assert project._weight is weight


def test_large_weights_are_packed_where_torch_can_and_small_ones_are_not():
    can = (linear.platform.machine().lower() in ('x86_64', 'amd64')
           and torch.backends.mkldnn.is_available())
    assert Linear(*_make(360, 2048), rows=50)._packed is can
    assert not Linear(*_make(96, 512), rows=50)._packed
