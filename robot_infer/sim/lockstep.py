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

Camera messages, frame store, chunk buffer and control tick are those of the node, and the latency
of inference is modelled (control/lockstep.py). Hence what happens depends on seed and checkpoint,
not on the machine.
"""

from __future__ import annotations

from robot_infer.config import Config
from robot_infer.control.clock import ManualClock
from robot_infer.control.inference import Engine
from robot_infer.control.lockstep import LockStep as LockStepRuntime
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
        self.fallback_ticks = 0
        self._clock = ManualClock(start_ns=1_000_000_000)
        self.runtime = Runtime(config, engine, self._clock, send=self._take)
        self.runtime.set_instruction(plan.instruction)
        self._steps = LockStepRuntime(self.runtime, config, latency_ticks)
        self._target = self.world.state()
        self._show()

    @property
    def ticks(self) -> int:
        """Control ticks made."""
        return self._steps.ticks

    @property
    def inference_s(self) -> list[float]:
        """Real seconds that each inference step took."""
        return self._steps.inference_s

    def step(self) -> None:
        """One control period: read the joints, perhaps infer, tick, let the world go on."""
        now_ns = self._clock.now_ns()
        stamp_ns = _STAMP_ORIGIN_NS + now_ns
        self.runtime.put_state(
            JOINT_NAMES, self.world.state().tolist(), stamp_ns, now_ns, stamp_ns)
        command = self._steps.tick()
        self.fallback_ticks += command.source is not Source.CHUNK
        if self._steps.inference_due:
            self._show()  # one period old when it is looked at, as in the running robot
        self.world.step(self._target)
        self._clock.advance_ns(_TICK_NS)

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
