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


"""The robot around the node under test, played over real DDS; and the node's process.

Imported by conftest.py only, where rclpy is there. Everything waits for conditions, none for a
time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import sys
import time

from action_stream import Action
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParametersAtomically
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_infer.report.record import StepRecord
from robot_infer.sim.children import Child, ros_environment

PATIENCE_S = 60.0  # the machine may be busy; a test that passes waits a fraction of it
CAMERAS, JOINTS, POSITION = ('overhead', 'wrist'), ('slide_x', 'slide_y'), (0.1, -0.2)
TRANSITIONS = {'configure': 1, 'cleanup': 2, 'activate': 3, 'deactivate': 4}
BASELINE = {
    'cameras.names': list(CAMERAS), 'cameras.policy_inputs': [], 'cameras.encoding_override': [],
    'cameras.reliability': 'best_effort', 'cameras.max_age_s': 5.0, 'cameras.max_skew_s': 5.0,
    'state.joints': list(JOINTS), 'state.max_age_s': 5.0, 'instruction.text': '',
    'control.chunk_validity_s': 5.0, 'control.output': 'joint_trajectory',
    'control.action_low': [], 'control.action_high': [], 'inference.rate_hz': 10.0,
    'diagnostics.period_s': 0.5, 'diagnostics.publish_steps': False,
    'diagnostics.publish_debug': False, 'cache.kv_format': 'auto',
    'control.max_consecutive_misses': 0, 'control.deactivate_on_stop': False,
    'policy.process': False,  # configures in a fraction of the time; test_engine_process.py has it
}
_LISTS = {'control.action_low': Parameter.Type.DOUBLE_ARRAY,
          'control.action_high': Parameter.Type.DOUBLE_ARRAY,
          'cameras.policy_inputs': Parameter.Type.STRING_ARRAY,
          'cameras.encoding_override': Parameter.Type.STRING_ARRAY}


def good_image() -> Image:
    """A 64x48 rgb8 picture with padded rows."""
    image = Image(encoding='rgb8', width=64, height=48, step=200)
    image.data = array('B', bytes(range(200)) * 48)
    return image


def to_stamp(time_ns: int) -> Time:
    """Nanoseconds as a stamp."""
    return Time(sec=time_ns // 1_000_000_000, nanosec=time_ns % 1_000_000_000)


def good_state() -> JointState:
    """The robot stands at POSITION."""
    return JointState(name=list(JOINTS), position=list(POSITION))


class SimulatedTime:
    """Time as a simulator or a bag has it: it passes, it may be set, it may stand still."""

    def __init__(self) -> None:
        self._ahead_ns, self._stands_at_ns = 0, 0

    def now_ns(self) -> int:
        """The time now, some while after second 0."""
        return self._stands_at_ns or time.monotonic_ns() + self._ahead_ns

    def jump(self, seconds: float) -> None:
        """Set it forward, or back."""
        self._ahead_ns += round(seconds * 1e9)

    def stand(self) -> None:
        """Let it stand still."""
        self._stands_at_ns = self.now_ns()

    def go_on(self) -> None:
        """Let it pass again, from where it stood."""
        self._ahead_ns = self._stands_at_ns - time.monotonic_ns()
        self._stands_at_ns = 0


class Robot:
    """What a robot has around the node: cameras, joints, an operator, and a place for actions.

    `image` and `state` make what is sent 20 times a second while a test waits; None sends nothing.
    `images` has cameras that send something else than `image`. `stamp` makes the stamp of a
    camera's image or of 'joint_states' out of the time now, in ns. `clock`, where there is one,
    is that time, and is sent on /clock before them.

    :param name: of the node, as `~` resolves: with its namespace, where the robot is then too.
    """

    def __init__(self, domain_id: int, name: str = 'robot_infer') -> None:
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain_id)
        namespace = name.rpartition('/')[0]
        self.node = Node('robot', namespace=namespace, context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._others: list[tuple[SingleThreadedExecutor, Node, Context]] = []
        self.name = name
        self._cameras = {camera: self.node.create_publisher(
            Image, f'{camera}/image', qos_profile_sensor_data) for camera in CAMERAS}
        self._joints = self.node.create_publisher(JointState, 'joint_states', 10)
        self._operator = self.node.create_publisher(String, 'instruction', 10)
        self._time: Publisher | None = None
        self.actions: list[Action] = []  # tuples of values; see action_stream.py
        self.status = DiagnosticStatus()
        self.diagnostics: dict[str, DiagnosticStatus] = {}
        self.num_diagnostics = self.num_status = 0
        self.active_instruction: str | None = None
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        listen = self.node.create_subscription
        listen(JointTrajectory, 'action', self._on_trajectory, 100)
        listen(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)
        listen(DiagnosticStatus, f'/{name}/status', self._on_status, latched)
        listen(String, f'/{name}/instruction_active', self._on_instruction, latched)
        self.reset()
        self.node.create_timer(0.05, self._send)

    def reset(self) -> None:
        """Cameras and joints are well, nothing was received."""
        self.image: Callable[[], Image | None] = good_image
        self.images: dict[str, Callable[[], Image | None]] = {}
        self.state: Callable[[], JointState | None] = good_state
        self.stamp: Callable[[str, int], int] = lambda topic, now_ns: now_ns
        self.clock: SimulatedTime | None = None
        if self._time is not None:
            self.node.destroy_publisher(self._time)
            self._time = None
        self._end_others()
        self.forget_actions()

    def forget_actions(self) -> None:
        """Those that were sent until now, also where they are not received yet.

        While a test plays another robot, nobody takes what is sent to this one.
        """
        self.actions.clear()
        self._actions_from_ns = time.time_ns()

    def close(self) -> None:
        """Leave the graph."""
        self._others.append((self.executor, self.node, self.context))
        self._end_others()

    def _end_others(self) -> None:
        while self._others:
            executor, node, context = self._others.pop()
            executor.shutdown()
            node.destroy_node()
            context.try_shutdown()

    def wait(self, condition: Callable[[], object], what: str = '') -> None:
        """Spin until `condition` holds."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, (
                f'waited in vain for {what}; status: {self.status.message!r}')
            self.executor.spin_once(timeout_sec=0.05)
            for executor, _, _ in self._others:
                executor.spin_once(timeout_sec=0.0)

    def transition(self, name: str) -> bool:
        """Ask for a lifecycle transition; whether it succeeded."""
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[name]
        return self._call(ChangeState, 'change_state', request).success

    def lifecycle_state(self) -> str:
        """Ask the node for its state."""
        return self._call(GetState, 'get_state', GetState.Request()).current_state.label

    def set(self, values: dict[str, object]) -> tuple[bool, str]:
        """Set parameters, all or none; (whether it was done, the reason where not)."""
        request = SetParametersAtomically.Request(parameters=[
            Parameter(name, _LISTS.get(name) if value == [] else None, value).to_parameter_msg()
            for name, value in values.items()])
        result = self._call(SetParametersAtomically, 'set_parameters_atomically', request).result
        return result.successful, result.reason

    def get(self, names: list[str]) -> list[object]:
        """Values of parameters."""
        request = GetParameters.Request(names=names)
        values = self._call(GetParameters, 'get_parameters', request).values
        return [parameter_value_to_python(value) for value in values]

    def describe(self, names: list[str]) -> list[object]:
        """Descriptors of parameters."""
        request = DescribeParameters.Request(names=names)
        return self._call(DescribeParameters, 'describe_parameters', request).descriptors

    def enable(self, wanted: bool) -> tuple[bool, str]:
        """Call ~/enable; (whether it was done, the words of the answer)."""
        answer = self._call(SetBool, 'enable', SetBool.Request(data=wanted))
        return answer.success, answer.message

    def trigger(self, service: str) -> tuple[bool, str]:
        """Call ~/reset or ~/clear_statistics; (whether it was done, the words)."""
        answer = self._call(Trigger, service, Trigger.Request())
        return answer.success, answer.message

    def instruct(self, text: str) -> None:
        """Publish an instruction, once the node listens."""
        self.wait(lambda: self._operator.get_subscription_count(), 'a listener for instructions')
        self._operator.publish(String(data=text))

    def wait_status(self, **values: str) -> None:
        """Wait until ~/status shows these values.

        Where the policy is followed then, the actions of before are here too, and one of after: on
        a busy machine a status overtakes what was sent before it.
        """
        def shown() -> dict[str, str]:
            return {pair.key: pair.value for pair in self.status.values}
        self.wait(lambda: values.items() <= shown().items(), f'status {values}')
        if values.get('source') == 'chunk':
            self.wait_actions(1)

    def wait_diagnostics(self, task: str, words: str, level: bytes | None = None) -> str:
        """Wait until a diagnostics task says `words` in its message; returns the message."""
        def message() -> str:
            status = self.diagnostics.get(f'/{self.name}: {task}', DiagnosticStatus())
            return status.message if level in (None, status.level) else ''
        self.wait(lambda: words in message(), f'{words!r} from {task}, not {message()!r}')
        return message()

    def wait_fault(
        self, name: str, words: str, least: bytes = DiagnosticStatus.ERROR,
    ) -> None:
        """Wait until a named fault is on /diagnostics, at that level or above, with `words`."""
        def values() -> dict[str, str]:
            status = self.diagnostics.get(f'/{self.name}: faults', DiagnosticStatus())
            told = status.level >= least
            return {pair.key: pair.value for pair in status.values} if told else {}
        self.wait(lambda: words in values().get(name, ''), f'fault {name} with {words!r}')

    def wait_reports(self, number: int) -> None:
        """Wait for `number` more /diagnostics: a time that the node itself keeps."""
        until = self.num_diagnostics + number
        self.wait(lambda: self.num_diagnostics >= until, 'diagnostics')

    def wait_actions(self, number: int) -> None:
        """Wait for `number` actions that are sent from now on, not only received."""
        now_ns = time.time_ns()
        self.wait(lambda: sum(action.sent_ns >= now_ns for action in self.actions) >= number,
                  f'{number} actions')

    def wait_held(self, number: int) -> None:
        """Wait until the newest actions are one, `number` times, sent from now on.

        A hold that is only seen in the status may end once more: a step that was under way when an
        input was lost still brings its chunk, and one tick that came late may use the last one up.
        """
        now_ns = time.time_ns()

        def held() -> bool:
            newest = [action for action in self.actions[-number:] if action.sent_ns >= now_ns]
            return len(newest) == number and len(set(newest)) == 1
        self.wait(held, f'{number} times the same action')

    def listen_to_arrays(self) -> list[Float64MultiArray]:
        """Collect Float64MultiArray actions from now on.

        By a participant of its own: one cannot listen to a topic in two types.
        """
        heard: list[Float64MultiArray] = []
        context = Context()
        rclpy.init(context=context, domain_id=self.node.context.get_domain_id())
        listener = Node('listener', context=context)
        listener.create_subscription(Float64MultiArray, 'action', heard.append, 10)
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(listener)
        self._others.append((executor, listener, context))
        return heard

    @contextmanager
    def hearing_steps(self) -> Iterator[list[StepRecord]]:
        """Collect what is told of each inference step; diagnostics.publish_steps is on then."""
        heard: list[StepRecord] = []
        listener = self.node.create_subscription(
            String, f'/{self.name}/step',
            lambda message: heard.append(StepRecord.from_json(message.data)), 100)
        try:
            assert self.set({'diagnostics.publish_steps': True})[0]
            yield heard
        finally:
            self.node.destroy_subscription(listener)

    @contextmanager
    def publishing(
        self, make: Callable[[], Image | JointState | String], topic: str, profile: QoSProfile,
    ) -> Iterator[None]:
        """Publish 20 times a second while the test waits, by a further publisher."""
        kind = type(make())
        publisher = self.node.create_publisher(kind, topic, profile)

        def send() -> None:
            message = make()
            if hasattr(message, 'header'):
                message.header.stamp = self.node.get_clock().now().to_msg()
            publisher.publish(message)
        timer = self.node.create_timer(0.05, send)
        try:
            yield
        finally:
            self.node.destroy_timer(timer)
            self.node.destroy_publisher(publisher)

    def _call(self, kind: type, name: str, request: object) -> object:
        client = self.node.create_client(kind, f'/{self.name}/{name}')
        try:
            self.wait(client.service_is_ready, f'service {name}')
            future = client.call_async(request)
            self.wait(future.done, f'an answer of {name}')
            return future.result()
        finally:
            self.node.destroy_client(client)

    def _send(self) -> None:
        now_ns = self.node.get_clock().now().nanoseconds if self.clock is None else self._tick()
        for camera, publisher in self._cameras.items():
            image = self.images.get(camera, self.image)()
            if image is not None:
                image.header.stamp = to_stamp(self.stamp(camera, now_ns))
                publisher.publish(image)
        state = self.state()
        if state is not None:
            state.header.stamp = to_stamp(self.stamp('joint_states', now_ns))
            self._joints.publish(state)

    def _tick(self) -> int:
        """Send the simulated time, and return it."""
        if self._time is None:
            self._time = self.node.create_publisher(Clock, '/clock', 10)
        now_ns = self.clock.now_ns()
        self._time.publish(Clock(clock=to_stamp(now_ns)))
        return now_ns

    def _on_trajectory(self, message: JointTrajectory, info: Mapping[str, int]) -> None:
        assert tuple(message.joint_names) == JOINTS
        action = Action.heard(message.points[0].positions, info)
        if not 0 < action.sent_ns < self._actions_from_ns:
            self.actions.append(action)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        own = {status.name: status for status in message.status
               if status.name.startswith(f'/{self.name}: ')}
        if own:  # another node has another message
            self.diagnostics = own
            self.num_diagnostics += 1

    def _on_status(self, message: DiagnosticStatus) -> None:
        self.status = message
        self.num_status += 1

    def _on_instruction(self, message: String) -> None:
        self.active_instruction = message.data


def start_node(domain_id: int, *arguments: str, **environment: str) -> Child:
    """`robot_infer_node` as a process, with ROS arguments."""
    command = [sys.executable, '-m', 'robot_infer.ros.start', 'node', '--ros-args', *arguments]
    return Child('robot_infer', command, {
        **ros_environment(domain_id), 'OMP_NUM_THREADS': '1', **environment})
