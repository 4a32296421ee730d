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

"""The float64 definition against torch's own attention on gathered keys and values."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from robot_infer_kernels import paged_attention


def dense_attention(q, pages, limits, scale, window=None):
    """Torch SDPA in float64, with an explicit mask and explicitly repeated heads."""
    group = q.shape[1] // pages.keys.shape[1]
    keys, values = (x.double().repeat_interleave(group, dim=1).transpose(0, 1)[None]
                    for x in (pages.keys, pages.values))
    seen = torch.arange(pages.length) < limits[:, None]
    if window is not None:
        seen &= torch.arange(pages.length) >= limits[:, None] - window
    out = F.scaled_dot_product_attention(
        q.double().transpose(0, 1)[None], keys, values, seen, scale=scale)
    return out[0].transpose(0, 1)


@pytest.mark.parametrize('group', [1, 2, 3, 7])
@pytest.mark.parametrize('window', [None, 1, 5, 1000])
@pytest.mark.parametrize('length', [1, 15, 16, 17, 50])
def test_equals_torch_attention_in_float64(make, group, window, length):
    pages = make.pages(length, num_kv_heads=2, head_dim=24)
    q, limits = make.normal(5, 2 * group, 24), make.limits(5, length)
    out = paged_attention(q.double(), pages.kv.double(), pages.table, length, limits, 0.3,
                          window=window, backend='reference')
    torch.testing.assert_close(out, dense_attention(q, pages, limits, 0.3, window),
                               rtol=1e-12, atol=1e-13)


def test_caps_scores_softly(make):
    """Two keys, by hand: weights are the softmax of the capped scores."""
    pages = make.pages(2, num_kv_heads=1, head_dim=8)
    q = make.normal(1, 1, 8)
    out = paged_attention(q, pages.kv, pages.table, 2, 2, 2.0, softcap=1.5, backend='reference')
    scores = [1.5 * math.tanh(2.0 * float(q[0, 0].double() @ key[0].double()) / 1.5)
              for key in pages.keys]
    first = 1.0 / (1.0 + math.exp(scores[1] - scores[0]))
    expected = first * pages.values[0, 0] + (1.0 - first) * pages.values[1, 0]
    torch.testing.assert_close(out[0, 0], expected, rtol=1e-6, atol=1e-6)
