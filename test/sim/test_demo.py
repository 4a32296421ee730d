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

"""The demo as a person runs it: real processes over real DDS, one short episode."""

from collections.abc import Callable, Iterator
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import psutil
import pytest
from rich.console import Console

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.command import INTERRUPTED  # noqa: E402
from robot_infer.report.record import RunRecord  # noqa: E402
from robot_infer.sim.demo import Demo, Options  # noqa: E402
from robot_infer.sim.monitor import Monitor  # noqa: E402

PATIENCE_S = 120.0


class Running:
    """A demo that was started as a process."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = folder / 'output.txt'
        with self.output.open('w') as stream:
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'robot_infer.sim.demo', '--report',
                 str(folder / 'demo.html'), '--record-json', str(folder / 'demo.json'),
                 *arguments],
                stdout=stream, stderr=subprocess.STDOUT, cwd=folder,
                env={**os.environ, 'ROS_LOG_DIR': str(folder / 'log'), 'COLUMNS': '120'})
        self._all = psutil.Process(self.process.pid)
        self.seen: dict[int, psutil.Process] = {}

    @property
    def told(self) -> str:
        """Everything it printed so far."""
        return self.output.read_text()

    def children(self) -> list[psutil.Process]:
        """Its processes that run now."""
        for child in self._all.children(recursive=True) if self._all.is_running() else ():
            self.seen[child.pid] = child
        return [child for child in self.seen.values() if child.is_running()
                and child.status() != psutil.STATUS_ZOMBIE]

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, self.told
            self.children()
            time.sleep(0.05)

    def end(self) -> int:
        """Wait for its end; every process it started has ended then."""
        self.wait(lambda: self.process.poll() is not None)
        assert len(self.seen) >= 2
        assert self.children() == [], self.told
        return self.process.returncode


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a demo; what is left of it is killed after the test."""
    all_of_them: list[Running] = []

    def start(*arguments: str) -> Running:
        all_of_them.append(Running(tmp_path, *arguments))
        return all_of_them[-1]

    yield start
    for running in all_of_them:
        for process in running.children():
            process.kill()
        running.process.kill()
        running.process.wait()


def test_one_episode_is_driven_and_reported(demo: Callable[..., Running], tmp_path: Path):
    running = demo('--episodes', '1', '--required', '0')
    assert running.end() == 0, running.told
    for words in ('loading and warming up the policy', ' 1/1 ', 'control ticks',
                  'prefix tokens reused', 'memory of policy node', 'report: '):
        assert words in running.told, running.told
    run = RunRecord.read_json(tmp_path / 'demo.json')
    (episode,) = run.episodes
    assert len(run.steps) >= 5
    assert len(run.ticks()) >= 20
    assert len(episode.pictures[-1].path) > 3  # the robot was moved, by the policy alone
    assert {sample.process for sample in run.memory} == {'policy node', 'simulated robot'}
    page = (tmp_path / 'demo.html').read_text('utf-8')
    assert page.count('<svg class="plot"') == 5
    assert 'http://' not in page and 'https://' not in page


def test_an_interrupt_ends_everything_and_is_said(demo: Callable[..., Running]):
    running = demo('--episodes', '50')
    running.wait(lambda: 'warming up' in running.told)
    os.kill(running.process.pid, signal.SIGINT)
    assert running.end() == INTERRUPTED, running.told
    assert 'interrupted' in running.told
    assert 'Traceback' not in running.told


def test_an_interrupt_that_python_drops_ends_it_at_the_next_wait(
        monkeypatch: pytest.MonkeyPatch):
    dropped: list[object] = []
    monkeypatch.setattr(sys, 'unraisablehook', dropped.append)
    demo = Demo(Options(), Console())
    type('Doomed', (), {'__del__': lambda self: demo.interrupt()})()
    assert dropped, 'what a destructor raises is lost'
    with pytest.raises(KeyboardInterrupt):
        demo.watch(Monitor(Console(), []))


def test_a_process_that_dies_is_named_with_its_last_lines(demo: Callable[..., Running]):
    running = demo('--episodes', '50')
    running.wait(lambda: 'warming up' in running.told)
    (policy,) = (child for child in running.children() if 'robot_infer.ros.start node' in
                 ' '.join(child.cmdline()))
    policy.kill()
    assert running.end() == 2, running.told
    assert 'DemoError: policy node: expected a process that runs; got its end with status -9' in (
        running.told)
    assert 'Its last lines:' in running.told
    assert 'Traceback' not in running.told


def test_a_checkpoint_that_is_not_there_is_named_and_everything_ended(
        demo: Callable[..., Running]):
    running = demo('--checkpoint', '/nowhere/at/all')
    assert running.end() == 2, running.told
    assert 'CheckpointError' in running.told
    assert '/nowhere/at/all' in running.told
    assert 'Traceback' not in running.told
