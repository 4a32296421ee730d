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

"""`robot-infer kernels check` and `robot-infer kernels which`: options, tables, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
import json
import os
from pathlib import Path
import sys

import click
from rich import box
from rich.console import Console
from rich.table import Table

from robot_infer.command import check_writable, run_command
from robot_infer.config import Config
from robot_infer.errors import KernelError
from robot_infer.kernel_shapes import configured_shape
from robot_infer_kernels.gpu.cases import SHAPES, Shape
from robot_infer_kernels.gpu.check import (
    HOW_TO_GET_TRITON,
    Result,
    TritonMissing,
    check,
    triton_version,
)
from robot_infer_kernels.gpu.targets import TARGETS, Target, find_targets, known_targets

FAILED = 1
_COLUMNS = ('kernel', 'case', 'verdict', 'regs', 'spilled', 'shared memory', 'matrix',
            '16 B loads', 'blocks/SM')
_WIDTH = 130  # where the output goes to no terminal
_VERDICTS = {'ok': 'green', 'not offered': 'yellow'}


class _Targets(click.ParamType):
    """One or more chips."""

    name = 'CHIP'

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None,
                ) -> tuple[Target, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return find_targets(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None,
                            ) -> str:
        return f'One or more of {known_targets()}.'


@click.group(context_settings={'help_option_names': ['-h', '--help']})
def command() -> None:
    """Look at the kernels: do they fit a chip, and which of them run here?"""


@command.command('check')
@click.option('--target', 'targets', type=_Targets(), required=True,
              help='orin, thor, ada, hopper, rtx50, a100, sm_87, ... or all; several with commas '
              'between.')
@click.option('--config', type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help='Parameter file of the node, for the shapes of its policy; the default is the '
              'demo policy.')
@click.option('--all-shapes', is_flag=True,
              help=f'Also the shapes of {", ".join(shape.name for shape in SHAPES)}.')
@click.option('--shape', 'names', multiple=True, metavar='NAME', type=click.Choice(
    [shape.name for shape in SHAPES], case_sensitive=False),
    help='One of these instead of the configured policy. Repeatable.')
@click.option('--json', 'json_file', type=click.Path(dir_okay=False, path_type=Path),
              help='Write the figures to this file.')
@click.option('--jobs', type=click.IntRange(1, 256), default=len(TARGETS), show_default='one for '
              'each chip, at most one for each core', help='Compile for so many chips at a time.')
def check_command(targets: tuple[Target, ...], config: Path | None, all_shapes: bool,
                  names: tuple[str, ...], json_file: Path | None, jobs: int) -> int:
    """Compile every kernel for a chip, without one, and say whether it fits.

    The shapes are those of the configured policy. What is compiled is what the launch code would
    launch there, to the bit.

    Exit status: 0 where every kernel may be deployed; 1 where one spills registers, does not fit
    the chip or does not compile, or where what is configured is not offered there; 2 for an error.
    """
    if json_file is not None:
        check_writable('--json', json_file)
    shapes = [shape for shape in SHAPES if all_shapes or shape.name in names]
    configured = None
    if config is not None or not names:
        configured = configured_shape(_settings(config))
        shapes.insert(0, configured)
    console = _console()
    try:
        with _progress(console) as progress:
            results = check(targets, shapes, min(jobs, _cores()), progress=progress)
    except TritonMissing as error:
        raise KernelError('triton', expected='an installed triton, which compiles the kernels',
                          got='none', remedy=f'{HOW_TO_GET_TRITON}.') from error
    if json_file is not None:
        json_file.write_text(as_json(shapes, results))
    show(targets, shapes, results, console)
    refused = [] if configured is None else [
        result for result in results
        if (result.shape, result.state) == (configured.name, 'not offered')
        and any(f'{form} pages' in result.case for form in configured.formats)]
    if refused:
        console.print(f'What is configured is not offered for '
                      f'{", ".join(sorted({result.target for result in refused}))}: see above.')
    return FAILED if refused or any(result.failed for result in results) else 0


def as_json(shapes: Sequence[Shape], results: Sequence[Result]) -> str:
    """Everything that was found, for a file, one result a line."""
    head = json.dumps({'triton': triton_version(), 'shapes': [asdict(shape) for shape in shapes]})
    lines = ',\n'.join(json.dumps({name: value for name, value in asdict(result).items()
                                   if name != 'key'} | {'failed': result.failed})
                       for result in results)
    return f'{head[:-1]}, "results": [\n{lines}\n]}}\n'


def show(targets: Sequence[Target], shapes: Sequence[Shape], results: Sequence[Result],
         console: Console) -> None:
    """Print one table for each chip and shape, what is wrong below it, and the verdict."""
    for target in targets:
        for shape in shapes:
            found = [result for result in results
                     if (result.target, result.shape) == (target.name, shape.name)]
            console.print(_table(target, shape, found))
    for line in faults(results):
        console.print(line, markup=False, soft_wrap=True)
    failed = sum(result.failed for result in results)
    compiled = sum(bool(result.figures) for result in results)
    console.print(f'triton {triton_version()}: {compiled} kernels compiled for '
                  f'{", ".join(target.name for target in targets)}; '
                  + (f'{failed} must not be deployed.' if failed else 'all may be deployed.'))


def faults(results: Sequence[Result]) -> list[str]:
    """A line for each thing that is not ok; what is not offered for one reason in one line."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for result in results:
        if result.state != 'ok':
            about = (f' ({result.kernel})' if result.kernel else '') + f': {result.state}'
            lines.setdefault((result.target, result.shape, about, result.words), []).extend(
                result.cases)
    return [f'- {target}, {shape}, {_few(cases)}{about}: {words}'
            for (target, shape, about, words), cases in lines.items()]


def _few(cases: Sequence[str]) -> str:
    """The first of some cases, and how many more there are."""
    return cases[0] if len(cases) == 1 else f'{cases[0]}, and {len(cases) - 1} more'


def _table(target: Target, shape: Shape, results: Sequence[Result]) -> Table:
    table = Table(title=f'{target.name} ({target.chip}), {shape.words}', title_justify='left',
                  box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(_COLUMNS):
        table.add_column(name, justify='left' if number < 3 else 'right', no_wrap=True)
    for result in results:
        if not result.figures:
            continue  # told below the table
        colour = _VERDICTS.get(result.state, 'bold red')
        table.add_row(result.kernel, _few(result.cases), f'[{colour}]{result.state}[/]',
                      *_cells(result, target))
    return table


def _cells(result: Result, target: Target) -> tuple[str, ...]:
    figures = result.figures
    matrix = [f'{figures[name]} {name}' for name in ('mma', 'wgmma', 'tcgen05') if figures[name]]
    return (str(figures['registers']), str(figures['spill_bytes']),
            f"{figures['shared_bytes']} of {target.block_shared}", ', '.join(matrix) or 'none',
            f"{figures['wide_loads']} of {figures['loads']}",
            f"{figures['blocks']} ({figures['bound']})")


@command.command('which')
@click.option('--config', type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help='Parameter file of the node, for its device; the default is the demo policy.')
@click.option('--device', default='', help='Instead of policy.device.')
def which_command(config: Path | None, device: str) -> int:
    """Say which backend each operation will use on this machine, and why.

    Exit status: 0 where every operation has one; 1 where one has none; 2 for an error.
    """
    from robot_infer.kernel_choice import explain

    name = device or _settings(config).policy.device
    return 0 if explain(name, _console()) else FAILED


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[Result], None]]:
    """What was compiled last, on a terminal; nothing where the output goes elsewhere."""
    if not console.is_terminal:
        yield lambda result: None
        return
    with console.status('compiling') as status:
        yield lambda result: status.update(
            f'compiling: {result.target}, {result.shape}, {result.case}: {result.state}')


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _settings(config: Path | None) -> Config:
    return Config() if config is None else Config.from_yaml(config)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else (
        os.cpu_count() or 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; returns the exit status."""
    return run_command(command, arguments, 'robot-infer kernels')


if __name__ == '__main__':
    sys.exit(main())
