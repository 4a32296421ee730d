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

"""What a node's command line gives it, file by file: where a value stands, and what is lost.

ROS hands a node what is for its full name and is silent about the rest: a file for `robot_infr`,
or for the same name in another namespace, changes nothing at all, and the robot would move by the
defaults. A file that several nodes share is well, though.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
import difflib
from itertools import pairwise
from pathlib import Path

from robot_infer.errors import ConfigError
from robot_infer.parameter_file import NODE, Given, Section, in_words, read_sections

_OTHERS = ('robot_infer_guard', 'robot_infer_sim')  # of this package: alike, and not mistyped


class Overrides:
    """The parameters that one node is started with.

    :param arguments: the command line.
    :param node: the full name of the node.
    :param taken: names of the parameters that ROS gave to the node.
    """

    def __init__(self, arguments: Sequence[str], node: str, taken: Collection[str]) -> None:
        self._node, self._taken = node, taken
        self._faults: list[ConfigError] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        ours: list[Section] = []
        for path in parameter_files(arguments):
            try:
                ours += self._ours(f'parameter file {path}', read_sections(path))
            except ConfigError as error:
                self._faults.append(error)
        for rule in _values_after(arguments, '-p', '--param'):
            name = rule.partition(':=')[0]
            whom, addressed, parameter = name.rpartition(':')
            section = Section(f'/{whom.strip("/")}' if addressed else '/**', {
                parameter: Given(None, 'the command line')}, 'the command line')
            ours += self._ours(f'argument -p {name}', (section,))
        ours.sort(key=lambda section: not section.is_general)  # as ROS: full names have the word
        self.values = {name: given for section in ours for name, given in section.values.items()}

    def check(self) -> None:
        """Refuse what was meant for this node and did not reach it.

        :raises ConfigError: for a file that has a parameter twice, is for one other node only, or
            for one whose name is much like ours.
        """
        for fault in self._faults:
            raise fault

    def forget(self, names: Iterable[str]) -> None:
        """These have been set otherwise since."""
        for name in names:
            self.values.pop(name, None)

    def _ours(self, subject: str, sections: Sequence[Section]) -> list[Section]:
        """The sections that reach this node; what is to be said of the others is noted."""
        ours = [section for section in sections if self._reaches(section)]
        others = [section for section in sections if section not in ours]
        alike = [section for section in others if self._is_alike(section)]
        if not ours and (alike or len(others) < 2):
            wrong = f' where {(alike or others)[0].node} stands' if others else ''
            self._faults.append(ConfigError(
                subject, expected=f'parameters for this node, {self._node}',
                got=in_words(sections),
                remedy=f'Write /** or {self._node}{wrong}, and start the node again.'))
        elif alike and all(section.is_general for section in ours):
            self.warnings.append(
                f'{subject}: this node, {self._node}, takes nothing of the {in_words(alike)}')
        elif others:
            self.notes.append(
                f'{subject}: has {in_words(others)}; this node is {self._node}')
        return ours

    def _reaches(self, section: Section) -> bool:
        # Not every ROS knows every pattern (Humble only /**), so what it took has the last word.
        return section.is_for(self._node) and (
            not section.values or any(name in self._taken for name in section.values))

    def _is_alike(self, section: Section) -> bool:
        name, ours = section.base_name, {self._node.rpartition('/')[2], NODE}
        return name in ours or (
            name not in _OTHERS and bool(difflib.get_close_matches(name, ours, 1, cutoff=0.75)))


def parameter_files(arguments: Sequence[str]) -> list[Path]:
    """The parameter files that a command line names."""
    return [Path(path) for path in _values_after(arguments, '--params-file')]


def reason_for(error: Exception, arguments: Sequence[str]) -> ConfigError:
    """Why ROS did not start with this command line: the file and line at fault, if it is one."""
    try:
        for path in parameter_files(arguments):
            read_sections(path)
    except ConfigError as better:
        return better
    return ConfigError(
        'command line', expected='arguments and parameter files that ROS can read',
        got=f'{type(error).__name__}: {" ".join(str(error).split())}',
        remedy='Mend what is named above.')


def _values_after(arguments: Sequence[str], *flags: str) -> Iterator[str]:
    """What follows a flag, in the parts of a command line that are for ROS."""
    is_ros = False
    for argument, value in pairwise(arguments):
        is_ros = argument != '--' and (is_ros or argument == '--ros-args')
        if is_ros and argument in flags:
            yield value
