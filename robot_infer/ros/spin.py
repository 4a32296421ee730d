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

"""Spinning a node of this package until its process is told to end."""

from __future__ import annotations

import traceback

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node


def spin(node: Node) -> None:
    """Spin until shutdown. What a callback raises is logged; it does not end the node."""
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while node.context.ok():
        try:
            executor.spin()
        except ExternalShutdownException:
            return
        except Exception:
            if not node.context.ok():
                return
            node.get_logger().error(f'a callback failed\n{traceback.format_exc()}')
