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

"""Position and time embeddings."""

from __future__ import annotations

from dataclasses import dataclass
import math

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rotation:
    """Rotary embedding of tokens at given positions. cos, sin: (num_tokens, 1, head_dim)."""

    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate x: (num_tokens, num_heads, head_dim), in float32, and return it in its dtype."""
        swapped = x.roll(x.shape[-1] // 2, -1)
        return (x * self.cos).addcmul_(swapped, self.sin).type_as(x)


class RotaryTable:
    """Rotary position embedding, half-split, with its sines and cosines computed once.

    SmolVLA rotates in float32 with base 10,000 whatever the backbone's config says (LeRobot
    `apply_rope`).
    """

    def __init__(self, head_dim: int, max_positions: int, device: torch.device,
                 base: float = 10_000.0) -> None:
        half = head_dim // 2
        exponents = (2.0 / head_dim) * torch.arange(half, dtype=torch.float32)
        positions = torch.arange(max_positions, dtype=torch.float32)
        radians = (positions[:, None] / (base ** exponents)[None, :])[:, None, :]
        # (positions, 1, head_dim): the halves carry the same angle, the sine with its sign.
        self._cos = torch.cat([radians.cos(), radians.cos()], -1).to(device)
        self._sin = torch.cat([-radians.sin(), radians.sin()], -1).to(device)

    def at(self, start: int, count: int) -> Rotation:
        """The rotation of `count` tokens, the first of which has position `start`."""
        return Rotation(self._cos[start:start + count], self._sin[start:start + count])


def time_embeddings(times: Tensor, width: int, min_period: float, max_period: float) -> Tensor:
    """Sine and cosine of each time at geometrically spaced periods, computed in float64.

    :param times: (n,) in [0, 1].
    :returns: (n, width) float32.
    """
    fraction = torch.linspace(0.0, 1.0, width // 2, dtype=torch.float64)
    period = min_period * (max_period / min_period) ** fraction
    angle = (1.0 / period * 2 * math.pi)[None, :] * times.to(torch.float64)[:, None]
    return torch.cat([angle.sin(), angle.cos()], dim=1).to(torch.float32)
