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

"""Rotary and time embeddings against float64."""

from __future__ import annotations

import math

import numpy as np
import torch

from robot_infer.models.embedding import RotaryTable, time_embeddings


def test_rotation_is_half_split_by_position_and_frequency():
    table = RotaryTable(8, 40, torch.device('cpu'))
    x = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(0))
    got = table.at(30, 5)(x)
    for token in range(5):
        for pair in range(4):
            angle = (30 + token) / 10_000 ** (2 * pair / 8)
            a, b = x[token, :, pair].double(), x[token, :, pair + 4].double()
            c, s = math.cos(angle), math.sin(angle)
            torch.testing.assert_close(got[token, :, pair].double(), a * c - b * s, rtol=0,
                                       atol=5e-6)
            torch.testing.assert_close(got[token, :, pair + 4].double(), b * c + a * s, rtol=0,
                                       atol=5e-6)


def test_rotating_one_token_gives_the_bits_of_rotating_it_among_others():
    table = RotaryTable(16, 64, torch.device('cpu'))
    x = torch.randn(9, 2, 16, generator=torch.Generator().manual_seed(1))
    whole = table.at(7, 9)(x)
    assert torch.equal(table.at(11, 1)(x[4:5]), whole[4:5])


def test_time_embedding_periods_are_geometric_from_min_to_max():
    times = torch.tensor([1.0, 0.3, 0.0])
    got = time_embeddings(times, 12, 4e-3, 4.0).numpy()
    period = 4e-3 * (4.0 / 4e-3) ** np.linspace(0, 1, 6)
    angle = times.numpy().astype(np.float64)[:, None] * 2 * np.pi / period
    np.testing.assert_allclose(got, np.concatenate([np.sin(angle), np.cos(angle)], 1), atol=1e-6)
