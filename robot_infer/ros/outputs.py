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

"""Who listens to a topic of ours, and who would like to but cannot."""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.node import Node
from rclpy.publisher import Publisher

from robot_infer.ros import messages, qos
from robot_infer.ros.inputs import node_of


@dataclass(frozen=True)
class OutputStatus:
    """One publisher at one moment.

    :param listeners: the nodes that hear it. deaf: those that request QoS we do not offer.
    :param incompatible: the policies in which these differ. other_types: what others expect.
    """

    topic: str
    type_name: str
    listeners: tuple[str, ...]
    deaf: tuple[str, ...]
    incompatible: str
    other_types: tuple[str, ...]


def look(node: Node, publisher: Publisher) -> OutputStatus:
    """Ask the graph who is at the other end."""
    topic, type_name = publisher.topic_name, messages.type_name(publisher.msg_type)
    infos = node.get_subscriptions_info_by_topic(topic)
    ours = [info for info in infos if info.topic_type == type_name]
    policies = [qos.mismatches(publisher.qos_profile, info.qos_profile) for info in ours]
    return OutputStatus(
        topic, type_name,
        listeners=tuple(sorted(node_of(info) for info, bad in zip(ours, policies) if not bad)),
        deaf=tuple(sorted(node_of(info) for info, bad in zip(ours, policies) if bad)),
        incompatible=', '.join(dict.fromkeys(policy for bad in policies for policy in bad)),
        other_types=tuple(sorted({info.topic_type for info in infos} - {type_name})))
