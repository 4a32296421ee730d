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

"""A plan as rows of words, largest line first: for the terminal, the log and a refusal alike.

GiB is 2^30 bytes and GB is 10^9; every number says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robot_infer.budget.devices import GIB
from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.plan import Plan

HEAD = ('line', 'GiB', 'GB', 'share', 'basis', 'where the number comes from')


@dataclass(frozen=True)
class Row:
    """One line of the table, in the columns of HEAD.

    :param kind: 'line', 'host' of another memory than the device's, or 'sum'.
    """

    cells: tuple[str, str, str, str, str, str]
    kind: str = 'line'


def rows(plan: Plan) -> tuple[Row, ...]:
    """The lines, their sum, what is usable and what is left; behind them, those of the host."""
    one = plan.layout.one_memory
    inside = [line for line in plan.lines if one or line.place == 'device']
    outside = [line for line in plan.lines if not one and line.place == 'host']
    device, headroom = plan.device, plan.headroom_bytes
    basis = 'available now' if device.available_bytes is not None else device.total_basis
    found = [_row(line, plan.usable_bytes) for line in _largest_first(inside)]
    found += [
        _sum('all lines', plan.num_bytes, plan.usable_bytes, f'{len(inside)} lines'),
        _sum(f'usable on {device.name}', plan.usable_bytes, plan.usable_bytes, basis),
        _sum('headroom' if headroom >= 0 else 'MISSING', abs(headroom), plan.usable_bytes,
             'usable less all lines' if headroom >= 0 else 'all lines less usable')]
    found += [_row(line, 0, 'host') for line in _largest_first(outside)]
    if outside:
        found.append(_sum('in the host\'s own memory', plan.host_bytes, 0,
                          f'{len(outside)} lines'))
    return tuple(found)


def as_text(plan: Plan, with_source: bool = True) -> str:
    """The table in plain text, and the verdict below it.

    :param with_source: the last column too, which is long.
    """
    table = [HEAD, *(row.cells for row in rows(plan))]
    count = len(HEAD) if with_source else len(HEAD) - 1
    widths = [max(len(row[column]) for row in table) for column in range(count)]
    lines = []
    for row in table:
        cells = [cell.rjust(width) if 0 < column < 4 else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(row[:count], widths, strict=True))]
        lines.append('  '.join(cells).rstrip())
    return '\n'.join([*lines, plan.words])


def not_loaded(plan: Plan) -> tuple[str, ...]:
    """What the checkpoint's files have and nothing loads, and why."""
    return tuple(f'{group.name}: {_figure(group.num_bytes / GIB)} GiB in the files, '
                 f'{group.num_params} parameters, not loaded'
                 + (f' ({group.note})' if group.note else '')
                 for group in plan.shape.weights if not group.kept)


def size_cells(num_bytes: int) -> tuple[str, str]:
    """GiB and GB."""
    return _figure(num_bytes / GIB), _figure(num_bytes / 1e9)


def _row(line: MemoryLine, usable: int, kind: str = 'line') -> Row:
    return Row((line.name, *size_cells(line.num_bytes), _share(line.num_bytes, usable),
                line.basis, line.arithmetic), kind)


def _sum(name: str, num_bytes: int, usable: int, words: str) -> Row:
    return Row((name, *size_cells(num_bytes), _share(num_bytes, usable), '', words), 'sum')


def _largest_first(lines: Sequence[MemoryLine]) -> list[MemoryLine]:
    return sorted(lines, key=lambda line: -line.num_bytes)


def _figure(number: float) -> str:
    return '<0.001' if 0 < number < 0.0005 else f'{number:.3f}'


def _share(num_bytes: int, usable: int) -> str:
    return f'{100 * num_bytes / usable:.1f} %' if usable else ''
