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

"""`robot-infer plan`: does it fit beside the rest of the robot, and at what rate will it run?

What lives here: the options, and what model, settings and device they mean. What does not: the
arithmetic (robot_infer/budget/), the tables (plan_table.py), the page (plan_page/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
import difflib
import json
from pathlib import Path
import sys

import click
import yaml

from robot_infer.budget.camera_rings import parse_ring
from robot_infer.budget.devices import (
    GIB,
    Device,
    find_device,
    given_device,
    known_devices,
    load_devices,
)
from robot_infer.budget.headers import read_headers
from robot_infer.budget.layout import Facts
from robot_infer.budget.plan import CAMERA_RATE_HZ, MARGIN, Plan, Wish, acts, make_plan, with_room
from robot_infer.budget.presets import PRESETS, find_preset
from robot_infer.budget.probe import measure_efficiency, probe
from robot_infer.budget.shapes import ModelShape, read_shape
from robot_infer.command import check_writable, run_command
from robot_infer.config import Config
from robot_infer.config_checks import bind_cameras
from robot_infer.errors import ConfigError
from robot_infer.footprint import measure_process
from robot_infer.parameter_file import read_parameter_file
from robot_infer.plan_page.command import fragmentation_command
from robot_infer.plan_table import make_console, show
from robot_infer.shared_files import DEMO_CHECKPOINT

_RUN_HERE = ('smolvla',)
_FILE = click.Path(dir_okay=False, path_type=Path)
_MOST_GIB = 65_536.0


@dataclass(frozen=True)
class _Options:
    """The command line, as it was given."""

    config: Path | None
    model: str
    device: str
    device_file: Path | None
    memory: float | None
    bandwidth: float | None
    tera: tuple[str, ...]
    unified: bool
    sm: int | None
    self_test: bool
    cameras: tuple[str, ...]
    camera_rate: float
    reserve: float | None
    rate: float | None
    margin: float
    settings: tuple[str, ...]


@dataclass(frozen=True)
class _Model:
    """What was asked for: a shape, and the folder that it is from, where there is one."""

    shape: ModelShape
    folder: Path | None


@click.group('plan', invoke_without_command=True,
             context_settings={'help_option_names': ['-h', '--help']})
@click.option('--config', type=_FILE, help='Parameter file of the node; the default is the demo.')
@click.option('--model', default='', metavar='NAME|FOLDER', help='Instead of policy.checkpoint: '
              f'a checkpoint folder, or one of {", ".join(PRESETS)}.')
@click.option('--device', default='auto', show_default=True, metavar='NAME', help='A device of '
              'the table by words of its name (thor, 4090), or auto, cpu, cuda: this machine.')
@click.option('--device-file', type=_FILE, help='Devices of your own, as in devices.yaml.')
@click.option('--memory', type=float, metavar='GIB', help='Memory of a device that is in no '
              'table, or instead of the table\'s, in GiB (2^30 bytes).')
@click.option('--bandwidth', type=float, metavar='GB/S', help='Its bandwidth in GB/s (10^9).')
@click.option('--tera', multiple=True, metavar='FORMAT=RATE', help='Its dense rate in 10^12 '
              'operations a second: fp16=40. Repeatable.')
@click.option('--unified', is_flag=True, help='Its GPU and CPU share one memory.')
@click.option('--sm', type=click.IntRange(10, 999), help='Its compute capability, 87 for 8.7: it '
              'is a CUDA GPU; without it, a CPU.')
@click.option('--self-test', is_flag=True, help='Measure what share of its figures this machine '
              'reaches.')
@click.option('--camera', 'cameras', multiple=True, metavar='NAME:WIDTHxHEIGHT[:ENCODING[:DEPTH]]',
              help='Images of a camera and buffers of its driver. Repeatable.')
@click.option('--camera-rate', type=float, default=CAMERA_RATE_HZ, show_default=True,
              metavar='HZ', help='Frames a second, for the history.')
@click.option('--reserve', type=float, metavar='GIB', help='Memory to stay free for the rest of '
              'the robot, in GiB; the default depends on the device.')
@click.option('--rate', type=float, metavar='HZ', help='Control rate that is wanted; the default '
              'is control.rate_hz.')
@click.option('--margin', type=float, default=MARGIN, show_default=True, metavar='SHARE',
              help='Share of the time that must stay free.')
@click.option('--set', 'settings', multiple=True, metavar='NAME=VALUE', help='A parameter of the '
              'node, instead of the file\'s: cache.kv_format=int8. Repeatable.')
@click.option('--json', 'as_json', is_flag=True, help='Print the plan as JSON, and nothing else.')
@click.option('--html', type=_FILE, help='Write a page with sliders to this file.')
@click.pass_context
def command(context: click.Context, as_json: bool, html: Path | None, **given: object) -> int:
    """Say what a policy will take of a computer's memory, and how fast it will run there.

    Nothing is loaded: the numbers come from the settings, from the headers of the checkpoint and
    from a table of devices. Without options: the demo policy on this machine.

    Exit status: 0 fits; 3 does not fit; 4 fits, but misses the rate; 2 for an error.
    """
    if context.invoked_subcommand is not None:
        return 0
    if html is not None:
        check_writable('--html', html)
    options = _Options(**given)  # type: ignore[arg-type]
    plan, notes = plan_of(options)
    content = plan.to_json() | {'notes': list(notes)}
    if html is not None:
        from robot_infer.plan_page.page import render

        html.write_text(render(content), encoding='utf-8')
    if as_json:
        click.echo(json.dumps(content, indent=1))
    else:
        show(plan, make_console(), notes)
        if html is not None:
            click.echo(f'page: {html}')
    context.exit(plan.verdict.status)


command.add_command(fragmentation_command)


def plan_of(options: _Options) -> tuple[Plan, tuple[str, ...]]:
    """Plan what the command line asks for; and what there is to say beside the plan."""
    given = _given_settings(options)
    config = _config(options, given)
    model = _model(options, config)
    if not options.config and model.folder is None and 'policy.dtype' not in given:
        config = _with(config, {'policy.dtype': 'bf16'})  # as the named models are published
    device, is_here = _device(options, config, given)
    facts = Facts(
        tensors=None if model.folder is None else read_headers(model.folder).shapes,
        cameras=_cameras(model.shape, config, given, options.config is not None),
        rings=tuple(parse_ring(text) for text in options.cameras),
        process_bytes=measure_process() if is_here else None,
        reserve_bytes=_reserve(options.reserve))
    if model.folder is None and 'cache.budget_bytes' not in given:
        config = with_room(model.shape, config, facts)
    efficiency = measure_efficiency(
        device, _here(options, config, given), threads=config.policy.threads,
    ) if options.self_test and is_here else None
    if options.self_test and not is_here:
        raise ConfigError('--self-test', expected='a device that is this machine',
                          got=device.name, remedy='Use --device auto, or leave it out.')
    plan = make_plan(model.shape, config, device, facts, Wish(
        options.rate, options.margin, options.camera_rate, efficiency))
    return plan, _notes(model, device)


def _notes(model: _Model, device: Device) -> tuple[str, ...]:
    notes = [device.note] if device.note else []
    if model.shape.family not in _RUN_HERE:
        notes.append(f'the engine of this version runs {" and ".join(_RUN_HERE)}; this is what '
                     f'{model.shape.name} would take in its place')
    if not acts(model.shape):
        notes.append('no policy: words come out of it, so no control rate is asked for')
    return tuple(notes)


# --- settings -----------------------------------------------------------------------------------

def _given_settings(options: _Options) -> dict[str, object]:
    """The parameters that the file and the command line have, by name."""
    values: dict[str, object] = {}
    if options.config is not None:
        Config.from_yaml(options.config)  # names the line of what is wrong
        values.update({name: each.value
                       for name, each in read_parameter_file(options.config).items()})
    for text in options.settings:
        name, equals, value = text.partition('=')
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f'--set {text}', expected='NAME=VALUE, the value as in a parameter '
                              'file', got=' '.join(str(error).split())[:100],
                              remedy='Quote what YAML reads otherwise.') from error
        if not equals:
            raise ConfigError(f'--set {text}', expected='NAME=VALUE', got=repr(text),
                              remedy='For instance cache.kv_format=int8.')
    return values


def _config(options: _Options, given: Mapping[str, object]) -> Config:
    return Config.from_flat(given) if options.settings or options.config else Config()


def _with(config: Config, values: Mapping[str, object]) -> Config:
    return Config.from_flat({**config.flat(), **values})


# --- model --------------------------------------------------------------------------------------

def _model(options: _Options, config: Config) -> _Model:
    """By name, from a folder, or the one that is configured.

    :raises ConfigError: for a name that is none. CheckpointError: for what a folder lacks.
    """
    name = options.model
    if not name and not config.policy.checkpoint or name == 'demo':
        return _Model(read_shape(DEMO_CHECKPOINT), DEMO_CHECKPOINT)
    folder = Path(name or config.policy.checkpoint)
    if name and (name in PRESETS or not (folder.exists() or '/' in name)):
        return _Model(find_preset(name), None)
    return _Model(read_shape(folder), folder)


def _cameras(
    shape: ModelShape, config: Config, given: Mapping[str, object], configured: bool,
) -> tuple[str, ...]:
    """The robot's cameras, bound to the policy's inputs by name, as the engine binds them.

    :raises ConfigError: where an input has no camera, or a camera no input.
    """
    cameras = config.cameras
    if not shape.cameras or not (configured or 'cameras.names' in given):
        return shape.cameras
    if shape.family not in _RUN_HERE:
        return cameras.names if 'cameras.names' in given else shape.cameras
    bind_cameras(cameras, shape.cameras)
    return cameras.names


# --- device -------------------------------------------------------------------------------------

def _here(options: _Options, config: Config, given: Mapping[str, object]) -> str:
    """What to ask of this machine, '' where another is planned for."""
    name = options.device.strip().lower()
    if name == 'auto' and (options.config or not options.model or 'policy.device' in given):
        return config.policy.device
    return name if name in ('auto', 'cpu') or name.startswith('cuda') else ''


def _device(
    options: _Options, config: Config, given: Mapping[str, object],
) -> tuple[Device, bool]:
    """The device, and whether it is this machine."""
    tera = dict(_tera(text) for text in options.tera)
    by_number = options.memory is not None and options.bandwidth is not None
    here = _here(options, config, given)
    table = known_devices() if options.device_file is None else load_devices(options.device_file)
    base, name = None, options.device
    if here and not (name == 'auto' and by_number):
        base = probe(here, threads=config.policy.threads)
    elif not here:
        try:
            base = find_device(name, table)
        except ConfigError:
            if not by_number:
                raise
    if base is None or options.memory is not None or options.bandwidth is not None or tera or (
            options.unified):
        device = given_device(options.memory, options.bandwidth, tera, base=base,
                              name='given by number' if here else name, unified=options.unified)
    else:
        device = base
    if options.sm is not None:
        device = replace(device, sm=options.sm)
    return device, bool(here) and base is not None


def _tera(text: str) -> tuple[str, float]:
    name, _, value = text.partition('=')
    known = ('fp32', 'fp16', 'int8', 'fp8', 'fp4')
    try:
        if name in known:
            return name, float(value)
    except ValueError:
        pass
    close = difflib.get_close_matches(name, known, n=1)
    raise ConfigError(f'--tera {text}', expected=f'FORMAT=RATE, with one of {", ".join(known)}',
                      got=repr(text), remedy=f'For instance {close[0] if close else "fp16"}=40.')


def _reserve(gib: float | None) -> int | None:
    if gib is None:
        return None
    if not 0 <= gib <= _MOST_GIB:
        raise ConfigError('--reserve', expected=f'GiB from 0 to {_MOST_GIB:.0f}', got=repr(gib),
                          remedy='It is in GiB (2^30 bytes).')
    return int(gib * GIB)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; returns the exit status."""
    return run_command(command, arguments, 'robot-infer plan')


if __name__ == '__main__':
    sys.exit(main())
