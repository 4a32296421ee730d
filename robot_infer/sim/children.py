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

"""Processes that the demo starts: each in its own session, its output kept, always ended.

Nothing here knows ROS, beyond the environment that lets two processes of one machine find each
other and pass large images (`ros_environment`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading

from robot_infer.errors import ConfigError, RobotInferError
from robot_infer.shared_files import shared_file

_KEPT_LINES = 400
_PATIENCE_S = ((signal.SIGINT, 6.0), (signal.SIGTERM, 4.0), (signal.SIGKILL, 10.0))
_OLDER_NAMES = (
    ('FASTRTPS_DEFAULT_PROFILES_FILE', '', ('humble', 'iron', 'jazzy')),
    ('ROS_LOCALHOST_ONLY', '1', ('humble',)))
# Who is in a domain has two ports of its own; the port for all is open only to other machines.
_PARTICIPANTS = 10
_UNUSED_PORT = 249  # no participant has it before the 120th
_RESERVED: dict[int, socket.socket] = {}
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class DemoError(RobotInferError):
    """The demo cannot go on."""


class Child:
    """A running process; its last lines of output, and its end."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start `argv`. Ctrl-C of our terminal does not reach it: we end it, in order."""
        self.name = name
        self.was_killed = False
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = subprocess.Popen(
            list(argv), env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors='replace', start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == 'linux' else None)
        self._reader = threading.Thread(target=self._read, name=f'{name} output', daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def last_lines(self, number: int = 12) -> tuple[str, ...]:
        """Return the newest lines it wrote."""
        return tuple(self._lines)[-number:]

    def lines_with(self, *words: str) -> tuple[str, ...]:
        """Return the kept lines that contain one of `words`, oldest first."""
        return tuple(line for line in tuple(self._lines) if any(word in line for word in words))

    def stop(self) -> int:
        """End it: ask (SIGINT), ask again (SIGTERM), then kill. Returns the exit status."""
        for number, patience_s in _PATIENCE_S:
            if self._process.poll() is None:
                self._process.send_signal(number)
                self.was_killed = number == signal.SIGKILL
                try:
                    self._process.wait(patience_s)
                except subprocess.TimeoutExpired:
                    continue
        assert self._process.returncode is not None, f'{self.name} outlived SIGKILL'
        self._reader.join(2.0)
        return self._process.returncode

    def _read(self) -> None:
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line.rstrip())


def _end_with_parent() -> None:
    """Runs in the child before exec: should we be killed outright, it is asked to end too."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def ros_environment(domain_id: int) -> dict[str, str]:
    """Return our environment with what two ROS 2 processes of this machine need.

    A domain of their own, discovery that stays on this machine, and the Fast DDS profile without
    which raw camera images are lost.
    """
    profile = str(shared_file('config/fastdds.xml'))
    environment = {
        **os.environ, 'ROS_DOMAIN_ID': str(domain_id),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'FASTDDS_DEFAULT_PROFILES_FILE': profile,
        'RCUTILS_COLORIZED_OUTPUT': '0', 'PYTHONUNBUFFERED': '1',
        'RCUTILS_CONSOLE_OUTPUT_FORMAT': '[{severity}] {name}: {message}'}
    # The older names only where nothing else is understood: newer releases warn about them.
    distribution = os.environ.get('ROS_DISTRO', '')
    for name, value, distributions in _OLDER_NAMES:
        environment.pop(name, None)
        if distribution in distributions:
            environment[name] = value or profile
    return environment


def free_domain_id() -> int:
    """Return a ROS domain id that no process of this machine seems to use.

    It is ours until this process ends: no other that asks for one gets it, even before a
    participant of ours is there. It is not the one of our environment.
    """
    own = os.environ.get('ROS_DOMAIN_ID', '')
    for domain_id in random.sample(range(1, 101), 100):
        if str(domain_id) != own and _reserve(domain_id):
            return domain_id
    raise ConfigError(
        'ROS_DOMAIN_ID', expected='a domain from 1 to 100 that nobody uses', got='all in use',
        remedy='End ROS 2 processes that are left over on this machine.')


def _reserve(domain_id: int) -> bool:
    """Make a domain ours, unless somebody has it or is in it."""
    first = 7400 + 250 * domain_id  # DDSI-RTPS 9.6.1
    if domain_id not in _RESERVED:
        held = _bind(first + _UNUSED_PORT)
        if held is None:
            return False
        _RESERVED[domain_id] = held
    for port in (first, *range(first + 10, first + 10 + 2 * _PARTICIPANTS)):
        probe = _bind(port)
        if probe is None:
            return False
        probe.close()
    return True


def _bind(port: int) -> socket.socket | None:
    """A socket at a UDP port; None where another process has it."""
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind(('', port))
    except OSError:
        held.close()
        return None
    return held
