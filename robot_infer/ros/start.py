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

"""The executables. What they import takes a second and more, and an interrupt may come before."""

from __future__ import annotations

import importlib
import os
import signal


def node() -> int:
    """Run the policy node; returns the exit status."""
    return _start('robot_infer.ros.node')


def guard() -> int:
    """Run the guard; returns the exit status."""
    return _start('robot_infer.ros.guard')


def sim() -> int:
    """Run the simulated robot; returns the exit status."""
    return _start('robot_infer.sim.node')


def _start(module: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # nothing is begun, so nothing is to be undone
        signal.signal(number, lambda *_: os._exit(0))
    return importlib.import_module(module).main()
