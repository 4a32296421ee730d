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

"""~/debug: the time of every control tick and inference step, for plots.

The control thread takes no part: it notes its times in rings, as always, and the thread of the
messages empties them once a control period. So there is a message for every tick, about a period
after it; a plot over the time of receipt is right to that.
"""

from __future__ import annotations

from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.node import Node
from std_msgs.msg import Float64

from robot_infer.control import Runtime
from robot_infer.ros import qos

_SHORTEST_PERIOD_S = 0.01  # faster ticks come several at a time: the thread has other work


class DebugTopics:
    """Three topics, between construction and `close`; milliseconds.

    ~/debug/deadline_lateness_ms    how late each control tick began
    ~/debug/processing_time_ms      how long each took, from its start to its action sent
    ~/debug/inference_time_ms       how long each inference step took, from frames to chunk
    """

    def __init__(self, node: Node, runtime: Runtime, period_s: float) -> None:
        self._node, self._runtime = node, runtime
        runtime.take_times()  # those from before are nobody's
        self._publishers = tuple(
            node.create_publisher(Float64, f'~/debug/{name}', qos.steps()) for name in (
                'deadline_lateness_ms', 'processing_time_ms', 'inference_time_ms'))
        self._steady = RosClock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(
            max(period_s, _SHORTEST_PERIOD_S), self._publish, clock=self._steady)

    def close(self) -> None:
        """Publish no more."""
        self._node.destroy_timer(self._timer)
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)

    def _publish(self) -> None:
        times = self._runtime.take_times()
        for publisher, values_s in zip(
                self._publishers, (times.lateness_s, times.execution_s, times.step_s)):
            for milliseconds in (values_s * 1e3).tolist():
                publisher.publish(Float64(data=milliseconds))
