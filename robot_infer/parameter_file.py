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

"""Reading a ROS 2 parameter file into dotted names; what the names mean is config.py's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
import reprlib

import yaml

from robot_infer.errors import ConfigError


def read_parameter_file(path: Path) -> dict[str, object]:
    """Values by dotted name, from `/**: ros__parameters: group: name: value`.

    :raises ConfigError: where the file is missing or is not such a file.
    """
    subject = f'parameter file {path}'
    try:
        document = yaml.safe_load(path.read_text('utf-8'))
    except OSError as error:
        raise ConfigError(subject, expected='a readable file', got=str(error.strerror),
                          remedy='Check the path.') from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, no date
        raise ConfigError(subject, expected='valid YAML in UTF-8', got=str(error),
                          remedy='Mend the place named above.') from error
    try:
        (values,) = [entry['ros__parameters'] for entry in document.values()]
    except (AttributeError, TypeError, KeyError, ValueError):
        raise ConfigError(subject, expected='one key /** with ros__parameters below it',
                          got=reprlib.repr(document),
                          remedy='Copy the head of config/robot_infer.yaml.') from None
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ConfigError(subject, expected='groups of values below ros__parameters',
                          got=reprlib.repr(values), remedy='config/robot_infer.yaml shows them.')
    return _flatten(subject, values)


def _flatten(subject: str, values: Mapping, group: str = '') -> dict[str, object]:
    """Dotted names have two parts: what nests deeper, or in itself, is refused."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        if not isinstance(value, Mapping):
            flat[f'{group}{key}'] = value
        elif not group:
            flat.update(_flatten(subject, value, f'{key}.'))
        else:
            raise ConfigError(subject, expected=f'a value for {group}{key}',
                              got=reprlib.repr(value), remedy='Names have two parts, group.name.')
    return flat
