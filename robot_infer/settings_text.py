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


"""The settings of config.py as text: the commented YAML file and the table of the README.

Nothing is declared here. `config/robot_infer.yaml` is written by `parameters_yaml()`, and a test
holds the two together.
"""

from __future__ import annotations

import json
import textwrap

from robot_infer.config import Config, Setting, Value, settings

_WIDTH = 99

_HEAD = """\
# Every parameter of the node, with its default. Written by
#     robot-infer parameters --format yaml
# Copy the lines you change into a file of your own and start with
#     ros2 launch robot_infer robot_infer.launch.py params_file:=/path/to/yours.yaml
# The key /** makes the file fit any node name and namespace. A key that is not in this list makes
# configure fail and say so. `live` parameters may be changed while the node runs, all others while
# it is unconfigured.
/**:
  ros__parameters:
"""


def parameters_yaml() -> str:
    """A ROS 2 parameter file with every key at its default, each with its help above it."""
    lines, group = [_HEAD.rstrip('\n')], ''
    for setting in settings():
        if setting.group != group:
            lines += ([''] if group else []) + [f'    {setting.group}:']
            group = setting.group
        lines += [f'      # {line}' for line in textwrap.wrap(_help(setting), _WIDTH - 8)]
        # An empty list has no type in a parameter file, so it stands there as a comment only.
        mark = '# ' if setting.default == () else ''
        lines.append(f'      {mark}{setting.key}: {yaml_value(setting.default)}')
    return '\n'.join(lines) + '\n'


def parameters_markdown() -> str:
    """The table for the README, one row a parameter."""
    rows = ['| parameter | default | values | live | what it does |',
            '| --- | --- | --- | --- | --- |']
    for setting in settings():
        default = yaml_value(setting.default)
        rows.append(' | '.join((
            f'| `{setting.name}`', f'`{default}`', setting.wanted.replace('|', '\\|'),
            'yes' if setting.live else '', f'{_one_line(setting.help)} |')))
    return '\n'.join(rows) + '\n'


def yaml_value(value: Value) -> str:
    """One value as YAML that ROS reads with the right type (a float always has its point)."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, tuple):
        return '[' + ', '.join(yaml_value(item) for item in value) + ']'
    if isinstance(value, str):  # in single quotes a line break would become a space
        return ("'" + value.replace("'", "''") + "'" if value.isprintable()
                else json.dumps(value, ensure_ascii=False))
    return repr(value)


def config_yaml(config: Config) -> str:
    """A ROS 2 parameter file for any node, with these settings."""
    lines, group = ['/**:', '  ros__parameters:'], ''
    values = config.flat()
    for setting in settings():
        if values[setting.name] == ():
            continue  # an empty list has no type there
        if setting.group != group:
            lines.append(f'    {setting.group}:')
            group = setting.group
        lines.append(f'      {setting.key}: {yaml_value(values[setting.name])}')
    return '\n'.join(lines) + '\n'


def _help(setting: Setting) -> str:
    wanted = setting.wanted[0].upper() + setting.wanted[1:]
    live = ' Live.' if setting.live else ''
    return f'{_one_line(setting.help)} {wanted}.{live}'


def _one_line(text: str) -> str:
    return ' '.join(text.split())
