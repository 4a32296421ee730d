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

"""Parameter files given to real processes: what reaches them, and what is said of the rest."""

from __future__ import annotations

import os
import signal
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.sim.children import Child, ros_environment

MINE = """\
/**:
  ros__parameters: {use_sim_time: false}
camera_driver:
  ros__parameters: {fps: 30}
/leg/my_policy:
  ros__parameters: {control: {rate_hz: 5}}
arm:
  my_policy:
    ros__parameters:
      control: {rate_hz: 20, action_low: [-1, -1], action_high: [1.5, 1.5]}
"""


@pytest.fixture
def write(tmp_path):
    """Make a parameter file."""
    def make(text: str) -> str:
        path = tmp_path / 'params.yaml'
        path.write_text(text)
        return str(path)
    return make


@pytest.fixture
def fails(domain_id: int, tmp_path):
    """Start a program that cannot start; the only line it says after ROS's own."""
    def start(module: str, *arguments: str) -> str:
        child = Child(module, [sys.executable, '-m', module, '--ros-args', *arguments],
                      {**ros_environment(domain_id), 'ROS_LOG_DIR': str(tmp_path)})
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.stop() == 2 and not child.was_killed
        lines = [line for line in child.last_lines(100) if 'rcl: ' not in line]
        assert len(lines) == 1, lines
        return lines[0]
    return start


def refused(robot, *words: str) -> str:
    """Configure fails, and why is on /diagnostics."""
    assert not robot.transition('configure')
    for word in words:
        message = robot.wait_diagnostics('faults', word)
    return message


@pytest.mark.parametrize('section, arguments, node', [
    ('my_polcy', ('-r', '__node:=my_policy'), '/my_policy'),
    ('robot_infer', ('-r', '__ns:=/arm'), '/arm/robot_infer'),
    ('robot_infer', ('-r', '__node:=left'), '/left')], ids=['typo', 'namespace', 'renamed'])
def test_a_file_for_another_node_stops_configure_by_name(
        start, make_robot, write, section, arguments, node):
    """ROS itself would let it run with the defaults, without a word."""
    file = write(f'{section}:\n  ros__parameters:\n    control: {{rate_hz: 20}}\n')
    child = start('--params-file', file, *arguments)
    message = refused(
        make_robot(node[1:]), file, f'this node, {node}', f'parameters for /{section}')
    assert f'Write /** or {node} where /{section} stands' in message
    assert child.lines_with(file), 'the log has it too'


def test_a_shared_file_reaches_the_node_under_its_own_name_and_namespace(
        start, make_robot, write, checkpoint):
    file = write(MINE)
    child = start('--params-file', file, '-r', '__ns:=/arm', '-r', '__node:=my_policy', '-p',
                  'policy.process:=false', '-p', f'policy.checkpoint:={checkpoint}')
    robot = make_robot('arm/my_policy')
    assert robot.transition('configure')
    low, rate = robot.get(['control.action_low', 'control.rate_hz'])
    assert (list(low), rate) == ([-1.0, -1.0], 20.0)
    (line,) = child.lines_with('camera_driver')
    assert 'INFO' in line and 'parameters for /camera_driver, /leg/my_policy; this node is' in line
    assert not child.lines_with('WARN', 'ERROR')
    for _ in range(2):  # Ctrl-C, twice
        os.kill(child.pid, signal.SIGINT)
    assert child.stop() == 0 and not child.was_killed
    assert not child.lines_with('Traceback'), '\n'.join(child.last_lines(60))


def test_each_mistake_in_a_file_is_named_with_its_line(start, make_robot, write):
    file = write('/**:\n  ros__parameters:\n    control:\n      rate_hz: "fast"\n'
                 '      action_low: 3\n    contrl.fallback: hold\n')
    start('--params-file', file, '-r', '__node:=mistakes')
    robot = make_robot('mistakes')
    message = refused(robot, 'contrl.fallback', f'{file}, line 6')
    assert 'Did you mean control.fallback?' in message


def test_a_value_that_was_set_since_no_longer_stands_in_the_file(start, make_robot, write):
    file = write('/**:\n  ros__parameters:\n    control:\n      rate_hz: "fast"\n'
                 '      action_low: 3\n')
    start('--params-file', file, '-r', '__node:=wrong_types')
    robot = make_robot('wrong_types')
    refused(robot, 'control.rate_hz', f'{file}, line 4', "'fast'")
    assert robot.set({'control.rate_hz': 20.0}) == (True, '')
    refused(robot, 'control.action_low', f'{file}, line 5', 'a list of numbers')
    assert robot.set({'control.action_low': [1.0]}) == (True, '')
    assert file not in refused(robot, 'equal length')


def test_a_name_that_stands_twice_in_a_file_stops_configure(start, make_robot, write):
    file = write('/**:\n  ros__parameters:\n    control:\n      rate_hz: 20\n'
                 '      rate_hz: 50\n')
    start('--params-file', file, '-r', '__node:=twice')
    refused(make_robot('twice'), 'control.rate_hz', f'{file}, line 4 and {file}, line 5')


@pytest.mark.parametrize('module, text, words', [
    ('ros.node', None, 'No such file'),
    ('ros.node', '/**:\n  ros__parameters: [1, \n', 'line 3'),
    *((module, '/**:\n  ros__parameters:\n    control.action_low: [-1, 0.5]\n', 'line 3: expected')
      for module in ('ros.node', 'ros.guard', 'sim.node'))],
    ids=['missing', 'not YAML', 'mixed list', 'guard', 'robot'])
def test_a_file_that_ros_cannot_read_ends_every_program_in_one_line(
        fails, write, module, text, words):
    file = write(text) if text else '/nowhere/params.yaml'
    line = fails(f'robot_infer.{module}', '--params-file', file)
    assert line.startswith(f'ConfigError: parameter file {file}') and words in line


def test_the_guard_does_not_start_by_a_file_for_the_node_alone(fails, write):
    """It would guard another rate and other joints than the node has."""
    file = write('robot_infer:\n  ros__parameters: {control: {rate_hz: 20}}\n')
    line = fails('robot_infer.ros.guard', '--params-file', file)
    assert 'this node, /robot_infer_guard' in line and 'parameters for /robot_infer' in line


def test_an_argument_that_ros_does_not_know_is_named(fails):
    assert '--param-file' in fails('robot_infer.ros.node', '--param-file', 'x.yaml')
