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

"""Rotary frequencies against those of transformers (data/rotary.json), and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from robot_infer_kernels import rotary

GOLDEN = json.loads((Path(__file__).parent / 'data' / 'rotary.json').read_text())


def ours(case: dict) -> rotary.Frequencies:
    """The same scaling by our functions."""
    known = {name: value for name, value in case['parameters'].items()
             if name != 'partial_rotary_factor'}
    if 'original_max_position_embeddings' in known:
        known['trained_length'] = known.pop('original_max_position_embeddings')
    if case['name'] == 'dynamic':
        known |= {'trained_length': case['longest'], 'length': case['length']}
    functions = {'dynamic': rotary.dynamic_ntk}
    function = functions.get(case['name'], getattr(rotary, case['name'], None))
    return function(case['rotary_dim'], case['base'], **known)


@pytest.mark.parametrize('case', GOLDEN['scalings'],
                         ids=lambda case: f"{case['name']}-{case['rotary_dim']}")
def test_every_scaling_is_that_of_transformers(case):
    made = ours(case)
    # Theirs are computed in float32.
    torch.testing.assert_close(made.inverse.float(), torch.tensor(case['inverse']), rtol=2e-6,
                               atol=0.0)
    assert made.attention_factor == pytest.approx(case['attention_factor'], rel=1e-12)
    assert made.rotary_dim == case['rotary_dim']


def test_the_static_ntk_is_the_dynamic_one_at_the_length_that_needs_it():
    """They know the dynamic one: factor 4 at 3584 of 2048 positions needs a factor of 4."""
    case = next(case for case in GOLDEN['scalings'] if case['length'] == 3584)
    made = rotary.ntk(case['rotary_dim'], case['base'], 4.0)
    torch.testing.assert_close(made.inverse.float(), torch.tensor(case['inverse']), rtol=2e-6,
                               atol=0.0)


def test_no_stretch_is_the_default():
    plain = rotary.default(64, 10_000.0).inverse
    for made in (rotary.linear(64, 10_000.0, 1.0), rotary.ntk(64, 10_000.0, 1.0),
                 rotary.dynamic_ntk(64, 10_000.0, 8.0, 2048, 2048),
                 rotary.yarn(64, 10_000.0, 1.0, 2048), rotary.llama3(64, 10_000.0, 1.0, 2048)):
        torch.testing.assert_close(made.inverse, plain, rtol=1e-12, atol=0.0)
        assert made.attention_factor == 1.0


def test_the_table_holds_cosines_then_sines_times_the_factor():
    made = rotary.yarn(16, 100.0, 4.0, 64)
    table = made.table(torch.tensor([0, 3, 4096]))
    assert table.shape == (3, 16) and table.dtype == torch.float32
    angle = 4096 * float(made.inverse[5])
    factor = 0.1 * math.log(4.0) + 1.0
    assert float(table[2, 5]) == pytest.approx(factor * math.cos(angle), abs=1e-7)
    assert float(table[2, 13]) == pytest.approx(factor * math.sin(angle), abs=1e-7)
    assert torch.equal(made.table(5)[3], table[1])


@pytest.mark.parametrize('name,call', [
    ('rotary_dim', lambda: rotary.default(7)), ('rotary_dim', lambda: rotary.default(0)),
    ('rotary_dim', lambda: rotary.ntk(2, 100.0, 2.0)),
    ('base', lambda: rotary.default(8, 1.0)), ('base', lambda: rotary.default(8, math.nan)),
    ('factor', lambda: rotary.linear(8, 100.0, 0.5)),
    ('factor', lambda: rotary.ntk(8, 100.0, math.inf)),
    ('trained_length', lambda: rotary.dynamic_ntk(8, 100.0, 2.0, 0, 5)),
    ('length', lambda: rotary.dynamic_ntk(8, 100.0, 2.0, 5, 0)),
    ('beta_fast, beta_slow', lambda: rotary.yarn(8, 100.0, 2.0, 64, beta_fast=1.0, beta_slow=2.0)),
    ('trained_length', lambda: rotary.yarn(8, 100.0, 2.0, 0)),
    ('low_freq_factor, high_freq_factor', lambda: rotary.llama3(8, 100.0, 2.0, 64, 4.0, 4.0)),
])
def test_a_wrong_argument_is_named(name, call):
    with pytest.raises(ValueError, match=f'^{name}: expected'):
        call()
