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

"""The main figures of a run in words, the same for the terminal's table and for the page."""

from __future__ import annotations

from dataclasses import dataclass
import math

from rich.table import Table

from robot_infer.report.summary import Distribution, Summary, bytes_in_words


@dataclass(frozen=True)
class Figure:
    """One line of the table, one tile of the page. good: None where no verdict is due."""

    label: str
    value: str
    detail: str = ''
    good: bool | None = None


def figures(summary: Summary) -> list[Figure]:
    """Return the main figures; those that need records that are not there are left out."""
    return [*_episodes(summary), *_ticks(summary), *_steps(summary), *_memory(summary)]


def summary_table(summary: Summary, title: str) -> Table:
    """Return the table that a terminal shows."""
    table = Table(title=title, title_justify='left', title_style='bold', show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style='dim')
    for figure in figures(summary):
        style = {True: 'green', False: 'red', None: 'bold'}[figure.good]
        table.add_row(figure.label, f'[{style}]{figure.value}[/]', figure.detail)
    if summary.stages_s:
        table.add_section()
        for stage, times in summary.stages_s.items():
            table.add_row(f'stage {stage}', milliseconds(times.p50), percentiles(times))
    return table


def milliseconds(seconds: float) -> str:
    """Return a time such as '4.13 ms' or '41.3 ms' with three digits."""
    if math.isnan(seconds):
        return '-'
    value = seconds * 1e3
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f'{value:.{digits}f} ms'


def percentiles(times: Distribution) -> str:
    """Return 'p50 4.1 ms, p99 …, max …'."""
    if not times.count:
        return 'none'
    return (f'p50 {milliseconds(times.p50)}, p99 {milliseconds(times.p99)}, '
            f'max {milliseconds(times.max)}')


def rate(hertz: float) -> str:
    """Return '30.0 Hz'."""
    return '-' if math.isnan(hertz) else f'{hertz:.1f} Hz'


def share(part: int, whole: int) -> str:
    """Return '12.3 %'; '-' of nothing."""
    return f'{part / whole * 100:.1f} %' if whole else '-'


def _episodes(summary: Summary) -> list[Figure]:
    if not summary.episodes:
        return []
    plain = summary.episodes - summary.moved
    detail = f'{summary.successes - summary.moved_successes} of {plain} plain'
    if summary.moved:
        detail += f', {summary.moved_successes} of {summary.moved} with the block moved'
    return [Figure(
        'episodes that succeeded', f'{summary.successes} of {summary.episodes}', detail,
        summary.successes == summary.episodes or None)]


def _ticks(summary: Summary) -> list[Figure]:
    if not summary.ticks:
        return []
    fallbacks = ', '.join(f'{count} {name}' for name, count in summary.fallbacks.items())
    return [
        Figure('control ticks', rate(summary.tick_rate_hz), f'{summary.ticks:,} ticks'),
        Figure('deadlines missed', f'{summary.missed}',
               f'{share(summary.missed, summary.ticks)} of ticks; lateness '
               f'{percentiles(summary.lateness_s)}', summary.missed == 0 or None),
        Figure('ticks on a fallback', f'{summary.fallback_ticks}',
               (f'{fallbacks}; ' if fallbacks else '') + f'{summary.waiting_ticks} more while '
               'waiting for an instruction or its first chunk',
               summary.fallback_ticks == 0 or None),
    ]


def _steps(summary: Summary) -> list[Figure]:
    if not summary.steps:
        return []
    found = [
        Figure('inference steps', rate(summary.inference_rate_hz),
               f'{summary.steps:,} steps, {summary.late_steps} later than their deadline'),
        Figure('time of a step', milliseconds(summary.step_s.p50), percentiles(summary.step_s))]
    if summary.frame_age_s.count:
        found.append(Figure(
            'frame to chunk', milliseconds(summary.frame_age_s.p50),
            percentiles(summary.frame_age_s)))
    return [
        *found,
        Figure('prefix tokens reused', share(summary.tokens_reused, summary.tokens_total),
               f'{summary.tokens_reused:,} of {summary.tokens_total:,}; '
               f'{summary.new_frame_steps} of {summary.steps} steps had new frames'),
        Figure('pages used, at most', f'{summary.pages_used_max} of {summary.pages_total}',
               'taken once, at configure')]


def _memory(summary: Summary) -> list[Figure]:
    return [Figure(f'memory of {name}', bytes_in_words(size), 'resident, at most')
            for name, size in summary.rss_max_bytes.items()]
