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

"""A plan on the terminal: memory, rate, history, what would help, and the verdict."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robot_infer.budget.plan import Plan, Verdict
from robot_infer.budget.roofline import Stage
from robot_infer.budget.table import HEAD, not_loaded, rows, size_cells

_COLOURS = {Verdict.FITS: 'green', Verdict.TOO_SLOW: 'yellow', Verdict.TOO_BIG: 'bold red'}
_WIDTH = 130  # where the output goes to no terminal


def make_console() -> Console:
    """As wide as the terminal, or wide enough for the tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def show(plan: Plan, console: Console, notes: tuple[str, ...] = ()) -> None:
    """Print everything; the verdict comes last.

    :param notes: what else there is to say of this plan.
    """
    console.print(_memory(plan))
    if plan.rate is not None:
        console.print(_times(plan))
        console.print(f'efficiency: {escape(plan.rate.efficiency.words)}', soft_wrap=True)
    if plan.history is not None:
        console.print(f'history: {escape(plan.history.words)}', soft_wrap=True)
    for note in (*not_loaded(plan), *(plan.rate.notes if plan.rate else ()), *notes):
        console.print(f'- {escape(note)}', soft_wrap=True)
    if plan.levers:
        console.print(_levers(plan))
    console.print(f'[{_COLOURS[plan.verdict]}]{escape(plan.words)}[/]', soft_wrap=True)


def _memory(plan: Plan) -> Table:
    shape, device = plan.shape, plan.device
    table = _table(f'{shape.name} ({shape.source}) on {device.name} ({device.source})')
    for number, name in enumerate(HEAD):
        table.add_column(name, justify='right' if 0 < number < 4 else 'left',
                         no_wrap=number not in (0, 5), overflow='fold')
    kind = 'line'
    for row in rows(plan):
        if row.kind != kind and kind != 'sum':
            table.add_section()
        kind = row.kind
        bold = 'bold red' if row.cells[0] == 'MISSING' else 'bold' if kind == 'sum' else None
        table.add_row(*(escape(cell) for cell in row.cells), style=bold)
    return table


def _times(plan: Plan) -> Table:
    """Each stage of both kinds of step: the bound, and what one may expect."""
    assert plan.rate is not None
    table = _table('time of a step, undisturbed')
    for name in ('step', 'stage', 'bound ms', 'expected ms', 'limited by', 'GFLOP', 'GB moved'):
        table.add_column(name, justify='left' if name in ('step', 'stage', 'limited by')
                         else 'right', no_wrap=True)
    for name, stages in (('new frames', plan.rate.cold), ('prefix reused', plan.rate.reused)):
        for stage in stages:
            table.add_row(name, *_stage(stage))
        table.add_row(name, 'sum', _ms(sum(stage.bound_s for stage in stages)),
                      _ms(sum(stage.expected_s for stage in stages)), '', '', '', style='bold')
    return table


def _levers(plan: Plan) -> Table:
    table = _table('what would help')
    for name in ('lever', 'gain GiB', 'gain GB', 'enough', 'change', 'cost'):
        table.add_column(name, justify='right' if name.startswith('gain') else 'left',
                         overflow='fold')
    for lever in plan.levers:
        table.add_row(lever.name, *size_cells(lever.gain_bytes), 'yes' if lever.fits else 'no',
                      escape(lever.change), escape(lever.cost))
    return table


def _table(title: str) -> Table:
    return Table(title=escape(title), title_justify='left', box=box.SIMPLE_HEAD,
                 padding=(0, 1, 0, 0))


def _stage(stage: Stage) -> tuple[str, ...]:
    return (stage.name, _ms(stage.bound_s), _ms(stage.expected_s), stage.limited_by,
            f'{stage.flops / 1e9:.3g}', f'{stage.num_bytes / 1e9:.3g}')


def _ms(seconds: float) -> str:
    return f'{1e3 * seconds:.2f}'
