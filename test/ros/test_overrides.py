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

"""Which parameters of a command line reach a node, and what is said of those that do not."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.errors import ConfigError
from robot_infer.ros.overrides import Overrides, parameter_files, reason_for

RATE = '  ros__parameters: {control.rate_hz: 20}\n'
NOTHING = '  ros__parameters: {}\n'


@pytest.fixture
def given(tmp_path):
    """The overrides of a node that is started with files of these texts."""
    def make(*texts: str, node='/robot_infer', taken=('control.rate_hz',), more=()) -> Overrides:
        arguments = ['node', '--ros-args']
        for number, text in enumerate(texts):
            path = tmp_path / f'{number}.yaml'
            path.write_text(text)
            arguments += ['--params-file', str(path)]
        return Overrides([*arguments, *more], node, taken)
    return make


def refused(overrides: Overrides) -> str:
    """Why the overrides are refused."""
    with pytest.raises(ConfigError) as caught:
        overrides.check()
    return str(caught.value)


@pytest.mark.parametrize('name, node', [
    ('/**', '/robot_infer'), ('robot_infer', '/robot_infer'), ('/arm/**', '/arm/robot_infer'),
    ('arm/robot_infer', '/arm/robot_infer'), ('/**/my_policy', '/arm/my_policy')])
def test_a_file_for_the_node_is_silent(given, name, node):
    overrides = given(f'{name}:\n{RATE}', node=node)
    overrides.check()
    assert not overrides.notes and not overrides.warnings
    assert overrides.values['control.rate_hz'].place.endswith('0.yaml, line 2')


@pytest.mark.parametrize('name, node', [
    ('robot_infr', '/robot_infer'), ('robot_infer_node', '/robot_infer'),
    ('robot_infer', '/arm/robot_infer'), ('/leg/robot_infer', '/arm/robot_infer'),
    ('robot_infer', '/my_policy'), ('camera_driver', '/robot_infer'),
    ('robot_infer', '/robot_infer_guard')])
def test_a_file_for_one_other_node_is_refused_by_name(given, name, node):
    words = refused(given(f'{name}:\n{RATE}', node=node, taken=()))
    other = f'/{name.strip("/")}'
    assert f'expected parameters for this node, {node}; got parameters for {other}.' in words
    assert f'Write /** or {node} where {other} stands' in words


def test_a_file_with_nothing_in_it_is_refused(given):
    assert 'got no parameters. Write /** or /robot_infer, and' in refused(given(''))
    given(f'/**:\n{NOTHING}').check()


def test_a_shared_file_is_no_fault_and_says_who_else_is_in_it(given):
    overrides = given(f'camera:\n{NOTHING}/robot_infer:\n{RATE}/leg/robot_infer:\n{RATE}')
    overrides.check()
    assert not overrides.warnings
    (note,) = overrides.notes
    assert 'parameters for /camera, /leg/robot_infer; this node is /robot_infer' in note


def test_a_shared_file_that_leaves_the_node_out_is_no_fault(given):
    overrides = given(f'camera:\n{NOTHING}lidar:\n{NOTHING}robot_infer_guard:\n{NOTHING}')
    overrides.check()
    assert len(overrides.notes) == 1 and not overrides.warnings


def test_a_shared_file_with_a_name_much_like_ours_is(given):
    words = refused(given(f'camera:\n{NOTHING}robot_infr:\n{RATE}', taken=()))
    assert 'got parameters for /camera, /robot_infr. ' in words
    assert 'Write /** or /robot_infer where /robot_infr stands' in words


def test_beside_values_for_every_node_a_name_much_like_ours_is_worth_a_warning(given):
    overrides = given(f'/**:\n{RATE}arm:\n  robot_infer:\n  {RATE}')
    overrides.check()
    (warning,) = overrides.warnings
    assert '/robot_infer, takes nothing of the parameters for /arm/robot_infer' in warning


def test_each_file_is_judged_by_itself(given):
    """Launch hands over a file of its own beside the user's, and that one always fits."""
    words = refused(given(f'/**:\n{RATE}', f'robot_infr:\n{RATE}'))
    assert '1.yaml' in words


def test_a_pattern_that_this_ros_does_not_know_is_refused(given):
    assert '/**/robot_infer' in refused(given(f'/**/robot_infer:\n{RATE}', taken=()))


def test_a_value_stands_where_ros_takes_it_from(given):
    overrides = given(f'robot_infer:\n{RATE}', f'/**:\n{RATE}')
    assert overrides.values['control.rate_hz'].place.endswith('0.yaml, line 2'), 'names go first'
    overrides = given(f'/**:\n{RATE}', f'/**:\n{RATE}')
    assert overrides.values['control.rate_hz'].place.endswith('1.yaml, line 2'), 'the last'
    overrides = given(f'/**:\n{RATE}', more=('-p', 'control.rate_hz:=30'))
    assert overrides.values['control.rate_hz'].place == 'the command line'
    overrides.forget(['control.rate_hz'])
    assert not overrides.values


def test_a_value_for_another_node_on_the_command_line_is_refused(given):
    given(more=('-p', 'control.rate_hz:=30', '-p', 'robot_infer:control.rate_hz:=30')).check()
    words = refused(given(more=('--param', 'robot_infr:control.rate_hz:=30')))
    assert 'argument -p robot_infr:control.rate_hz: ' in words and '/robot_infr stands' in words


def test_a_name_that_a_file_has_twice_is_refused(given):
    text = '/**:\n  ros__parameters:\n    control: {rate_hz: 20}\n    control.rate_hz: 30\n'
    assert 'line 3 and' in refused(given(text))


def test_only_what_is_for_ros_is_read():
    arguments = ['--params-file', 'a', '--ros-args', '-r', '__ns:=/arm', '--params-file', 'b',
                 '--', '--params-file', 'c', '--ros-args', '--params-file', 'd', '--params-file']
    assert [str(path) for path in parameter_files(arguments)] == ['b', 'd']


def test_why_ros_did_not_start_is_the_file_and_line_or_its_own_words(tmp_path):
    path = tmp_path / 'params.yaml'
    path.write_text('/**:\n  ros__parameters:\n    control.action_low: [-1, 0.5]\n')
    words = str(reason_for(RuntimeError('ros'), ['--ros-args', '--params-file', str(path)]))
    assert 'params.yaml, line 3: ' in words and 'got [-1, 0.5]' in words
    words = str(reason_for(RuntimeError('unknown\nargument'), ['--ros-args', '--param-file', 'x']))
    assert 'command line: ' in words and 'RuntimeError: unknown argument' in words
