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

"""How long a step takes on a device: the bound that no engine beats, and what one may expect.

    bound       sum over products of max(operations / rate, bytes / bandwidth)
    expected    the same of rate x compute and bandwidth x memory, and launch for each kernel

`compute`, `memory` and `launch` are an `Efficiency`, by name: a usual one is here, one measured on
the machine itself in probe.py. A percentile is never predicted: these are times of an undisturbed
step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
import math

from robot_infer.budget import operations
from robot_infer.budget.devices import Device
from robot_infer.budget.model_shape import ModelShape
from robot_infer.budget.operations import Operation
from robot_infer.budget.workload import Workload
from robot_infer.errors import ConfigError

# What a format is computed in where a device has no rate for it.
_INSTEAD = {'fp4': 'fp8', 'fp8': 'fp16', 'int8': 'fp16', 'fp16': 'fp32'}
# Families whose state is written into the prompt: with a new state the prefix is another.
_STATE_IN_WORDS = {'pi05', 'pi0fast'}


@dataclass(frozen=True)
class Efficiency:
    """What share of a device's figures a step reaches.

    :param compute: of the rate, in (0, 1].
    :param memory: of the bandwidth, in (0, 1].
    :param launch_s: seconds from one kernel's end to the next one's begin.
    :param source: where these come from.
    """

    compute: float
    memory: float
    launch_s: float
    source: str

    def __post_init__(self) -> None:
        for name in ('compute', 'memory'):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ConfigError(f'efficiency {name}', expected='a share above 0, at most 1',
                                  got=repr(value), remedy='1 gives the bound.')
        if not (math.isfinite(self.launch_s) and 0 <= self.launch_s <= 1):
            raise ConfigError('efficiency launch', expected='seconds from 0 to 1',
                              got=repr(self.launch_s), remedy='A kernel takes microseconds.')

    @property
    def words(self) -> str:
        """All of it, for a line of a table."""
        return (f'compute {self.compute:.2f}, memory {self.memory:.2f}, '
                f'launch {self.launch_s * 1e6:.1f} us a kernel ({self.source})')


BOUND = Efficiency(1.0, 1.0, 0.0, 'the bound')
# Fitted to the figures of tuned engines in published.csv: 28 (mean error 11 %), and three of two
# engines on Orin, which reach less in arithmetic there (11 %). Engines of other kinds take longer.
USUAL = Efficiency(0.8, 0.85, 3e-6, 'usual for tuned engines in CUDA graphs')
USUAL_SM87 = Efficiency(0.4, 0.8, 4e-6, 'usual for tuned engines in CUDA graphs on Orin')
# Of rates measured on the machine, as a CPU's: steps of the demo policy and of one of 100 M.
USUAL_MEASURED = Efficiency(0.9, 0.8, 12e-6, 'usual for PyTorch, of rates measured here')


@dataclass(frozen=True)
class Stage:
    """One part of a step.

    :param num_kernels: launched, counting products and the small ones between them.
    :param compute_s: and memory_s: of all products alone, at the device's full figures.
    :param bound_s: each product at the slower of both.
    :param expected_s: with the efficiency.
    """

    name: str
    flops: float
    num_bytes: float
    num_kernels: int
    compute_s: float
    memory_s: float
    bound_s: float
    expected_s: float
    launch_s: float

    @property
    def limited_by(self) -> str:
        """What most of the expected time goes to: compute, memory or launch."""
        times = {'compute': self.compute_s, 'memory': self.memory_s, 'launch': self.launch_s}
        return max(times, key=times.__getitem__)


@dataclass(frozen=True)
class Rate:
    """What a device is expected to do with a model.

    :param cold: stages of a step with new frames, in order.
    :param reused: of a step with the same frames and instruction and a new state.
    :param notes: what could not be taken into account.
    """

    cold: tuple[Stage, ...]
    reused: tuple[Stage, ...]
    horizon: int
    efficiency: Efficiency
    notes: tuple[str, ...] = ()

    @property
    def cold_s(self) -> float:
        """Expected seconds of a step with new frames."""
        return _expected(self.cold)

    @property
    def reused_s(self) -> float:
        """Expected seconds of a step that finds the prefix of the last one."""
        return _expected(self.reused)

    @property
    def cold_bound_s(self) -> float:
        """Seconds that no engine beats."""
        return sum(stage.bound_s for stage in self.cold)

    @property
    def reused_bound_s(self) -> float:
        """Seconds that no engine beats, the prefix being there."""
        return sum(stage.bound_s for stage in self.reused)

    def inference_rate_hz(self, margin: float, *, reused: bool = False) -> float:
        """Steps a second that leave a share of the time free."""
        return (1 - _share(margin)) / (self.reused_s if reused else self.cold_s)

    def control_rate_hz(self, margin: float, period_s: float = 0.0) -> float:
        """The highest control rate at which a chunk lasts until the next one is there.

        Row k of a chunk is meant for the k-th control tick after its observation, so a chunk must
        reach over its own step, over the wait for the next step, and over that step. All of that
        may be `1 - margin` of the chunk's duration.

        :param margin: share of the chunk that stays free, in [0, 1).
        :param period_s: of inference; 0: the next step begins when one ends.
        """
        return self.horizon * (1 - _share(margin)) / (2 * self.cold_s + period_s)


def predict(
    shape: ModelShape, load: Workload, device: Device, efficiency: Efficiency | None = None,
) -> Rate:
    """What a device is expected to do, cold and with a reused prefix.

    :raises ConfigError: where the workload has nothing to do.
    """
    efficiency = efficiency or usual(device)
    prefix = load.prefix_tokens(shape)
    if not prefix:
        raise ConfigError('workload', expected='at least one camera or word', got='neither',
                          remedy='Name cameras, or allow a prompt.')
    again = prefix if shape.family in _STATE_IN_WORDS else shape.state_tokens
    if not shape.denoise_steps and not again:
        again = 1  # one token at least is computed, for the first to be decoded
    return Rate(
        cold=stages(shape, load, device, efficiency),
        reused=stages(shape, load, device, efficiency, new_images=False, new_tokens=again),
        horizon=load.horizon or 1, efficiency=efficiency, notes=_notes(load, device))


def stages(
    shape: ModelShape, load: Workload, device: Device, efficiency: Efficiency | None = None, *,
    new_images: bool = True, new_tokens: int | None = None,
) -> tuple[Stage, ...]:
    """Vision, prefill, and denoise or decode; those with nothing to do are left out.

    :param new_images: whether frames are encoded.
    :param new_tokens: of the prefix that are not in the pages; all, if not said.
    """
    rows = load.prefix_tokens(shape) if new_tokens is None else new_tokens
    parts = {
        'vision': operations.vision(shape, load) if new_images else (),
        'prefill': operations.prefill(shape, load, rows),
        'denoise': operations.denoise(shape, load),
        'decode': operations.decode(shape, load)}
    made = (_stage(name, tuple(part), load, device, efficiency or usual(device))
            for name, part in parts.items())
    return tuple(stage for stage in made if stage.num_kernels)


def decode_bound_s(weight_bytes: float, bandwidth: float) -> float:
    """Seconds of a token for which every weight is read once."""
    return weight_bytes / bandwidth


def attention_times_s(
    tokens: int, num_heads: int, head_dim: int, value_bytes: float, rate: float, bandwidth: float,
) -> tuple[float, float]:
    """Seconds of moving the scores to memory and back, and of the arithmetic; all to all."""
    moved = operations.score_bytes(tokens, tokens, num_heads, value_bytes)
    return moved / bandwidth, 4.0 * tokens * tokens * num_heads * head_dim / rate


def usual(device: Device) -> Efficiency:
    """The efficiency to expect where none was measured."""
    if device.measured:
        return USUAL_MEASURED
    return USUAL_SM87 if device.sm == 87 else USUAL


def rate_of(device: Device, maths: str) -> tuple[str, float]:
    """The format that a device computes in, and its rate; ('', inf) where none is known."""
    while maths not in device.rates and maths in _INSTEAD:
        maths = _INSTEAD[maths]
    return (maths, device.rates[maths]) if maths in device.rates else ('', math.inf)


def _stage(
    name: str, made: Iterable[Operation], load: Workload, device: Device, efficiency: Efficiency,
) -> Stage:
    rates = {'gemm': rate_of(device, load.maths)[1], 'small': math.inf,
             'attention': rate_of(device, load.attention_maths)[1]}
    flops = moved = compute = memory = bound = expected = 0.0
    kernels = 0
    for each in made:
        computing, moving = each.flops / rates[each.kind], each.num_bytes / device.bandwidth
        flops += each.count * each.flops
        moved += each.count * each.num_bytes
        compute += each.count * computing
        memory += each.count * moving
        bound += each.count * max(computing, moving)
        expected += each.count * max(computing / efficiency.compute, moving / efficiency.memory)
        kernels += each.count
    launch = kernels * efficiency.launch_s
    return Stage(name, flops, moved, kernels, compute, memory, bound, expected + launch, launch)


def _notes(load: Workload, device: Device) -> tuple[str, ...]:
    notes = []
    for maths in dict.fromkeys((load.maths, load.attention_maths)):
        found, _ = rate_of(device, maths)
        if not found:
            notes.append(f'{device.name}: no rate known for {maths}, so only bytes were counted')
        elif found != maths:
            notes.append(f'{device.name}: no rate known for {maths}, that of {found} taken')
    return tuple(notes)


def _expected(made: Iterable[Stage]) -> float:
    return sum(stage.expected_s for stage in made)


def _share(margin: float) -> float:
    if not 0 <= margin < 1:
        raise ConfigError('margin', expected='a share from 0 to below 1', got=repr(margin),
                          remedy='0.2 keeps a fifth of the time free.')
    return margin
