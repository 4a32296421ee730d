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

"""YAML as ROS reads it in parameter files, with the line of every key and value.

It is a language of its own: 1e-3 is a number, 1_000, 12:30 and null are texts, nothing at all is
an error, lists hold one type, and there are no aliases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
import re
from typing import NoReturn, Union

import yaml

from robot_infer.errors import ConfigError

_TRUE = ('Y', 'y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON')
_FALSE = ('N', 'n', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF')
_INTEGER = re.compile(r'[-+]?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)')
_NOT_FINITE = re.compile(r'([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)')
_TEXT_TAG = 'tag:yaml.org,2002:str'
_REMEDY = 'config/robot_infer.yaml shows how such a file looks.'

Scalar = Union[bool, int, float, str]


@dataclass(frozen=True)
class Entry:
    """A key with what it holds, and the line it stands in."""

    key: str
    value: Union[Scalar, list[Scalar], tuple[Entry, ...]]
    line: int


def read(path: Path) -> tuple[Entry, ...]:
    """The outermost keys of a file; none where it is empty, as ROS has it.

    :raises ConfigError: where the file is missing, or ROS could not read it.
    """
    try:
        return _Reader(path, yaml.parse(path.read_bytes())).document()
    except OSError as error:
        raise ConfigError(f'parameter file {path}', expected='a readable file',
                          got=str(error.strerror), remedy='Check the path.') from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f'parameter file {path}, line {error.problem_mark.line + 1}',
                          expected='YAML', got=str(error.problem), remedy=_REMEDY) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f'parameter file {path}', expected='YAML',
                          got=' '.join(str(error).split()), remedy=_REMEDY) from error


class _Reader:
    """Descends through the events of a YAML parser."""

    def __init__(self, path: Path, events: Iterator[yaml.Event]) -> None:
        self._path, self._events = path, events

    def document(self) -> tuple[Entry, ...]:
        """All there is in the file."""
        entries: tuple[Entry, ...] = ()
        for event in self._events:
            if isinstance(event, yaml.MappingStartEvent) and not entries:
                entries = self._mapping()
            elif isinstance(event, yaml.NodeEvent) and getattr(event, 'value', True):
                self._refuse(event, 'one group of names', 'something else')
        return entries

    def _mapping(self) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent) or not event.value:
                self._refuse(event, 'a name', 'none')
            value = next(self._events)
            entries.append(Entry(event.value, self._value(value), event.start_mark.line + 1))
        return tuple(entries)

    def _value(self, event: yaml.Event) -> Scalar | list[Scalar] | tuple[Entry, ...]:
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping()
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(event)
        return self._scalar(event)

    def _list(self, start: yaml.Event) -> list[Scalar]:
        values: list[Scalar] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            values.append(self._scalar(event))
        kinds = {type(value) for value in values}
        if len(kinds) > 1:
            hint = ': 1.0, not 1, among numbers with a point' if kinds == {int, float} else ''
            self._refuse(start, f'values of one type in a list{hint}', repr(values))
        return values

    def _scalar(self, event: yaml.Event) -> Scalar:
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, 'no aliases, which ROS refuses', f'*{event.anchor}')
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, 'single values in a list', 'a list or a group')
        if event.style in ('"', "'") or event.tag == _TEXT_TAG:
            return event.value
        if not event.value:
            self._refuse(event, "a value ('' is an empty text, [] an empty list)", 'none')
        return _plain(event.value)

    def _refuse(self, event: yaml.Event, expected: str, got: str) -> NoReturn:
        raise ConfigError(f'parameter file {self._path}, line {event.start_mark.line + 1}',
                          expected=expected, got=got, remedy=_REMEDY)


def _plain(text: str) -> Scalar:
    """What a text without quotes is: ROS asks strtol, then strtod of its C library."""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        digits = text.lstrip('+-')
        base = 16 if digits[:2].lower() == '0x' else 8 if digits.startswith('0') else 10
        value = int(text, base)
        return value if -2**63 <= value < 2**63 else float(value)
    if '_' in text:  # Python takes 1_000 for a number
        return text
    try:
        return float(_NOT_FINITE.sub(r'\1\2', text))
    except ValueError:
        return text
