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


"""The node under test is a process of its own; this one plays the robot (robot_harness.py).

One process serves all tests (a start costs seconds); each test begins with it unconfigured and
with the parameters of `BASELINE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import importlib
import importlib.util
import os
from pathlib import Path
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from robot_infer.config import Config
from robot_infer.sim.children import Child, free_domain_id, ros_environment

if TYPE_CHECKING:
    from action_stream import Chunk
    from bare_loop import BareLoops
    from robot_harness import Robot
    from sensor_msgs.msg import Image


@pytest.fixture(scope='session')
def harness() -> ModuleType:
    """robot_harness.py, where ROS is there."""
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        importlib.import_module('bare_loop')
        return importlib.import_module('robot_harness')
    finally:
        sys.path.pop(0)


@pytest.fixture
def bare(harness, tmp_path: Path) -> Iterator[BareLoops]:
    """Loops that only sleep, at work beside the test: where even they were late, so was all."""
    loops = sys.modules['bare_loop'].BareLoops(tmp_path)
    yield loops
    loops.close()


@pytest.fixture(scope='session')
def stream(harness) -> ModuleType:
    """action_stream.py: expect_stream(robot.actions, stream.Follow(chunk), stream.Hold())."""
    return sys.modules['action_stream']


@pytest.fixture(scope='session')
def chunk_of(harness, stream, checkpoint: Path) -> Callable[..., Chunk]:
    """The chunk that the policy of `checkpoint` makes, in its exact values.

    Of what the robot sends by itself where nothing else is given: instruction, images (by camera,
    those that differ), positions.
    """
    known = Config().flat()
    oracle = stream.PolicyOracle(Config.from_flat({
        **{name: value for name, value in harness.BASELINE.items() if name in known},
        'policy.checkpoint': str(checkpoint), 'policy.threads': 1}))

    def make(
        instruction: str = 'move to the red cube', *, positions: tuple[float, ...] | None = None,
        **images: Image,
    ) -> Chunk:
        seen = {camera: images.get(camera) or harness.good_image() for camera in harness.CAMERAS}
        return oracle.chunk(seen, positions or harness.POSITION, instruction)
    return make


@pytest.fixture(scope='session')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny SmolVLA of random weights with two cameras and two joints."""
    script = Path(__file__).parents[2] / 'tools' / 'bench' / 'random_checkpoint.py'
    spec = importlib.util.spec_from_file_location('random_checkpoint_for_ros', script)
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool  # dataclasses look their module up
    spec.loader.exec_module(tool)
    folder = tmp_path_factory.mktemp('checkpoint')
    tool.write(folder, tool.Shape(
        width=32, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=8, vision_width=24,
        vision_hidden=48, vision_layers=1, vision_heads=2, image_px=32, patch_px=8,
        scale_factor=2, vocabulary=300, joints=2, max_dim=4, chunk=8, denoise_steps=2))
    return folder


@pytest.fixture(scope='session')
def domain_id() -> int:
    """A ROS domain of our own."""
    return free_domain_id()


@pytest.fixture(scope='session')
def process(harness, domain_id: int, checkpoint: Path, tmp_path_factory) -> Iterator[Child]:
    """The node; at the end SIGINT in its active state must end it quietly."""
    child = harness.start_node(
        domain_id, '-p', f'policy.checkpoint:={checkpoint}', '-p', 'policy.threads:=1',
        ROS_LOG_DIR=str(tmp_path_factory.mktemp('log')))
    yield child
    assert child.stop() == 0 and not child.was_killed, 'SIGINT ends it, whatever its state'
    assert not child.lines_with('Traceback'), '\n'.join(child.last_lines(100))


@pytest.fixture(scope='session')
def _robot(harness, domain_id: int, process: Child) -> Iterator[Robot]:
    os.environ.update({key: value for key, value in ros_environment(domain_id).items()
                       if key.startswith(('ROS_', 'FAST'))})
    robot = harness.Robot(domain_id)
    yield robot
    robot.close()


@pytest.fixture
def robot(harness, _robot: Robot, process: Child, checkpoint: Path) -> Iterator[Robot]:
    """The robot, with the node unconfigured and its parameters at BASELINE."""
    _robot.reset()
    _to_unconfigured(_robot)
    assert _robot.set({**harness.BASELINE, 'policy.checkpoint': str(checkpoint)}) == (True, '')
    _robot.wait_status(state='unconfigured')
    _robot.forget_actions()
    yield _robot
    assert process.exit_status is None, '\n'.join(process.last_lines())


@pytest.fixture
def active(robot: Robot) -> Robot:
    """As `robot`, and the node follows the policy."""
    assert robot.transition('configure')
    assert robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_status(state='active', source='chunk')
    return robot


def _to_unconfigured(robot: Robot) -> None:
    for name, state in (('deactivate', 'active'), ('cleanup', 'inactive')):
        if robot.lifecycle_state() == state:
            assert robot.transition(name)
    assert robot.lifecycle_state() == 'unconfigured'


@pytest.fixture
def spoil_image(harness) -> Callable[..., Callable[[], Image]]:
    """Make a source of images that have other fields than the good one."""
    def spoil(**fields: object) -> Callable[[], Image]:
        def make() -> Image:
            image = harness.good_image()
            for name, value in fields.items():
                setattr(image, name, value)
            return image
        return make
    return spoil


@pytest.fixture
def start(harness, domain_id: int) -> Iterator[Callable[..., Child]]:
    """Start further nodes; give each a name of its own (`-r`, `__node:=...`)."""
    children: list[Child] = []

    def launch(*arguments: str, **environment: str) -> Child:
        children.append(harness.start_node(domain_id, *arguments, **environment))
        return children[-1]
    yield launch
    for child in children:
        child.stop()


@pytest.fixture
def make_robot(harness, domain_id: int) -> Iterator[Callable[[str], Robot]]:
    """Robots for nodes of another name; they send nothing."""
    made: list[Robot] = []

    def make(name: str) -> Robot:
        made.append(harness.Robot(domain_id, name))
        made[-1].image = made[-1].state = lambda: None
        return made[-1]
    yield make
    for robot in made:
        robot.close()
