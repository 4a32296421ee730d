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


"""Messages to words and back; the pixels are a view of the message's own memory."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage, Image

from robot_infer.ros import messages


def test_an_image_is_taken_without_a_copy():
    message = Image(encoding='bgr8', width=3, height=2, step=10, is_bigendian=1)
    message.header.stamp = Time(sec=7, nanosec=5)
    message.data = array('B', range(20))
    image = messages.raw_image(message, received_ns=11, received_stamp_ns=12)
    assert (image.encoding, image.width, image.height, image.step) == ('bgr8', 3, 2, 10)
    assert image.is_bigendian and image.stamp_ns == 7_000_000_005
    assert (image.received_ns, image.received_stamp_ns) == (11, 12)
    assert np.shares_memory(image.data, np.frombuffer(message.data, np.uint8))
    np.testing.assert_array_equal(image.data, range(20))


def test_an_image_without_data_is_an_empty_array_and_no_error():
    assert messages.raw_image(Image(), 0, 0).data.shape == (0,)
    assert messages.encoded_image(CompressedImage(), 0, 0).data.shape == (0,)


def test_a_compressed_image_keeps_its_claim_and_bytes():
    message = CompressedImage(format='rgb8; jpeg compressed bgr8')
    message.data = array('B', b'\xff\xd8\xff')
    image = messages.encoded_image(message, 1, 2)
    assert image.format == message.format and bytes(image.data) == b'\xff\xd8\xff'


def test_a_trajectory_begins_at_once_and_is_due_after_one_period():
    message = messages.joint_trajectory(('a', 'b'), np.array([1.5, -2.0]), 1 / 30)
    (point,) = message.points
    assert list(message.joint_names) == ['a', 'b'] and list(point.positions) == [1.5, -2.0]
    assert message.header.stamp == Time() and point.time_from_start.nanosec == 33_333_333
    slow = messages.joint_trajectory(('a',), np.array([0.0]), 2.5).points[0].time_from_start
    assert (slow.sec, slow.nanosec) == (2, 500_000_000)


def test_an_array_says_how_long_it_is():
    message = messages.float64_multi_array(('a', 'b'), np.array([1.0, 2.0, 3.0]), 0.1)
    assert list(message.data) == [1.0, 2.0, 3.0]
    assert [(dim.size, dim.stride) for dim in message.layout.dim] == [(3, 3)]
