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

"""What the node tells of itself: ~/status and /diagnostics, when, and from which records.

What is said about each record stands in diagnostics.py and topic_diagnostics.py; the log is the
journal's.
"""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
import rclpy
from rclpy.node import Node

from robot_infer import transport
from robot_infer.config import DiagnosticsSettings
from robot_infer.control import Clock, RuntimeStatus
from robot_infer.control.memory import resident_bytes
from robot_infer.errors import StateError
from robot_infer.ros import diagnostics, qos, topic_diagnostics
from robot_infer.ros.diagnostics import NodeStatus
from robot_infer.ros.session import Session

WATCH_PERIOD_S = 0.2  # how soon a change is seen in the log and in ~/status


class Reports:
    """Both once a period; ~/status also when something changed. Used by one thread.

    The period is counted on the steady clock: neither simulated time that stands still nor a
    clock that is set back may silence the reports.
    """

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node, self._clock = node, clock
        self._rates = topic_diagnostics.Rates()
        self._profile = transport.find_profile() if transport.needs_profile(
            rclpy.get_rmw_implementation_identifier()) else None
        self._last_key: object = None
        self._resets = 0
        self._status_due_ns = self._diagnostics_due_ns = 0
        self._status = node.create_publisher(DiagnosticStatus, '~/status', qos.latched())
        self._diagnostics = node.create_publisher(
            DiagnosticArray, '/diagnostics', qos.diagnostics())

    def soon(self) -> None:
        """Show what changed at the next look rather than a period later."""
        self._status_due_ns = self._diagnostics_due_ns = 0

    def started_over(self) -> None:
        """~/reset was called: whoever listens to ~/status is to know."""
        self._resets += 1
        self.soon()

    def publish(
        self, state: str, failure: str, enabled: bool, session: Session | None,
        runtime: RuntimeStatus | None,
    ) -> None:
        """Publish what is due; to be called every WATCH_PERIOD_S.

        :param state, failure, enabled: see diagnostics.NodeStatus.
        :param runtime: of the session, now; None where there is no session.
        """
        settings = session.config.diagnostics if session else DiagnosticsSettings()
        now_ns, period_ns = self._clock.now_ns(), round(settings.period_s * 1e9)
        key = (state, failure, enabled, _change_key(runtime))
        status_is_due = key != self._last_key or now_ns >= self._status_due_ns
        diagnostics_are_due = now_ns >= self._diagnostics_due_ns
        if not (status_is_due or diagnostics_are_due):
            return
        status = self._node_status(state, failure, enabled, session)
        if status_is_due:
            self._last_key, self._status_due_ns = key, now_ns + period_ns
            self._status.publish(diagnostics.summary(status, runtime, self._hardware_id()))
        if diagnostics_are_due:
            self._diagnostics_due_ns = now_ns + period_ns - round(WATCH_PERIOD_S * 0.5e9)
            if session is None or runtime is None:
                tasks = self._without_session(status, settings)
            else:
                tasks = self._of_session(status, session, runtime, now_ns)
            array = DiagnosticArray(status=tasks)
            array.header.stamp = self._node.get_clock().now().to_msg()
            self._diagnostics.publish(array)

    def _hardware_id(self) -> str:
        return str(self._node.get_parameter('diagnostics.hardware_id').value)

    def _node_status(
        self, state: str, failure: str, enabled: bool, session: Session | None,
    ) -> NodeStatus:
        name = self._node.get_fully_qualified_name()
        if session is None:
            return NodeStatus(
                name, state, failure, {}, None, resident_bytes(), enabled, self._resets)
        info = session.info
        policy = {name: str(getattr(info, name)) for name in (
            'family', 'checkpoint', 'dtype', 'kv_format', 'device', 'threads', 'state_dim',
            'action_dim', 'horizon')}
        policy['weights'] = '; '.join(f'{line.name}, {line.num_bytes} bytes: {line.arithmetic}'
                                      for line in info.weights) or 'as_loaded'
        memory = diagnostics.Memory(
            {line.name: line.num_bytes for line in info.memory}, info.taken_bytes,
            session.ready_bytes)
        return NodeStatus(
            name, state, failure, policy, memory, session.held_bytes(), enabled, self._resets)

    def _without_session(
        self, status: NodeStatus, settings: DiagnosticsSettings,
    ) -> list[DiagnosticStatus]:
        hardware_id = self._hardware_id()
        return [diagnostics.node(status, hardware_id),
                diagnostics.faults(status, (), (), hardware_id),
                diagnostics.memory(status, settings.memory_warn_bytes, hardware_id)]

    def _of_session(
        self, status: NodeStatus, session: Session, runtime: RuntimeStatus, now_ns: int,
    ) -> list[DiagnosticStatus]:
        config, inputs, rates = session.config, session.inputs, self._rates
        hardware_id, wanted = self._hardware_id(), status.state == 'active'
        state_faults = [
            fault.message for fault in runtime.faults if fault.name == StateError.__name__]
        return [
            diagnostics.node(status, hardware_id),
            diagnostics.faults(status, runtime.faults, runtime.fault_history, hardware_id),
            diagnostics.control(
                status, runtime, config.control.rate_hz, config.diagnostics, hardware_id),
            diagnostics.inference(status, runtime, hardware_id),
            *(self._camera(status, session, runtime, name, now_ns) for name in inputs.cameras),
            topic_diagnostics.link(
                status, 'joint states', rates.measure(inputs.state.status(), now_ns),
                '; '.join(state_faults), wanted, config.state.max_age_s, hardware_id),
            topic_diagnostics.instruction(
                status, rates.measure(inputs.instruction.status(), now_ns), runtime.instruction,
                wanted, hardware_id),
            topic_diagnostics.action(status, session.output(), wanted, hardware_id),
            topic_diagnostics.clock(
                status, inputs.time.status(), runtime.faults, runtime.clock_jumps, hardware_id),
            diagnostics.cache(status, runtime, hardware_id),
            diagnostics.realtime(status, runtime, hardware_id),
            diagnostics.memory(status, config.diagnostics.memory_warn_bytes, hardware_id)]

    def _camera(
        self, status: NodeStatus, session: Session, runtime: RuntimeStatus, name: str,
        now_ns: int,
    ) -> DiagnosticStatus:
        counters = runtime.cameras[name]
        rate = self._rates.measure(
            session.inputs.cameras[name].status(), now_ns, counters.stale + counters.bad)
        return topic_diagnostics.camera(
            status, name, rate, counters, runtime.camera_faults[name], status.state == 'active',
            session.config.cameras.max_age_s, self._profile, self._hardware_id())


def _change_key(runtime: RuntimeStatus | None) -> object:
    """What of it makes ~/status worth sending at once."""
    if runtime is None:
        return None
    command = runtime.last_command
    return (runtime.instruction, runtime.latched,
            tuple((fault.name, fault.message) for fault in runtime.faults),
            (command.source, command.reason) if command else None)
