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

"""`robot-infer plan fragmentation`: options, tables, a plot, JSON.

What lives here: how the command is spoken to and what it prints. What does not: the arithmetic
(budget/fragmentation.py, budget/sharing.py, budget/kv.py) and the drawing (plot.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
import json
from pathlib import Path
from statistics import mean, median

import click
from rich import box
from rich.console import Console
from rich.table import Table

from robot_infer.budget.fragmentation import (
    BLOCKS,
    Storage,
    draw_lengths,
    read_lengths,
    sequences_that_fit,
    simulate,
)
from robot_infer.budget.kv import FORMATS, bytes_per_token, find_format
from robot_infer.budget.presets import PRESETS, find_preset
from robot_infer.budget.sharing import Scheme, Shares, share
from robot_infer.command import check_writable
from robot_infer.errors import ConfigError
from robot_infer.plan_page.numbers import size
from robot_infer.plan_page.storage import SLOTS

_KINDS = ('used', 'reserved', 'internal', 'external')
_WIDTH = 110  # where the output goes to no terminal
_PLOTS = ('.svg', '.png', '.pdf')
MOST_LIVE = 600
_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Study:
    """Lengths, and what each way to store them wastes.

    :param pools: shares of a pool: contiguous ranges, and pages of each size; none where more
        than MOST_LIVE sequences would be in it, as each is followed step by step.
    :param token_bytes: of keys and values; None: not asked for.
    :param budget_bytes: that sequences are to fit in; None: not asked for.
    """

    lengths: tuple[int, ...]
    max_len: int
    storages: tuple[Storage, ...]
    pools: tuple[tuple[Scheme, int, Shares], ...]
    token_bytes: int | None = None
    budget_bytes: int | None = None

    def fitting(self, storage: Storage) -> int | None:
        """Sequences that the budget holds."""
        if self.token_bytes is None or self.budget_bytes is None:
            return None
        return sequences_that_fit(self.budget_bytes, self.token_bytes, storage)


@click.command('fragmentation', context_settings={'help_option_names': ['-h', '--help']})
@click.option('--lengths', 'lengths_file', type=_FILE, help='Text file with the lengths in '
              'tokens, one or more a line; what follows a # is a comment.')
@click.option('--count', type=int, default=1000, show_default=True, metavar='N',
              help='Lengths to draw from a log-normal, where no file is given.')
@click.option('--median', 'median_tokens', type=float, default=1024.0, show_default=True,
              metavar='TOKENS', help='Its median.')
@click.option('--sigma', type=float, default=1.0, show_default=True, metavar='S',
              help='Its spread: standard deviation of the logarithm.')
@click.option('--seed', type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
              help='The same seed draws the same lengths.')
@click.option('--max-tokens', type=int, default=32_768, show_default=True, metavar='TOKENS',
              help='The longest length, which contiguous storage reserves.')
@click.option('--block', 'blocks', type=int, multiple=True, default=BLOCKS, show_default=True,
              metavar='TOKENS', help='Tokens of a page. Repeatable.')
@click.option('--model', default='', metavar='NAME', help='For bytes: keys and values of '
              f'{", ".join(PRESETS)}.')
@click.option('--kv-format', type=click.Choice(list(FORMATS)), default='bf16', show_default=True,
              help='Their format, with the scales of this package\'s pages.')
@click.option('--no-scales', is_flag=True, help='Without scales: one for a whole tensor, as other '
              'engines have it.')
@click.option('--budget', type=float, metavar='GB', help='How many sequences fit in so many GB '
              '(10^9 bytes) of keys and values; needs --model.')
@click.option('--plot', type=_FILE, help=f'Draw waste against page size ({", ".join(_PLOTS)}).')
@click.option('--json', 'as_json', is_flag=True, help='Print JSON, and nothing else.')
def fragmentation_command(
    lengths_file: Path | None, count: int, median_tokens: float, sigma: float, seed: int,
    max_tokens: int, blocks: tuple[int, ...], model: str, kv_format: str, no_scales: bool,
    budget: float | None, plot: Path | None, as_json: bool,
) -> int:
    """Compare contiguous storage of sequences with pages: what each wastes.

    First at rest: every sequence at its full length. Then in one pool that holds 8 of the longest,
    where sequences grow, end and wait in line.

    Exit status: 0; 2 for an error.
    """
    if plot is not None:
        if plot.suffix.lower() not in _PLOTS:
            raise ConfigError(f'--plot {plot}', expected='a name that ends in '
                              f'{", ".join(_PLOTS)}', got=repr(plot.suffix),
                              remedy='Rename the file.')
        check_writable('--plot', plot)
    lengths = (read_lengths(lengths_file, max_tokens) if lengths_file is not None
               else draw_lengths(count, median_tokens, sigma, max_tokens, seed))
    found = study(lengths, max_tokens, tuple(dict.fromkeys(blocks)),
                  _token_bytes(model, kv_format, no_scales), _budget_bytes(budget, model))
    if plot is not None:
        from robot_infer.plan_page.plot import draw

        draw(found, plot)
    if as_json:
        click.echo(as_text(found))
        return 0
    show(found, _console())
    if plot is not None:
        click.echo(f'plot: {plot}')
    return 0


def study(
    lengths: Sequence[int], max_len: int, blocks: Sequence[int], token_bytes: int | None = None,
    budget_bytes: int | None = None,
) -> Study:
    """Compute everything that is shown.

    :raises ConfigError: for lengths or blocks that are out of range.
    """
    storages = tuple(simulate(lengths, block, max_len) for block in (None, *blocks))
    pool = SLOTS * max_len
    if pool * len(lengths) > MOST_LIVE * sum(lengths):
        return Study(tuple(lengths), max_len, storages, (), token_bytes, budget_bytes)
    too_large = [block for block in blocks if block > pool]
    if too_large:
        raise ConfigError('--block', expected=f'at most {pool}, {SLOTS} of the longest length',
                          got=str(too_large[0]), remedy='Use 16, 64 or 256.')
    cases = [(Scheme.LONGEST, 1), (Scheme.KNOWN, 1), *((Scheme.PAGES, one) for one in blocks)]
    pools = tuple((scheme, block, share(lengths, scheme, block, pool, max_len))
                  for scheme, block in cases)
    return Study(tuple(lengths), max_len, storages, pools, token_bytes, budget_bytes)


def as_text(found: Study) -> str:
    """All of it as JSON."""
    return json.dumps({
        'lengths': {'count': len(found.lengths), 'mean': mean(found.lengths),
                    'median': median(found.lengths), 'longest': max(found.lengths)},
        'max_tokens': found.max_len, 'token_bytes': found.token_bytes,
        'budget_bytes': found.budget_bytes,
        'at_rest': [asdict(one) | {
            'waste': one.waste, 'waste_per_sequence': one.waste_per_sequence,
            'utilisation': one.utilisation, 'sequences_that_fit': found.fitting(one)}
            for one in found.storages],
        'in_one_pool': [{
            'scheme': scheme.value, 'block': block if scheme is Scheme.PAGES else None,
            'pool_tokens': shares.pool, 'at_once': shares.mean_live, 'ended': shares.ended,
            'sent_back': shares.restarted,
            **{kind: shares.share_of(kind) for kind in _KINDS}}
            for scheme, block, shares in found.pools]}, indent=1)


def show(found: Study, console: Console) -> None:
    """Print both tables, and in a sentence what they say."""
    console.print(
        f'{len(found.lengths):,} lengths: mean {mean(found.lengths):,.1f} tokens, median '
        f'{median(found.lengths):,.0f}, longest {max(found.lengths):,}; at most '
        f'{found.max_len:,} are allowed.' + _bytes_words(found), soft_wrap=True)
    console.print(_at_rest(found))
    if found.pools:
        console.print(_in_one_pool(found))
    else:
        console.print(f'Not followed in a pool: more than {MOST_LIVE} such sequences would be in '
                      f'one that holds {SLOTS} of the longest. A smaller --max-tokens helps.',
                      soft_wrap=True)
    used = ', '.join(f'{_name(one.block)} {one.utilisation:.1%}' for one in found.storages)
    console.print(f'Used of what is taken: {used}.', soft_wrap=True)


def _bytes_words(found: Study) -> str:
    words = '' if found.token_bytes is None else f' A token takes {size(found.token_bytes)}.'
    if found.budget_bytes is not None:
        words += (f' The budget is {found.budget_bytes / 1e9:g} GB = '
                  f'{found.budget_bytes / 2**30:.1f} GiB.')
    return words


def _at_rest(found: Study) -> Table:
    table = _table('At rest: each sequence at its full length', [
        'storage', 'taken', 'waste', 'a sequence', 'worst', 'used',
        *(['a page'] if found.token_bytes is not None else []),
        *(['fit in the budget'] if found.budget_bytes is not None else [])])
    for one in found.storages:
        cells = [_name(one.block), f'{one.taken:,}', f'{one.waste:,}',
                 f'{one.waste_per_sequence:,.1f}', f'{one.worst:,}', f'{one.utilisation:.1%}']
        if found.token_bytes is not None:
            cells.append(size((one.block or found.max_len) * found.token_bytes))
        if found.budget_bytes is not None:
            cells.append(f'{found.fitting(one):,}')
        table.add_row(*cells)
    table.caption = 'Tokens. worst: of one sequence; a page of B tokens never wastes above B - 1.'
    return table


def _in_one_pool(found: Study) -> Table:
    table = _table(f'In one pool of {SLOTS} x {found.max_len:,} tokens, with an endless line', [
        'storage', *_KINDS, 'at once', 'ended', 'sent back'])
    for scheme, block, shares in found.pools:
        paged = scheme is Scheme.PAGES
        table.add_row(
            _name(block) if paged else scheme.value,
            *(f'{shares.share_of(kind):.1%}' for kind in _KINDS), f'{shares.mean_live:.1f}',
            f'{shares.ended:,}', f'{shares.restarted:,}' if paged else '-')
    table.caption = ('reserved: for tokens still to come. internal: never used. external: free, '
                     'and no room for who waits.')
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify='left', caption_justify='left',
                  box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify='right' if number else 'left', no_wrap=number > 0)
    return table


def _name(block: int | None) -> str:
    return 'contiguous' if block is None else f'pages of {block}'


def _token_bytes(model: str, kv_format: str, no_scales: bool) -> int | None:
    if not model:
        return None
    form = find_format(kv_format)
    return sum(bytes_per_token(group, form.values_only if no_scales else form)
               for group in find_preset(model).kv)


def _budget_bytes(budget: float | None, model: str) -> int | None:
    if budget is None:
        return None
    if not model:
        raise ConfigError('--budget', expected='a model too, for the bytes of a token',
                          got='no --model', remedy='For instance --model Llama-3-70B.')
    if not 0.0 < budget <= 1e9:
        raise ConfigError('--budget', expected='above 0, and at most 1e9 GB', got=f'{budget}',
                          remedy='It is in GB (10^9 bytes).')
    return int(budget * 1e9)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)
