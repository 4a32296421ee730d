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

"""The report of a replay: the demo's page, and what only a bag can tell.

Sections are HTML in the style of report/page.py, which puts them in the middle of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
import time
from typing import TYPE_CHECKING

from robot_infer.replay import plots
from robot_infer.replay.compare import Comparison
from robot_infer.replay.feed import Tally
from robot_infer.replay.late import LateStep, explain
from robot_infer.replay.match import Matching, Place
from robot_infer.replay.run import Result
from robot_infer.replay.words import matching_figures
from robot_infer.report.plots import NUM_SERIES
from robot_infer.report.record import RunRecord, StepRecord
from robot_infer.report.words import milliseconds

if TYPE_CHECKING:
    from robot_infer.replay.outcome import Outcome

_MOST_ROWS = 60


def run_record(
    title: str, result: Result, settings: Mapping[str, str], notes: Sequence[str],
) -> RunRecord:
    """A replay in the words of the report; its seconds are those of the bag since the start."""
    return RunRecord(
        title=title, started=time.strftime('%Y-%m-%d %H:%M:%S'), origin_ns=result.start_ns,
        duration_s=result.duration_s, steps=result.steps, settings=settings, notes=tuple(notes))


def sections(outcome: Outcome) -> list[str]:
    """The sections of a replay, in the order they are shown."""
    result, found = outcome.result, []
    if outcome.matching is not None:
        found.append(both_ways(outcome.matching, result.start_ns))
    if outcome.comparison is not None:
        found.append(compared(outcome.comparison))
    if outcome.live_steps:
        found.append(late_steps('Late steps of the node', outcome.live_steps, result.start_ns,
                                'In real time, over DDS.'))
    found.append(late_steps(
        'Late steps of the replay', result.steps, result.start_ns,
        'How long each step took is of the machine that replayed.'))
    if result.recorded_steps:
        found.append(late_steps(
            'Late steps of the run that was recorded', result.recorded_steps,
            result.recorded_steps[0].started_ns,
            'From the step records in the bag: this is what happened on the robot. Seconds since '
            'its first step.'))
    found.append(topics(result.tallies.values()))
    return found


def both_ways(matching: Matching, start_ns: int) -> str:
    """Where the same frames met the same tick, and where not and why."""
    figures = _table(('', ''), matching_figures(matching), numbers=(1,))
    verdict = ('Wherever the same frames met the same tick, the node and the replay sent the same '
               'action, to the last bit.') if not matching.contradictions else (
        f'{len(matching.contradictions)} actions differ where the frames were the same.')
    head = f'<h2>The node\'s actions against the replay</h2>\n<p class="when">{verdict}</p>'
    differ = [one for one in matching.meetings
              if one.place not in (Place.SAME, Place.BOTH_FALLBACK)]
    rows = [(f'{(one.time_ns - start_ns) / 1e9:.2f} s', one.place.value, escape(one.words),
             {True: 'yes', False: 'NO', None: '-'}[one.follows])
            for one in differ[:_MOST_ROWS]]
    more = (f'<p class="when">The first {_MOST_ROWS} of {len(differ)} such ticks.</p>'
            if len(differ) > _MOST_ROWS else '')
    where = _table(('at', 'what differs', 'how', 'as its own frames give'), rows, numbers=(0,),
                   wrapped=(2,))
    return (f'{head}\n<div class="panel">{figures}</div>\n<details><summary>Where they differ'
            f'</summary><div class="panel">{where}</div>{more}</details>')


def compared(comparison: Comparison) -> str:
    """Recorded and replayed actions: a table and two plots."""
    head = f'<h2>Recorded and replayed actions</h2>\n<p class="when">{escape(comparison.topic)}: '
    head += f'{escape(comparison.alignment)}.</p>'
    errors = comparison.by_joint()
    if not errors:
        return head
    table = _table(
        ('joint', 'RMS error', 'largest error', 'at'),
        [(escape(one.joint), f'{one.rms:.6g}', f'{one.max:.6g}', f'{one.worst_s:.2f} s')
         for one in errors], numbers=(1, 2, 3))
    verdict = (f'{comparison.same} of {len(comparison.times_s)} pairs are equal to the last bit; '
               f'in {int((~comparison.followed).sum())} the replay was on a fallback.')
    shown = plots.shown_joints(comparison)
    more = '' if len(shown) == len(errors) else f' The {len(shown)} joints of the largest errors.'
    legend = ''.join(
        f'<span style="--swatch:var(--series-{k % NUM_SERIES})">'
        f'{escape(comparison.joints[k])}</span>' for k in shown)
    return '\n'.join((
        head, f'<div class="panel"><p>{verdict}</p>{table}</div>',
        _figure('Actions over time', 'Grey, wide: recorded. Blue: replayed.' + more,
                plots.actions(comparison)),
        _figure('Error over time', 'Red strokes: the replay followed no chunk there.',
                plots.errors(comparison), f'<div class="legend">{legend}</div>')))


def late_steps(title: str, steps: Sequence[StepRecord], origin_ns: int, sentence: str) -> str:
    """What made each late step late."""
    late = explain(steps)
    head = f'<h2>{escape(title)}</h2>\n<p class="when">{len(late)} of {len(steps)} steps were '
    head += f'later than their deadline. {escape(sentence)}</p>'
    if not late:
        return head
    rows = [_late_row(one, origin_ns) for one in late[:_MOST_ROWS]]
    table = _table(('at', 'step', 'took', 'deadline', 'cause', 'what is known'), rows,
                   numbers=(0, 1, 2, 3), wrapped=(5,))
    more = (f'<p class="when">The first {_MOST_ROWS} of {len(late)}; --records and --mcap have '
            'all.</p>' if len(late) > _MOST_ROWS else '')
    return f'{head}\n<div class="panel">{table}</div>{more}'


def topics(tallies: Iterable[Tally]) -> str:
    """What was read from each topic."""
    rows = [(escape(one.topic.name), escape(one.topic.type), str(one.topic.count), str(one.read),
             str(one.unreadable), str(one.early), str(one.stamps_back)) for one in tallies]
    table = _table(('topic', 'type', 'in the bag', 'read', 'not decodable', 'time goes back',
                    'stamp goes back'), rows, numbers=(2, 3, 4, 5, 6))
    return f'<h2>Topics that were read</h2>\n<div class="panel">{table}</div>'


def _late_row(late: LateStep, origin_ns: int) -> tuple[str, ...]:
    step = late.step
    return (f'{(step.started_ns - origin_ns) / 1e9:.2f} s', str(step.epoch),
            milliseconds(step.duration_s), milliseconds(step.deadline_s),
            escape(late.stage if late.cause.value == 'one stage' else late.cause.value),
            escape(late.words))


def _figure(title: str, sentence: str, svg: str, legend: str = '') -> str:
    return (f'<figure style="margin-top:14px"><figcaption><h3>{escape(title)}</h3>'
            f'<p>{escape(sentence)}</p>{legend}</figcaption>'
            f'<div class="scroll">{svg}</div></figure>')


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = (),
    wrapped: Sequence[int] = (),
) -> str:
    """A table; cells are HTML already. numbers, wrapped: the columns of that style."""
    def attribute(column: int) -> str:
        name = 'n' if column in numbers else 'wrap' if column in wrapped else ''
        return f' class="{name}"' if name else ''
    top = ''.join(f'<th{attribute(k)}>{escape(word)}</th>' for k, word in enumerate(head))
    body = ''.join('<tr>' + ''.join(f'<td{attribute(k)}>{cell}</td>'
                                    for k, cell in enumerate(row)) + '</tr>' for row in rows)
    return f'<table><tr>{top}</tr>{body}</table>'
