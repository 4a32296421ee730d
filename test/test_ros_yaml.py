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

"""The YAML of parameter files is read as ROS reads it: held against ROS's own reader."""

from __future__ import annotations

import math

import pytest

from robot_infer import ros_yaml
from robot_infer.errors import ConfigError
from robot_infer.sim.children import free_domain_id

SCALARS = (
    'yes', 'Off', 'y', 'oN', 'true', '"true"', 'null', '~', '5', '-5', '+3', '007', '08', '0x1F',
    '0o7', '1_000', '1e3', '1e-3', '.5', '5.', '1.5e+2', '.inf', '-.INF', '.nan', 'inf', 'NaN',
    '.Nope', '12:30', '2026-01-31', '9223372036854775807', '9223372036854775808', 'move to it',
    "'5'", '!!str 5', '!!int "5"', '""', '/a/b.c', 'a-b', '1.0.0')
LISTS = ('[1, 2]', '[1.0, 2.5]', '[a, "5"]', '[true, no]')
REFUSED = (
    '', '[1, 2.5]', '[1, x]', '[true, 1]', '[[1], [2]]', '[{a: 1}]', '&x [*x]', '[1', '{', '*x',
    '%', '{: 1}', '{[a]: 1}')


@pytest.fixture
def value(tmp_path):
    """Read one value as it would stand in a parameter file."""
    def read(text: str) -> object:
        path = tmp_path / 'file.yaml'
        path.write_text(f'key: {text}\n')
        (entry,) = ros_yaml.read(path)
        return entry.value
    return read


@pytest.fixture(scope='module')
def of_ros():
    """What ROS itself makes of a value in a parameter file."""
    rclpy = pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    from rclpy.context import Context
    from rclpy.node import Node

    domain_id = free_domain_id()

    def read(path: str) -> object:
        context = Context()
        rclpy.init(
            args=['--ros-args', '--params-file', path], context=context, domain_id=domain_id)
        node = Node(
            'reader', context=context, automatically_declare_parameters_from_overrides=True)
        try:
            return {name: parameter.value for name, parameter
                    in node.get_parameters_by_prefix('values').items()}
        finally:
            node.destroy_node()
            context.try_shutdown()
    return read


def same(one: object, other: object) -> bool:
    """Equal in value and type, not-a-number included."""
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


def test_values_are_what_ros_makes_of_them(value, of_ros, tmp_path):
    texts = {f'v{number}': text for number, text in enumerate((*SCALARS, *LISTS))}
    path = tmp_path / 'ros.yaml'
    path.write_text('/**:\n  ros__parameters:\n    values:\n' + ''.join(
        f'      {name}: {text}\n' for name, text in texts.items()))
    wanted = of_ros(str(path))
    for name, text in texts.items():
        theirs = wanted[name]
        theirs = list(theirs) if not isinstance(theirs, (bool, int, float, str)) else theirs
        assert same(value(text), theirs), f'{text}: {value(text)!r}, in ROS {theirs!r}'


@pytest.mark.parametrize('text', REFUSED)
def test_what_ros_refuses_is_refused_with_its_line(value, text):
    with pytest.raises(ConfigError, match=r'parameter file .*file\.yaml.*line \d'):
        value(text)


@pytest.mark.parametrize('text', [text for text in REFUSED if text != '[{a: 1}]'])
def test_ros_refuses_it_too(of_ros, tmp_path, text):
    path = tmp_path / 'ros.yaml'
    path.write_text(f'/**:\n  ros__parameters:\n    key: {text}\n')
    with pytest.raises(Exception, match='ros.yaml'):
        of_ros(str(path))


def test_numbers_of_two_kinds_in_a_list_are_told_apart(value):
    with pytest.raises(ConfigError, match='1.0, not 1, among numbers with a point'):
        value('[-1, 0.5]')


@pytest.mark.parametrize('text', [b'', b'# nothing', b'{}'])
def test_an_empty_file_is_one_without_names(tmp_path, text):
    path = tmp_path / 'file.yaml'
    path.write_bytes(text)
    assert ros_yaml.read(path) == ()


@pytest.mark.parametrize('text', [
    b'- 1', b'5', b'\xff\xfe\x00', b'a: \xe4', b'[' * 5000, b'{a: ' * 5000, b'a: 1\n---\nb: 2'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / 'file.yaml'
    path.write_bytes(text)
    with pytest.raises(ConfigError, match='parameter file .*file.yaml'):
        ros_yaml.read(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match='none.yaml: .*No such file'):
        ros_yaml.read(tmp_path / 'none.yaml')
    with pytest.raises(ConfigError, match='Is a directory'):
        ros_yaml.read(tmp_path)
