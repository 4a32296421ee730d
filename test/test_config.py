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

"""Settings: one table, checked together, refused by name."""

from __future__ import annotations

import os

import pytest

from robot_infer.config import Config, settings
from robot_infer.errors import ConfigError


def test_every_setting_has_help_and_a_default_that_it_accepts():
    for setting in settings():
        assert setting.help.endswith('.') and len(setting.help) > 20, setting.name
        Config.from_flat({setting.name: setting.default})


def test_flat_and_back():
    config = Config.from_flat({'control.rate_hz': 50, 'cameras.names': ['a', 'b']})
    assert config.control.rate_hz == 50.0
    assert Config.from_flat(config.flat()) == config


@pytest.mark.parametrize(('name', 'value', 'words'), [
    ('control.rate_hz', 'fast', 'a number from 0.1 to 1000.0 \\(Hz\\); got \'fast\''),
    ('control.rate_hz', 0, 'a number from 0.1'),
    ('control.rate_hz', float('nan'), 'a number from 0.1'),
    ('control.fallback', 'panic', 'one of hold, zero, stop; got \'panic\''),
    ('cache.budget_bytes', 1.5, 'a whole number'),
    ('cache.check_invariants', 'yes', 'true or false'),
    ('cameras.names', 'overhead', 'a list of texts'),
    ('cameras.names', ['a', 3], 'a list of texts'),
])
def test_a_wrong_value_says_what_was_expected_and_what_came(name, value, words):
    with pytest.raises(ConfigError, match=f'parameter {name}: expected {words}'):
        Config.from_flat({name: value})


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match='Did you mean control.rate_hz'):
        Config.from_flat({'control.rat_hz': 30})


@pytest.mark.parametrize('values', [
    {'cameras.names': ['a', 'a']}, {'cameras.names': []},
    {'cameras.names': ['a', 'b'], 'cameras.policy_inputs': ['x', 'x']},
    {'cameras.names': ['a', 'b'], 'cameras.policy_inputs': ['x', '']},
    {'state.joints': []}, {'state.joints': ['a', 'a']}, {'state.joints': ['a', ' ']},
    {'policy.threads': 4 * os.cpu_count() + 1},
    {'cameras.names': ['a', 'b'], 'cameras.policy_inputs': ['x']},
    {'control.action_low': [float('nan')], 'control.action_high': [1.0]},
    {'control.action_low': [0.0]}, {'control.action_low': [1.0], 'control.action_high': [0.0]}])
def test_settings_that_contradict_each_other_are_refused(values):
    with pytest.raises(ConfigError):
        Config.from_flat(values)


@pytest.mark.parametrize('name', ['', ' ', '1', 'over head', 'a/', '/a', 'a//b', 'a/1', 'a-b'])
def test_a_camera_that_no_topic_can_be_named_after_is_refused(name):
    with pytest.raises(ConfigError, match='parameter cameras.names'):
        Config.from_flat({'cameras.names': [name]})


def test_cameras_in_namespaces_and_any_policy_input_are_taken():
    config = Config.from_flat({'cameras.names': ['left/wrist_1', '_b'],
                               'cameras.policy_inputs': ['observation.image', 'left-2']})
    assert config.cameras.names == ('left/wrist_1', '_b')
    Config.from_flat({'policy.threads': os.cpu_count()})


def test_a_parameter_file_is_read(tmp_path):
    path = tmp_path / 'config.yaml'
    path.write_text('/**:\n  ros__parameters:\n    control:\n      rate_hz: 20\n'
                    '    cameras.names: [left, right]\n')
    config = Config.from_yaml(path)
    assert config.control.rate_hz == 20.0 and config.cameras.names == ('left', 'right')


def test_a_file_without_values_means_the_defaults(tmp_path):
    path = tmp_path / 'config.yaml'
    path.write_text('/**: {ros__parameters: {}}')
    assert Config.from_yaml(path) == Config()


@pytest.mark.parametrize('text, words', [
    ('control:\n      rate_hz: fast', "control.rate_hz .*line 4.: expected a number .*'fast'"),
    ('contrl: {rate_hz: 3}', 'contrl.rate_hz .*line 3.: .*Did you mean control.rate_hz'),
    ('policy: {dtype: {a: 1}}', 'policy.dtype.a .*line 3.: .* unknown'),
    ('control.action_low: [1]', 'control.action_low .*line 3.* expected lists of equal length'),
], ids=['type', 'unknown', 'deeper', 'together'])
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path, text, words):
    path = tmp_path / 'config.yaml'
    path.write_text(f'/**:\n  ros__parameters:\n    {text}\n')
    with pytest.raises(ConfigError, match=words):
        Config.from_yaml(path)
