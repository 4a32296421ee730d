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

"""What others have published of their engines, and what we would have said: error included.

published.csv has a line for each figure: the model, the device, what was run, the source, and what
the source does not state and we assumed. Engines are of four kinds:

    tuned       written for one model and captured whole in CUDA graphs
    compiled    torch.compile, XLA, TensorRT
    ggml        one graph of general kernels
    eager       one operation of PyTorch after the other

The efficiency that is usual for tuned engines is meant to fit those alone. The others are shown
with the same prediction, so that one sees what they leave lying.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import csv
from dataclasses import dataclass
from pathlib import Path
import statistics
from typing import Literal, get_args

from robot_infer.budget.devices import find_device
from robot_infer.budget.presets import find_preset
from robot_infer.budget.roofline import Efficiency, Rate, predict
from robot_infer.budget.workload import Workload
from robot_infer.errors import ConfigError

TABLE = Path(__file__).with_name('published.csv')
Kind = Literal['tuned', 'compiled', 'ggml', 'eager']
# step: from frames to actions; denoise: without vision and prefill; prefix: these two; token: one
# of those that are decoded.
Part = Literal['step', 'denoise', 'prefix', 'token']


@dataclass(frozen=True)
class Point:
    """A published time; `assumed` is what its source leaves open."""

    model: str
    device: str
    engine: str
    kind: Kind
    load: Workload
    part: Part
    published_s: float
    source: str
    assumed: str

    @property
    def words(self) -> str:
        """What was run, in short."""
        load = self.load
        parts = [f'{load.num_cameras} cameras', f'{load.prompt_tokens} words',
                 f'H{load.horizon}' if load.denoise_steps else f'{load.decoded_tokens} tokens']
        return f'{", ".join(parts)}, {load.maths}, {self.part}'


@dataclass(frozen=True)
class Comparison:
    """A published time beside ours."""

    point: Point
    bound_s: float
    expected_s: float

    @property
    def error(self) -> float:
        """Ours against theirs: -0.1 where we say a tenth less."""
        return self.expected_s / self.point.published_s - 1

    @property
    def reached(self) -> float:
        """Share of the bound that the engine reaches."""
        return self.bound_s / self.point.published_s


def published_points(path: Path = TABLE) -> tuple[Point, ...]:
    """All figures of the table.

    :raises ConfigError: where a line is not as the head says.
    """
    with path.open(newline='', encoding='utf-8') as file:
        return tuple(_point(path, number, row) for number, row in
                     enumerate(csv.DictReader(file, strict=True), 2))


def compare(
    points: Iterable[Point] | None = None, efficiency: Efficiency | None = None,
) -> tuple[Comparison, ...]:
    """Each published time beside what roofline.py says of the same step.

    :param points: those of the table, if not given.
    :param efficiency: that which is usual for the device, if not given.
    """
    return tuple(_comparison(point, efficiency) for point in
                 (published_points() if points is None else points))


def median_error(comparisons: Sequence[Comparison]) -> float:
    """Of the errors without their signs."""
    return statistics.median(abs(each.error) for each in comparisons)


def _comparison(point: Point, efficiency: Efficiency | None) -> Comparison:
    rate = predict(find_preset(point.model), point.load, find_device(point.device), efficiency)
    return Comparison(point, _seconds(point, rate, 'bound_s'), _seconds(point, rate, 'expected_s'))


def _seconds(point: Point, rate: Rate, which: str) -> float:
    times = {stage.name: getattr(stage, which) for stage in rate.cold}
    if point.part == 'denoise':
        return times['denoise']
    if point.part == 'prefix':
        return times['vision'] + times['prefill']
    if point.part == 'token':
        return times['decode'] / (point.load.decoded_tokens - 1)
    return sum(times.values())


def _point(path: Path, number: int, row: dict[str, str]) -> Point:
    try:
        kind, part = row['kind'], row['part']
        if kind not in get_args(Kind) or part not in get_args(Part):
            raise ValueError(f'{kind}, {part}')
        counts = {name: int(row[name]) for name in (
            'num_cameras', 'prompt_tokens', 'horizon', 'denoise_steps', 'decoded_tokens')}
        load = Workload(maths=row['maths'], weight_bytes=float(row['weight_bytes']), **counts)
        return Point(model=row['model'], device=row['device'], engine=row['engine'], kind=kind,
                     load=load, part=part, published_s=float(row['published_ms']) / 1e3,
                     source=row['source'], assumed=row['assumed'])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f'{path}, line {number}', expected='a published time, as the head of '
                          'the file says', got=f'{type(error).__name__} {error}',
                          remedy='Correct the line.') from error
