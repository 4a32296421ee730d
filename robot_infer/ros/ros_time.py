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


"""ROS time: the system's, or with use_sim_time that of /clock; watched, so that a jump is noticed.

Only stamps are in ROS time. Ages grow, and ticks, deadlines and validity run, on the steady clock;
what a jump means for frames, state and chunks is the runtime's.

The middleware tells of jumps of simulated time and of a switch between the two clocks. Of a system
clock that is set, and of a clock that stands still, nobody tells: whoever calls `look` often finds
out, as every message does.
"""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.clock import ClockChange, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node

from robot_infer.control import Clock, Runtime
from robot_infer.control.stamps import BACK_NS

_SWITCHES = (ClockChange.ROS_TIME_ACTIVATED, ClockChange.ROS_TIME_DEACTIVATED)


@dataclass(frozen=True)
class TimeStatus:
    """ROS time at one moment.

    :param simulated: whether it is that of /clock. publishers: of /clock.
    :param time_ns: 0 where it is simulated and nothing was heard yet.
    """

    simulated: bool
    publishers: int
    time_ns: int


class RosTime:
    """Watches the node's clock for a runtime; everything happens in the executor's thread."""

    def __init__(
        self, node: Node, runtime: Runtime, clock: Clock, max_jump_s: float,
    ) -> None:
        """Begin to watch.

        :param max_jump_s: the setting control.max_clock_jump_s.
        """
        self._node, self._runtime, self._clock = node, runtime, clock
        # rcl keeps a bare pointer to the handle: it must live until it is unregistered.
        self._handle = node.get_clock().create_jump_callback(
            JumpThreshold(min_forward=Duration(nanoseconds=round(max_jump_s * 1e9)),
                          min_backward=Duration(nanoseconds=-BACK_NS), on_clock_change=True),
            post_callback=self._on_jump)
        self.look()

    def close(self) -> None:
        """Watch no more."""
        self._handle.unregister()

    def times_ns(self) -> tuple[int, int]:
        """Steady clock and ROS clock now."""
        return self._clock.now_ns(), self._node.get_clock().now().nanoseconds

    def look(self) -> None:
        """See whether ROS time jumped, or stands still."""
        self._runtime.note_clock(*self.times_ns())

    def status(self) -> TimeStatus:
        """ROS time now; asks the graph who publishes /clock."""
        clock = self._node.get_clock()
        return TimeStatus(
            clock.ros_time_is_active, self._node.count_publishers('/clock'),
            clock.now().nanoseconds)

    def _on_jump(self, jump: TimeJump) -> None:
        """The clock has its new time already. Raises nothing: rcl would pass others over."""
        try:
            if jump.clock_change in _SWITCHES:
                self._runtime.clock_jumped(0)
            elif jump.delta.nanoseconds < 0:
                self._runtime.clock_jumped(jump.delta.nanoseconds)
            # Forward it has jumped only where it went further than the time that passed: a /clock
            # that ticks once a second is none. So the runtime judges it, as with any message.
            self.look()
        except Exception as error:
            self._runtime.faults.report(error)
