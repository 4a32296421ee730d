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

"""The plots of a report, as SVG that stands inside a page.

Text stays text, and colours become CSS variables, so that a plot follows the page's light or dark
theme and its font. Every function takes records and returns one `<svg>` element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import io
import itertools
import re

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
import numpy as np

from robot_infer.report.record import EpisodeRecord, MemorySample, RunRecord, StepRecord
from robot_infer.report.summary import Distribution
from robot_infer.types import Source

# Stand-ins that are replaced by the CSS variables of these names once matplotlib is done.
_VARIABLES = ('ink', 'muted', 'grid', 'panel', 'accent', 'bad', 'band', 'series-0', 'series-1',
              'series-2', 'series-3', 'series-4', 'series-5')
_STAND_INS = {name: f'#01fe{number:02x}' for number, name in enumerate(_VARIABLES)}
NUM_SERIES = sum(name.startswith('series-') for name in _VARIABLES)

HALF = (5.5, 3.2)  # inches at 72 units each: 396 wide, about a phone's width in CSS pixels
WIDE = (11.0, 4.4)
_GAP_PERIODS = 3.0  # without a step for this many periods, the time line shows a gap


def step_latency(steps: Sequence[StepRecord]) -> str:
    """Histogram of the time of an inference step, with its deadline and percentiles."""
    values = np.array([step.duration_s for step in steps]) * 1e3
    deadline_ms = steps[-1].deadline_s * 1e3
    with figure_in_style(HALF) as (figure, done):
        axes = figure.add_subplot()
        top = max(values.max(), deadline_ms) * 1.05
        axes.hist(values, bins=np.linspace(0.0, top, 60), color=colour('accent'))
        times = Distribution.of(values.tolist())
        for name, value in (('p50', times.p50), ('p99', times.p99)):
            axes.axvline(value, color=colour('ink'), linewidth=1.0)
            axes.text(value, 1.01, name, transform=axes.get_xaxis_transform(), ha='center',
                      fontsize=9, color=colour('ink'))
        _deadline(axes, deadline_ms, vertical=True)
        axes.set_xlim(0.0, top)
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_xlabel('milliseconds')
        axes.set_ylabel('inference steps')
    return done()


def tick_lateness(run: RunRecord, deadline_s: float) -> str:
    """Histogram of how late control ticks began, on logarithmic axes."""
    values = np.array([tick.lateness_s for tick in run.ticks()]) * 1e3
    low, high = 0.01, max(values.max(), deadline_s * 1e3) * 1.5
    with figure_in_style(HALF) as (figure, done):
        axes = figure.add_subplot()
        axes.hist(np.maximum(values, low), bins=np.geomspace(low, high, 60),
                  color=colour('accent'))
        _deadline(axes, deadline_s * 1e3, vertical=True)
        axes.set_xscale('log')
        axes.set_yscale('log')
        axes.set_ylim(0.7)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:g}'))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:g}'))
        axes.set_xlabel('milliseconds late (0.01 or less on the left)')
        axes.set_ylabel('control ticks')
    return done()


def time_line(run: RunRecord, tick_deadline_s: float) -> str:
    """Inference steps by stage over time, against their deadline; below, the control ticks."""
    with figure_in_style(WIDE) as (figure, done):
        above, below = figure.subplots(
            2, 1, sharex=True, gridspec_kw={'height_ratios': (2.4, 1.0), 'hspace': 0.12})
        _stages_over_time(above, run)
        _lateness_over_time(below, run, tick_deadline_s)
        for axes in (above, below):
            _episodes(axes, run.episodes, numbered=axes is above)
        below.set_xlim(0.0, max(run.duration_s, 1e-3))
        below.set_xlabel('seconds since the run began')
    return done()


def reuse_and_pages(run: RunRecord) -> str:
    """Share of prefix tokens found in pages, and pages used, over time."""
    times = [run.seconds(step.started_ns) for step in run.steps]
    with figure_in_style(HALF) as (figure, done):
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={'hspace': 0.18})
        reused = [100.0 * step.tokens_reused / step.tokens_total for step in run.steps]
        above.fill_between(times, reused, step='mid', color=colour('series-3'), linewidth=0)
        above.set_ylim(0, 105)
        above.set_ylabel('reused, %')
        used = [step.pages_used for step in run.steps]
        total = max(step.pages_total for step in run.steps)
        below.fill_between(times, used, step='mid', color=colour('series-2'), linewidth=0)
        if total <= 4 * max(used):
            below.axhline(total, color=colour('ink'), linewidth=1.0, linestyle='--')
        below.set_ylim(0, 1.25 * (total if total <= 4 * max(used) else max(used) + 1))
        below.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        below.set_ylabel('pages')
        below.set_xlabel('seconds')
        below.set_xlim(0.0, run.duration_s)
    return done()


def memory(samples: Sequence[MemorySample]) -> str:
    """Resident memory of each process over time, MiB."""
    with figure_in_style(HALF) as (figure, done):
        axes = figure.add_subplot()
        for number, process in enumerate(dict.fromkeys(one.process for one in samples)):
            mine = [one for one in samples if one.process == process]
            axes.plot([one.time_s for one in mine], [one.rss_bytes / 2**20 for one in mine],
                      color=colour(f'series-{(2 + 2 * number) % NUM_SERIES}'), linewidth=2.0)
            axes.text(mine[-1].time_s, mine[-1].rss_bytes / 2**20, f'{process} ', ha='right',
                      va='bottom', color=colour('ink'))
        axes.set_ylim(0.0, 1.2 * max(one.rss_bytes for one in samples) / 2**20)
        axes.set_xlim(0.0)
        axes.set_xlabel('seconds')
        axes.set_ylabel('MiB')
    return done()


def stages_of(steps: Sequence[StepRecord]) -> list[str]:
    """Return the stages of all steps, in the order they run; series k colours stage k."""
    return list(dict.fromkeys(name for step in steps for name in step.stages_s))


def _stages_over_time(axes: Axes, run: RunRecord) -> None:
    stages = stages_of(run.steps)
    times, heights = _with_gaps(
        [run.seconds(step.started_ns) for step in run.steps],
        [[1e3 * step.stages_s.get(name, 0.0) for name in stages] for step in run.steps])
    axes.stackplot(times, heights.T, step='mid', linewidth=0,
                   colors=[colour(f'series-{k % NUM_SERIES}') for k in range(len(stages))])
    late = [step for step in run.steps if step.late]
    axes.plot([run.seconds(step.started_ns) for step in late],
              [1e3 * step.duration_s for step in late], linestyle='none', marker='v',
              markersize=5, color=colour('bad'))
    deadline_ms = run.steps[-1].deadline_s * 1e3
    _deadline(axes, deadline_ms, vertical=False)
    axes.set_ylim(0.0, 1.15 * max(deadline_ms, max(1e3 * step.duration_s for step in run.steps)))
    axes.set_ylabel('inference step, ms')


def _lateness_over_time(axes: Axes, run: RunRecord, deadline_s: float) -> None:
    """The worst lateness in each quarter of a second; ticks on a fallback as marks below."""
    ticks = run.ticks()
    times = np.array([run.seconds(tick.time_ns) for tick in ticks])
    late = np.array([tick.lateness_s for tick in ticks]) * 1e3
    edges = np.arange(0.0, max(run.duration_s, 0.25) + 0.25, 0.25)
    worst = np.zeros(len(edges))
    np.maximum.at(worst, np.clip(np.digitize(times, edges) - 1, 0, len(edges) - 1), late)
    axes.fill_between(edges, worst, step='post', color=colour('muted'), linewidth=0)
    _deadline(axes, deadline_s * 1e3, vertical=False)
    fallback = [run.seconds(tick.time_ns) for tick in ticks if tick.source is not Source.CHUNK]
    top = 1.15 * max(deadline_s * 1e3, worst.max())
    axes.plot(fallback, [-0.06 * top] * len(fallback), linestyle='none', marker='|',
              markersize=5, color=colour('bad'))
    axes.set_ylim(-0.12 * top, top)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.set_ylabel('tick late, ms')


def _episodes(axes: Axes, episodes: Sequence[EpisodeRecord], numbered: bool) -> None:
    """Shade every other episode, write its number, mark when blocks were moved."""
    for episode in episodes:
        if episode.number % 2:
            axes.axvspan(episode.started_s, episode.ended_s, color=colour('band'), zorder=-2,
                         linewidth=0)
        if numbered:
            axes.text((episode.started_s + episode.ended_s) / 2, 1.02, str(episode.number + 1),
                      transform=axes.get_xaxis_transform(), ha='center', fontsize=9,
                      color=colour('muted' if episode.success else 'bad'))
        if episode.moved_s is not None:
            axes.axvline(episode.moved_s, color=colour('ink'), linewidth=0.8, linestyle=':')


def _with_gaps(
    times: Sequence[float], heights: Sequence[Sequence[float]],
) -> tuple[np.ndarray, np.ndarray]:
    """Put zeros where no step was made for a while, so that the time line does not bridge it."""
    out_times, out_heights = list(times[:1]), list(heights[:1])
    if len(times) > 1:
        period = float(np.median(np.diff(times)))
        zero = [0.0] * len(heights[0])
        for (before, after), height in zip(itertools.pairwise(times), heights[1:]):
            if after - before > _GAP_PERIODS * period:
                out_times += [before + period, after - period]
                out_heights += [zero, zero]
            out_times.append(after)
            out_heights.append(height)
    return np.array(out_times), np.array(out_heights)


def _deadline(axes: Axes, value: float, vertical: bool) -> None:
    draw = axes.axvline if vertical else axes.axhline
    draw(value, color=colour('bad'), linewidth=1.4, linestyle=(0, (5, 3)))


def colour(name: str) -> str:
    """A colour of the page's style, by the name of its CSS variable."""
    return _STAND_INS[name]


@contextmanager
def figure_in_style(size: tuple[float, float]) -> Iterator[tuple[Figure, object]]:
    """A figure in the page's style, and a function that returns it as SVG afterwards."""
    drawn: list[str] = []
    style = {
        'svg.fonttype': 'none', 'svg.hashsalt': 'robot_infer', 'font.size': 10,
        'axes.edgecolor': colour('grid'), 'axes.facecolor': 'none', 'figure.facecolor': 'none',
        'axes.labelcolor': colour('muted'), 'xtick.color': colour('grid'),
        'ytick.color': colour('grid'), 'xtick.labelcolor': colour('muted'),
        'ytick.labelcolor': colour('muted'), 'axes.grid': True, 'grid.color': colour('grid'),
        'grid.linewidth': 0.6, 'axes.axisbelow': True, 'axes.spines.top': False,
        'axes.spines.right': False, 'figure.constrained_layout.use': True}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size)
        yield figure, lambda: drawn[0]
        text = io.StringIO()
        figure.savefig(text, format='svg', metadata={'Date': None, 'Creator': None})
        drawn.append(_for_page(text.getvalue(), size))


def _for_page(svg: str, size: tuple[float, float]) -> str:
    """Leave the `<svg>` element alone, scaling with the page, its colours as CSS variables."""
    svg = svg[svg.index('<svg'):]
    svg = re.sub(r'<metadata>.*?</metadata>', '', svg, flags=re.DOTALL)
    svg = re.sub(r'<svg[^>]*>', (
        f'<svg class="plot" role="img" viewBox="0 0 {size[0] * 72:g} {size[1] * 72:g}">'),
        svg, count=1)
    svg = svg.replace('xlink:href', 'href')
    svg = re.sub(r'<g id="[^"]*"', '<g', svg)  # names of groups; several plots share a page
    for name, stand_in in _STAND_INS.items():
        svg = re.sub(stand_in, f'var(--{name})', svg, flags=re.IGNORECASE)
    return svg
