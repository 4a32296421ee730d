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


"""What a configured node holds: engine, runtime, topics. Made whole or not at all.

The lifecycle (node.py) makes one at configure and closes it at cleanup; everything that is opened
here is closed in the reverse order, also when the making itself fails half way.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
import threading
from typing import TYPE_CHECKING

from rclpy.lifecycle import Node
from std_msgs.msg import String

from robot_infer.config import Config
from robot_infer.control import Clock, Runtime
from robot_infer.control.memory import resident_bytes
from robot_infer.control.remote import RemoteEngine
from robot_infer.engine_process import load_engine
from robot_infer.errors import ConfigError, RobotInferError
from robot_infer.report.record import StepRecord
from robot_infer.report.recorder import StepRecorder
from robot_infer.ros import messages, outputs, qos
from robot_infer.ros.debug import DebugTopics
from robot_infer.ros.inputs import Inputs
from robot_infer.ros.outputs import OutputStatus
from robot_infer.types import Command

if TYPE_CHECKING:
    from robot_infer.engine import Engine


class Session:
    """Everything between configure and cleanup.

    ready_bytes: what was held when it was made, all memory taken and the policy warm.

    :raises RobotInferError: what does not fit: settings, checkpoint, budget.
    """

    def __init__(self, node: Node, config: Config, clock: Clock) -> None:
        self.config, self._node = config, node
        self._active = threading.Event()
        self._convert = messages.CONVERSIONS[config.control.output]
        with ExitStack() as undo:
            engine = self._engine = _load_engine(config)
            undo.callback(engine.close)
            self.info = engine.info
            _check_output(config, engine)
            recorder = None
            if config.diagnostics.publish_steps:
                self._steps = node.create_publisher(String, '~/step', qos.steps())
                undo.callback(node.destroy_publisher, self._steps)
                recorder = StepRecorder(self._tell_step)
            self.runtime = Runtime(config, engine, clock, self._send, recorder)
            undo.callback(self.deactivate)
            if config.diagnostics.publish_debug:
                undo.callback(
                    DebugTopics(node, self.runtime, 1.0 / config.control.rate_hz).close)
            self._actions = node.create_lifecycle_publisher(
                messages.ACTION_TYPES[config.control.output], 'action', qos.action(),
                qos_overriding_options=qos.overridable())
            undo.callback(node.destroy_lifecycle_publisher, self._actions)
            self._echo = node.create_publisher(String, '~/instruction_active', qos.latched())
            undo.callback(node.destroy_publisher, self._echo)
            self.inputs = Inputs(node, config, self.runtime, clock, self._instruct)
            undo.callback(self.inputs.close)
            self._tell_instruction()
            self.ready_bytes = self.held_bytes()
            self._undo = undo.pop_all()

    def activate(self) -> None:
        """Begin to infer and to send."""
        self._active.set()
        self.runtime.start()

    def deactivate(self) -> bool:
        """Send nothing more from here on; False where a step of the engine is still under way.

        It is given a control period to end: whoever deactivates must not have to wait for more.
        """
        return self._stop(1.0 / self.config.control.rate_hz)

    def _stop(self, step_timeout_s: float | None = None) -> bool:
        self._active.clear()
        ended = self.runtime.stop(step_timeout_s=step_timeout_s)
        for fault in self.runtime.faults.active():  # over with the run; their counts are kept
            self.runtime.faults.clear(fault.name)
        return ended

    def stop(self) -> bool:
        """As `deactivate`, and wait for the step under way; a process that hangs is ended.

        False where the engine hangs in this process.
        """
        ended = self._stop()
        if not ended and isinstance(self._engine, RemoteEngine):
            self._engine.kill()
            ended = self._stop()
        return ended

    def close(self) -> None:
        """Give everything back.

        :raises RobotInferError: where the engine hangs in this process; nothing is closed then.
        """
        if not self.stop():
            raise RobotInferError(
                'inference thread', expected='its end after deactivate', got='a step that hangs',
                remedy='Wait and clean up again, or end the process.')
        self._undo.close()

    def output(self) -> OutputStatus:
        """Who listens to the actions."""
        return outputs.look(self._node, self._actions)

    def held_bytes(self) -> int:
        """Resident memory of this process, and of the policy's where it has one of its own."""
        engine = self._engine
        policys = resident_bytes(engine.pid or 0) if isinstance(engine, RemoteEngine) else 0
        return resident_bytes() + policys

    def apply_live(self, config: Config, given: Collection[str]) -> None:
        """Take over live settings, `given` by name; raises RobotInferError where refused."""
        try:
            self.runtime.apply_live(config, given)
            self.config = config
        finally:
            self._tell_instruction()

    def _instruct(self, text: str) -> None:
        self.runtime.put_instruction(text)
        self._tell_instruction()

    def _tell_instruction(self) -> None:
        """Say which instruction is in force now: '' where there is none."""
        self._echo.publish(String(data=self.runtime.instruction))

    def _tell_step(self, record: StepRecord) -> None:
        """On the inference thread: one step, as a line of JSON."""
        if self._active.is_set() and self._node.context.ok():
            self._steps.publish(String(data=record.to_json()))

    def _send(self, command: Command) -> None:
        """On the control thread: one action to the robot.

        Takes no lock that another thread of ours takes; that rules out asking the context, and
        one that was shut down meanwhile raises, which nobody is there to read.
        """
        if self._active.is_set():
            self._actions.publish(self._convert(
                self.config.state.joints, command.values, 1.0 / self.config.control.rate_hz))


def _check_output(config: Config, engine: RemoteEngine | Engine) -> None:
    joints, action_dim = config.state.joints, engine.info.action_dim
    if config.control.output == 'joint_trajectory' and action_dim != len(joints):
        raise ConfigError(
            'parameter control.output', expected='float64_multi_array for this policy, whose '
            f'{action_dim} actions are not positions of the {len(joints)} joints',
            got='joint_trajectory', remedy='Set control.output: float64_multi_array.')


def _load_engine(config: Config) -> RemoteEngine | Engine:
    """Load and warm up, in a process of its own or in this one."""
    return RemoteEngine(config) if config.policy.process else load_engine(config)
