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

"""Normalisation is LeRobot's arithmetic; missing or broken statistics are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from robot_infer.actions.normalize import make_normalizer
from robot_infer.errors import CheckpointError, StatisticsError

STATS = {f'action.{name}': np.array(values, np.float32) for name, values in {
    'mean': [1.0, -2.0], 'std': [0.5, 0.0], 'min': [-1.0, 2.0], 'max': [3.0, 2.0],
    'q01': [-1.0, 0.0], 'q99': [1.0, 4.0], 'q10': [-2.0, 1.0], 'q90': [2.0, 3.0]}.items()}
VALUES = np.array([[1.5, -2.0], [0.0, 2.0]], np.float32)


def _make(mode, stats=STATS, dim=2):
    return make_normalizer('action', mode, dim, stats, 'policy_postprocessor.json')


def test_mean_std_divides_by_std_plus_epsilon_and_multiplies_by_std():
    norm = _make('MEAN_STD')
    eps = np.float32(1e-8)
    expected = (VALUES - STATS['action.mean']) / (STATS['action.std'] + eps)
    np.testing.assert_array_equal(norm.normalize(VALUES), expected)
    np.testing.assert_array_equal(norm.unnormalize(VALUES),
                                  VALUES * STATS['action.std'] + STATS['action.mean'])


@pytest.mark.parametrize(('mode', 'low', 'high'), [
    ('MIN_MAX', 'min', 'max'), ('QUANTILES', 'q01', 'q99'), ('QUANTILE10', 'q10', 'q90')])
def test_ranges_map_to_minus_one_and_one(mode, low, high):
    norm = _make(mode)
    edges = np.stack([STATS[f'action.{low}'], STATS[f'action.{high}']])
    moving = STATS[f'action.{low}'] != STATS[f'action.{high}']
    np.testing.assert_array_equal(norm.normalize(edges)[:, moving],
                                  np.array([[-1.0] * 2, [1.0] * 2])[:, moving])
    np.testing.assert_allclose(norm.unnormalize(norm.normalize(edges)), edges, atol=1e-6)


def test_identity_passes_through():
    assert _make('IDENTITY', {}).unnormalize(VALUES) is VALUES


def test_a_missing_statistic_is_refused_and_dataset_prefixed_ones_are_named():
    stats = {'so100.buffer.action.mean': STATS['action.mean']}
    with pytest.raises(StatisticsError, match='action.mean.*so100.buffer.action.mean'):
        _make('MEAN_STD', stats)
    with pytest.raises(StatisticsError, match='nothing under that name'):
        _make('MEAN_STD', {})


@pytest.mark.parametrize('broken', [[np.inf, 1.0], [np.nan, 1.0], [1.0], [1.0, -1.0]])
def test_statistics_that_are_not_usable_numbers_are_refused(broken):
    with pytest.raises(StatisticsError, match='action.std'):
        _make('MEAN_STD', {**STATS, 'action.std': np.array(broken, np.float32)})


def test_an_unknown_mode_is_named():
    with pytest.raises(CheckpointError, match='LOG'):
        _make('LOG')
