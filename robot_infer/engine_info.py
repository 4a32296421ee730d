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

"""What is told of a loaded engine. Nothing here imports torch, so that any process can read it."""

from __future__ import annotations

from dataclasses import dataclass

from robot_infer.budget.lines import MemoryLine
from robot_infer.control.realtime import Outcome


@dataclass(frozen=True)
class Measured:
    """What some lines of the plan said together, and what was seen when the engine was ready."""

    name: str
    planned_bytes: int
    measured_bytes: int


@dataclass(frozen=True)
class EngineInfo:
    """What was loaded, for status, reports and checks against the configuration.

    :param denoise_steps: Euler steps of a full action head.
    :param kv_format: of the pages: fp32, bf16, int8, fp8 or int4.
    :param memory: what is taken for pages and their like. taken_bytes: what was taken for it.
    :param plan: the table of the whole plan, for a person. measured: what was seen of it.
    :param weights: what quantised weights take, and save; empty where all are as loaded.
    :param realtime: what was asked of the device for real time, obtained or not.
    """

    family: str
    checkpoint: str
    inputs: tuple[str, ...]
    state_dim: int
    action_dim: int
    horizon: int
    denoise_steps: int
    dtype: str
    device: str
    threads: int
    warm_up_s: float
    memory: tuple[MemoryLine, ...]
    realtime: tuple[Outcome, ...] = ()
    taken_bytes: int = 0
    kv_format: str = ''
    weights: tuple[MemoryLine, ...] = ()
    plan: str = ''
    measured: tuple[Measured, ...] = ()
