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

"""The executables: what must be done before anything large is imported.

What they import takes a second and more, and an interrupt may come before; and it starts threads.

    python -m robot_infer.ros.start node --ros-args ...      also guard, sim
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys

_M_ARENA_MAX = -8  # malloc.h of glibc


def node() -> int:
    """Run the policy node; returns the exit status."""
    return _start('robot_infer.ros.node')


def guard() -> int:
    """Run the guard; returns the exit status."""
    return _start('robot_infer.ros.guard')


def sim() -> int:
    """Run the simulated robot; returns the exit status."""
    return _start('robot_infer.sim.node')


def share_freed_memory() -> bool:
    """Let the C library serve all threads from one arena; whether it can. Before there are others.

    By default threads have arenas of their own, and what is freed in one serves no other: the node
    grew by an image whenever a thread met a backlog that it had not met before, for hours.
    """
    libc = ctypes.CDLL(None)
    return hasattr(libc, 'mallopt') and bool(libc.mallopt(_M_ARENA_MAX, 1))


def _start(module: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # nothing is begun, so nothing is to be undone
        signal.signal(number, lambda *_: os._exit(0))
    share_freed_memory()
    return importlib.import_module(module).main()


if __name__ == '__main__':
    sys.exit({'node': node, 'guard': guard, 'sim': sim}[sys.argv.pop(1)]())
