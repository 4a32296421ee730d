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

"""The demo's side of ROS: takes the policy node through its lifecycle, speaks to the robot.

What an episode is, and what becomes of what is heard here, is decided in demo.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
import time

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String

from robot_infer.report.record import StepRecord
from robot_infer.sim import messages
from robot_infer.sim.children import DemoError
from robot_infer.sim.messages import Disturb, Look, Reset, Truth

POLICY_NODE = 'robot_infer'

_TRANSITIONS = {'configure': Transition.TRANSITION_CONFIGURE,
                'activate': Transition.TRANSITION_ACTIVATE}
_SPIN_S = 0.05
_SETTLING_STEPS = 12  # physics steps: several frames of both cameras


class Driver:
    """A node in this process; everything happens in the thread that calls it.

    :param watch: called again and again while waiting; raises where it makes no sense to wait on.
    """

    def __init__(self, watch: Callable[[], None]) -> None:
        # Ctrl-C stays Python's: the demo ends in order, its children first.
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._watch = watch
        self._node = rclpy.create_node('robot_infer_demo')
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._truths: deque[Truth] = deque()
        self.truth: Truth | None = None
        self.steps: list[StepRecord] = []
        self.status: DiagnosticStatus | None = None
        self.pictures: dict[str, bytes] = {}
        many = QoSProfile(depth=200)
        self._listen(String, messages.TRUTH_TOPIC, self._on_truth, many)
        self._listen(String, f'{POLICY_NODE}/step', self._on_step, many)
        self._listen(CompressedImage, messages.PICTURE_TOPIC, self._on_picture, many)
        self._listen(DiagnosticStatus, f'{POLICY_NODE}/status', self._on_status, QoSProfile(
            depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._talk = {topic: self._node.create_publisher(String, topic, QoSProfile(depth=10))
                      for topic in (messages.RESET_TOPIC, messages.DISTURB_TOPIC,
                                    messages.LOOK_TOPIC, 'instruction')}
        self._change_state = self._node.create_client(ChangeState, f'{POLICY_NODE}/change_state')

    def wait(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Listen until `condition` holds.

        :raises DemoError: where `what` did not come within `limit_s`.
        """
        give_up = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > give_up:
                raise DemoError(
                    'demo', expected=f'{what} within {limit_s:g} s', got='nothing',
                    remedy='See the last lines of the processes; robot-infer doctor says what '
                    'may be missing.')
            self._executor.spin_once(timeout_sec=_SPIN_S)
            self._watch()

    def find_both(self, limit_s: float) -> None:
        """Wait until the simulated robot is heard and the policy node can be asked."""
        self.wait(lambda: self.truth is not None, limit_s, 'a sign of the simulated robot')
        self.wait(self._change_state.service_is_ready, limit_s, 'the policy node\'s services')
        for topic, publisher in self._talk.items():
            if topic != 'instruction':  # the policy node listens once it is configured
                self.wait(lambda p=publisher: p.get_subscription_count() > 0, limit_s,
                          f'a listener to {topic}')

    def transition(self, name: str, limit_s: float) -> bool:
        """Ask the policy node for a lifecycle transition; whether it succeeded."""
        request = ChangeState.Request(transition=Transition(id=_TRANSITIONS[name]))
        answer = self._change_state.call_async(request)
        self.wait(answer.done, limit_s, 'the answer to a lifecycle transition')
        return bool(answer.result().success)

    def await_instruction_listener(self, limit_s: float) -> None:
        """Wait until the policy node would hear an instruction."""
        self.wait(lambda: self._talk['instruction'].get_subscription_count() > 0, limit_s,
                  'a listener to the instruction')

    def instruct(self, text: str) -> None:
        """Give the robot its instruction."""
        self._talk['instruction'].publish(String(data=text))

    def reset(self, reset: Reset, limit_s: float = 10.0) -> None:
        """Start an episode and wait until the robot says so, and shows it."""
        self._say(messages.RESET_TOPIC, reset)
        self.wait(lambda: self.truth.episode == reset.episode, limit_s, 'the reset of the world')
        # Pictures of the table before are still on their way; let new ones take their place.
        self.wait(lambda: self.truth.step >= _SETTLING_STEPS, limit_s, 'the world to go on')
        self._truths.clear()

    def disturb(self, disturb: Disturb) -> None:
        """Have a block moved; the truth will tell."""
        self._say(messages.DISTURB_TOPIC, disturb)

    def look(self, label: str) -> None:
        """Ask for a picture; it will be in `pictures` under `label`."""
        self._say(messages.LOOK_TOPIC, Look(label))

    def has_truths(self) -> bool:
        """Whether something new was heard of the world."""
        return bool(self._truths)

    def take_truths(self) -> Iterator[Truth]:
        """Return the truths heard since the last call, oldest first."""
        while self._truths:
            yield self._truths.popleft()

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()

    def _listen(self, kind: type, topic: str, callback: Callable, qos: QoSProfile) -> None:
        self._node.create_subscription(kind, topic, callback, qos)

    def _say(self, topic: str, message: Reset | Disturb | Look) -> None:
        self._talk[topic].publish(String(data=messages.to_json(message)))

    def _on_truth(self, message: String) -> None:
        self.truth = messages.from_json(Truth, message.data, messages.TRUTH_TOPIC)
        self._truths.append(self.truth)

    def _on_step(self, message: String) -> None:
        self.steps.append(StepRecord.from_json(message.data))

    def _on_picture(self, message: CompressedImage) -> None:
        self.pictures[message.header.frame_id] = bytes(message.data)

    def _on_status(self, message: DiagnosticStatus) -> None:
        self.status = message
