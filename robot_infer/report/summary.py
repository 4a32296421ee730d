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

"""The numbers of a run: rates, percentiles, shares. Plain arithmetic over records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import itertools
import math

import numpy as np

from robot_infer.control.chunks import Reason
from robot_infer.report.record import RunRecord, TickRecord
from robot_infer.types import Source

_Z_95 = 1.959963984540054
_PAUSE_PERIODS = 4
_WAITING = frozenset(reason.value for reason in Reason if reason.waiting)


@dataclass(frozen=True)
class Distribution:
    """Percentiles (nearest rank, values that occurred) in the unit of the values."""

    count: int
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution:
        """Return the distribution of `values`; nan where there are none."""
        ordered = sorted(values)
        if not ordered:
            return cls(0, math.nan, math.nan, math.nan, math.nan)

        def rank(percent: int) -> float:
            return ordered[math.ceil(percent * len(ordered) / 100) - 1]

        return cls(len(ordered), rank(50), rank(95), rank(99), ordered[-1])


@dataclass(frozen=True)
class Summary:
    """Everything the table and the page say in figures. Times in seconds, shares from 0 to 1.

    tick_rate_hz, inference_rate_hz: over the whole run without its pauses; inference steps
    within episodes only, where there are any.
    fallback_ticks: without an action because something was wrong, by reason in `fallbacks`;
    waiting_ticks: because there was no instruction, or no first chunk for it yet.
    pages_used_max: of `pages_total`. reused: prefix tokens found in pages, of all.
    """

    episodes: int
    successes: int
    moved: int
    moved_successes: int
    ticks: int
    tick_rate_hz: float
    missed: int
    fallback_ticks: int
    fallbacks: Mapping[str, int]
    waiting_ticks: int
    lateness_s: Distribution
    steps: int
    inference_rate_hz: float
    late_steps: int
    step_s: Distribution
    stages_s: Mapping[str, Distribution]
    frame_age_s: Distribution
    tokens_total: int
    tokens_reused: int
    new_frame_steps: int
    pages_used_max: int
    pages_total: int
    rss_max_bytes: Mapping[str, int]

    @property
    def success_rate(self) -> float:
        """Share of episodes that succeeded; nan without episodes."""
        return self.successes / self.episodes if self.episodes else math.nan

    @property
    def reused(self) -> float:
        """Share of prefix tokens that were found in pages."""
        return self.tokens_reused / self.tokens_total if self.tokens_total else 0.0


def summarise(run: RunRecord) -> Summary:
    """Return the numbers of `run`."""
    steps, ticks = run.steps, run.ticks()
    moved = [episode for episode in run.episodes if episode.moved]
    stages = dict.fromkeys(name for step in steps for name in step.stages_s)
    fallbacks = [tick for tick in ticks if tick.source is not Source.CHUNK]
    faulty = [f'{tick.source.value} ({tick.reason})' for tick in fallbacks if not _waiting(tick)]
    rss: dict[str, int] = {}
    for sample in run.memory:
        rss[sample.process] = max(rss.get(sample.process, 0), sample.rss_bytes)
    return Summary(
        episodes=len(run.episodes),
        successes=sum(episode.success for episode in run.episodes),
        moved=len(moved), moved_successes=sum(episode.success for episode in moved),
        ticks=len(ticks), tick_rate_hz=rate_hz([tick.time_ns for tick in ticks]),
        missed=sum(tick.missed for tick in ticks), fallback_ticks=len(faulty),
        fallbacks={name: faulty.count(name) for name in sorted(set(faulty))},
        waiting_ticks=len(fallbacks) - len(faulty),
        lateness_s=Distribution.of([tick.lateness_s for tick in ticks]),
        steps=len(steps), inference_rate_hz=_inference_rate(run),
        late_steps=sum(step.late for step in steps),
        step_s=Distribution.of([step.duration_s for step in steps]),
        stages_s={name: Distribution.of(
            [step.stages_s[name] for step in steps if name in step.stages_s]) for name in stages},
        frame_age_s=Distribution.of(
            [step.frame_age_s for step in steps if step.frame_age_s is not None]),
        tokens_total=sum(step.tokens_total for step in steps),
        tokens_reused=sum(step.tokens_reused for step in steps),
        new_frame_steps=sum(step.cameras_encoded > 0 for step in steps),
        pages_used_max=max((step.pages_used for step in steps), default=0),
        pages_total=max((step.pages_total for step in steps), default=0), rss_max_bytes=rss)


def missed_ticks(ticks: Sequence[TickRecord]) -> list[TickRecord]:
    """Return the ticks that missed a deadline, or skipped a period before they came."""
    return [tick for tick in ticks if tick.missed]


def wilson_interval(successes: int, number: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927, without continuity correction)."""
    if not number:
        return 0.0, 1.0
    share, z2 = successes / number, _Z_95**2
    centre = share + z2 / (2 * number)
    half = _Z_95 * math.sqrt(share * (1 - share) / number + z2 / (4 * number**2))
    scale = 1 + z2 / number
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def bytes_in_words(number: int) -> str:
    """Return a size such as '412 MiB' (2**20) or '1.3 GiB' (2**30)."""
    if number >= 2**30:
        return f'{number / 2**30:.1f} GiB'
    return f'{number / 2**20:.0f} MiB'


def rate_hz(times_ns: Sequence[int]) -> float:
    """Events per second; nan for fewer than two. Gaps of several periods are pauses."""
    gaps_ns = sorted(after - before for before, after in itertools.pairwise(times_ns))
    longest_ns = _PAUSE_PERIODS * gaps_ns[len(gaps_ns) // 2] if gaps_ns else 0
    running_ns = [gap for gap in gaps_ns if gap <= longest_ns]
    return len(running_ns) / (sum(running_ns) / 1e9) if sum(running_ns) else math.nan


def _inference_rate(run: RunRecord) -> float:
    """Steps per second from the first to the last step of each episode."""
    times = np.array([step.started_ns for step in run.steps])
    if not run.episodes:
        return rate_hz(times.tolist())
    seconds = (times - run.origin_ns) / 1e9
    periods, running_s = 0, 0.0
    for episode in run.episodes:
        inside = seconds[(seconds >= episode.started_s) & (seconds <= episode.ended_s)]
        if len(inside) > 1:
            periods += len(inside) - 1
            running_s += float(inside[-1] - inside[0])
    return periods / running_s if running_s else math.nan


def _waiting(tick: TickRecord) -> bool:
    """Whether the tick had nothing to send because nothing was asked for, or only just."""
    return tick.reason in _WAITING
