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


"""Bad input over DDS: each fault has its name in log and diagnostics, and the robot is not moved.

'Not moved' means: every action repeats the position the robot has, or there is none.
"""

from __future__ import annotations

from array import array
import json
from pathlib import Path
import shutil
import signal

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from safetensors.numpy import load_file, save_file
from sensor_msgs.msg import JointState
from std_msgs.msg import String

NAN = float('nan')
POSITION = (0.1, -0.2)


@pytest.fixture
def told(process):
    """Whether the log has a line with all these words."""
    def told(*words: str) -> bool:
        return any(all(word in line for word in words) for line in process.lines_with(words[0]))
    return told


def bring_up(robot) -> None:
    """To active, with an instruction; what is sent is spoiled already."""
    assert robot.transition('configure')
    robot.instruct('move to the red cube')
    robot.wait(lambda: robot.active_instruction == 'move to the red cube')
    assert robot.transition('activate')


def holds(robot) -> None:
    """The node is at work, and the robot stays where it is."""
    robot.wait_actions(10)
    assert set(robot.actions) == {POSITION}
    assert robot.lifecycle_state() == 'active'


@pytest.mark.parametrize('fields, words', [
    ({'encoding': 'rainbow8'}, 'rainbow8'),
    ({'data': array('B', bytes(100))}, '100'),
    ({'data': array('B')}, 'overhead'),
    ({'width': 0}, 'overhead'),
    ({'step': 20}, '20'),
    ({'encoding': '32FC1'}, '32FC1'),
], ids=['encoding', 'short', 'empty', 'no width', 'step', 'depth'])
def test_an_image_that_cannot_be_decoded(robot, spoil_image, told, fields, words):
    robot.image = spoil_image(**fields)
    bring_up(robot)
    robot.wait_fault('FrameError', words)
    robot.wait(lambda: told('FrameError', words), 'the log')
    holds(robot)


def test_the_policy_is_followed_again_when_the_camera_is_well(robot, spoil_image, told):
    good, robot.image = robot.image, spoil_image(encoding='rainbow8')
    bring_up(robot)
    robot.wait_fault('FrameError', 'rainbow8')
    robot.image = good
    robot.wait_status(source='chunk', faults='')
    robot.wait(lambda: told('FrameError is over'), 'the log')


@pytest.mark.parametrize('state, words', [
    (JointState(name=['slide_x', 'slide_y'], position=[0.1, NAN]), 'slide_y'),
    (JointState(name=['slide_x'], position=[0.1]), 'slide_y'),
    (JointState(name=['slide_x', 'slide_y'], position=[0.1]), 'position'),
    (JointState(name=[], position=[]), 'slide_x'),
], ids=['nan', 'missing joint', 'lengths differ', 'empty'])
def test_a_state_that_is_not_one(robot, told, state, words):
    robot.state = lambda: state
    bring_up(robot)
    robot.wait_fault('StateError', words)
    robot.wait(lambda: told('StateError', words), 'the log')
    robot.wait_status(source='hold')
    robot.wait_reports(2)
    assert not robot.actions, 'where the robot stands is not known, so nothing is sent'


def test_nan_in_the_midst_of_motion_stops_it(active):
    active.state = lambda: JointState(name=['slide_x', 'slide_y'], position=[NAN, NAN])
    active.wait_fault('StateError', 'slide_x')
    active.wait_status(source='hold', faults='StateError')
    active.wait_held(10)
    active.actions.clear()
    active.wait_actions(10)
    assert len(set(active.actions)) == 1, 'the last position sent is held'


def test_a_topic_of_another_type(robot):
    assert robot.set({'cameras.names': ['front', 'wrist'],
                      'cameras.policy_inputs': ['overhead', 'wrist']})[0]
    publisher = robot.node.create_publisher(String, 'front/image', 1)
    try:
        assert robot.transition('configure') and robot.transition('activate')
        message = robot.wait_diagnostics('camera front', 'std_msgs/msg/String')
        assert '/front/image' in message and 'expected sensor_msgs/msg/Image' in message
        robot.wait_fault('StaleFrameError', 'front')
    finally:
        robot.node.destroy_publisher(publisher)


def test_a_topic_without_a_publisher(robot):
    assert robot.set({'cameras.names': ['back', 'wrist'],
                      'cameras.policy_inputs': ['overhead', 'wrist']})[0]
    assert robot.transition('configure') and robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_diagnostics('camera back', 'no publisher on /back/image')
    robot.wait_fault('StaleFrameError', 'back')
    holds(robot)


@pytest.mark.parametrize('text, words', [
    ('x' * 10_000, '10000'), ('move\x07there', 'control or invisible')], ids=['long', 'bell'])
def test_an_instruction_that_is_refused_ends_the_one_before(active, told, text, words):
    active.instruct(text)
    active.wait_fault('InstructionError', words)
    active.wait(lambda: told('InstructionError', words), 'the log')
    active.wait_status(source='hold', instruction='')
    active.actions.clear()
    active.wait_actions(10)
    assert len(set(active.actions)) == 1
    active.instruct('go to the blue block')
    active.wait_status(source='chunk', faults='')


def test_no_instruction_at_all(robot):
    assert robot.transition('configure') and robot.transition('activate')
    robot.wait_fault('InstructionError', 'expected a text')
    holds(robot)


def test_actions_out_of_range_are_not_sent(robot, told):
    # The measured position lies within, so that it may be held; where the policy wants to go not.
    assert robot.set({'control.action_low': [0.0999, -0.2001],
                      'control.action_high': [0.1001, -0.1999]})[0]
    assert robot.transition('configure') and robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_fault('ActionError', '0.0999 to 0.1001')
    robot.wait(lambda: told('ActionError', '0.0999 to 0.1001'), 'the log')
    robot.wait_status(source='hold', reason='action_out_of_range')
    assert set(robot.actions) == {POSITION}


# What makes configure fail; each time the node can be configured afterwards.


def refused(robot, told, name: str, *words: str) -> None:
    """Configure fails with a named error in log, status and diagnostics; then it works again."""
    assert not robot.transition('configure')
    assert robot.lifecycle_state() == 'unconfigured'
    robot.wait(lambda: told('configure failed', name, *words), f'{name} in the log')
    for word in (name, *words):
        robot.wait_diagnostics('faults', word)
        robot.wait_diagnostics('node', word)
    robot.wait(lambda: name in robot.status.message, 'the status')
    assert not robot.actions


def test_no_checkpoint_there(robot, told, tmp_path, checkpoint):
    assert robot.set({'policy.checkpoint': str(tmp_path / 'nothing')})[0]
    refused(robot, told, 'CheckpointError', str(tmp_path / 'nothing'))
    assert robot.set({'policy.checkpoint': str(checkpoint)})[0]
    assert robot.transition('configure'), 'a node that failed to configure can be configured'
    robot.wait_diagnostics('faults', 'none')


def test_a_checkpoint_of_another_family(robot, told, tmp_path, checkpoint):
    folder = copy(checkpoint, tmp_path)
    config = json.loads((folder / 'config.json').read_text())
    (folder / 'config.json').write_text(json.dumps({**config, 'type': 'pi0'}))
    assert robot.set({'policy.checkpoint': str(folder)})[0]
    refused(robot, told, 'CheckpointError', 'pi0', 'smolvla')


def test_a_checkpoint_without_statistics(robot, told, tmp_path, checkpoint):
    folder = copy(checkpoint, tmp_path)
    for path in folder.glob('*normalizer*.safetensors'):
        statistics = {key: value for key, value in load_file(path).items() if 'mean' not in key}
        save_file(statistics, path)
    assert robot.set({'policy.checkpoint': str(folder)})[0]
    refused(robot, told, 'StatisticsError', 'mean')


@pytest.mark.parametrize('values, name, words', [
    ({'state.joints': ['slide_x']}, 'StateError', ['state.joints', '2']),
    ({'cameras.encoding_override': ['rgb8']}, 'ConfigError', ['cameras.encoding_override']),
    ({'cache.budget_bytes': 10_000}, 'BudgetError', ['10000']),
    ({'policy.device': 'cuda:7'}, 'ConfigError', ['cuda:7']),
], ids=['joints', 'lists', 'budget', 'device'])
def test_settings_that_do_not_fit(robot, told, values, name, words):
    before = {'state.joints': ['slide_x', 'slide_y'], 'cameras.encoding_override': [],
              'cache.budget_bytes': 67_108_864, 'policy.device': 'cpu'}
    assert robot.set(values)[0]
    try:
        refused(robot, told, name, *words)
    finally:
        assert robot.set({key: before[key] for key in values})[0]


@pytest.mark.parametrize('values, words', [
    ({'control.rate_hz': 'fast'}, ['control.rate_hz', "'fast'"]),
    ({'control.rate_hz': 5000.0}, ['control.rate_hz', '5000']),
    ({'cameras.names': 3}, ['cameras.names', '3']),
    ({'policy.dtype': 'fp4'}, ['policy.dtype', 'fp32, bf16']),
], ids=['type', 'range', 'list', 'choice'])
def test_a_wrong_value_is_refused_with_the_reason(robot, values, words):
    done, reason = robot.set(values)
    assert not done
    for word in words:
        assert word in reason


def test_wrong_overrides_are_named_one_after_the_other(start, make_robot):
    child = start('-p', 'control.rate_hz:=5000.0', '-p', 'diagnostics.period_s:=often',
                  '-r', '__node:=wrong_values')
    robot = make_robot('wrong_values')
    assert not robot.transition('configure')
    robot.wait_diagnostics('faults', 'control.rate_hz')
    assert robot.set({'control.rate_hz': 30})[0]
    assert not robot.transition('configure')
    robot.wait_diagnostics('faults', 'diagnostics.period_s')
    ends_quietly(child, signal.SIGTERM)


def test_an_unknown_parameter_is_named_with_the_nearest_known(start, make_robot, tmp_path):
    path = tmp_path / 'typo.yaml'
    path.write_text('/**:\n  ros__parameters:\n    contrl:\n      fallback: hold\n')
    child = start('--params-file', str(path), '-r', '__node:=unknown_name')
    robot = make_robot('unknown_name')
    assert not robot.transition('configure')
    message = robot.wait_diagnostics('faults', 'contrl.fallback')
    assert 'Did you mean control.fallback?' in message
    ends_quietly(child, signal.SIGINT)


def test_a_parameter_file_that_cannot_be_read_is_one_line(start, tmp_path):
    path = tmp_path / 'broken.yaml'
    path.write_text('/**:\n  ros__parameters: [1, \n')
    child = start('--params-file', str(path))
    child._process.wait(60)
    child.stop()
    assert child.exit_status == 2
    line = child.last_lines()[-1]
    assert 'ConfigError' in line and 'broken.yaml' in line
    assert not child.lines_with('Traceback')


def copy(checkpoint: Path, folder: Path) -> Path:
    """A copy that may be spoiled."""
    return Path(shutil.copytree(checkpoint, folder / 'spoiled'))


def ends_quietly(child, number: int) -> None:
    """A signal ends the process with status 0 and without a traceback."""
    child._process.send_signal(number)
    assert child.stop() == 0 and not child.was_killed
    assert not child.lines_with('Traceback')
