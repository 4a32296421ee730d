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

"""LeRobot in its own environment, stepped on request: the other side of a benchmark.

What lives here: finding that environment, starting the child and speaking with it. What the child
does is in tools/bench_lerobot/lerobot_step.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import tempfile

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = _ROOT / 'tools' / 'bench_lerobot' / 'lerobot_step.py'
_WHEELS_FLAG = '_ROS_WHEELS_BOOTSTRAP_COMPLETE'


def find_python() -> Path | None:
    """Python of the LeRobot environment: $LEROBOT_PYTHON, else .venv-lerobot; None if absent.

    :raises SystemExit: where the variable names no file.
    """
    named = os.environ.get('LEROBOT_PYTHON')
    if named and not Path(named).is_file():
        raise SystemExit(f'LEROBOT_PYTHON: expected the Python of an environment with lerobot; '
                         f'got {named}, which does not exist')
    python = Path(named) if named else _ROOT / '.venv-lerobot' / 'bin' / 'python'
    return python if python.is_file() else None


class LeRobotChild:
    """One checkpoint in LeRobot, loaded and warm; a context manager.

    :raises SystemExit: where the child ends or answers an error, with the end of its log.
    """

    def __init__(self, python: Path, checkpoint: Path, threads: int, instruction: str) -> None:
        environment = dict(os.environ)
        if environment.pop(_WHEELS_FLAG, None):  # the ROS wheels' libraries are not the child's
            environment.pop('LD_LIBRARY_PATH', None)
        self._log = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            [python, _SCRIPT, checkpoint, '--serve', '--threads', str(threads),
             '--instruction', instruction],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment,
            text=True)
        self.about = self._answer()

    def __enter__(self) -> LeRobotChild:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stdin.close()  # the end of its input ends it
        try:
            self._child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._log.close()

    def step(self) -> float:
        """Run one step, on frames and a state other than last time's; its seconds."""
        self._child.stdin.write('{"op": "step"}\n')
        self._child.stdin.flush()
        return self._answer()['seconds']

    def _answer(self) -> dict:
        line = self._child.stdout.readline()
        answer = json.loads(line) if line else {'error': 'it ended'}
        if 'error' in answer:
            self._log.seek(0)
            log = self._log.read().decode(errors='replace')[-2000:]
            raise SystemExit(f'{log}\nLeRobot ({self._child.args[0]}): {answer["error"]}')
        return answer
