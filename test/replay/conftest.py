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

"""The demo's policy, and bags recorded from it in lock-step (replay_bags.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
import sys

import pytest

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.replay.run import fit_for_replay
from robot_infer.shared_files import shared_file
from robot_infer.sim.episodes import plan_episode

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import RecordedLockStep, Sent, write


@pytest.fixture(scope='session')
def config() -> Config:
    """The demo's own settings, on one thread."""
    flat = Config.from_yaml(shared_file('config/demo.yaml')).flat()
    return fit_for_replay(Config.from_flat({**flat, 'policy.threads': 1}))


@pytest.fixture(scope='session')
def engine(config: Config) -> Iterator[Engine]:
    """The demo policy."""
    loaded = Engine.from_config(config)
    yield loaded
    loaded.close()


@pytest.fixture(scope='session')
def demo_messages(config: Config, engine: Engine) -> list[Sent]:
    """Two seconds of the demo, recorded: cameras, joints, instruction and actions."""
    engine.reset()
    robot = RecordedLockStep(config, engine, plan_episode(0, 0, moved=False))
    for _ in range(60):
        robot.step()
    return robot.sent


@pytest.fixture(scope='session')
def demo_bag(demo_messages: list[Sent], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's messages as an MCAP bag."""
    return write(tmp_path_factory.mktemp('bags') / 'demo', demo_messages)


@pytest.fixture
def make_bag(tmp_path: Path) -> Callable[..., Path]:
    """Write a bag of given messages into the test's folder."""
    def make(sent: Sequence[Sent], name: str = '', **how: object) -> Path:
        number = len(list(tmp_path.iterdir()))
        return write(tmp_path / (name or f'bag{number or ""}'), sent, **how)
    return make
