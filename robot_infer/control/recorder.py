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

"""What a listener to every inference step and control tick looks like; reports and replays are.

Nothing is recorded here. A recorder must be quick and must not block: `tick` runs on the control
thread, `step` on the worker.
"""

from __future__ import annotations

from typing import Protocol

from robot_infer.control.chunks import InputTimes
from robot_infer.types import ActionChunk, Command


class Recorder(Protocol):
    """Told of each tick and each step that gave a chunk, as they happen."""

    def tick(self, command: Command, *, scheduled_ns: int, started_ns: int, skipped: int,
             late: bool) -> None:
        """One control tick; `skipped` periods before it had none."""
        ...

    def step(self, chunk: ActionChunk, *, observe_s: float, ended_ns: int, deadline_s: float,
             inputs: InputTimes | None) -> None:
        """One inference step, from observation to chunk."""
        ...
