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

"""What the runtime tells of itself: one frozen record, for status, diagnostics and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from robot_infer.camera.store import CameraCounters
from robot_infer.control.chunks import ChunkCounters
from robot_infer.control.faults import Fault
from robot_infer.control.realtime import Outcome
from robot_infer.control.stats import DeadlineStatus, InferenceStatus
from robot_infer.control.window import Summary
from robot_infer.errors import FrameError
from robot_infer.types import Command


@dataclass(frozen=True)
class RuntimeStatus:
    """The runtime at one moment.

    :param running: whether control ticks are made by a thread.
    :param worker_alive: whether the inference thread is at work (it may hang after a stop).
    :param faults: those there now. fault_history: every one since the start, with its counts.
    :param instruction: the one in force; '' where there is none.
    :param enabled: whether the robot follows the policy; an operator may have disabled that.
    :param latched: why fallback `stop` holds the robot until the next start; '' where it does not.
    :param chunk_remaining: actions left in the chunk in use.
    :param camera_faults: why the last image of a camera could not be used; None where it could.
    :param clock_jumps: of the stamps' clock, since the runtime was made.
    :param gc_pause_s: pauses of the garbage collector. resident_bytes: of this process.
    :param realtime: what became of each real-time setting.
    :param pages_used: pages of the cache after the newest step; 0 before the first.
    """

    time_ns: int
    running: bool
    worker_alive: bool
    faults: tuple[Fault, ...]
    fault_history: tuple[Fault, ...]
    instruction: str
    last_command: Command | None
    enabled: bool
    latched: str
    chunk_remaining: int
    chunks: ChunkCounters
    deadline: DeadlineStatus
    inference: InferenceStatus
    cameras: Mapping[str, CameraCounters]
    camera_faults: Mapping[str, FrameError | None]
    pages_used: int
    pages_total: int
    clock_jumps: int
    gc_pause_s: Summary
    resident_bytes: int
    realtime: tuple[Outcome, ...]
