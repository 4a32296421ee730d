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

"""Distributions: exact over the newest values, and a sketch of all of them since the reset.

The writer only stores a number in a ring that is there already; sorting and the sketch are the
readers' work. So a control tick can be measured without costing it anything.
"""

from __future__ import annotations

from dataclasses import dataclass
import threading

from ddsketch import DDSketch
import numpy as np
from numpy.typing import NDArray

SIZE = 4096
_ACCURACY = 0.01
_NAN = float('nan')


@dataclass(frozen=True)
class SinceReset:
    """A distribution of everything since the reset; percentiles to within 1 % of their value.

    DDSketch (Masson, Rim, Lee 2019). count: values it was made of; fewer than there were only
    where nobody looked for longer than a window. The maximum is exact.
    """

    count: int = 0
    p50: float = _NAN
    p99: float = _NAN
    p999: float = _NAN
    max: float = _NAN


@dataclass(frozen=True)
class Summary:
    """A distribution. count: values since the reset; the rest speaks of the newest `window`.

    Percentiles are values that occurred (nearest rank); std is that of the window itself; nan
    where there are none.
    """

    count: int = 0
    window: int = 0
    mean: float = _NAN
    std: float = _NAN
    min: float = _NAN
    p50: float = _NAN
    p95: float = _NAN
    p99: float = _NAN
    max: float = _NAN
    since_reset: SinceReset = SinceReset()


class Window:
    """The newest `size` values, in a ring whose memory is taken once, and a sketch of all.

    One thread adds; any thread reads, and they wait only for each other.
    """

    def __init__(self, size: int = SIZE) -> None:
        assert size > 0
        self._ring = np.full(size, 0.0)  # written to: its memory is taken now, not bit by bit
        self._count = 0
        self._reading = threading.Lock()  # never taken by the writer
        self._sketch = DDSketch(_ACCURACY)
        self._sketched = 0
        self._largest = -np.inf

    def add(self, value: float) -> None:
        """Take one value; the oldest gives way."""
        self._ring[self._count % len(self._ring)] = value
        self._count += 1

    def values(self) -> NDArray[np.float64]:
        """A copy of the values, the oldest first."""
        return self._newest(self._count)

    def since(self, count: int) -> tuple[NDArray[np.float64], int]:
        """The values added after the first `count`, the oldest first, and how many there are now.

        Where that is more than the window holds, the oldest of them are lost.
        """
        now = self._count
        newest = self._newest(now)
        return newest[len(newest) - min(now - count, len(newest)):], now

    def summary(self) -> Summary:
        """The distribution of the values now in the window, and of all since the reset."""
        with self._reading:
            count = self._count
            newest = self._newest(count)
            since = self._since_reset(newest, count)
        number = len(newest)
        if not number:
            return Summary()
        ordered = np.sort(newest)
        return Summary(
            count, number, float(ordered.mean()), float(ordered.std()), float(ordered[0]),
            nearest_rank(ordered, 50), nearest_rank(ordered, 95), nearest_rank(ordered, 99),
            float(ordered[-1]), since)

    def _newest(self, count: int) -> NDArray[np.float64]:
        size = len(self._ring)
        if count <= size:
            return self._ring[:count].copy()
        return np.roll(self._ring, -(count % size))

    def _since_reset(self, newest: NDArray[np.float64], count: int) -> SinceReset:
        """Take what is new into the sketch; the caller holds `_reading`."""
        fresh = newest[len(newest) - min(count - self._sketched, len(newest)):]
        self._sketched = count
        for value in fresh.tolist():
            self._sketch.add(value)
        if len(fresh):
            self._largest = max(self._largest, float(fresh.max()))
        if not self._sketch.count:
            return SinceReset()
        quantile = self._sketch.get_quantile_value
        return SinceReset(
            int(self._sketch.count), quantile(0.5), quantile(0.99), quantile(0.999),
            self._largest)


class Tail:
    """Takes every value of a window once; goes over to the window that takes its place."""

    def __init__(self) -> None:
        self._window: Window | None = None
        self._taken = 0

    def take(self, window: Window) -> NDArray[np.float64]:
        """The values since the last call, the oldest first."""
        rest = np.empty(0)
        if window is not self._window:
            if self._window is not None:
                rest, _ = self._window.since(self._taken)
            self._window, self._taken = window, 0
        fresh, self._taken = window.since(self._taken)
        return np.concatenate((rest, fresh))


def nearest_rank(ordered: NDArray[np.float64], percent: int) -> float:
    """The smallest of the ascending values that `percent` of them do not exceed."""
    return float(ordered[-(-percent * len(ordered) // 100) - 1])
