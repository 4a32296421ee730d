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


"""The lifecycle node: `robot_infer_node`.

    configure    read the parameters, load and warm up the policy, open the topics
    activate     listen, infer, send actions
    deactivate   send no more actions (within one control period), forget chunks
    cleanup      give all memory back

A transition that fails is undone and says why, in the log and in the diagnostics; the node lives
on and can be configured again. What a session holds is in session.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
import sys
import traceback

from lifecycle_msgs.srv import ChangeState
from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleState, Node, TransitionCallbackReturn

from robot_infer.config import Config
from robot_infer.control import MonotonicClock, RuntimeStatus
from robot_infer.control.memory import give_back_memory, keep_freed_memory
from robot_infer.errors import ConfigError, RobotInferError
from robot_infer.ros.journal import Journal
from robot_infer.ros.parameters import Parameters
from robot_infer.ros.reports import WATCH_PERIOD_S, Reports
from robot_infer.ros.services import Services
from robot_infer.ros.session import Session
from robot_infer.ros.spin import run

NAME = 'robot_infer'
RCLError = rclpy_implementation.RCLError  # rclpy gives it no public name
MIB = 2**20
SWITCH_INTERVAL_S = 0.0005


class PolicyNode(Node):
    """Parameters, lifecycle and reports; the work is done by the session's runtime.

    :param arguments: the command line that ROS was started with.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        super().__init__(NAME)
        self._clock_steady = MonotonicClock()
        self._state, self._failure = 'unconfigured', ''
        self._session: Session | None = None
        self._settings = Parameters(
            self, lambda: self._session is None, self._apply_live, arguments)
        self._journal = Journal(self.get_logger(), self._clock_steady)
        self._operator = Services(
            self, lambda: self._session.runtime if self._session else None, self._begin_anew)
        self._reports = Reports(self, self._clock_steady)
        # On the steady clock: neither simulated time that stands still nor a clock that is set
        # back may silence the reports.
        self._steady = RosClock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(WATCH_PERIOD_S, self._watch, clock=self._steady)
        self._answer_impossible_transitions()
        self.get_logger().info('unconfigured: waiting for the configure transition')

    @property
    def session(self) -> Session | None:
        """What there is from configure to cleanup."""
        return self._session

    # Lifecycle. Each callback is wrapped: rclpy swallows exceptions of transitions without a word.

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load, warm up, open the topics."""
        return self._transition('configure', self._configure, 'inactive')

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to send actions."""
        def activate() -> None:
            super(PolicyNode, self).on_activate(state)
            self._journal.forget()
            try:
                self._session.activate()
            except BaseException:
                self._session.deactivate()
                super(PolicyNode, self).on_deactivate(state)
                raise
        return self._transition('activate', activate, 'active')

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Send no more actions; forget what was to be sent."""
        def deactivate() -> None:
            if not self._session.deactivate():
                self.get_logger().info(
                    'an inference step is still under way; its chunk will be thrown away')
            super(PolicyNode, self).on_deactivate(state)
        # A node that could not be stopped in order is closed (on_error), not left active.
        return self._transition(
            'deactivate', deactivate, 'inactive', TransitionCallbackReturn.ERROR)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Give all memory back."""
        return self._transition('cleanup', self._close_session, 'unconfigured')

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop and give everything back, from any state."""
        return self._transition('shutdown', self._close_session, 'finalized')

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After a transition that raised: everything is closed, the node may be configured."""
        return self._transition('error handling', self._close_session, 'unconfigured')

    def end(self) -> None:
        """Before the process ends: stop the threads, quietly."""
        if self._session is not None:
            self._session.stop()

    def _transition(
        self, name: str, body: Callable[[], None], then: str,
        failed: TransitionCallbackReturn = TransitionCallbackReturn.FAILURE,
    ) -> TransitionCallbackReturn:
        """Run one transition; a failing one is logged, and shown until the next one succeeds."""
        try:
            return self._attempt(name, body, then, failed)
        finally:
            if self._session is None:  # and here no traceback holds on to what was undone
                give_back_memory()

    def _attempt(
        self, name: str, body: Callable[[], None], then: str, failed: TransitionCallbackReturn,
    ) -> TransitionCallbackReturn:
        before = self._state
        try:
            body()
        except RobotInferError as error:
            self._failure = f'{name} failed: {error.name}: {error}'
            self.get_logger().error(self._failure)
        except Exception as error:
            self._failure = f'{name} failed: {type(error).__name__}: {error}'
            self.get_logger().error(f'{self._failure}\n{traceback.format_exc()}')
        else:
            self._state, self._failure = then, ''
            self.get_logger().info(f'{name}: {before} -> {then}')
            self._reports.soon()
            return TransitionCallbackReturn.SUCCESS
        self._reports.soon()
        return failed

    def _answer_impossible_transitions(self) -> None:
        """On Humble and Jazzy such a request raises and gets no answer (rclpy 1209): give one."""
        service = getattr(self, '_service_change_state', None)
        if service is None:
            return
        ask = service.callback

        def answer(
            request: ChangeState.Request, response: ChangeState.Response,
        ) -> ChangeState.Response:
            try:
                return ask(request, response)
            except RCLError as error:
                self.get_logger().error(f'transition {request.transition.id} is not possible '
                                        f'while {self._state} ({error})')
                response.success = False
                return response
        service.callback = answer

    def _configure(self) -> None:
        config = self._settings.config()
        where = config.policy.checkpoint or 'the demo policy'
        self.get_logger().info(f'loading {where} in {config.policy.dtype} on '
                               f'{config.policy.device}')
        self._session = Session(self, config, self._clock_steady)
        try:
            self._settings.check_qos_overrides()
        except ConfigError:
            self._close_session()
            raise
        self._operator.hand_on(self._session.runtime)
        keep_freed_memory()
        info = self._session.info
        self.get_logger().info(
            f'ready: {info.family}, cameras {", ".join(config.cameras.names)}, state '
            f'{info.state_dim}, actions {info.horizon} x {info.action_dim}, warm-up '
            f'{info.warm_up_s:.2f} s, {info.threads} threads')
        self.get_logger().info(f'the plan:\n{info.plan}')
        for found in info.measured:
            self.get_logger().info(
                f'{found.name}: {found.planned_bytes / MIB:.1f} MiB planned, '
                f'{found.measured_bytes / MIB:.1f} MiB measured (MiB = 2^20 bytes)')
        for line in info.weights:
            self.get_logger().info(f'{line.name}: {line.num_bytes} bytes; {line.arithmetic}')

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _apply_live(self, config: Config, given: Collection[str]) -> None:
        assert self._session is not None
        self._session.apply_live(config, given)

    # Reports.

    def _begin_anew(self) -> None:
        """The runtime started over: its faults are news again."""
        self._journal.forget()
        self._reports.started_over()

    def _watch(self) -> None:
        """Log, status and diagnostics; an error in them is logged and ends nothing."""
        try:
            if self._session is not None:
                self._session.inputs.time.look()
            runtime = self._session.runtime.status() if self._session else None
            if runtime is not None:
                self._journal.look(runtime)
                self._end_when_stopped(runtime)
                for warning in self._session.runtime.take_warnings():
                    self.get_logger().warning(warning)
            self._reports.publish(
                self._state, self._failure, self._operator.enabled, self._session, runtime)
        except Exception:
            if self.context.ok():
                self.get_logger().error(
                    f'reporting failed\n{traceback.format_exc()}', throttle_duration_sec=10.0)

    def _end_when_stopped(self, runtime: RuntimeStatus) -> None:
        """Deactivate a node that stopped its robot for good, where that is wanted."""
        if (runtime.running and runtime.latched
                and self._session.config.control.deactivate_on_stop):
            self.get_logger().error(f'deactivating: the robot was stopped ({runtime.latched})')
            self.trigger_deactivate()


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM; returns the exit status."""
    # The control tick waits for the interpreter's lock at most this long behind Python code of the
    # worker (5 ms by default): 87 of 360 ticks were late by over 10 ms so, 32 with this.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return run(PolicyNode, args)


if __name__ == '__main__':
    sys.exit(main())
