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

"""The plot of `robot-infer plan fragmentation`: waste against page size, and where a pool goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from robot_infer.budget.fragmentation import simulate
from robot_infer.budget.sharing import Scheme

if TYPE_CHECKING:
    from robot_infer.plan_page.command import Study

# As on the page (page.css).
_COLOURS = {'used': '#2f6db3', 'reserved': '#e3b341', 'internal': '#c8553d',
            'external': '#b9bec3'}
_INK, _MUTED, _GRID = '#1d2125', '#5d656e', '#d9d8d3'
_SMALLEST = 0.25  # tokens, at the foot of a logarithmic axis: no waste at all
_STYLE = {
    'svg.fonttype': 'none', 'svg.hashsalt': 'robot_infer', 'font.size': 10,
    'axes.edgecolor': _GRID, 'axes.labelcolor': _MUTED, 'xtick.color': _MUTED,
    'ytick.color': _MUTED, 'axes.grid': True, 'grid.color': _GRID, 'grid.linewidth': 0.6,
    'axes.axisbelow': True, 'axes.spines.top': False, 'axes.spines.right': False,
    'figure.constrained_layout.use': True}


def draw(found: Study, path: Path) -> None:
    """Write the plot to `path`, in the format that its suffix names."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(11.0, 4.4))
        left, right = (figure.subplots(1, 2, gridspec_kw={'width_ratios': (1.0, 1.15)})
                       if found.pools else (figure.subplots(), None))
        _waste(left, found)
        if right is not None:
            _pools(right, found)
        metadata = {'Date': None} if path.suffix.lower() == '.svg' else None
        figure.savefig(path, metadata=metadata, dpi=150)


def _waste(axes: Axes, found: Study) -> None:
    asked = [one.block for one in found.storages if one.block is not None]
    blocks = sorted({*asked, *(2**power for power in range(max(asked).bit_length()))})
    stored = [simulate(found.lengths, block, found.max_len) for block in blocks]
    contiguous = found.storages[0].waste_per_sequence
    axes.plot(blocks, [max(block - 1, _SMALLEST) for block in blocks], color=_MUTED,
              linestyle='--', linewidth=1.3, label='never more: page - 1')
    axes.plot(blocks, [max(one.waste_per_sequence, _SMALLEST) for one in stored],
              color=_COLOURS['used'], linewidth=2.2, marker='o', markersize=4,
              label='pages, mean')
    axes.axhline(max(contiguous, _SMALLEST), color=_COLOURS['internal'], linewidth=2.2,
                 label='contiguous, mean')
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    axes.set_ylim(_SMALLEST, 3.0 * max(contiguous, blocks[-1]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.10g}'))
    axes.set_xlabel('tokens of a page')
    axes.set_ylabel('waste of a sequence, tokens')
    axes.set_title('At rest', loc='left', fontsize=11, color=_INK)
    axes.legend(frameon=False, fontsize=9, loc='center left', bbox_to_anchor=(0.0, 0.72))


def _pools(axes: Axes, found: Study) -> None:
    names = [f'pages of {block}' if scheme is Scheme.PAGES else
             scheme.value.replace(', ', ',\n') for scheme, block, _ in found.pools]
    begin = [0.0] * len(names)
    for kind, colour in _COLOURS.items():
        shares = [100.0 * shares.share_of(kind) for _, _, shares in found.pools]
        axes.barh(names, shares, left=begin, color=colour, label=kind, height=0.62,
                  hatch='///' if kind == 'external' else None, edgecolor='white', linewidth=0.6)
        begin = [a + b for a, b in zip(begin, shares)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.grid(False, axis='y')
    axes.set_xlabel('% of the pool')
    axes.set_title('In one pool', loc='left', fontsize=11, color=_INK)
    axes.legend(frameon=False, fontsize=9, ncol=4, loc='lower right', bbox_to_anchor=(1.02, 0.99),
                columnspacing=1.2, handlelength=1.4)
