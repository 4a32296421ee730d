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

"""The guard's node: `robot_infer_guard`, between the policy node and the robot's controller.

    action_raw ─► passed on while it comes in time, else the safe action ─► action

It shares nothing with the policy node but topics: remap that node's `action` to `action_raw` (the
launch file does so with guard:=true). What is decided is decided in control/guard.py.
"""

from __future__ import annotations

from collections.abc import Sequence
import copy
import sys

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import TransitionEvent
import numpy as np
from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

try:
    from rclpy.event_handler import PublisherEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, UnsupportedEventTypeError

from robot_infer.control import MonotonicClock
from robot_infer.control.guard import Guard, GuardState, GuardStatus, Substitutes
from robot_infer.control.realtime import Realtime
from robot_infer.control.state import StateStore
from robot_infer.ros import diagnostics, messages, qos
from robot_infer.ros.messages import ActionMessage
from robot_infer.ros.parameters import Parameters
from robot_infer.ros.spin import run

NAME = 'robot_infer_guard'
_WATCH_PERIOD_S = 0.1
# How long the node may be active, and no action of it be heard, before that is worth a warning.
_UNHEARD_NS = 1_000_000_000
_UNTIL = 'until the node is activated again, or its ~/reset is called'
_AT_WORK = ('active', 'deactivating', 'shuttingdown')


class GuardNode(Node):
    """Topics, log and diagnostics around a Guard.

    :param arguments: the command line that ROS was started with.
    :raises ConfigError: where a setting is wrong; the same parameter file as the node's serves.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        super().__init__(NAME)
        self.config = Parameters(self, lambda: False, None, arguments).config()
        config, self._steady = self.config, MonotonicClock()
        self._realtime = Realtime(config.realtime)
        self._joints, self._period_s = config.state.joints, 1.0 / config.control.rate_hz
        self._state = StateStore(config.state)
        self._convert = messages.CONVERSIONS[config.control.output]
        self._missed_deadlines = 0
        kind = messages.ACTION_TYPES[config.control.output]
        self._publisher = self._open_publisher(kind)
        self.guard: Guard[ActionMessage] = Guard(
            config.guard, config.control, self._steady, self._send,
            Substitutes(self._zeros, self._measured), self._realtime.enter_thread)
        self._raw = self.create_subscription(kind, 'action_raw', self.guard.take, qos.action())
        self.create_subscription(JointState, 'joint_states', self._on_state, qos.state())
        self.create_subscription(
            TransitionEvent, f'{config.guard.node}/transition_event', self._on_transition, 10)
        self.create_subscription(
            DiagnosticStatus, f'{config.guard.node}/status', self._on_status, qos.latched())
        self._node_state, self._node_resets = '', ''
        self._unheard_ns: int | None = None  # since when
        self._diagnostics = self.create_publisher(
            DiagnosticArray, '/diagnostics', qos.diagnostics())
        self._told: GuardState | None = None
        self._due_ns = 0
        self.create_timer(
            _WATCH_PERIOD_S, self._watch, clock=RosClock(clock_type=ClockType.STEADY_TIME))
        self._realtime.enter_process()
        self._realtime.enter_threads()
        self.guard.start()
        self.get_logger().info(
            f'ready: takes over {self.guard.timeout_ns * 1e-6:.0f} ms after the last action, with '
            f'{config.guard.fallback}')

    def end(self) -> None:
        """Watch no more."""
        self.guard.stop(2.0)

    def _open_publisher(self, kind: type[ActionMessage]) -> Publisher:
        """With a promised deadline, its events where the middleware has them."""
        profile = qos.guarded_action(self._period_s)
        try:
            return self.create_publisher(
                kind, 'action', profile,
                event_callbacks=PublisherEventCallbacks(deadline=self._on_missed))
        except UnsupportedEventTypeError:
            return self.create_publisher(kind, 'action', profile)

    def _send(self, action: ActionMessage) -> None:
        if self.context.ok():
            self._publisher.publish(action)

    # Substitutes. A passed message is sent again as it was: names, layout and all.

    def _zeros(self, like: ActionMessage | None) -> ActionMessage:
        if like is None:
            return self._convert(self._joints, np.zeros(len(self._joints)), self._period_s)
        zeros = copy.deepcopy(like)
        if isinstance(zeros, JointTrajectory):
            for point in zeros.points:
                for name in ('positions', 'velocities', 'accelerations', 'effort'):
                    setattr(point, name, [0.0] * len(getattr(point, name)))
        else:
            zeros.data = [0.0] * len(zeros.data)
        return zeros

    def _measured(self) -> ActionMessage | None:
        values = self._state.measured(self._steady.now_ns())
        return None if values is None else self._convert(self._joints, values, self._period_s)

    def _on_state(self, message: JointState) -> None:
        self._state.put(
            message.name, message.position, messages.stamp_ns(message.header.stamp),
            self._steady.now_ns(), self.get_clock().now().nanoseconds)

    def _on_transition(self, event: TransitionEvent) -> None:
        """The node begins or ends in order; one that died says nothing."""
        if event.goal_state.label == 'active':
            self.guard.activated()
        elif event.start_state.label in _AT_WORK:
            self.guard.deactivated()

    def _on_status(self, status: DiagnosticStatus) -> None:
        """What the node tells of itself; one that is started anew counts from 0 again."""
        values = {entry.key: entry.value for entry in status.values}
        self._node_state, resets = values.get('state', ''), values.get('resets', '')
        if self._node_resets not in ('', resets) and resets != '0':
            self.guard.reset()
        self._node_resets = resets

    def _on_missed(self, event: object) -> None:
        self._missed_deadlines = event.total_count

    # Reports.

    def _watch(self) -> None:
        status = self.guard.status()
        if status.state is not self._told:
            self._log(status)
        now_ns = self._steady.now_ns()
        self._listen(status, now_ns)
        if status.state is not self._told or now_ns >= self._due_ns:
            self._told = status.state
            self._due_ns = now_ns + round(self.config.diagnostics.period_s * 1e9)
            array = DiagnosticArray(status=[self._report(status)])
            array.header.stamp = self.get_clock().now().to_msg()
            self._diagnostics.publish(array)

    def _listen(self, status: GuardStatus, now_ns: int) -> None:
        """Note since when nothing is heard of a node that is active: we began after it."""
        silent = (status.state is GuardState.WAITING and self._node_state == 'active'
                  and self.count_publishers(self._raw.topic_name) > 0)
        if not silent:
            self._unheard_ns = None
        elif self._unheard_ns is None:
            self._unheard_ns = now_ns

    def _log(self, status: GuardStatus) -> None:
        if status.state is GuardState.GUARDING:
            self.get_logger().error(
                f'no action for {self.guard.timeout_ns * 1e-6:.0f} ms: sending '
                f'{self.config.guard.fallback} (intervention {status.interventions})')
        elif status.state is GuardState.SILENT:
            self.get_logger().error('sending nothing any more: guard.max_s is over')
        elif self._told is not None:
            self.get_logger().info(status.state.value)

    def _report(self, status: GuardStatus) -> DiagnosticStatus:
        level, message = diagnostics.OK, status.state.value
        if status.state in (GuardState.GUARDING, GuardState.SILENT):
            level = diagnostics.ERROR
            message = (f'{status.state.value} for {status.since_s:.1f} s: '
                       f'{self.config.guard.fallback}')
            if status.stopped:
                message += f' {_UNTIL}'
        elif status.stopped:
            level, message = diagnostics.ERROR, f'stopped {_UNTIL}'
        elif self._unheard_ns is not None and (
                self._steady.now_ns() - self._unheard_ns > _UNHEARD_NS):
            level, message = diagnostics.WARN, (
                f'waiting, although {self.config.guard.node} is active: no action of it came on '
                f'{self._raw.topic_name} since the guard was started. It knows none to hold, and '
                'sends nothing before one comes or the node is activated again')
        elif status.interventions:
            level = diagnostics.WARN
            message = f'{status.state.value}, {status.interventions} interventions so far'
        gap = status.gap_s
        return diagnostics.make(
            f'{self.get_fully_qualified_name()}: guard', level, message,
            self.config.diagnostics.hardware_id, {
                'state': status.state.value, 'passed': status.passed,
                'interventions': status.interventions, 'substitutes': status.substitutes,
                'withheld': status.withheld, 'skipped': status.skipped,
                'lateness.p99_ms': status.lateness_s.p99 * 1e3,
                'lateness.max_ms': status.lateness_s.max * 1e3,
                'timeout_ms': self.guard.timeout_ns * 1e-6,
                'gap.p50_ms': gap.p50 * 1e3, 'gap.p99_ms': gap.p99 * 1e3,
                'gap.max_ms': gap.max * 1e3, 'offered_deadline_missed': self._missed_deadlines,
                **{f'realtime.{outcome.name}': outcome.words
                   for outcome in self._realtime.outcomes()}})


def main(args: Sequence[str] | None = None) -> int:
    """Run the guard until SIGINT or SIGTERM; returns the exit status."""
    return run(GuardNode, args)


if __name__ == '__main__':
    sys.exit(main())
