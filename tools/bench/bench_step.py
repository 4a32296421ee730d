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

"""Time one inference step of robot_infer, and LeRobot's in turn with it.

    make bench-step            or: python tools/bench/bench_step.py [--policy demo] [--seconds 25]

Two policies: the demo policy and a random SmolVLA of 100 M parameters. Three cases each: a cold
step (every frame and the state are new), the same frames with a new state, and nothing new.
LeRobot keeps nothing between steps, so its one time stands against all three. One round is one
step of each, so that whatever else the machine does meets all of them alike. Both sides run on
the same number of threads, on random frames of the same size.

LeRobot is taken from $LEROBOT_PYTHON, else from ./.venv-lerobot.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
import contextlib
from dataclasses import dataclass, field
import hashlib
import os
from pathlib import Path
import shutil
import tempfile
import time

from lerobot_child import LeRobotChild, find_python
import numpy as np
from numpy.typing import NDArray
import random_checkpoint
import torch

from robot_infer.config import Config
from robot_infer.engine import DEMO_CHECKPOINT, Engine
from robot_infer.engine_info import EngineInfo
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.shapes import read_shape
from robot_infer.types import Frame, Observation, RobotState

INSTRUCTION = 'pick up the red cube'
CASES = ('cold', 'new state', 'nothing new')
MIN_ROUNDS, MAX_ROUNDS = 4, 200
# Case, and how many times faster than LeRobot it has to be.
TARGETS = (('cold', 1.0), ('new state', 3.0))


@dataclass
class Times:
    """Seconds of one case, one entry a round; of its stages too, where they are known."""

    seconds: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def median_s(self) -> float:
        """The median."""
        return float(np.median(self.seconds))

    @property
    def noise(self) -> float:
        """A/A: how far the medians of the even and of the odd rounds lie apart, as a share."""
        even, odd = np.median(self.seconds[::2]), np.median(self.seconds[1::2])
        return float(abs(even - odd) / self.median_s)


class Steps:
    """One policy in our engine; every step checks that it computed what its case says.

    Two of one checkpoint see the same observations, whatever their settings.
    """

    def __init__(self, checkpoint: Path, threads: int, **settings: str) -> None:
        folder = CheckpointFolder(checkpoint)
        shape = read_shape(folder)
        self._sizes = {name: folder.config['input_features'][f'observation.images.{name}']['shape']
                       for name in shape.inputs}
        self._engine = Engine.from_config(Config.from_flat({
            'policy.checkpoint': str(checkpoint), 'policy.threads': threads,
            **{f'policy.{name}': value for name, value in settings.items()},
            'cameras.names': list(shape.inputs),
            'state.joints': [f'joint_{number}' for number in range(shape.state_dim)]}))
        self._rng = np.random.default_rng(0)
        self._frames, self._state = self._new_frames(), self._new_state()

    @property
    def info(self) -> EngineInfo:
        """What was loaded."""
        return self._engine.info

    def run(self, case: str, times: Times | None = None,
            clock: Callable[[], float] = time.perf_counter) -> NDArray[np.float32]:
        """One step of a case, noted in `times`; returns its actions."""
        if case == 'cold':
            self._frames = self._new_frames()
        if case != 'nothing new':
            self._state = self._new_state()
        observation = Observation(self._frames, self._state, INSTRUCTION, 0)
        started = clock()
        chunk = self._engine.step(observation)
        seconds = clock() - started
        report = chunk.report
        computed = report.tokens_total if case == 'cold' else 1
        assert report.tokens_computed == computed, f'{case}: {report.tokens_computed} tokens'
        if times is not None:
            times.seconds.append(seconds)
            for stage, spent in report.stages_s.items():
                times.stages[stage].append(spent)
        return chunk.values

    def _new_frames(self) -> dict[str, Frame]:
        return {name: Frame(name, self._rng.integers(0, 256, (height, width, 3), np.uint8), 0, 0)
                for name, (_, height, width) in self._sizes.items()}

    def _new_state(self) -> RobotState:
        values = self._rng.normal(size=self._engine.info.state_dim)
        return RobotState(values.astype(np.float32), 0, 0)


def measure(steps: Steps, child: LeRobotChild | None, budget_s: float) -> dict[str, Times]:
    """Run rounds for about `budget_s` seconds; the first is not counted."""
    times = {name: Times() for name in (*CASES, *(('LeRobot',) if child else ()))}
    for case in CASES:
        steps.run(case)
    started = time.monotonic()
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.monotonic() - started > budget_s:
            break
        for case in CASES:
            steps.run(case, times[case])
        if child:
            times['LeRobot'].seconds.append(child.step())
    return times


def show(title: str, times: dict[str, Times]) -> None:
    """Print medians, spread, noise, stages, and the verdicts."""
    print(f'\n{title}\n  milliseconds   median      p90  A/A noise    n  stages (medians)')
    for name, case in times.items():
        p90 = np.percentile(case.seconds, 90)
        stages = ', '.join(f'{stage} {np.median(spent) * 1e3:.2f}'
                           for stage, spent in case.stages.items())
        print(f'  {name:12} {case.median_s * 1e3:8.2f} {p90 * 1e3:8.2f} {case.noise:9.1%} '
              f'{len(case.seconds):5}  {stages}')
    for name, wanted in TARGETS:
        print(f'  {_verdict(name, times, wanted)}')


def _verdict(name: str, times: dict[str, Times], wanted: float) -> str:
    target = f'target: at least {wanted:g}'
    if 'LeRobot' not in times:
        return f'{name}: NOT COMPARED, LeRobot is absent ({target})'
    lerobot, ours = times['LeRobot'], times[name]
    ratio = lerobot.median_s / ours.median_s
    low, high = np.percentile(np.divide(lerobot.seconds, ours.seconds), (10, 90))
    verdict = 'met' if ratio >= wanted else 'MISSED'
    return (f'{name}: {ratio:.2f} times as fast as LeRobot (p10 to p90 of the rounds: {low:.2f} '
            f'to {high:.2f}): {verdict} ({target})')


@contextlib.contextmanager
def lerobot(python: Path | None, checkpoint: Path, threads: int) -> Iterator[LeRobotChild | None]:
    """The child, or None where LeRobot is absent."""
    if python is None:
        yield None
        return
    with LeRobotChild(python, checkpoint, threads, INSTRUCTION) as child:
        yield child


def random_100m() -> Path:
    """The random policy, made at the first use and kept in the user's cache folder."""
    source = Path(random_checkpoint.__file__).read_bytes()
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'robot_infer'
    folder = cache / f'random_100m_{hashlib.sha256(source).hexdigest()[:12]}'
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        print(f'writing a random policy to {folder} (404 MB)', flush=True)
        with tempfile.TemporaryDirectory(dir=cache) as half:
            random_checkpoint.write(Path(half) / 'new', random_checkpoint.HUNDRED_MILLION)
            shutil.move(Path(half) / 'new', folder)
    return folder


def host() -> str:
    """Processor, cores, load and torch of this machine."""
    models = [line.partition(':')[2].strip() for line in _lines('/proc/cpuinfo')
              if line.startswith('model name')]
    load = ', '.join(f'{value:.1f}' for value in os.getloadavg())
    return (f'{models[0] if models else "unknown processor"}, {os.cpu_count()} cores, '
            f'load average {load} (1, 5, 15 minutes), torch {torch.__version__}')


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--policy', choices=('demo', '100M'), action='append',
                        help='measure this one only')
    parser.add_argument('--seconds', type=float, default=25.0, help='to measure, per policy')
    parser.add_argument('--threads', type=int, default=max(1, (os.cpu_count() or 2) - 1),
                        help='of torch, on both sides (default: cores less one)')
    arguments = parser.parse_args()
    python = find_python()
    print(f'host: {host()}\nA/A noise: how far the medians of the even and of the odd rounds lie '
          'apart')
    for name in arguments.policy or ('demo', '100M'):
        checkpoint = DEMO_CHECKPOINT if name == 'demo' else random_100m()
        with lerobot(python, checkpoint, arguments.threads) as child:
            steps = Steps(checkpoint, arguments.threads)
            times = measure(steps, child, arguments.seconds)
        other = (f'LeRobot {child.about["lerobot"]} with torch {child.about["torch"]}, '
                 f'{child.about["parameters"] / 1e6:.1f} M parameters' if child else
                 'LeRobot ABSENT: set LEROBOT_PYTHON (tools/train_demo/setup.sh makes one)')
        show(f'{name} policy: {arguments.threads} thread(s); {other}', times)


if __name__ == '__main__':
    main()
