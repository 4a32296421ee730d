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

"""Frequencies of the rotary embedding (Su et al. 2021), and the ways to stretch them.

What lives here: for each scaling a function that gives inverse frequencies and the attention
factor, in float64, and the table of cosines and sines that `rope_append` reads. What does not: the
rotation itself (elementwise.py). Made once, at configure time.

    angle of pair i at position p  =  p * inverse[i],  inverse[i] = base ** (-2 i / rotary_dim)

A model may rotate the first `rotary_dim` elements of a head only; the rest is passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

import torch


@dataclass(frozen=True)
class Frequencies:
    """What a scaling gives.

    :param inverse: (rotary_dim / 2,) float64, radians a position for each pair of elements.
    :param attention_factor: what cosines and sines are multiplied by; 1 for most scalings.
    """

    inverse: torch.Tensor
    attention_factor: float = 1.0

    @property
    def rotary_dim(self) -> int:
        """Number of elements of a head that turn."""
        return 2 * self.inverse.shape[0]

    def table(self, positions: int | torch.Tensor) -> torch.Tensor:
        """Cosines, then sines: (n, rotary_dim) float32; angles are computed in float64.

        :param positions: n, for positions 0 to n - 1; or (n,) positions in any order.
        """
        if isinstance(positions, int):
            positions = torch.arange(positions)
        angles = positions.double()[:, None] * self.inverse.to(positions.device)
        return (torch.cat([angles.cos(), angles.sin()], 1) * self.attention_factor).float()


def default(rotary_dim: int, base: float = 10_000.0) -> Frequencies:
    """As published: no scaling."""
    if rotary_dim < 2 or rotary_dim % 2:
        raise ValueError(f'rotary_dim: expected an even number from 2 on; got {rotary_dim}')
    if not (base > 1.0 and math.isfinite(base)):
        raise ValueError(f'base: expected a number above 1; got {base}')
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
    return Frequencies(base ** -exponents)


def linear(rotary_dim: int, base: float, factor: float) -> Frequencies:
    """Position interpolation (Chen et al. 2023): every position is divided by `factor`."""
    _check_stretch('factor', factor)
    return Frequencies(default(rotary_dim, base).inverse / factor)


def ntk(rotary_dim: int, base: float, factor: float) -> Frequencies:
    """NTK-aware, static (bloc97 2023): a larger base, so that fast pairs keep their angles."""
    _check_stretch('factor', factor)
    if rotary_dim < 4:
        raise ValueError(f'rotary_dim: expected at least 4 for this scaling; got {rotary_dim}')
    return default(rotary_dim, base * factor ** (rotary_dim / (rotary_dim - 2)))


def dynamic_ntk(rotary_dim: int, base: float, factor: float, trained_length: int,
                length: int) -> Frequencies:
    """NTK-aware, as far as a sequence of `length` needs it; none up to `trained_length`.

    Keys in pages keep the rotation they were written with: where they are reused, `length` is the
    longest that the configuration allows, chosen once.
    """
    _check_stretch('factor', factor)
    _check_length('trained_length', trained_length)
    _check_length('length', length)
    needed = factor * max(length, trained_length) / trained_length - (factor - 1.0)
    return ntk(rotary_dim, base, needed)


def yarn(rotary_dim: int, base: float, factor: float, trained_length: int,
         attention_factor: float | None = None, beta_fast: float = 32.0, beta_slow: float = 1.0,
         mscale: float | None = None, mscale_all_dim: float | None = None,
         truncate: bool = True) -> Frequencies:
    """YaRN (Peng et al. 2023): fast pairs as they are, slow ones divided, a ramp between.

    :param beta_fast: turns over `trained_length` from which a pair is left as it is; beta_slow:
        turns up to which it is divided.
    :param attention_factor: None: 0.1 ln(factor) + 1, as published; with mscale and
        mscale_all_dim, the quotient of both (DeepSeek).
    :param truncate: the ramp begins and ends at whole pairs.
    """
    _check_stretch('factor', factor)
    _check_length('trained_length', trained_length)
    inverse = default(rotary_dim, base).inverse
    if not beta_fast >= beta_slow > 0.0:
        raise ValueError(f'beta_fast, beta_slow: expected beta_fast >= beta_slow > 0; got '
                         f'{beta_fast}, {beta_slow}')

    def pair_of(turns: float) -> float:
        """Number of the pair that turns so often over the trained length."""
        return (rotary_dim * math.log(trained_length / (turns * 2.0 * math.pi))
                / (2.0 * math.log(base)))

    low, high = pair_of(beta_fast), pair_of(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    pairs = torch.arange(rotary_dim // 2, dtype=torch.float64)
    ramp = ((pairs - low) / (high - low if high != low else 0.001)).clamp(0.0, 1.0)
    if attention_factor is None:
        if mscale and mscale_all_dim:
            attention_factor = _magnitude(factor, mscale) / _magnitude(factor, mscale_all_dim)
        else:
            attention_factor = _magnitude(factor, 1.0)
    return Frequencies(inverse * ((1.0 - ramp) + ramp / factor), attention_factor)


def llama3(rotary_dim: int, base: float, factor: float, trained_length: int,
           low_freq_factor: float = 1.0, high_freq_factor: float = 4.0) -> Frequencies:
    """Llama 3.1: pairs of short waves as they are, of long waves divided, a ramp between.

    :param low_freq_factor: turns over `trained_length` up to which a pair is divided by `factor`;
        high_freq_factor: from which it is left as it is.
    """
    _check_stretch('factor', factor)
    _check_length('trained_length', trained_length)
    if not high_freq_factor > low_freq_factor > 0.0:
        raise ValueError('low_freq_factor, high_freq_factor: expected 0 < low < high; got '
                         f'{low_freq_factor}, {high_freq_factor}')
    inverse = default(rotary_dim, base).inverse
    turns = trained_length * inverse / (2.0 * math.pi)
    kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0)
    return Frequencies(inverse * (kept + (1.0 - kept) / factor))


def _magnitude(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1.0 else 1.0


def _check_stretch(name: str, value: float) -> None:
    if not (value >= 1.0 and math.isfinite(value)):
        raise ValueError(f'{name}: expected a number from 1 on; got {value}')


def _check_length(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f'{name}: expected at least 1 position; got {value}')
