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

"""Does the demo policy solve its world? Success over many seeded episodes, in lock-step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
import statistics
import sys
import time

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from robot_infer.command import run_command
from robot_infer.config import Config
from robot_infer.control.inference import Engine
from robot_infer.control.lockstep import DEFAULT_LATENCY_TICKS
from robot_infer.engine import Engine as LoadedEngine
from robot_infer.report.summary import wilson_interval
from robot_infer.shared_files import shared_file
from robot_infer.sim.episodes import EpisodePlan, Judge, Mover, plan_episode
from robot_infer.sim.lockstep import LockStep
from robot_infer.sim.world import CONTROL_PERIOD_S

THRESHOLD_PLAIN = 0.90
THRESHOLD_MOVED = 0.80


@dataclass(frozen=True)
class EpisodeResult:
    """What came of one episode. steps: control steps to the end, since the move where one was."""

    plan: EpisodePlan
    success: bool
    steps: int
    distance_m: float
    ticks: int
    fallback_ticks: int
    inference_s: tuple[float, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True)
class SeriesResult:
    """A series of episodes, all plain or all with the block moved."""

    moved: bool
    episodes: tuple[EpisodeResult, ...]
    wall_s: float

    @property
    def successes(self) -> int:
        """Episodes that succeeded."""
        return sum(episode.success for episode in self.episodes)

    @property
    def rate(self) -> float:
        """Share of episodes that succeeded."""
        return self.successes / len(self.episodes)

    @property
    def threshold(self) -> float:
        """Share that is asked for."""
        return THRESHOLD_MOVED if self.moved else THRESHOLD_PLAIN

    @property
    def passed(self) -> bool:
        """Whether enough episodes succeeded."""
        return self.rate >= self.threshold


def run_episode(
    config: Config, engine: Engine, plan: EpisodePlan, latency_ticks: int,
) -> EpisodeResult:
    """Run one episode to its end."""
    robot = LockStep(config, engine, plan, latency_ticks)
    judge, mover = Judge(plan.colour), Mover(plan.moved)
    moved_at = 0
    while not judge.done:
        robot.step()
        distance = robot.world.distance_to(plan.colour)
        judge.see(robot.ticks - 1, distance)
        if mover.due(robot.ticks, distance):
            robot.world.disturb(np.random.default_rng((plan.world_seed, 2)), plan.colour)
            judge.block_moved()
            moved_at = robot.ticks
    return EpisodeResult(
        plan, judge.success, robot.ticks - moved_at, robot.world.distance_to(plan.colour),
        robot.ticks, robot.fallback_ticks, tuple(robot.inference_s),
        tuple(fault.name for fault in robot.runtime.status().fault_history))


def run_series(
    config: Config, engine: Engine, plans: Sequence[EpisodePlan], latency_ticks: int,
    console: Console,
) -> SeriesResult:
    """Run the episodes one after the other, each from an empty cache."""
    started = time.perf_counter()
    moved = plans[0].moved
    words = 'block moved' if moved else 'plain'

    def episodes() -> Iterator[EpisodeResult]:
        for plan in track(plans, description=words, console=console, transient=True):
            engine.reset()
            yield run_episode(config, engine, plan, latency_ticks)

    return SeriesResult(moved, tuple(episodes()), time.perf_counter() - started)


def results_table(series: Sequence[SeriesResult]) -> Table:
    """Return the figures, a column for each series."""
    table = Table(title='demo policy, lock-step episodes', title_justify='left')
    table.add_column('')
    for one in series:
        table.add_column('block moved' if one.moved else 'plain', justify='right')
    for label, values in (
        ('episodes', [str(len(one.episodes)) for one in series]),
        ('success', [f'{one.successes} = {one.rate:.1%}' for one in series]),
        ('95 % interval (Wilson)', [_interval(one) for one in series]),
        ('asked for', [f'{one.threshold:.0%}' for one in series]),
        ('time to success, median', [_time_to_success(one) for one in series]),
        ('final distance of failures', [_failure_distance(one) for one in series]),
        ('control ticks on a fallback', [_fallbacks(one) for one in series]),
        ('inference step, median', [_inference(one) for one in series]),
        ('wall time', [f'{one.wall_s:.0f} s' for one in series]),
    ):
        table.add_row(label, *values)
    return table


def evaluate(
    console: Console, episodes: int = 100, seed: int = 0, moved: bool | None = None,
    latency_ticks: int = DEFAULT_LATENCY_TICKS, checkpoint: str = '', params: Path | None = None,
) -> list[SeriesResult]:
    """Run the evaluation and print it.

    :param moved: whether the block is moved under way; None runs both series.
    :param checkpoint: another checkpoint than the demo policy's.
    :param params: parameter file; None means config/demo.yaml.
    :raises RobotInferError: where the policy cannot be loaded.
    """
    config = Config.from_yaml(params or shared_file('config/demo.yaml'))
    if checkpoint:
        config = Config.from_flat({**config.flat(), 'policy.checkpoint': checkpoint})
    engine = LoadedEngine.from_config(config)
    every = round(config.control.rate_hz / config.inference.rate_hz)
    console.print(
        f'control {config.control.rate_hz:g} Hz, an inference step every {every} ticks, its chunk '
        f'used {latency_ticks} ticks ({latency_ticks * CONTROL_PERIOD_S * 1e3:.0f} ms) after the '
        f'observation (modelled), frames one tick old; {config.policy.dtype}, seed {seed}')
    series = []
    for with_move in (False, True) if moved is None else (moved,):
        plans = [plan_episode(seed, number, with_move) for number in range(episodes)]
        series.append(run_series(config, engine, plans, latency_ticks, console))
    engine.close()
    console.print(results_table(series))
    for one in series:
        _explain(one, console)
    return series


def _explain(series: SeriesResult, console: Console) -> None:
    """Say what went wrong in a series, if anything."""
    failed = [str(one.plan.world_seed) for one in series.episodes if not one.success]
    words = 'block moved' if series.moved else 'plain'
    if failed:
        more = f' and {len(failed) - 12} more' if len(failed) > 12 else ''
        console.print(f'{words}: failed in the worlds {", ".join(failed[:12])}{more}')
    faults = sorted({fault for one in series.episodes for fault in one.faults})
    if faults:
        console.print(f'{words}: faults seen: {", ".join(faults)}')
    if not series.passed:
        console.print(f'[red]{words}: {series.rate:.1%} is below {series.threshold:.0%}[/]')


def _interval(series: SeriesResult) -> str:
    low, high = wilson_interval(series.successes, len(series.episodes))
    return f'{low:.1%} to {high:.1%}'


def _time_to_success(series: SeriesResult) -> str:
    steps = [one.steps for one in series.episodes if one.success]
    if not steps:
        return '-'
    median = statistics.median(steps)
    return f'{median:g} ticks = {median * CONTROL_PERIOD_S:.1f} s'


def _failure_distance(series: SeriesResult) -> str:
    distances = [one.distance_m for one in series.episodes if not one.success]
    return f'{statistics.median(distances) * 1e3:.0f} mm' if distances else '-'


def _fallbacks(series: SeriesResult) -> str:
    share = (sum(one.fallback_ticks for one in series.episodes)
             / sum(one.ticks for one in series.episodes))
    return f'{share:.1%}'


def _inference(series: SeriesResult) -> str:
    times = [seconds for one in series.episodes for seconds in one.inference_s]
    return f'{statistics.median(times) * 1e3:.0f} ms'


@click.command(context_settings={'help_option_names': ['-h', '--help']})
@click.option('--episodes', default=100, show_default=True, type=click.IntRange(1, 100_000),
              help='Episodes in each series.')
@click.option('--seed', default=0, show_default=True, type=click.IntRange(0, 10_000),
              help='Seed of tables and instructions.')
@click.option('--moved/--plain', default=None,
              help='Only episodes in which the block is moved, or only those in which it is not; '
              'the default is both series.')
@click.option('--latency-ticks', default=DEFAULT_LATENCY_TICKS, show_default=True,
              type=click.IntRange(0, 30), help='Control ticks from an observation to its chunk.')
@click.option('--checkpoint', default='',
              help='Checkpoint folder; the default is the demo policy.')
@click.option('--params', type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help='Parameter file; the default is config/demo.yaml.')
def command(**options: object) -> int:
    """Measure the demo policy's success over many episodes, without ROS, in virtual time.

    Exit status: 0 where every series reached what is asked for, 1 where not, 2 for an error.
    """
    return 0 if all(one.passed for one in evaluate(Console(highlight=False), **options)) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; returns the exit status."""
    return run_command(command, arguments, 'robot-infer demo-eval')


if __name__ == '__main__':
    sys.exit(main())
