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

"""Plays a bag into the policy node over real DDS, and hears what it does. The other ROS file here.

Messages go out byte for byte as they lie in the bag, at their times. Because their stamps are of
yesterday, the bag's time goes out on /clock with them: the node runs with use_sim_time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
import threading
import time

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String

from robot_infer.config import Config, settings
from robot_infer.errors import ConfigError
from robot_infer.replay import messages
from robot_infer.replay.bag import BagMessage, Topic
from robot_infer.replay.dds_recorder import message_type, rclpy_qos
from robot_infer.replay.errors import LiveReplayError
from robot_infer.report.record import StepRecord

_NS_PER_S = 1_000_000_000
_CLOCK_PERIOD_S = 0.01
_PLAYER_DEPTH = 10
_HEARD_DEPTH = 1000
_ANSWER_LIMIT_S = 30.0
_CONFIGURE_LIMIT_S = 300.0
_TRANSITIONS = {'configure': Transition.TRANSITION_CONFIGURE,
                'activate': Transition.TRANSITION_ACTIVATE,
                'deactivate': Transition.TRANSITION_DEACTIVATE}


class DdsPlayer:
    """A participant that plays, beside a node called `node_name`.

    actions: (monotonic ns of receipt, action) as they come. steps: the node's step records.
    latest_s: how far behind its time a message was sent, at most.

    :param check: called again and again while waiting; raises where it makes no sense to wait on.
    """

    def __init__(self, node_name: str, output: str, check: Callable[[], None]) -> None:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._name, self._check = node_name, check
        self._node = rclpy.create_node('robot_infer_replay')
        self.actions: list[tuple[int, messages.Action]] = []
        self.steps: list[StepRecord] = []
        self.latest_s = 0.0
        self._type_name = (messages.JOINT_TRAJECTORY if output == 'joint_trajectory'
                           else messages.FLOAT64_MULTI_ARRAY)
        depth = QoSProfile(depth=_HEARD_DEPTH)
        self._node.create_subscription(
            message_type(self._type_name), '/action', self._on_action, depth, raw=True)
        self._node.create_subscription(String, f'{node_name}/step', self._on_step, depth)
        self._clock = self._node.create_publisher(Clock, '/clock', 10)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name='replay listener', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self._thread.join(5.0)
        self._node.destroy_node()
        rclpy.try_shutdown()

    # The node.

    def transition(self, name: str) -> bool:
        """Ask the node for a lifecycle transition; whether it succeeded."""
        request = ChangeState.Request(transition=Transition(id=_TRANSITIONS[name]))
        limit_s = _CONFIGURE_LIMIT_S if name == 'configure' else _ANSWER_LIMIT_S
        return bool(self._ask(ChangeState, 'change_state', request, limit_s).success)

    def lifecycle_state(self) -> str:
        """Ask the node for its state."""
        return self._ask(GetState, 'get_state', GetState.Request()).current_state.label

    def config(self) -> Config:
        """Ask a running node for its settings.

        :raises ConfigError: where it does not run in the bag's time or tells no steps.
        """
        names = ['use_sim_time', *(setting.name for setting in settings())]
        answer = self._ask(GetParameters, 'get_parameters', GetParameters.Request(names=names))
        values = dict(zip(names, map(parameter_value_to_python, answer.values)))
        for name in ('use_sim_time', 'diagnostics.publish_steps'):
            if not values.get(name):
                raise ConfigError(
                    f'parameter {name} of {self._name}', expected='true, to be played to',
                    got='false', remedy=f'Set it: ros2 param set {self._name} {name} true.')
        del values['use_sim_time']
        return Config.from_flat({name: [] if value is None else value
                                 for name, value in values.items() if value is not None})

    # The bag.

    def play(
        self, stream: Iterable[BagMessage], topics: Mapping[str, tuple[str, Topic]],
        start_ns: int, text: str, progress: Callable[[float], None],
    ) -> int:
        """Play `stream` in real time; returns the monotonic time of `start_ns`.

        :param topics: bag topic -> (topic to play it on, the bag's topic).
        :param text: an instruction to give at the start, '' for none.
        """
        publishers = {name: self._node.create_publisher(
            message_type(topic.type), played_on, rclpy_qos(topic.qos, _PLAYER_DEPTH))
            for name, (played_on, topic) in topics.items()}
        operator = self._node.create_publisher(String, '/instruction', 10) if text else None
        for publisher in filter(None, (*publishers.values(), operator, self._clock)):
            self._wait(lambda p=publisher: p.get_subscription_count() > 0, _ANSWER_LIMIT_S,
                       f'a listener to {publisher.topic_name}')
        began_ns = time.monotonic_ns()
        self._tick_clock(start_ns)
        if operator is not None:
            operator.publish(String(data=text))
        for message in stream:
            due_ns = began_ns + message.time_ns - start_ns
            self._sleep_until(due_ns, began_ns, start_ns)
            self.latest_s = max(self.latest_s, (time.monotonic_ns() - due_ns) / _NS_PER_S)
            self._tick_clock(message.time_ns)
            publishers[message.topic].publish(bytes(message.cdr))
            progress((message.time_ns - start_ns) / _NS_PER_S)
        for publisher in filter(None, (*publishers.values(), operator)):
            self._node.destroy_publisher(publisher)
        return began_ns

    def linger(self, seconds: float) -> None:
        """Listen on, in real time; the bag's clock stands still."""
        until_s = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= until_s, seconds + _ANSWER_LIMIT_S, 'time')

    def _sleep_until(self, due_ns: int, began_ns: int, start_ns: int) -> None:
        """Wait for a message's time; the clock goes on meanwhile."""
        while (left_s := (due_ns - time.monotonic_ns()) / _NS_PER_S) > 0.0:
            time.sleep(min(left_s, _CLOCK_PERIOD_S))
            if left_s > _CLOCK_PERIOD_S:
                self._tick_clock(start_ns + time.monotonic_ns() - began_ns)
                self._check()

    def _tick_clock(self, time_ns: int) -> None:
        clock = Clock()
        clock.clock.sec, clock.clock.nanosec = divmod(time_ns, _NS_PER_S)
        self._clock.publish(clock)

    def _ask(
        self, kind: type, name: str, request: object, limit_s: float = _ANSWER_LIMIT_S,
    ) -> object:
        client = self._node.create_client(kind, f'{self._name}/{name}')
        try:
            self._wait(client.service_is_ready, _ANSWER_LIMIT_S, f'the node {self._name}')
            answer = client.call_async(request)
            self._wait(answer.done, limit_s, f'an answer of {self._name}/{name}')
            return answer.result()
        finally:
            self._node.destroy_client(client)

    def _wait(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        give_up_s = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > give_up_s:
                raise LiveReplayError(
                    'live replay', expected=f'{what} within {limit_s:g} s', got='nothing',
                    remedy='See that the node runs, in this ROS_DOMAIN_ID, under this name.')
            time.sleep(0.01)
            self._check()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass

    def _on_action(self, cdr: bytes) -> None:
        self.actions.append((time.monotonic_ns(), messages.action(cdr, self._type_name)))

    def _on_step(self, message: String) -> None:
        self.steps.append(StepRecord.from_json(message.data))
