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

"""The words everyone speaks: what passes from room to room, as frozen dataclasses.

No behaviour beyond what a word needs to be itself; nothing is imported from other rooms.
Times ending in `_ns` are integers: `stamp_ns` is the clock of the sender (ROS time),
`*_ns` without `stamp` is this process's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import enum

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Frame:
    """One decoded camera image.

    rgb: (height, width, 3) uint8, C-contiguous. `stamp_trusted` is False where the sender's
    stamp was 0 and the receive time stands in for it.
    """

    camera: str
    rgb: NDArray[np.uint8]
    stamp_ns: int
    received_ns: int
    stamp_trusted: bool = True


@dataclass(frozen=True)
class RobotState:
    """Joint positions in the order the policy was trained on: (state_dim,) float32, SI units."""

    values: NDArray[np.float32]
    stamp_ns: int
    received_ns: int


@dataclass(frozen=True)
class Observation:
    """Everything one inference step looks at; frames are bound by camera name, never by order."""

    frames: Mapping[str, Frame]
    state: RobotState
    instruction: str
    observed_ns: int

    @property
    def oldest_frame_stamp_ns(self) -> int:
        """Stamp of the oldest frame used: the start of the end-to-end latency."""
        return min(frame.stamp_ns for frame in self.frames.values())

    @property
    def newest_frame_stamp_ns(self) -> int:
        """Stamp of the newest frame used: the stamp of the actions that follow from it."""
        return max(frame.stamp_ns for frame in self.frames.values())


@dataclass(frozen=True)
class PageKey:
    """Name of a run of prefix tokens: everything the entries of tokens [0, end) depend on.

    end: number of tokens covered; a page edge, or the end of an attention group.
    digest: of the domain and of every identity visible to the last of these tokens.
    """

    end: int
    digest: bytes


@dataclass(frozen=True)
class StepBudget:
    """What one inference step may spend.

    horizon: actions wanted, at most the policy's own (shorter is exact where action tokens are
    causal); None means the full chunk.
    denoise_steps: Euler steps of the action head, one of the counts made ready at configure;
    fewer are an approximation; None means the policy's own.
    """

    horizon: int | None = None
    denoise_steps: int | None = None


@dataclass(frozen=True)
class StepReport:
    """What one inference step did.

    stages_s: seconds per stage, in the order they ran
    (preprocess, vision, prefill, denoise, postprocess).
    late_kernels: GPU kernels that were compiled, or given memory, in this step: 0, or a defect.
    """

    epoch: int
    stages_s: Mapping[str, float]
    tokens_total: int
    tokens_computed: int
    cameras_encoded: int
    pages_used: int
    pages_total: int
    late_kernels: int = 0

    @property
    def tokens_reused(self) -> int:
        """Prefix tokens whose keys and values were already in pages."""
        return self.tokens_total - self.tokens_computed

    @property
    def total_s(self) -> float:
        """Seconds from observation in to chunk out."""
        return sum(self.stages_s.values())


@dataclass(frozen=True)
class ActionChunk:
    """Actions for the next control ticks, in physical units.

    values: (horizon, action_dim) float32; row k is meant for the k-th control tick after the
    observation, which was taken at `observed_ns`.
    """

    values: NDArray[np.float32]
    period_s: float
    epoch: int
    observed_ns: int
    frame_stamps_ns: Mapping[str, int]
    state_stamp_ns: int
    report: StepReport | None = field(default=None, compare=False)


class Source(enum.Enum):
    """Where the action of one control tick came from."""

    CHUNK = 'chunk'
    HOLD = 'hold'
    ZERO = 'zero'
    STOP = 'stop'


@dataclass(frozen=True)
class Command:
    """What one control tick sends to the robot.

    values: (action_dim,) float64, or None where nothing may be sent yet (no state was ever seen,
    so there is no position to hold). `reason` names why a fallback was taken ('' for CHUNK).
    """

    values: NDArray[np.float64] | None
    source: Source
    reason: str
    epoch: int
    stamp_ns: int
