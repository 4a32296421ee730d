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


"""The policy node with faults planted in its policy: files in a folder say what every step does.

    python planted_node.py FOLDER --ros-args ...

    raise    raises an error that has no name of ours
    hang     does not end before the file is gone

The rest is the node and the policy as they are, in one process or in two.
"""

from __future__ import annotations

from pathlib import Path
import sys
import time


def plant(folder: Path) -> None:
    """From here on every step looks at the folder first."""
    from robot_infer.engine import Engine

    step = Engine.step

    def planted(self, *arguments):  # noqa: ANN001, ANN002, ANN202
        if (folder / 'raise').exists():
            raise RuntimeError('planted')
        while (folder / 'hang').exists():
            time.sleep(0.01)
        return step(self, *arguments)
    Engine.step = planted


def main() -> int:
    """Be the node, or the process of its policy."""
    folder, *arguments = sys.argv[1:]
    plant(Path(folder))
    if arguments[0] == 'engine':
        from robot_infer import engine_process

        sys.argv = arguments
        return engine_process.main()
    from robot_infer.control import remote
    from robot_infer.ros import node

    remote.COMMAND = (sys.executable, __file__, folder, 'engine')
    return node.main(arguments)


if __name__ == '__main__':
    sys.exit(main())
