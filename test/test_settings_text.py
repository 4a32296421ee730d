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


"""The files that are written from config.py are those it would write today."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_infer.config import Config, settings
from robot_infer.settings_text import (
    config_yaml,
    parameters_markdown,
    parameters_yaml,
    yaml_value,
)

ROOT = Path(__file__).parents[1]


def test_the_shipped_parameter_file_is_the_generated_one():
    shipped = (ROOT / 'config' / 'robot_infer.yaml').read_text()
    assert shipped == parameters_yaml(), 'run make parameters'


def test_the_readme_has_the_generated_table():
    readme = (ROOT / 'README.md').read_text()
    assert parameters_markdown() in readme, 'run make parameters'


def test_every_key_and_its_help_are_in_both():
    yaml, table = parameters_yaml(), parameters_markdown()
    flat_yaml = ' '.join(yaml.replace('#', ' ').split())
    for setting in settings():
        assert f'{setting.key}: {yaml_value(setting.default)}' in yaml
        assert ' '.join(setting.help.split()) in flat_yaml
        assert f'`{setting.name}`' in table
    assert max(map(len, yaml.splitlines())) <= 99


def test_the_shipped_files_are_valid_and_mean_the_defaults():
    assert Config.from_yaml(ROOT / 'config' / 'robot_infer.yaml') == Config()
    demo = Config.from_yaml(ROOT / 'config' / 'demo.yaml')
    assert demo.cameras.names == ('overhead', 'wrist') and demo.control.action_low


def test_values_keep_their_type_in_yaml():
    assert [yaml_value(value) for value in (True, 3, 3.0, "it's", ('a', 'b'), ())] == [
        'true', '3', '3.0', "'it''s'", "['a', 'b']", '[]']


@pytest.mark.parametrize('text', [
    '1e3', 'yes', 'null', "it's \\ red: #1", 'two\nlines\t\u2028', '~'])
def test_settings_come_back_from_their_file_as_they_were(tmp_path: Path, text: str):
    config = Config.from_flat({
        'instruction.text': text, 'cameras.names': ('left', 'yes'), 'realtime.time_slice_s': 1e-5,
        'control.action_low': (-1.0, 2e-7), 'control.action_high': (1.0, 1e10),
        'state.joints': ('a', 'b')})
    file = tmp_path / 'own.yaml'
    file.write_text(config_yaml(config))
    assert Config.from_yaml(file) == config
