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

"""RMS norm against its definition in float64."""

from __future__ import annotations

import pytest
import torch

from robot_infer.models.norm import RMSNorm


@pytest.mark.parametrize('width', [1, 24, 96, 960])
@pytest.mark.parametrize('size', [0.0, 1e-6, 1.0, 1e4])
def test_equals_its_definition_whatever_the_size_of_the_rows(width, size):
    generator = torch.Generator().manual_seed(width)
    x, weight = (torch.randn(shape, generator=generator) for shape in ((7, width), (width,)))
    x[1:] *= size
    eps = 1e-5
    wide = x.double()
    wanted = wide / torch.sqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.double()
    got = RMSNorm.of(weight, eps)(x)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), wanted, rtol=5e-7, atol=1e-12)


def test_one_row_gives_the_bits_of_that_row_among_others():
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(50, 360, generator=generator), torch.rand(360, generator=generator)
    norm = RMSNorm.of(weight, 1e-6)
    assert torch.equal(norm(x[11:12]), norm(x)[11:12])
