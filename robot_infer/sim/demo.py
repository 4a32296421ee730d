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

"""The demo: simulated robot and policy node as processes of their own, driven and reported.

Nothing here steers the robot: an episode is a new table and a sentence. What the robot does
follows from its cameras, its joint states and that sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
import os
from pathlib import Path
import signal
import sys
import time
from typing import TYPE_CHECKING

import click
from rich.console import Console

from robot_infer.command import INTERRUPTED, check_writable, run_command
from robot_infer.config import Config
from robot_infer.report.page import write_page
from robot_infer.report.record import EpisodeRecord, RunRecord
from robot_infer.report.summary import summarise
from robot_infer.report.words import summary_table
from robot_infer.shared_files import shared_file
from robot_infer.sim.children import Child, DemoError, free_domain_id, ros_environment
from robot_infer.sim.episode_log import EpisodeLog
from robot_infer.sim.episodes import NUM_BLOCKS, plan_episode
from robot_infer.sim.messages import Disturb, Reset
from robot_infer.sim.monitor import Monitor

if TYPE_CHECKING:
    from types import ModuleType

    from robot_infer.sim.driver import Driver

CONFIGURE_LIMIT_S = 300.0  # a large checkpoint from a slow disk
FIND_LIMIT_S = 30.0
SILENCE_LIMIT_S = 10.0
_ANSWER_LIMIT_S = 10.0


@dataclass(frozen=True)
class Options:
    """What the command line asks for. required: share of episodes that must succeed."""

    episodes: int = 8
    seed: int = 0
    report: Path = Path('reports/demo.html')
    record_json: Path | None = None
    params: Path | None = None
    checkpoint: str = ''
    required: float = 0.75
    record: Path | None = None


class Demo:
    """One run, from the start of the two processes to their end."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options, self._console = options, console
        self._params = options.params or shared_file('config/demo.yaml')
        self._config = Config.from_yaml(self._params)
        self._episodes: list[EpisodeRecord] = []
        self._notes: list[str] = []
        self._is_interrupted = False

    def interrupt(self, *_: object) -> None:
        """Handle a signal: the demo ends in order, its children first."""
        self._is_interrupted = True
        raise KeyboardInterrupt

    def run(self) -> RunRecord:
        """Run all episodes; an interrupt ends the run early, what there is is returned.

        :raises RobotInferError: where a process does not start, fails or falls silent.
        """
        environment = ros_environment(free_domain_id())
        os.environ.update(environment)  # our own DDS participant needs the same
        driver_module = _import_driver()
        with ExitStack() as undo:
            robot = self._start(undo, 'simulated robot', environment, 'robot_infer.sim.node',
                                *self._parameters())
            policy = self._start(
                undo, 'policy node', environment, 'robot_infer.ros.start', 'node',
                *self._parameters(), '-p', 'diagnostics.publish_steps:=true')  # for the report
            children = [policy, robot]
            if self._options.record is not None:
                children.append(self._start(
                    undo, 'recorder', environment, 'robot_infer.replay.record',
                    str(self._options.record), '--config', str(self._params)))
            monitor = Monitor(self._console, children)
            driver = driver_module.Driver(lambda: self.watch(monitor))
            undo.callback(driver.close)
            self._bring_up(driver, monitor, policy)
            started = time.strftime('%Y-%m-%d %H:%M:%S')
            monitor.begin(driver)
            undo.callback(monitor.end)
            try:
                for number in range(self._options.episodes):
                    self._episode(driver, monitor, number)
            except KeyboardInterrupt:
                self._notes.append(f'Interrupted after {len(self._episodes)} of '
                                   f'{self._options.episodes} episodes.')
            self._notes += monitor.notes()
            return RunRecord(
                title='robot_infer demo', started=started, origin_ns=monitor.origin_ns,
                duration_s=monitor.now_s(), steps=tuple(driver.steps),
                episodes=tuple(self._episodes), memory=tuple(monitor.memory),
                settings=self._settings(), notes=tuple(self._notes))

    def watch(self, monitor: Monitor) -> None:
        """Look after everything while there is nothing to do but wait."""
        monitor.watch()
        if self._is_interrupted:  # Python drops an exception that falls into a destructor
            raise KeyboardInterrupt

    def _start(
        self, undo: ExitStack, name: str, environment: dict[str, str], module: str,
        *arguments: str,
    ) -> Child:
        child = Child(name, [sys.executable, '-m', module, *arguments], environment)
        undo.callback(self._stop, child)
        return child

    def _stop(self, child: Child) -> None:
        status = child.stop()
        if child.was_killed or status not in (0, -signal.SIGINT, -signal.SIGTERM):
            self._console.print(f'[yellow]{child.name} ended with status {status}[/]')

    def _parameters(self) -> tuple[str, ...]:
        given = ('--ros-args', '--params-file', str(self._params))
        if self._options.checkpoint:
            given += ('-p', f'policy.checkpoint:={self._options.checkpoint}')
        return given

    def _settings(self) -> dict[str, str]:
        values = {name: str(value) for name, value in self._config.flat().items()}
        if self._options.checkpoint:
            values['policy.checkpoint'] = self._options.checkpoint
        return {'parameter file': self._params.name, 'seed': str(self._options.seed), **values}

    def _bring_up(self, driver: Driver, monitor: Monitor, policy: Child) -> None:
        monitor.say('waiting for both processes')
        driver.find_both(FIND_LIMIT_S)
        for name, words, limit_s in (
                ('configure', 'loading and warming up the policy', CONFIGURE_LIMIT_S),
                ('activate', 'activating', FIND_LIMIT_S)):
            monitor.say(words)
            if not driver.transition(name, limit_s):
                policy.stop()  # its log is complete then
                told = policy.lines_with('[ERROR]', 'Error')[-1:] or policy.last_lines(3)
                raise DemoError(
                    'policy node', expected='success in ' + words, got=' '.join(told).rstrip('.'),
                    remedy='Mend what it names.')
        driver.await_instruction_listener(FIND_LIMIT_S)

    def _episode(self, driver: Driver, monitor: Monitor, number: int) -> None:
        """A new table and a sentence; then only watch, and move a block where that is planned."""
        plan = plan_episode(self._options.seed, number, moved=bool(number % 2))
        driver.reset(Reset(plan.world_seed, NUM_BLOCKS, episode=number, keep_gripper=True))
        driver.instruct(plan.instruction)
        log = EpisodeLog(plan, monitor.now_s())
        monitor.follow(log, self._options.episodes)
        moving = f'{number} before the move'
        while not log.done:
            driver.wait(driver.has_truths, SILENCE_LIMIT_S, 'a sign of the simulated robot')
            heard_s = monitor.now_s()
            for truth in driver.take_truths():
                if log.see(truth, heard_s):
                    driver.look(moving)
            if moving in driver.pictures:  # then, and only then, the block is moved
                log.add_picture(driver.pictures.pop(moving),
                                f'{log.seconds:.1f} s: the block is about to be moved')
                driver.disturb(Disturb(plan.colour, seed=plan.world_seed))
        self._finish(driver, monitor, log)

    def _finish(self, driver: Driver, monitor: Monitor, log: EpisodeLog) -> None:
        driver.instruct('')  # the robot holds still until the next sentence
        label = f'{log.plan.number} at the end'
        driver.look(label)
        driver.wait(lambda: label in driver.pictures, _ANSWER_LIMIT_S, 'a picture of the table')
        words = 'reached' if log.success else 'not reached'
        log.add_picture(driver.pictures.pop(label), (
            f'{words} after {log.seconds:.1f} s, {log.distance_m * 1e3:.0f} mm from the centre'
            + (', block moved under way' if log.moved else '')))
        self._episodes.append(log.record())
        monitor.finish(log)


def run_demo(options: Options, console: Console) -> int:
    """Run the demo, print the table, write the report; returns the exit status."""
    check_writable('--report', options.report)
    if options.record_json is not None:
        check_writable('--record-json', options.record_json)
    demo = Demo(options, console)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, demo.interrupt)
    run = demo.run()
    if not run.episodes:
        console.print('[yellow]interrupted before the end of the first episode: no report[/]')
        return INTERRUPTED
    run = _with_versions(run)
    summary = summarise(run)
    console.print(summary_table(summary, run.title))
    write_page(run, options.report)
    console.print(f'report: {options.report}', soft_wrap=True, markup=False, highlight=False)
    if options.record is not None:
        console.print(f'bag: {options.record}', soft_wrap=True, markup=False, highlight=False)
    if options.record_json is not None:
        run.write_json(options.record_json)
        console.print(f'record: {options.record_json}', soft_wrap=True, markup=False,
                      highlight=False)
    if len(run.episodes) < options.episodes:
        return INTERRUPTED
    if summary.success_rate < options.required:
        console.print(f'[red]{summary.successes} of {summary.episodes} episodes succeeded; '
                      f'{options.required:.0%} were asked for[/]')
        return 1
    return 0


def _import_driver() -> ModuleType:
    try:
        from robot_infer.sim import driver
    except ImportError as error:
        raise DemoError(
            'ROS 2', expected=f'rclpy and its messages for {sys.executable}', got=str(error),
            remedy='Run make setup, or source a ROS 2 installation.') from error
    return driver


def _with_versions(run: RunRecord) -> RunRecord:
    """Add what this machine is; looked up afterwards, because it costs memory and time."""
    from robot_infer import doctor
    return replace(run, versions={one.subject: one.found for one in doctor.examine()})


@click.command(context_settings={'help_option_names': ['-h', '--help']})
@click.option('--episodes', default=8, show_default=True, type=click.IntRange(1, 1000),
              help='Episodes; in every second one the block is moved under way.')
@click.option('--seed', default=0, show_default=True, type=click.IntRange(0, 10_000),
              help='Seed of tables and instructions.')
@click.option('--report', default='reports/demo.html', show_default=True,
              type=click.Path(dir_okay=False, path_type=Path), help='Where the page is written.')
@click.option('--record-json', type=click.Path(dir_okay=False, path_type=Path),
              help='Also keep the records the page is made of.')
@click.option('--record', type=click.Path(exists=False, path_type=Path),
              help='Record all topics into this new folder: a bag for robot-infer replay.')
@click.option('--params', type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help='Parameter file; the default is config/demo.yaml.')
@click.option('--checkpoint', default='',
              help='Checkpoint folder; the default is the demo policy.')
@click.option('--required', default=0.75, show_default=True, type=click.FloatRange(0.0, 1.0),
              help='Share of episodes that must succeed for exit status 0.')
def command(**options: object) -> int:
    """Drive the simulated robot by camera and instruction, and report.

    Exit status: 0 where enough episodes succeeded, 1 where not, 2 for an error, 130 when
    interrupted.
    """
    return run_demo(Options(**options), Console(highlight=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; returns the exit status."""
    return run_command(command, arguments, 'robot-infer demo')


if __name__ == '__main__':
    sys.exit(main())
