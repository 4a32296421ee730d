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

"""The same bag both ways: five seconds over real DDS into the node, and through the replay."""

from __future__ import annotations

from collections.abc import Iterator
import json
import os
from pathlib import Path
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.config import Config
from robot_infer.errors import ConfigError
from robot_infer.replay import command, dds_player
from robot_infer.replay.bag import Bag
from robot_infer.replay.live import played_topics
from robot_infer.replay.sources import Wishes, choose
from robot_infer.shared_files import shared_file
from robot_infer.sim import demo
from robot_infer.sim.children import Child, free_domain_id, ros_environment
from robot_infer.sim.episodes import plan_episode

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import RecordedLockStep, write

SECONDS = 5


@pytest.fixture(scope='module')
def bag(config: Config, engine, tmp_path_factory) -> Path:  # noqa: ANN001 - an Engine
    """Five seconds of the demo."""
    engine.reset()
    robot = RecordedLockStep(config, engine, plan_episode(0, 1, moved=False))
    for _ in range(SECONDS * 30):
        robot.step()
    return write(tmp_path_factory.mktemp('live') / 'bag', robot.sent)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A ROS domain of our own for this process, given back afterwards."""
    found = {**ros_environment(free_domain_id()), 'OMP_NUM_THREADS': '1'}
    for name, value in found.items():
        if name.startswith(('ROS_', 'FAST', 'OMP')):
            monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def running(environment: dict[str, str]) -> Iterator[Child]:
    """A node that somebody else has started; use_sim_time as in its environment."""
    child = Child('policy node', [
        sys.executable, '-m', 'robot_infer.ros.start', 'node', '--ros-args', '--params-file',
        str(shared_file('config/demo.yaml')), '-r', '__node:=my_policy', '-p',
        'inference.ladder:=false', '-p', f'use_sim_time:={os.environ.get("SIM_TIME", "true")}'],
        environment)
    yield child
    child.stop()


def judged(status: int, printed: pytest.CaptureResult) -> dict:
    """What every run must bear out: the same frames gave the same actions."""
    assert status == 0, printed.err + printed.out
    found = json.loads(printed.out)
    live = found['live']
    assert live['contradictions'] == 0
    assert live['same_place_equal'] == live['same_place'] == live['ticks']['same']
    assert live['computed_again_equal'] == live['computed_again']
    # Ticks that followed a chunk, of the 150 there are: a machine that stalls makes some wait.
    assert live['computed_again'] >= 50
    assert live['same_place'] >= 1
    assert found['compare']['topic'] == '/action over DDS'
    assert 'Played in real time over DDS' in found['notes'][0]
    return found


def test_the_node_does_what_the_replay_does_wherever_it_saw_the_same(
        bag, environment, capsys, tmp_path):
    before = dict(os.environ)
    status = command.main([str(bag), '--live', '--json', '--report', str(tmp_path / 'live.html')])
    judged(status, capsys.readouterr())
    page = (tmp_path / 'live.html').read_text()
    assert 'Wherever the same frames met the same tick' in page
    assert 'Late steps of the node' in page and 'Where they differ' in page
    assert dict(os.environ) == before


def test_a_node_that_runs_already_is_played_to_with_its_own_settings(
        bag, running, capsys):
    status = command.main([str(bag), '--live', '--node', 'my_policy', '--json', '--text',
                           'go to the blue block', '--duration', '4'])
    found = judged(status, capsys.readouterr())
    assert found['duration_s'] == pytest.approx(4.0)
    assert running.exit_status is None


def test_a_node_in_another_time_is_refused(bag, monkeypatch, environment, capsys, request):
    monkeypatch.setenv('SIM_TIME', 'false')
    request.getfixturevalue('running')
    assert command.main([str(bag), '--live', '--node', 'my_policy']) == 2
    told = capsys.readouterr().err
    assert 'ConfigError: parameter use_sim_time of my_policy' in told and 'ros2 param set' in told


def test_a_node_that_is_not_there_is_told(bag, environment, capsys, monkeypatch):
    monkeypatch.setattr(dds_player, '_ANSWER_LIMIT_S', 1.0)
    assert command.main([str(bag), '--live', '--node', 'nobody']) == 2
    assert 'LiveReplayError: live replay: expected the node nobody within' in (
        capsys.readouterr().err)


def test_a_node_that_cannot_be_configured_is_told_with_its_words(bag, tmp_path, capsys):
    file = tmp_path / 'broken.yaml'
    file.write_text(shared_file('config/demo.yaml').read_text().replace(
        "checkpoint: ''", "checkpoint: '/nowhere'"))
    assert command.main([str(bag), '--live', '--config', str(file)]) == 2
    told = capsys.readouterr().err
    assert 'LiveReplayError: policy node: expected success of configure' in told
    assert '/nowhere' in told


@pytest.mark.parametrize('arguments', [
    ['--rate', '2'], ['--compare', '/action'], ['--stamps', 'bag'], ['--fixed-state', '0,0'],
    ['--as-recorded']])
def test_what_live_cannot_do_is_refused(bag, capsys, arguments):
    assert command.main([str(bag), '--live', *arguments]) == 2
    assert '--live plays the messages as they are' in capsys.readouterr().err


def test_node_without_live_is_refused(bag, capsys):
    assert command.main([str(bag), '--node', 'x']) == 2
    assert '--node needs --live' in capsys.readouterr().err


def test_images_of_the_other_kind_than_the_node_takes_are_refused(bag, config):
    settings = Config.from_flat({**config.flat(), 'cameras.transport': 'compressed'})
    with Bag(bag) as opened:
        sources = choose(opened, config, Wishes())
        with pytest.raises(ConfigError, match='cameras.transport'):
            played_topics(sources, settings)
        assert {name for name, _ in played_topics(sources, config).values()} == {
            '/overhead/image', '/wrist/image', '/joint_states', '/instruction'}


def test_a_demo_that_was_recorded_is_done_again_bit_for_bit(tmp_path, capsys):
    folder = tmp_path / 'demo'
    status = demo.main(['--episodes', '1', '--required', '0', '--record', str(folder),
                        '--report', str(tmp_path / 'demo.html')])
    printed = capsys.readouterr()
    assert status == 0 and str(folder) in printed.out, printed.out
    # The ladder may have been at work: its rungs take the frames that the record names.
    status = command.main([str(folder), '--as-recorded', '--compare', '/action', '--json'])
    found = json.loads(capsys.readouterr().out)
    assert status == 0 and found['whole'], found['notes']
    live = found['live']
    assert live['computed_again'] >= 20
    assert live['computed_again_equal'] == live['computed_again']
    assert live['same_place_equal'] == live['same_place'] >= 1
    assert found['topics']['/robot_infer/step']['unreadable'] == 0
