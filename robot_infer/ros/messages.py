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


"""ROS messages to our words and back. No checks: what a message says is judged by its room.

Pixels are not copied: a RawImage looks into the message's own buffer and keeps it alive.
"""

from __future__ import annotations

from collections.abc import Callable

from builtin_interfaces.msg import Duration, Time
import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Float64MultiArray, MultiArrayDimension
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_infer.camera import EncodedImage, RawImage

ActionMessage = JointTrajectory | Float64MultiArray

ACTION_TYPES: dict[str, type[ActionMessage]] = {
    'joint_trajectory': JointTrajectory, 'float64_multi_array': Float64MultiArray}

_NS_PER_S = 1_000_000_000


def type_name(message_type: type) -> str:
    """The name that ROS has for a type of messages: 'std_msgs/msg/String'."""
    package, _, name = message_type.__module__.partition('.')
    return f'{package}/{name.split(".")[0]}/{message_type.__name__}'


def stamp_ns(stamp: Time) -> int:
    """Nanoseconds of a ROS stamp."""
    return stamp.sec * _NS_PER_S + stamp.nanosec


def raw_image(message: Image, received_ns: int, received_stamp_ns: int) -> RawImage:
    """A sensor_msgs/Image as a RawImage; its bytes are a view."""
    return RawImage(
        encoding=message.encoding, width=message.width, height=message.height,
        step=message.step, is_bigendian=bool(message.is_bigendian), data=_bytes(message.data),
        stamp_ns=stamp_ns(message.header.stamp), received_ns=received_ns,
        received_stamp_ns=received_stamp_ns)


def encoded_image(
    message: CompressedImage, received_ns: int, received_stamp_ns: int,
) -> EncodedImage:
    """A sensor_msgs/CompressedImage as an EncodedImage; its bytes are a view."""
    return EncodedImage(
        format=message.format, data=_bytes(message.data),
        stamp_ns=stamp_ns(message.header.stamp), received_ns=received_ns,
        received_stamp_ns=received_stamp_ns)


def joint_trajectory(
    joints: tuple[str, ...], values: NDArray[np.float64], period_s: float,
) -> JointTrajectory:
    """One point, to be reached one control period from now.

    The stamp stays zero, which means 'begin at once'. The stamp of the frames the action was made
    from lies in the past, and joint_trajectory_controller rejects a trajectory that ends there.
    """
    whole_s, rest_ns = divmod(round(period_s * _NS_PER_S), _NS_PER_S)
    point = JointTrajectoryPoint(
        positions=values.tolist(), time_from_start=Duration(sec=whole_s, nanosec=rest_ns))
    return JointTrajectory(joint_names=list(joints), points=[point])


def float64_multi_array(
    joints: tuple[str, ...], values: NDArray[np.float64], period_s: float,
) -> Float64MultiArray:
    """The bare values, in the order of the policy's actions, for forward_command_controller."""
    del joints, period_s
    message = Float64MultiArray(data=values.tolist())
    message.layout.dim = [
        MultiArrayDimension(label='action', size=len(values), stride=len(values))]
    return message


CONVERSIONS: dict[str, Callable[[tuple[str, ...], NDArray[np.float64], float], ActionMessage]] = {
    'joint_trajectory': joint_trajectory, 'float64_multi_array': float64_multi_array}


def _bytes(data: object) -> NDArray[np.uint8]:
    """A view of uint8[] data; NumPy refuses to make one of an empty buffer on some versions."""
    view = memoryview(data)
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
