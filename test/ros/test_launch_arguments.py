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

"""Arguments that a launch file does not have: what launch hands over is judged without launch."""

from __future__ import annotations

import ast
from pathlib import Path
import runpy

import pytest

LAUNCH = Path(__file__).parents[2] / 'launch'
DECLARED = ('namespace', 'params_file', 'autostart', 'guard')
DEFAULTS = dict.fromkeys(DECLARED, '')


@pytest.fixture
def check():
    """What the launch files run; returns what was warned of."""
    run = runpy.run_path(str(LAUNCH / 'arguments.py'))['check']

    def check(*command_line: str, file: str = '/share/launch/robot_infer.launch.py',
              more: tuple[str, ...] = ()) -> list[str]:
        given = {word.partition(':=')[0]: '' for word in command_line if ':=' in word}
        warnings: list[str] = []
        run(file, {**given, **dict.fromkeys(more, ''), **DEFAULTS}, DECLARED, [
            '/opt/ros/bin/ros2', 'launch', *command_line], warnings.append)
        return warnings
    return check


def test_arguments_of_the_file_are_silent(check):
    assert check('robot_infer', 'robot_infer.launch.py', 'guard:=true', 'namespace:=arm') == []


@pytest.mark.parametrize('command', [('robot_infer', 'robot_infer.launch.py'),
                                     ('/my/copy/of/robot_infer.launch.py',)])
def test_one_that_was_typed_for_the_file_ends_the_launch(check, command):
    with pytest.raises(RuntimeError) as caught:
        check(*command, 'guardd:=true', 'namespace:=arm', 'colour:=a:=b')
    assert str(caught.value) == (
        'robot_infer.launch.py has no argument guardd (did you mean guard?), colour. '
        'It has namespace, params_file, autostart, guard.')


def test_arguments_of_a_file_that_includes_this_one_are_no_fault(check):
    assert check('my_robot', 'bringup.launch.py', 'speed:=3', more=('rviz',)) == []


def test_of_those_a_near_miss_is_worth_a_warning(check):
    """Typed for the other file, or passed on by it."""
    assert check('my_robot', 'bringup.launch.py', 'autostrat:=false', more=('guards',)) == [
        'robot_infer.launch.py has no argument autostrat; did you mean autostart?',
        'robot_infer.launch.py has no argument guards; did you mean guard?']


@pytest.mark.parametrize('path', sorted(LAUNCH.glob('*.launch.py')), ids=lambda path: path.name)
def test_every_launch_file_checks_its_arguments_first(path):
    """Read, not run: the description begins with the declarations and this check."""
    tree = ast.parse(path.read_text())
    (describe,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)
                   and node.name == 'generate_launch_description']
    (listed,) = [node for node in ast.walk(describe) if isinstance(node, ast.List)]
    first, second, *_ = map(ast.unparse, listed.elts)
    assert first == '*declared_arguments()'
    assert second == 'OpaqueFunction(function=check_arguments)'
