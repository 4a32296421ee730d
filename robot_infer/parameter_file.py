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

"""A ROS 2 parameter file: what it has for which node; what the names mean is config.py's.

    /arm/robot_infer:        whom the section is for: the full name of a node, or a pattern
      ros__parameters:
        control:             names are joined by dots: control.rate_hz
          rate_hz: 30

ROS says nothing of a name that is given twice, nor of a section that is for no node at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
import re

from robot_infer import ros_yaml
from robot_infer.errors import ConfigError

NODE = 'robot_infer'  # the node's name, where it is not given another
_PARAMETERS = 'ros__parameters'
_REMEDY = 'config/robot_infer.yaml shows the head of such a file.'
_TOKENS = {'*': r'/\w+', '**': r'(/\w+)*'}
_OF_EVERY_NODE = re.compile(r'use_sim_time|start_type_description_service|qos_overrides\..*')


@dataclass(frozen=True)
class Given:
    """A value, and where it was given ('params.yaml, line 7')."""

    value: object
    place: str


@dataclass(frozen=True)
class Section:
    """Values for the nodes that `node` names: '/arm/robot_infer', or a pattern such as '/**'."""

    node: str
    values: Mapping[str, Given]
    place: str

    @property
    def base_name(self) -> str:
        """The name without its namespace."""
        return self.node.rpartition('/')[2]

    @property
    def is_general(self) -> bool:
        """Whether it is for nodes of any name."""
        return self.base_name in _TOKENS

    def is_for(self, node: str) -> bool:
        """Whether its name or pattern fits this node's full name."""
        pattern = ''.join(_TOKENS.get(token, f'/{re.escape(token)}')
                          for token in self.node.split('/')[1:])
        return re.fullmatch(pattern, node) is not None


def read_sections(path: Path) -> tuple[Section, ...]:
    """All sections of a file; those that are named alike are one, as in ROS.

    :raises ConfigError: where ROS could not read the file, or a section has a name twice.
    """
    sections: dict[str, Section] = {}
    for node, entry in _parameters(path, ros_yaml.read(path)):
        place = f'{path}, line {entry.line}'
        values = sections.setdefault(node, Section(node, {}, place)).values
        for name, given in _flat(path, '', entry.value):
            if name in values:
                raise ConfigError(
                    f'parameter {name} of {node}', expected='one value',
                    got=f'two, {values[name].place} and {given.place}', remedy='Keep one of them.')
            values[name] = given
    return tuple(sections.values())


def read_parameter_file(path: Path) -> dict[str, Given]:
    """The settings for one robot_infer, by dotted name.

    They are those for nodes of any name and those for the one node that the file names, or that
    it names robot_infer. What every ROS node takes, as use_sim_time, is no setting.

    :raises ConfigError: where the file cannot be read, or it is not clear which section to take.
    """
    sections = read_sections(path)
    named = [section for section in sections if not section.is_general]
    ours = named if len(named) == 1 else [
        section for section in named if section.base_name == NODE]
    if not sections or len(ours) > 1 or (named and not ours):
        raise ConfigError(
            f'parameter file {path}', expected=f'parameters for {NODE}, or for any node (/**)',
            got=in_words(sections), remedy=_REMEDY)
    general = [section for section in sections if section.is_general]
    return {name: given for section in (*general, *ours)
            for name, given in section.values.items() if not is_of_every_node(name)}


def is_of_every_node(name: str) -> bool:
    """Whether a parameter is one that ROS gives to every node."""
    return _OF_EVERY_NODE.fullmatch(name) is not None


def in_words(sections: Iterable[Section]) -> str:
    """Whom the sections are for."""
    names = ', '.join(section.node for section in sections)
    return f'parameters for {names}' if names else 'no parameters'


def placed(error: ConfigError, given: Mapping[str, Given]) -> ConfigError:
    """The error with the places of the parameters that its subject names."""
    places = [given[word].place for word in error.subject.split() if word in given]
    if not places:
        return error
    return ConfigError(f'{error.subject} ({"; ".join(dict.fromkeys(places))})',
                       expected=error.expected, got=error.got, remedy=error.remedy)


def _parameters(
    path: Path, entries: tuple[ros_yaml.Entry, ...], above: str = '',
) -> Iterator[tuple[str, ros_yaml.Entry]]:
    """Every `ros__parameters`, with the name of the node above it."""
    for entry in entries:
        found = entry.key == _PARAMETERS
        name = above if found else f'{above}/{entry.key.strip("/")}'
        if not name or not isinstance(entry.value, tuple):
            raise ConfigError(
                f'parameter file {path}, line {entry.line}', got=f'{entry.key}: {entry.value!r}',
                expected=f'the name of a node, {_PARAMETERS} below it, and groups below that',
                remedy=_REMEDY)
        if found:
            yield name, entry
        else:
            yield from _parameters(path, entry.value, name)


def _flat(
    path: Path, above: str, entries: tuple[ros_yaml.Entry, ...],
) -> Iterator[tuple[str, Given]]:
    for entry in entries:
        if isinstance(entry.value, tuple):
            yield from _flat(path, f'{above}{entry.key}.', entry.value)
        else:
            yield f'{above}{entry.key}', Given(entry.value, f'{path}, line {entry.line}')
