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

"""Normalisation of states and actions with a checkpoint's statistics (LeRobot's formulas).

    MEAN_STD:   x -> (x - mean) / (std + eps),  back  x * std + mean     (eps = 1e-8)
    MIN_MAX:    x -> 2 (x - min) / (max - min) - 1
    QUANTILES:  x -> 2 (x - q01) / (q99 - q01) - 1                       (QUANTILE10: q10, q90)
    IDENTITY:   x -> x

Statistics that are missing or not finite are refused: an un-normalised action sent to a joint
is a moving arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_infer.errors import CheckpointError, StatisticsError

_EPS = np.float32(1e-8)
_NEEDED = {
    'IDENTITY': (), 'MEAN_STD': ('mean', 'std'), 'MIN_MAX': ('min', 'max'),
    'QUANTILES': ('q01', 'q99'), 'QUANTILE10': ('q10', 'q90'),
}


@dataclass(frozen=True)
class Normalizer:
    """One feature's map: normal = (x - shift) / scale_in * gain - offset.

    shift, scale_in, scale_out: (dim,) float32.
    """

    mode: str
    shift: NDArray[np.float32]
    scale_in: NDArray[np.float32]
    scale_out: NDArray[np.float32]

    def normalize(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(..., dim) physical units -> (..., dim) as the network was trained."""
        if self.mode == 'IDENTITY':
            return values
        if self.mode == 'MEAN_STD':
            return (values - self.shift) / self.scale_in
        return np.float32(2.0) * (values - self.shift) / self.scale_in - np.float32(1.0)

    def unnormalize(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(..., dim) network output -> (..., dim) physical units."""
        if self.mode == 'IDENTITY':
            return values
        if self.mode == 'MEAN_STD':
            return values * self.scale_out + self.shift
        return (values + np.float32(1.0)) / np.float32(2.0) * self.scale_out + self.shift


def make_normalizer(
    feature: str, mode: str, dim: int, statistics: Mapping[str, NDArray[np.float32]], where: str,
) -> Normalizer:
    """Build the map of one feature.

    :param feature: e.g. observation.state; statistics are looked up as `<feature>.<statistic>`.
    :param mode: the checkpoint's normalisation mode for this kind of feature.
    :param where: the file the statistics came from, for messages.
    :raises StatisticsError: where a needed statistic is missing, misshapen or not finite.
    """
    if mode not in _NEEDED:
        raise CheckpointError(
            f'normalization_mapping of {feature}', expected='one of ' + ', '.join(_NEEDED),
            got=mode, remedy='This build does not know the mode.')
    if mode == 'IDENTITY':
        one = np.ones(dim, np.float32)
        return Normalizer(mode, np.zeros(dim, np.float32), one, one)
    first, second = (_statistic(feature, name, dim, statistics, where) for name in _NEEDED[mode])
    if mode == 'MEAN_STD':
        return Normalizer(mode, first, second + _EPS, second)
    width = second - first
    width = np.where(width == 0, _EPS, width)
    return Normalizer(mode, first, width, width)


def _statistic(
    feature: str, name: str, dim: int, statistics: Mapping[str, NDArray[np.float32]], where: str,
) -> NDArray[np.float32]:
    key = f'{feature}.{name}'
    if key not in statistics:
        prefixed = sorted(found for found in statistics if found.endswith(key))
        raise StatisticsError(
            f'statistic {key}', expected=f'{dim} numbers in {where}',
            got=f'only {", ".join(prefixed)}' if prefixed else 'nothing under that name',
            remedy='Fine-tune on your robot, or write that dataset\'s statistics under the plain '
            'name: the policy will not run un-normalised.')
    values = np.asarray(statistics[key], np.float32).reshape(-1)
    if values.shape != (dim,) or not np.isfinite(values).all():
        raise StatisticsError(
            f'statistic {key}', expected=f'{dim} finite numbers', got=f'{values}',
            remedy=f'Compute the statistics again and write them to {where}.')
    if name == 'std' and (values < 0).any():
        raise StatisticsError(f'statistic {key}', expected='numbers of at least 0',
                              got=f'{values}', remedy=f'Mend {where}.')
    return values
