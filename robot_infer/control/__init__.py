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

"""Control: the two clocks, ticks, deadlines, fallbacks, faults and their statistics.

No ROS and no torch: messages come in as arrays, the engine is any object with `step` and `info`.
"""

from robot_infer.control.chunks import (
    ChunkAction,
    ChunkBuffer,
    ChunkCounters,
    Delivery,
    InputTimes,
    Reason,
    Ticket,
)
from robot_infer.control.clock import Clock, ManualClock, MonotonicClock
from robot_infer.control.faults import Fault, FaultBoard
from robot_infer.control.inference import Engine, EngineInfo, Pending
from robot_infer.control.runtime import Runtime
from robot_infer.control.schedule import Period, RateKeeper
from robot_infer.control.stats import (
    DeadlineStatus,
    InferenceCounters,
    InferenceStatus,
    TickCounters,
)
from robot_infer.control.status import RuntimeStatus
from robot_infer.control.tick import ControlTick
from robot_infer.control.window import SinceReset, Summary, Window

__all__ = [
    'ChunkAction', 'ChunkBuffer', 'ChunkCounters', 'Clock', 'ControlTick', 'DeadlineStatus',
    'Delivery', 'Engine', 'EngineInfo', 'Fault', 'FaultBoard', 'InferenceCounters',
    'InferenceStatus', 'InputTimes', 'ManualClock', 'MonotonicClock', 'Pending', 'Period',
    'RateKeeper', 'Reason', 'Runtime', 'RuntimeStatus', 'SinceReset', 'Summary', 'Ticket',
    'TickCounters', 'Window',
]
