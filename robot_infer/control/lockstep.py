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

"""A runtime in lock-step: control ticks one by one, on a clock that somebody else turns.

Inference takes no time on such a clock, so its latency is modelled: a chunk takes over
`latency_ticks` control ticks after its observation, as on a machine whose inference step takes
that long. Hence what is sent depends on messages, seed and checkpoint, never on the machine. Who
turns the clock and brings the messages is the demo world (sim/lockstep.py) or a bag (replay/).
"""

from __future__ import annotations

import time

from robot_infer.config import Config
from robot_infer.control.inference import Pending
from robot_infer.control.runtime import Runtime
from robot_infer.types import Command

DEFAULT_LATENCY_TICKS = 2


class LockStep:
    """Decides before which ticks an inference step is made, and when its chunk is there.

    ticks: control ticks made. inference_s: real seconds that each inference step took.
    """

    def __init__(self, runtime: Runtime, config: Config, latency_ticks: int) -> None:
        self.ticks = 0
        self.inference_s: list[float] = []
        self._runtime = runtime
        self._every = ticks_per_inference(config)
        self._latency = latency_ticks
        self._pending: Pending | None = None
        self._next_inference = 0
        self._delivery = 0

    @property
    def inference_due(self) -> bool:
        """Whether the next tick comes after an inference step, where that is not under way."""
        return self.ticks >= self._next_inference

    def tick(self, news: bool = True) -> Command:
        """One control tick at the clock's time, with what is due before it.

        news: whether a message came since the last inference step; like the worker, no step is
        made without, the inputs are only looked at.
        """
        self._deliver()
        if self._pending is None and self.inference_due:
            self._infer(news)
            self._deliver()  # at a latency of 0
        command = self._runtime.tick_once()
        self.ticks += 1
        return command

    def _infer(self, news: bool) -> None:
        if not news:
            self._runtime.check_inputs()
            return
        started = time.perf_counter()
        self._pending = self._runtime.begin_inference()
        self.inference_s.append(time.perf_counter() - started)
        self._next_inference = self.ticks + self._every
        self._delivery = self.ticks + self._latency

    def _deliver(self) -> None:
        if self._pending is not None and self.ticks >= self._delivery:
            self._runtime.deliver(self._pending)
            self._pending = None


def ticks_per_inference(config: Config) -> int:
    """Control ticks from one inference step to the next."""
    return max(1, round(config.control.rate_hz / config.inference.rate_hz))
