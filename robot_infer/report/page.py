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

"""A run as one HTML page that needs nothing else: no network, no scripts, no other files."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from robot_infer.report import plots
from robot_infer.report.record import EpisodeRecord, Picture, RunRecord
from robot_infer.report.style import STYLE
from robot_infer.report.summary import Distribution, Summary, summarise
from robot_infer.report.words import figures, milliseconds, percentiles

DEFAULT_TICK_DEADLINE_S = 0.01

# What a browser may load: what stands in the page. Even a hostile text in it could fetch nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_page(run: RunRecord, path: Path, sections: Iterable[str] = ()) -> None:
    """Write the report of `run` to `path`, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(run, sections), encoding='utf-8')


def render_page(run: RunRecord, sections: Iterable[str] = ()) -> str:
    """Return the whole page; `sections` are HTML of one heading each, for the middle of it."""
    summary = summarise(run)
    parts = [
        _header(run), _tiles(summary), _notes(run.notes), _pictures(run.episodes),
        *sections, _timing(run, summary), _stage_table(run, summary),
        _episode_table(run.episodes),
        _pairs('Settings', run.settings), _pairs('Versions and machine', run.versions)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<title>{escape(run.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n'
        + '\n'.join(part for part in parts if part)
        + '\n<footer>Written by robot_infer. Nothing in this page is loaded from elsewhere.'
        '</footer>\n</main>\n</body>\n</html>\n')


def _header(run: RunRecord) -> str:
    return (f'<h1>{escape(run.title)}</h1>\n<p class="when">{escape(run.started)}, '
            f'{run.duration_s:.0f} seconds</p>')


def _tiles(summary: Summary) -> str:
    tiles = []
    for figure in figures(summary):
        verdict = {True: ' good', False: ' bad', None: ''}[figure.good]
        tiles.append(
            f'<div class="tile"><div class="label">{escape(figure.label)}</div>'
            f'<div class="value{verdict}">{escape(figure.value)}</div>'
            f'<div class="detail">{escape(figure.detail)}</div></div>')
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _notes(notes: Iterable[str]) -> str:
    lines = ''.join(f'<li>{escape(note)}</li>' for note in notes)
    return f'<h2>Notes</h2>\n<div class="panel"><ul>{lines}</ul></div>' if lines else ''


def _pictures(episodes: Iterable[EpisodeRecord]) -> str:
    shots = [_shot(episode, picture, last=picture is episode.pictures[-1])
             for episode in episodes for picture in episode.pictures]
    if not shots:
        return ''
    return ('<h2>What was driven</h2>\n<div class="shots">' + ''.join(shots) + '</div>\n'
            '<div class="legend"><span class="line" style="--swatch:var(--ink)">where the block '
            'lay before it was moved</span></div>')


def _shot(episode: EpisodeRecord, picture: Picture, last: bool) -> str:
    chip = ''
    if last:
        chip = ('<span class="chip">reached</span>' if episode.success
                else '<span class="chip failed">not reached</span>')
    image = base64.b64encode(picture.jpeg).decode()
    return (
        f'<figure class="shot"><div class="frame"><img alt="{escape(picture.caption)}" '
        f'width="{picture.width}" height="{picture.height}" '
        f'src="data:image/jpeg;base64,{image}">{_overlay(picture)}</div>'
        f'<figcaption>{chip}<h3>{episode.number + 1}. {escape(episode.instruction)}</h3>'
        f'<p>{escape(picture.caption)}</p></figcaption></figure>')


def _overlay(picture: Picture) -> str:
    """The path and the marks, drawn over the picture in its own pixels."""
    drawn = []
    if len(picture.path) > 1:
        points = ' '.join(f'{x:.1f},{y:.1f}' for x, y in picture.path)
        for colour, width in (('#000', 9), ('#ff4fa3', 5)):
            drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                         f'stroke-width="{width}" stroke-linejoin="round" '
                         'stroke-linecap="round"/>')
    for mark in picture.marks:
        drawn.append(_MARKS[mark.role].format(x=f'{mark.x:.1f}', y=f'{mark.y:.1f}'))
        if mark.label:
            side, shift = ('end', -14) if mark.x > 0.7 * picture.width else ('start', 14)
            drawn.append(f'<text x="{mark.x + shift:.1f}" y="{mark.y - 14:.1f}" '
                         f'text-anchor="{side}">{escape(mark.label)}</text>')
    return (f'<svg viewBox="0 0 {picture.width} {picture.height}" aria-hidden="true">'
            f'{"".join(drawn)}</svg>')


_RING = '<circle cx="{{x}}" cy="{{y}}" r="{r}" fill="none" stroke="{c}" stroke-width="{w}"{d}/>'
_DOT = '<circle cx="{{x}}" cy="{{y}}" r="{r}" fill="{c}" stroke="#000" stroke-width="2.5"/>'
_MARKS: Mapping[str, str] = {
    'start': _DOT.format(r=9, c='#fff'),
    'end': _DOT.format(r=9, c='#ff4fa3'),
    'moved': _DOT.format(r=7, c='#ffd84d'),
    'target': _RING.format(r=35, c='#000', w=6, d='') + _RING.format(r=35, c='#fff', w=3, d=''),
    'was': _RING.format(r=35, c='#000', w=6, d=' stroke-dasharray="9 9"')
    + _RING.format(r=35, c='#fff', w=3, d=' stroke-dasharray="9 9"'),
}
MARK_ROLES = tuple(_MARKS)


def _timing(run: RunRecord, summary: Summary) -> str:
    """The plots, each with a sentence that says what to see in it."""
    if not run.steps:
        return '<h2>Time</h2>\n<p class="when">No inference step was recorded.</p>'
    ticks = run.ticks()
    deadline_s = _tick_deadline(run)
    legend = ''.join(
        f'<span style="--swatch:var(--series-{k % plots.NUM_SERIES})">{escape(stage)}</span>'
        for k, stage in enumerate(plots.stages_of(run.steps)))
    legend += '<span class="line" style="--swatch:var(--bad)">deadline</span>'
    figures = [
        _figure('Time of an inference step', f'{percentiles(summary.step_s)}; deadline '
                f'{milliseconds(run.steps[-1].deadline_s)}, {summary.late_steps} of '
                f'{summary.steps} steps late', plots.step_latency(run.steps))]
    if any(tick.lateness_s for tick in ticks):  # in virtual time none is
        figures.append(_figure(
            'How late control ticks began', f'{percentiles(summary.lateness_s)}; '
            f'{summary.missed} of {summary.ticks} deadlines missed',
            plots.tick_lateness(run, deadline_s)))
    figures.append(_figure(
        'Prefix tokens reused, pages used', f'{summary.reused:.1%} of all prefix tokens were '
        f'found in pages; at most {summary.pages_used_max} of {summary.pages_total} pages were in '
        'use', plots.reuse_and_pages(run)))
    if run.memory:
        figures.append(_figure('Resident memory', 'each process, sampled twice a second',
                               plots.memory(run.memory)))
    line = (
        '<figure><figcaption><h3>Inference steps and control ticks on a time line</h3><p>Above: '
        'each step by stage, against its deadline; numbers are episodes, dotted lines moved '
        'blocks. Below: the worst lateness of control ticks in each quarter of a second; red '
        'strokes under the line are ticks without an action of a chunk.</p>'
        f'<div class="legend">{legend}</div></figcaption>'
        f'<div class="scroll">{plots.time_line(run, deadline_s)}</div></figure>')
    return f'<h2>Time</h2>\n{line}\n<div class="plots">{"".join(figures)}</div>'


def _tick_deadline(run: RunRecord) -> float:
    text = run.settings.get('control.deadline_s', '')
    return float(text) if text else DEFAULT_TICK_DEADLINE_S


def _figure(title: str, sentence: str, svg: str) -> str:
    return (f'<figure><figcaption><h3>{escape(title)}</h3><p>{escape(sentence)}</p></figcaption>'
            f'{svg}</figure>')


def _stage_table(run: RunRecord, summary: Summary) -> str:
    if not summary.stages_s:
        return ''
    head = '<tr><th>stage</th>' + ''.join(
        f'<th class="n">{name}</th>' for name in ('steps', 'p50', 'p95', 'p99', 'max')) + '</tr>'
    rows = [_times_row(
        f'<span class="swatch" style="background:var(--series-{k % plots.NUM_SERIES})"></span>'
        f'{escape(stage)}', times) for k, (stage, times) in enumerate(summary.stages_s.items())]
    rows.append(_times_row('<b>whole step</b>', summary.step_s))
    return (f'<h2>Time per stage</h2>\n<div class="panel"><table>{head}{"".join(rows)}</table>'
            '</div>')


def _times_row(label: str, times: Distribution) -> str:
    cells = ''.join(f'<td class="n">{milliseconds(value)}</td>'
                    for value in (times.p50, times.p95, times.p99, times.max))
    return f'<tr><td>{label}</td><td class="n">{times.count}</td>{cells}</tr>'


def _episode_table(episodes: Iterable[EpisodeRecord]) -> str:
    rows = []
    for episode in episodes:
        outcome = 'reached' if episode.success else '<span class="bad">not reached</span>'
        moved = ('' if episode.moved_s is None
                 else f'after {episode.moved_s - episode.started_s:.1f} s')
        rows.append(
            f'<tr><td class="n">{episode.number + 1}</td><td>{escape(episode.instruction)}</td>'
            f'<td>{moved}</td><td>{outcome}</td><td class="n">{episode.duration_s:.1f} s</td>'
            f'<td class="n">{episode.distance_m * 1e3:.0f} mm</td>'
            f'<td class="n">{episode.seed}</td></tr>')
    if not rows:
        return ''
    head = ('<tr><th class="n">no.</th><th>instruction</th><th>block moved</th><th>outcome</th>'
            '<th class="n">time</th><th class="n">distance at the end</th><th class="n">seed</th>'
            '</tr>')
    return f'<h2>Episodes</h2>\n<div class="panel"><table>{head}{"".join(rows)}</table></div>'


def _pairs(title: str, pairs: Mapping[str, str]) -> str:
    if not pairs:
        return ''
    rows = ''.join(f'<tr><th>{escape(key)}</th><td class="wrap">{escape(value) or "-"}</td></tr>'
                   for key, value in pairs.items())
    return (f'<details><summary>{escape(title)}</summary><div class="panel"><table>{rows}</table>'
            '</div></details>')
