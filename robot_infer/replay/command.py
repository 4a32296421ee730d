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

"""`robot-infer replay BAG`: the options, what is printed, which files are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import json
import math
from pathlib import Path
import sys

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from robot_infer.command import run_command
from robot_infer.config import Config
from robot_infer.control.lockstep import DEFAULT_LATENCY_TICKS
from robot_infer.errors import ConfigError
from robot_infer.replay.both_ways import replay_both_ways
from robot_infer.replay.compare import Comparison
from robot_infer.replay.export import write_mcap, write_records
from robot_infer.replay.match import Matching
from robot_infer.replay.outcome import Outcome, Request, replay_bag
from robot_infer.replay.page import run_record, sections
from robot_infer.replay.recorder import digest
from robot_infer.replay.run import Options, fit_for_replay
from robot_infer.replay.sources import Wishes
from robot_infer.replay.words import as_json, matching_figures
from robot_infer.report.page import write_page
from robot_infer.report.summary import summarise
from robot_infer.report.words import summary_table
from robot_infer.shared_files import shared_file

INCOMPLETE = 1


@dataclass(frozen=True)
class Outputs:
    """Which files are written; None for none."""

    records: Path | None = None
    mcap: Path | None = None
    report: Path | None = None
    as_json: bool = False


def run(request: Request, outputs: Outputs, console: Console) -> int:
    """Replay, print, write; returns the exit status."""
    with _progress(console, outputs.as_json) as progress:
        outcome = (replay_both_ways if request.live else replay_bag)(request, progress)
    _tell(request, outputs, outcome, console)
    _write(request, outputs, outcome, console)
    return 0 if outcome.well else INCOMPLETE


def _tell(request: Request, outputs: Outputs, outcome: Outcome, console: Console) -> None:
    if outputs.as_json:
        click.echo(json.dumps(as_json(outcome), indent=1))
        return
    result = outcome.result
    for note in outcome.notes:
        console.print(f'- {note}', markup=False, highlight=False)
    record = run_record(f'replay of {request.bag.name}', result, {}, ())
    console.print(summary_table(summarise(record), record.title))
    if outcome.comparison is not None:
        console.print(_comparison_table(outcome.comparison))
    if outcome.matching is not None:
        console.print(_matching_table(outcome.matching))
    speed = result.duration_s / result.wall_s if result.wall_s else math.inf
    console.print(f'{result.duration_s:.1f} s of bag time in {result.wall_s:.1f} s '
                  f'({speed:.1f} times real time); actions sha256 {digest(result.ticks)[:16]}')


def _comparison_table(comparison: Comparison) -> Table:
    table = Table(title=f'replayed against {comparison.topic}', title_justify='left',
                  caption=f'{comparison.alignment}; {comparison.same} pairs are equal to the '
                  'last bit', caption_justify='left')
    for name in ('joint', 'RMS error', 'largest error', 'at'):
        table.add_column(name, justify='left' if name == 'joint' else 'right')
    for one in comparison.by_joint():
        table.add_row(one.joint, f'{one.rms:.6g}', f'{one.max:.6g}', f'{one.worst_s:.2f} s')
    return table


def _matching_table(matching: Matching) -> Table:
    table = Table(title='the node\'s actions against the replay', title_justify='left',
                  show_header=False)
    for label, value in matching_figures(matching):
        table.add_row(label, value)
    return table


def _write(request: Request, outputs: Outputs, outcome: Outcome, console: Console) -> None:
    result = outcome.result
    if outputs.records is not None:
        _save('records', outputs.records, lambda path: write_records(result.steps, path),
              outputs, console)
    if outputs.mcap is not None:
        _save('mcap', outputs.mcap, lambda path: write_mcap(result, outcome.config, path),
              outputs, console)
    if outputs.report is not None:
        settings = {name: str(value) for name, value in outcome.config.flat().items()}
        record = run_record(f'Replay of {request.bag.name}', result, settings, outcome.notes)
        _save('report', outputs.report, lambda path: write_page(
            record, path, sections(outcome)), outputs, console)


def _save(
    what: str, path: Path, write: Callable[[Path], None], outputs: Outputs, console: Console,
) -> None:
    try:
        write(path)
    except OSError as error:
        raise ConfigError(f'option --{what} {path}', expected='a file that can be written',
                          got=str(error.strerror), remedy='Choose another place.') from error
    if not outputs.as_json:
        console.print(f'{what}: {path}', soft_wrap=True, markup=False, highlight=False)


@contextmanager
def _progress(console: Console, quiet: bool) -> Iterator[Callable[[float, float], None]]:
    """A bar on a terminal, nothing where the output goes elsewhere."""
    if quiet or not console.is_terminal:
        yield lambda done_s, whole_s: None
        return
    with Progress(BarColumn(), TextColumn('{task.description}'), TimeElapsedColumn(),
                  console=console, transient=True) as bar:
        task = bar.add_task('loading the policy', total=None)
        yield lambda done_s, whole_s: bar.update(
            task, completed=done_s, total=whole_s,
            description=f'{done_s:.1f} of {whole_s:.1f} s of bag time')


class _Speed(click.ParamType):
    """max, real, or bag seconds per second."""

    name = 'max|real|X'

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None,
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            speed = {'max': math.inf, 'real': 1.0}.get(str(value)) or float(str(value))
        except ValueError:
            speed = math.nan
        if not speed > 0.0:
            self.fail(f'{value!r} is none of max, real or a number above 0', param, ctx)
        return speed


def _pairs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, topic = value.partition('=')
        if not name or not equals or not topic:
            raise click.BadParameter(f'{value!r} is not NAME=TOPIC', ctx, param)
        if name in pairs:
            raise click.BadParameter(f'{name} is given twice', ctx, param)
        pairs[name] = topic
    return pairs


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in value.split(',')) if value else ()
    except ValueError:
        raise click.BadParameter(f'{value!r} is not numbers with commas', ctx, param) from None
    if not all(map(math.isfinite, numbers)):
        raise click.BadParameter(f'{value!r} is not finite', ctx, param)
    return numbers


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={'help_option_names': ['-h', '--help']})
@click.argument('bag', type=click.Path(path_type=Path))
@click.option('--config', type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help='Parameter file of the node; the default is config/demo.yaml.')
@click.option('--rate', 'speed', type=_Speed(), default='max', show_default=True,
              help='As fast as possible, in real time, or at X times real time.')
@click.option('--start', 'start_s', type=click.FloatRange(min=0.0), default=0.0,
              help='Begin this many seconds into the bag.')
@click.option('--duration', 'duration_s', type=click.FloatRange(min=0.0, min_open=True),
              help='Replay this many seconds.')
@click.option('--latency-ticks', type=click.IntRange(0, 1000), default=DEFAULT_LATENCY_TICKS,
              show_default=True, help='Control ticks from an observation to its chunk.')
@click.option('--camera', 'cameras', multiple=True, callback=_pairs, metavar='NAME=TOPIC',
              help='Read a camera from this topic; the default is /NAME/image. Repeatable.')
@click.option('--state', default='', metavar='TOPIC', help='Instead of /joint_states.')
@click.option('--instruction', default='', metavar='TOPIC', help='Instead of /instruction.')
@click.option('--text', default='', help='The instruction itself, instead of a topic.')
@click.option('--fixed-state', default='', callback=_numbers, metavar='X,Y,…',
              help='Joint positions that never change, to look at a bag without a state.')
@click.option('--stamps', type=click.Choice(['message', 'bag']), default='message',
              show_default=True, help='Whose times tell the age of frames and state: the stamps '
              'in the messages, or when the recorder received them.')
@click.option('--compare', default='', metavar='TOPIC',
              help='Compare with the actions recorded on this topic.')
@click.option('--as-recorded', is_flag=True, help='Tick and infer when the recorded run did, by '
              'its step records in the bag, instead of on a schedule.')
@click.option('--live', is_flag=True, help='Play the bag over DDS into a policy node of its own, '
              'in real time, and tell where it did the same as the replay.')
@click.option('--node', default='', metavar='NAME', help='With --live: play it into this node, '
              'which runs with use_sim_time. Its actions go where they always go.')
@click.option('--records', type=_FILE, help='Write a line of JSON per inference step.')
@click.option('--mcap', type=_FILE, help='Write actions, status and steps for Foxglove.')
@click.option('--report', type=_FILE, help='Write the HTML report.')
@click.option('--json', 'as_json', is_flag=True, help='Print the result as JSON.')
def command(
    bag: Path, config: Path | None, speed: float, start_s: float, duration_s: float | None,
    latency_ticks: int, stamps: str, records: Path | None, mcap: Path | None,
    report: Path | None, as_json: bool, as_recorded: bool, live: bool, node: str,
    **topics: object,
) -> int:
    """Replay a rosbag2 BAG through the policy, without ROS, in bag time.

    The same bag, settings and seed give the same actions, bit for bit.

    Exit status: 0 where the bag was replayed whole, 1 where a part of it could not be read (or,
    with --live, where the same frames gave other actions), 2 for an error.
    """
    if topics['text'] and topics['instruction']:
        raise click.UsageError('--text and --instruction exclude each other.')
    if topics['fixed_state'] and topics['state']:
        raise click.UsageError('--fixed-state and --state exclude each other.')
    if node and not live:
        raise click.UsageError('--node needs --live.')
    if live and (as_recorded or topics['fixed_state'] or topics['compare'] or stamps == 'bag'
                 or speed not in (1.0, math.inf)):
        raise click.UsageError(
            '--live plays the messages as they are, in real time: without --as-recorded, '
            '--fixed-state, --compare, --stamps bag and another --rate.')
    settings = fit_for_replay(Config.from_yaml(config or shared_file('config/demo.yaml')))
    options = Options(latency_ticks, start_s, duration_s, speed, stamps == 'bag')
    return run(Request(bag, settings, Wishes(**topics), options, as_recorded, live,
                       node),
               Outputs(records, mcap, report, as_json), Console(highlight=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; returns the exit status."""
    return run_command(command, arguments, 'robot-infer replay')


if __name__ == '__main__':
    sys.exit(main())
