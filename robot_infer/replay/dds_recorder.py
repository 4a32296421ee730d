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

"""Records DDS topics into a rosbag2 bag (MCAP), byte for byte. One of the two files here with ROS.

Messages are taken as bytes and written as they came; what they mean is asked by nobody. A topic
is subscribed to when its first publisher is there, with the QoS that every publisher of it can
serve, and that is also what the bag says of it.
"""

from __future__ import annotations

from collections.abc import Sequence
import functools
import importlib
from pathlib import Path

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import (
    Connection,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.errors import WriterError

from robot_infer.replay import messages
from robot_infer.replay.errors import BagError, MessageTypeError

# Version 8 of the format: Iron and later read it with their own tools, 9 only Jazzy and later.
_VERSION = 8
_DEPTH = 100  # messages of one topic that may wait while the disk is slow
_NS_PER_S = 1_000_000_000


class DdsRecorder:
    """Writes what comes on `topics`; everything happens in the executor's thread.

    counts: messages written so far, by topic.
    """

    def __init__(self, node: Node, folder: Path, topics: Sequence[str]) -> None:
        """Open a new bag at `folder`.

        :raises BagError: where there is something already, or it cannot be made.
        """
        self.counts = dict.fromkeys(topics, 0)
        self._node = node
        self._known: set[str] = set()
        self._subscriptions: dict[str, object] = {}
        try:
            self._writer = Writer(folder, version=_VERSION, storage_plugin=StoragePlugin.MCAP)
            self._writer.open()
        except (WriterError, OSError) as error:
            raise BagError(f'bag {folder}', expected='a place for a new bag', got=str(error),
                           remedy='Choose another folder, or remove this one.') from error

    @property
    def waiting_for(self) -> list[str]:
        """Topics that nobody has published so far."""
        return [topic for topic in self.counts if topic not in self._known]

    def look(self) -> None:
        """Subscribe to the topics whose publishers have come.

        :raises MessageTypeError: for a type that cannot be recorded.
        """
        for topic in self.waiting_for:
            publishers = self._node.get_publishers_info_by_topic(topic)
            if publishers:
                self._subscribe(topic, publishers)

    def close(self) -> None:
        """Finish the bag."""
        self._unsubscribe()
        self._writer.close()

    def abort(self) -> None:
        """Leave the bag as it is: it cannot be finished."""
        self._unsubscribe()
        self._writer.abort()

    def _unsubscribe(self) -> None:
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.popitem()[1])

    def _subscribe(self, topic: str, publishers: Sequence) -> None:
        type_name = publishers[0].topic_type
        if type_name not in messages.STORE.fielddefs:
            raise MessageTypeError(
                f'topic {topic}', expected='a type of ROS itself', got=type_name,
                remedy='Record topics of your own types with ros2 bag record.')
        connection = self._writer.add_connection(
            topic, type_name, typestore=messages.STORE,
            offered_qos_profiles=[rosbags_qos(one.qos_profile) for one in publishers])
        self._known.add(topic)
        self._subscriptions[topic] = self._node.create_subscription(
            message_type(type_name), topic, functools.partial(self._write, topic, connection),
            servable_qos([one.qos_profile for one in publishers]), raw=True)

    def _write(self, topic: str, connection: Connection, cdr: bytes) -> None:
        try:
            self._writer.write(connection, self._node.get_clock().now().nanoseconds, cdr)
        except OSError as error:
            raise BagError(
                f'bag {self._writer.path}', expected='room for another message',
                got=str(error.strerror), remedy='Free some space, or record elsewhere. What was '
                'written so far can be saved with mcap recover.') from error
        self.counts[topic] += 1


def servable_qos(offered: Sequence[QoSProfile]) -> QoSProfile:
    """The most that every one of these publishers can serve."""
    reliable = all(one.reliability == ReliabilityPolicy.RELIABLE for one in offered)
    lasting = all(one.durability == DurabilityPolicy.TRANSIENT_LOCAL for one in offered)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=_DEPTH,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if lasting else DurabilityPolicy.VOLATILE)


def rosbags_qos(profile: QoSProfile) -> Qos:
    """QoS as rclpy has it, in the words of rosbags."""
    return Qos(
        _named(QosHistory, profile.history), profile.depth,
        _named(QosReliability, profile.reliability), _named(QosDurability, profile.durability),
        _time(profile.deadline), _time(profile.lifespan),
        _named(QosLiveliness, profile.liveliness), _time(profile.liveliness_lease_duration),
        profile.avoid_ros_namespace_conventions)


def rclpy_qos(offered: Sequence[Qos], depth: int) -> QoSProfile:
    """QoS for a publisher that plays a topic which was recorded with these."""
    reliable = all(one.reliability is not QosReliability.BEST_EFFORT for one in offered)
    lasting = bool(offered) and all(
        one.durability is QosDurability.TRANSIENT_LOCAL for one in offered)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if lasting else DurabilityPolicy.VOLATILE)


def message_type(name: str) -> type:
    """The Python class of a message type such as sensor_msgs/msg/Image.

    :raises MessageTypeError: where the package is not installed.
    """
    package, kind, short = (name.split('/') + ['', ''])[:3]
    try:
        return getattr(importlib.import_module(f'{package}.{kind}'), short)
    except (ImportError, AttributeError) as error:
        raise MessageTypeError(
            f'type {name}', expected='it in this ROS installation', got=str(error),
            remedy=f'Install {package} and source its setup file.') from error


def _named(kind: type, policy: object) -> object:
    """The member of the same name; UNKNOWN where rosbags has none."""
    return getattr(kind, getattr(policy, 'name', ''), None) or kind.UNKNOWN


def _time(duration: object) -> QosTime:
    return QosTime(*divmod(duration.nanoseconds, _NS_PER_S))
