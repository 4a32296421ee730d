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

"""Arguments that were given to a launch file and that it does not have.

launch sets and ignores them. A mistyped autostart:=false would move the robot, a mistyped
guard:=true would leave it without its guard. The launch files run this file by its path, as
`ros2 launch` may belong to a Python that cannot import the package; nothing here needs launch.
"""

from collections.abc import Callable, Collection, Sequence
import difflib
import os


def check(
    file: str, given: Collection[str], declared: Sequence[str], command_line: Sequence[str],
    warn: Callable[[str], object],
) -> None:
    """Refuse what was typed for `file`, and warn of what comes close to one of its arguments.

    A file that is included by another also sees the arguments of that one, which are no fault.

    :param given: names of the launch configurations.
    :param declared: names of the arguments that the file has.
    :param command_line: of `ros2 launch`, or of whatever program launches.
    :raises RuntimeError: naming all that were typed for this file and are not declared.
    """
    name = os.path.basename(file)
    is_launched = any(os.path.basename(word) == name for word in command_line)
    typed = [word.partition(':=')[0] for word in command_line if ':=' in word]
    wrong = []
    for argument in given:
        if argument in declared:
            continue
        near = difflib.get_close_matches(argument, declared, n=1, cutoff=0.75)
        if is_launched and argument in typed:
            wrong.append(f'{argument} (did you mean {near[0]}?)' if near else argument)
        elif near:
            warn(f'{name} has no argument {argument}; did you mean {near[0]}?')
    if wrong:
        raise RuntimeError(
            f'{name} has no argument {", ".join(wrong)}. It has {", ".join(declared)}.')
