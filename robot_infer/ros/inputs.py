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


"""The topics the node listens to, and what is known of each connection.

A callback only stores what came; nothing is decoded, judged or computed here. Topics are open
while the node is inactive too, so that an instruction given then is kept, and the newest frames
are at hand when it is activated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import functools
from typing import Any, TypeVar

from rclpy.lifecycle import Node
from rclpy.qos import QoSProfile
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from rclpy.topic_endpoint_info import TopicEndpointInfo
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

try:
    from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import SubscriptionEventCallbacks, UnsupportedEventTypeError
try:
    from rclpy.qos import qos_policy_name_from_kind
except ImportError:
    qos_policy_name_from_kind = str

from robot_infer.config import Config
from robot_infer.control import Clock, Runtime
from robot_infer.ros import messages, qos
from robot_infer.ros.ros_time import RosTime

Message = TypeVar('Message')


@dataclass(frozen=True)
class LinkStatus:
    """One subscription at one moment.

    :param publishers: publishers of the right type. other_types: types of those that have another.
    :param senders: the nodes of those publishers that are matched; a node twice where it has two.
    :param received: messages since configure. last_ns: steady time of the newest, 0 before any.
    :param size_bytes: payload of the newest message. lost: messages the middleware says it lost.
    :param incompatible: the policies for which a publisher that is there now cannot be matched,
        '' where all are. incompatible_nodes: the nodes of these.
    :param stampless: the newest message has stamp 0, so the time of its receipt stands in.
    """

    topic: str
    type_name: str
    publishers: int
    other_types: tuple[str, ...]
    received: int
    last_ns: int
    size_bytes: int
    lost: int
    incompatible: str
    stampless: bool = False
    senders: tuple[str, ...] = ()
    incompatible_nodes: tuple[str, ...] = ()


class Link:
    """One subscription and its counters; everything happens in the executor's thread."""

    def __init__(
        self, node: Node, message_type: type[Message], topic: str, profile: QoSProfile,
        overriding: QoSOverridingOptions, take: Callable[[Message], int], clock: Clock,
        on_error: Callable[[Exception], None], one_sender: bool = False,
    ) -> None:
        """Subscribe; `take` stores a message and returns the bytes of its payload.

        one_sender: more than one publisher is a fault worth a line in the log.
        """
        self._node, self._take, self._clock, self._on_error = node, take, clock, on_error
        self._received = self._last_ns = self._size_bytes = self._lost = 0
        self._profile, self._one_sender = profile, one_sender  # subscribing puts overrides in it
        self._told_incompatible = ''
        self._told_senders: tuple[str, ...] = ()
        self._stampless = self._told_stampless = False
        self._type_name = messages.type_name(message_type)
        subscribe = functools.partial(
            node.create_subscription, message_type, topic, self._on_message, profile,
            qos_overriding_options=overriding)
        self._subscription = self._with_events(subscribe)

    def status(self) -> LinkStatus:
        """The link now; asks the graph who publishes."""
        topic = self._subscription.topic_name
        infos = self._node.get_publishers_info_by_topic(topic)
        others = tuple(sorted({info.topic_type for info in infos} - {self._type_name}))
        ours = [info for info in infos if info.topic_type == self._type_name]
        policies = [qos.mismatches(info.qos_profile, self._profile) for info in ours]
        senders = tuple(sorted(node_of(info) for info, bad in zip(ours, policies) if not bad))
        refused = tuple(sorted(node_of(info) for info, bad in zip(ours, policies) if bad))
        incompatible = ', '.join(dict.fromkeys(policy for bad in policies for policy in bad))
        if not incompatible:
            self._told_incompatible = ''  # the next one is news again
        self._tell_senders(senders)
        return LinkStatus(
            topic, self._type_name, len(ours), others, self._received, self._last_ns,
            self._size_bytes, self._lost, incompatible, self._stampless, senders, refused)

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def _with_events(self, subscribe: Callable[..., Subscription]) -> Subscription:
        """Subscribe with the events this middleware has; not every one has message_lost."""
        try:
            return subscribe(event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=self._on_incompatible, message_lost=self._on_lost))
        except UnsupportedEventTypeError:
            return subscribe(event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=self._on_incompatible))

    def _on_message(self, message: Message) -> None:
        try:
            self._look_at_stamp(message)
            self._size_bytes = self._take(message)
        except Exception as error:  # a message must never end the node
            self._on_error(error)
        self._received += 1
        self._last_ns = self._clock.now_ns()

    def _look_at_stamp(self, message: Message) -> None:
        header = getattr(message, 'header', None)
        self._stampless = header is not None and not messages.stamp_ns(header.stamp)
        if self._stampless and not self._told_stampless:
            self._told_stampless = True
            self._node.get_logger().warning(
                f'{self._subscription.topic_name}: messages come without a stamp (0): the time '
                'of their receipt stands in, so their age on arrival is not known')

    def _on_lost(self, event: Any) -> None:
        self._lost = event.total_count

    def _on_incompatible(self, event: Any) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        if policy != self._told_incompatible:
            self._told_incompatible = policy
            self._node.get_logger().error(
                f'{self._subscription.topic_name}: a publisher offers incompatible QoS '
                f'({policy}); nothing will be received from it')

    def _tell_senders(self, senders: tuple[str, ...]) -> None:
        """Log it once when there is more than one, and that they are."""
        if self._one_sender and len(senders) > 1 and senders != self._told_senders:
            self._node.get_logger().warning(several_senders(
                self._subscription.topic_name, senders))
        self._told_senders = senders


def several_senders(topic: str, senders: Sequence[str]) -> str:
    """The words for a topic that should have one publisher."""
    return (f'{len(senders)} publishers on {topic} ({", ".join(senders)}): what they send is '
            'mixed. Stop all but one, or remap the topic.')


def node_of(info: TopicEndpointInfo) -> str:
    """The node of an endpoint, by its full name."""
    return f'{info.node_namespace.rstrip("/")}/{info.node_name}'


class Inputs:
    """All subscriptions of a configured node.

    :param instruct: takes the text of an instruction.

    time: ROS time, for as long as messages come.
    """

    def __init__(
        self, node: Node, config: Config, runtime: Runtime, clock: Clock,
        instruct: Callable[[str], None],
    ) -> None:
        self._node, self._runtime, self._clock = node, runtime, clock
        self._instruct = instruct
        self.time = RosTime(node, runtime, clock, config.control.max_clock_jump_s)
        self._opened: list[Link] = []
        self.cameras: dict[str, Link] = {}
        compressed = config.cameras.transport == 'compressed'
        image_qos = functools.partial(qos.image, config.cameras.reliability)
        try:
            for camera in config.cameras.names:
                self.cameras[camera] = self._open(
                    CompressedImage if compressed else Image,
                    f'{camera}/image/compressed' if compressed else f'{camera}/image', image_qos(),
                    functools.partial(self._on_image, camera), qos.overridable_image(),
                    one_sender=True)
            self.state = self._open(JointState, 'joint_states', qos.state(), self._on_state)
            self.instruction = self._open(
                String, 'instruction', qos.instruction(), self._on_instruction)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unsubscribe from everything."""
        while self._opened:
            self._opened.pop().close()
        self.time.close()

    def _open(
        self, message_type: type[Message], topic: str, profile: QoSProfile,
        take: Callable[[Message], int], overriding: QoSOverridingOptions | None = None,
        one_sender: bool = False,
    ) -> Link:
        link = Link(
            self._node, message_type, topic, profile, overriding or qos.overridable_input(), take,
            self._clock, self._on_error, one_sender)
        self._opened.append(link)
        return link

    def _on_image(self, camera: str, message: Image | CompressedImage) -> int:
        convert = messages.raw_image if isinstance(message, Image) else messages.encoded_image
        self._runtime.put_image(camera, convert(message, *self.time.times_ns()))
        return len(message.data)

    def _on_state(self, message: JointState) -> int:
        self._runtime.put_state(
            message.name, message.position, messages.stamp_ns(message.header.stamp),
            *self.time.times_ns())
        return 8 * len(message.position)

    def _on_instruction(self, message: String) -> int:
        self._instruct(message.data)
        return len(message.data)

    def _on_error(self, error: Exception) -> None:
        self._runtime.faults.report(error)
