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

"""The values of a JSON object, read by name and type; a wrong one is refused by file and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import math
import reprlib

from robot_infer.errors import CheckpointError

MOST = 1_000_000  # no size in a checkpoint is larger; what is, would only exhaust the memory
_REQUIRED = object()


class JsonValues:
    """One JSON object, or an object inside of one.

    Each reader takes the value that stands for an absent key; without it the key is required.

    :param file: path of the file, for messages.
    :param place: dotted name of the object in the file, with a dot behind it; '' for all of it.
    """

    def __init__(self, file: str, values: Mapping, place: str = '') -> None:
        self._file, self._values, self._place = file, values, place

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def absent(self, key: str) -> bool:
        """True where there is no value, or null."""
        return self._values.get(key) is None

    def whole(self, key: str, low: int, default: object = _REQUIRED, high: int = MOST) -> int:
        """A whole number from low to high."""
        value = self._get(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(key, f'a whole number from {low} to {high}')
        return value

    def positive(self, key: str, default: object = _REQUIRED) -> float:
        """A finite number above 0."""
        value = self._get(key, default)
        if type(value) not in (int, float) or not (math.isfinite(value) and value > 0):
            raise self.wrong(key, 'a number above 0')
        return float(value)

    def text(self, key: str, default: object = _REQUIRED) -> str:
        """A text."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, 'a text')
        return value

    def flag(self, key: str, default: object = _REQUIRED) -> bool:
        """True or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, 'true or false')
        return value

    def wholes(self, key: str, count: int, high: int = MOST) -> Sequence[int]:
        """A list of `count` whole numbers from 1 to high."""
        value = self._get(key, _REQUIRED)
        if not isinstance(value, list) or len(value) != count or not all(
                type(one) is int and 1 <= one <= high for one in value):
            raise self.wrong(key, f'a list of {count} whole number(s) from 1 to {high}')
        return value

    def inside(self, key: str, default: object = _REQUIRED) -> JsonValues:
        """An object in this one."""
        value = self._get(key, default)
        if not isinstance(value, Mapping):
            raise self.wrong(key, 'an object')
        return JsonValues(self._file, value, f'{self._place}{key}.')

    def each(self, key: str) -> list[JsonValues]:
        """The objects of a list; none where the key is absent."""
        value = self._get(key, ())
        if not isinstance(value, (list, tuple)) or not all(
                isinstance(one, Mapping) for one in value):
            raise self.wrong(key, 'a list of objects')
        return [JsonValues(self._file, one, f'{self._place}{key}.{number}.')
                for number, one in enumerate(value)]

    def supported(self, key: str, value: object) -> None:
        """Refuse a value that this build does not have; an absent key means the one it has."""
        if self._get(key, value) != value:
            raise self.wrong(key, f'{value!r}, the only value this build supports')

    def wrong(self, key: str, expected: str) -> CheckpointError:
        """The error for the value that stands at `key`."""
        got = reprlib.repr(self._values[key]) if key in self._values else 'none'
        return CheckpointError(f'{self._place}{key} in {self._file}', expected=expected, got=got,
                               remedy='Copy the file again from its source.')

    def _get(self, key: str, default: object) -> object:
        return self._values.get(key, None if default is _REQUIRED else default)
