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


"""Which projections of a policy are kept in 8 or 4 bits, and what that saves.

What lives here: the choice, one projection at a time while a checkpoint is read, and the tally of
it. What does not: how a weight is quantised and multiplied (kernels/cpu/linear.py).

Quantised are the large projections of the vision encoder, the connector, the language model and
the action expert. Kept as loaded are norms, embeddings (tokens, patches, positions), what leads
into and out of state and actions, and projections that are small or do not fit a format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from robot_infer.errors import ConfigError
from robot_infer.models.linear import Linear
from robot_infer_kernels.cpu.linear import Int4Linear, Int8Linear, Scratch, unfit, why_not

# Smaller weights stay: they take little, and to round activations costs more than it saves.
LARGE = 1 << 14


class Projection(Protocol):
    """x -> x W^T + b, however its weight is kept."""

    dtype: torch.dtype

    def __call__(self, x: Tensor) -> Tensor:
        """x: (num_rows, in), any floating dtype -> (num_rows, out) in `dtype`."""
        ...

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + this projection of x: (num_rows, out) float32."""
        ...


@dataclass
class Tally:
    """What was quantised, and what was not.

    :param form: as_loaded, int8 or int4.
    :param entries: of the `count` quantised weights, which take `nbytes`, and would take
        `loaded_nbytes` as loaded.
    :param unpacked_nbytes: of the buffer that one of them is unpacked to.
    :param kept: names of the projections that stay as loaded, by the reason.
    """

    form: str
    count: int = 0
    entries: int = 0
    nbytes: int = 0
    loaded_nbytes: int = 0
    unpacked_nbytes: int = 0
    kept: dict[str, list[str]] = field(default_factory=dict)


class Projections:
    """Makes the projections of one policy; every one of its own parts comes through here.

    :param dtype: of what is kept as loaded, and of all results.
    :param weights: as_loaded, int8 or int4.
    :raises ConfigError: where the device or this torch cannot run such weights.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, weights: str = 'as_loaded',
                 ) -> None:
        self.dtype, self.device, self.weights = dtype, device, weights
        self.tally, self._scratch = Tally(weights), Scratch()
        if weights != 'as_loaded':
            _refuse_where_impossible(weights, device)

    @property
    def read_as(self) -> torch.dtype:
        """The dtype weights are to be read in: float32 where they are rounded afterwards."""
        return self.dtype if self.weights == 'as_loaded' else torch.float32

    def make(self, name: str, weight: Tensor, bias: Tensor | None = None, *, rows: int,
             ) -> Projection:
        """One projection.

        :param name: of the tensor in the checkpoint, for the report.
        :param weight: (out, in) in the dtype `read_as`. bias: (out,) or None.
        :param rows: about as many rows as it will usually see.
        """
        reason = self._why_kept(weight)
        if reason:
            if self.weights != 'as_loaded':
                self.tally.kept.setdefault(reason, []).append(name)
            bias = None if bias is None else bias.to(self.device, self.dtype)
            return Linear(weight.to(self.device, self.dtype), bias, rows=rows)
        made = (Int8Linear(weight, bias, dtype=self.dtype, scratch=self._scratch)
                if self.weights == 'int8' else Int4Linear(weight, bias, dtype=self.dtype))
        tally = self.tally
        tally.count += 1
        tally.entries += weight.numel()
        tally.nbytes += made.nbytes
        tally.loaded_nbytes += weight.numel() * self.dtype.itemsize
        tally.unpacked_nbytes = self._scratch.nbytes
        return made

    def _why_kept(self, weight: Tensor) -> str:
        if self.weights == 'as_loaded':
            return 'as_loaded'
        if weight.numel() < LARGE:
            return f'fewer than {LARGE} entries'
        return unfit(self.weights, *weight.shape)


def _refuse_where_impossible(weights: str, device: torch.device) -> None:
    if device.type != 'cpu':
        raise ConfigError(
            'parameter policy.weights', expected=f'as_loaded on {device}: int8 and int4 weights '
            'are for the CPU', got=weights, remedy='Use as_loaded, or policy.device cpu.')
    reason = why_not(weights)
    if reason:
        other = 'int4' if weights == 'int8' else 'int8'
        usable = 'as_loaded' if why_not(other) else f'{other} or as_loaded'
        raise ConfigError(
            'parameter policy.weights', expected=usable, got=f'{weights}, which this torch cannot '
            f'run on the CPU ({reason})', remedy=f'Use {usable}, or install a newer torch.')
