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

"""The demo in lock-step and virtual time: world and runtime, without ROS and wall clock.

Camera messages, frame store, chunk buffer and control tick are those of the node. Inference takes
no virtual time of its own, so its latency is modelled: a chunk takes over `latency_ticks` control
ticks after its observation, as on a machine whose inference step takes that long. Hence what
happens depends on seed and checkpoint, not on the machine.
"""

from __future__ import annotations

import time

from robot_infer.config import Config
from robot_infer.control.clock import ManualClock
from robot_infer.control.inference import Engine, Pending
from robot_infer.control.runtime import Runtime
from robot_infer.sim.cameras import raw_image
from robot_infer.sim.episodes import NUM_BLOCKS, EpisodePlan
from robot_infer.sim.world import CAMERAS, CONTROL_PERIOD_S, JOINT_NAMES, World
from robot_infer.types import Command, Source

_TICK_NS = round(CONTROL_PERIOD_S * 1e9)
_STAMP_ORIGIN_NS = 1_000_000_000_000_000_000  # the virtual ROS clock; stamp 0 would mean 'none'


class LockStep:
    """One episode: its world, the runtime that drives it, and the virtual clock they share."""

    def __init__(
        self, config: Config, engine: Engine, plan: EpisodePlan, latency_ticks: int,
    ) -> None:
        """Begin the episode: the instruction is given, the first frames are there."""
        self.world = World(plan.world_seed, NUM_BLOCKS)
        self.inference_s: list[float] = []
        self.ticks = 0
        self.fallback_ticks = 0
        self._every = max(1, round(config.control.rate_hz / config.inference.rate_hz))
        self._latency = latency_ticks
        self._clock = ManualClock(start_ns=1_000_000_000)
        self.runtime = Runtime(config, engine, self._clock, send=self._take)
        self.runtime.set_instruction(plan.instruction)
        self._target = self.world.state()
        self._pending: Pending | None = None
        self._next_inference = 0
        self._delivery = 0
        self._show()

    def step(self) -> None:
        """One control period: read the joints, perhaps infer, tick, let the world go on."""
        now_ns = self._clock.now_ns()
        stamp_ns = _STAMP_ORIGIN_NS + now_ns
        self.runtime.put_state(
            JOINT_NAMES, self.world.state().tolist(), stamp_ns, now_ns, stamp_ns)
        self._deliver()
        if self._pending is None and self.ticks >= self._next_inference:
            self._infer()
            self._deliver()  # at a latency of 0
        command = self.runtime.tick_once()
        self.fallback_ticks += command.source is not Source.CHUNK
        self.ticks += 1
        if self.ticks >= self._next_inference:
            self._show()  # one period old when it is looked at, as in the running robot
        self.world.step(self._target)
        self._clock.advance_ns(_TICK_NS)

    def _infer(self) -> None:
        started = time.perf_counter()
        self._pending = self.runtime.begin_inference()
        self.inference_s.append(time.perf_counter() - started)
        self._next_inference = self.ticks + self._every
        self._delivery = self.ticks + self._latency

    def _deliver(self) -> None:
        if self._pending is not None and self.ticks >= self._delivery:
            self.runtime.deliver(self._pending)
            self._pending = None

    def _take(self, command: Command) -> None:
        self._target = command.values

    def _show(self) -> None:
        """Send the pictures that an inference step will read; others would only be replaced."""
        now_ns = self._clock.now_ns()
        stamp_ns = _STAMP_ORIGIN_NS + now_ns
        for camera in CAMERAS:
            self.runtime.put_image(camera, raw_image(
                camera, self.world.render(camera), stamp_ns=stamp_ns, received_ns=now_ns,
                received_stamp_ns=stamp_ns))
