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

"""Parameter files: whom a section is for, names once each, and which settings are ours."""

from __future__ import annotations

import pytest

from robot_infer.errors import ConfigError
from robot_infer.parameter_file import Section, read_parameter_file, read_sections

ONE = 'ros__parameters: {control.rate_hz: 20}'


@pytest.fixture
def write(tmp_path):
    """Make a parameter file."""
    def make(text: str):
        path = tmp_path / 'params.yaml'
        path.write_text(text)
        return path
    return make


@pytest.mark.parametrize('pattern, node, fits', [
    ('/**', '/robot_infer', True), ('/**', '/arm/left/robot_infer', True),
    ('/*', '/robot_infer', True), ('/*', '/arm/robot_infer', False),
    ('/arm/*', '/arm/robot_infer', True), ('/arm/**', '/arm/left/robot_infer', True),
    ('/arm/**', '/leg/robot_infer', False), ('/**/robot_infer', '/arm/left/robot_infer', True),
    ('/**/robot_infer', '/robot_infer', True), ('/*/robot_infer', '/robot_infer', False),
    ('/robot_infer', '/robot_infer', True), ('/robot_infer', '/arm/robot_infer', False),
    ('/robot_infr', '/robot_infer', False), ('/robot_inferx', '/robot_infer', False)])
def test_a_section_is_for_the_nodes_that_its_name_or_pattern_fits(pattern, node, fits):
    assert Section(pattern, {}, '').is_for(node) == fits


def test_a_node_may_be_written_in_every_way_that_ros_takes(write):
    sections = read_sections(write(
        f'robot_infer: {{{ONE}}}\n/leg/robot_infer: {{{ONE}}}\narm:\n  left:\n'
        f'    robot_infer: {{{ONE}}}\n/**:\n  camera: {{{ONE}}}\n'))
    assert [section.node for section in sections] == [
        '/robot_infer', '/leg/robot_infer', '/arm/left/robot_infer', '/**/camera']


def test_names_are_joined_by_dots_and_know_their_line(write):
    path = write('/**:\n  ros__parameters:\n    control:\n      rate_hz: 20\n'
                 '    qos_overrides: {/a/image: {subscription: {depth: 3}}}\n')
    (section,) = read_sections(path)
    assert section.place == f'{path}, line 2'
    assert section.values['control.rate_hz'].place == f'{path}, line 4'
    assert section.values['qos_overrides./a/image.subscription.depth'].value == 3


@pytest.mark.parametrize('text', [
    '/**:\n  ros__parameters:\n    control: {rate_hz: 20}\n    control.rate_hz: 30\n',
    '/**:\n  ros__parameters:\n    control: {rate_hz: 20,\n              rate_hz: 30}\n',
    f'/**: {{\n\n{ONE}}}\n/**: {{{ONE}}}\n',
], ids=['dotted', 'in a group', 'in two sections'])
def test_a_name_that_is_given_twice_is_refused_with_both_lines(write, text):
    with pytest.raises(ConfigError, match='control.rate_hz of /.*: .* two, .*line 3 and .*line 4'):
        read_sections(write(text))


def test_a_section_in_two_parts_is_one(write):
    path = write(f'/**: {{{ONE}}}\n/**: {{ros__parameters: {{control.deadline_s: 0.01}}}}\n')
    (section,) = read_sections(path)
    assert set(section.values) == {'control.rate_hz', 'control.deadline_s'}


@pytest.mark.parametrize('text', [
    'control: {rate_hz: 20}', '/**:', '/**: 3', '/**: [ros__parameters]', 'node: {x: 1}',
    '/**: {ros__parameters: }', '/**: {ros__parameters: 5}', '/**: {ros__parameters: [a]}',
    '/**: {ros_parameters: {control: {rate_hz: 20}}}', 'ros__parameters: {a: 1}'])
def test_a_file_of_another_shape_is_refused_with_the_line(write, text):
    with pytest.raises(ConfigError, match='parameter file .*params.yaml, line 1: '):
        read_sections(write(text))


@pytest.mark.parametrize('text, rate', [
    (f'/**: {{{ONE}}}', 20), (f'my_policy: {{{ONE}}}', 20),
    (f'/**: {{{ONE}}}\nrobot_infer: {{ros__parameters: {{control.rate_hz: 30}}}}', 30),
    (f'robot_infer: {{ros__parameters: {{control.rate_hz: 30}}}}\n/**: {{{ONE}}}', 30),
    (f'arm: {{robot_infer: {{{ONE}}}}}\ncamera: {{ros__parameters: {{fps: 30}}}}', 20),
    ('/**: {ros__parameters: {use_sim_time: true}}\nrobot_infer: {' + ONE + '}', 20),
    ('/**: {ros__parameters: {control.rate_hz: 20, qos_overrides: {/a: {depth: 1}}}}', 20)],
    ids=['pattern', 'one node', 'both', 'turned round', 'shared', 'sim time', 'qos'])
def test_the_settings_are_those_for_robot_infer(write, text, rate):
    values = read_parameter_file(write(text))
    assert {name: given.value for name, given in values.items()} == {'control.rate_hz': rate}


@pytest.mark.parametrize('text, words', [
    ('', 'no parameters'), (f'a: {{{ONE}}}\nb: {{{ONE}}}', 'parameters for /a, /b'),
    (f'a: {{robot_infer: {{{ONE}}}}}\nb: {{robot_infer: {{{ONE}}}}}', '/a/robot_infer, /b/robot')])
def test_a_file_in_which_it_is_not_clear_who_we_are_is_refused(write, text, words):
    with pytest.raises(ConfigError, match=f'parameters for robot_infer.* got .*{words}'):
        read_parameter_file(write(text))
