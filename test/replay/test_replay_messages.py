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

"""Bytes of a bag to our words: the same as rclpy makes of them, and named errors for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import sys

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from robot_infer.replay import messages
from robot_infer.replay.bag import Bag, Topic
from robot_infer.replay.errors import MessageError, MessageTypeError

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import BAGS, ORIGIN_NS, image, state, text, trajectory

SINCE_HUMBLE = (Stores.ROS2_HUMBLE, Stores.ROS2_IRON, Stores.ROS2_JAZZY, Stores.ROS2_KILTED)


def test_the_types_we_read_are_laid_out_alike_in_every_distribution():
    for store in map(get_typestore, SINCE_HUMBLE):
        for name in messages.TYPES:
            assert store.fielddefs[name][1] == messages.STORE.fielddefs[name][1], name


def test_an_image_is_a_view_of_the_messages_own_bytes():
    sent = image(ORIGIN_NS, value=7, is_bigendian=1)
    raw = messages.raw_image(sent.cdr, 5, 6)
    assert (raw.encoding, raw.width, raw.height, raw.step, raw.is_bigendian) == (
        'rgb8', 64, 48, 192, True)
    assert (raw.stamp_ns, raw.received_ns, raw.received_stamp_ns) == (ORIGIN_NS, 5, 6)
    assert np.shares_memory(raw.data, np.frombuffer(sent.cdr, np.uint8))
    assert raw.data.size == 192 * 48 and (raw.data == 7).all()


def test_a_state_a_text_and_both_kinds_of_action():
    found = messages.joint_positions(state(ORIGIN_NS, (1.0, 2.0), ('a', 'b')).cdr)
    assert found.names == ('a', 'b') and found.positions.tolist() == [1.0, 2.0]
    assert found.stamp_ns == ORIGIN_NS
    assert messages.text(text(0, 'grüße').cdr) == 'grüße'
    sent = messages.action(trajectory(0, (3.0, 4.0)).cdr, messages.JOINT_TRAJECTORY)
    assert sent.joints == ('slide_x', 'slide_y') and sent.values.tolist() == [3.0, 4.0]
    layout = messages.new('std_msgs/msg/MultiArrayLayout', dim=[], data_offset=0)
    array = messages.encode(messages.new(
        messages.FLOAT64_MULTI_ARRAY, layout=layout, data=np.array([5.0])),
        messages.FLOAT64_MULTI_ARRAY)
    assert messages.action(array, messages.FLOAT64_MULTI_ARRAY).values.tolist() == [5.0]


def test_bytes_in_the_other_order_are_read_too():
    message = messages.new(messages.STRING, data='hello')
    big = bytes(messages.STORE.serialize_cdr(message, messages.STRING, little_endian=False))
    assert messages.text(big) == 'hello'


@pytest.mark.parametrize('cdr', [
    b'', b'\0\1', b'\0\1\0\0', b'\0\1\0\0\xff\xff\xff\xff', b'\0\7\0\0\1\0\0\0a', b'x' * 200,
    text(0, 'a').cdr + bytes(40)])
def test_bytes_that_are_no_message_are_a_named_error(cdr):
    with pytest.raises(MessageError, match='std_msgs/msg/String'):
        messages.text(cdr)


def test_every_cut_of_an_image_is_a_named_error():
    whole = image(ORIGIN_NS).cdr
    for size in range(0, 120):
        with pytest.raises(MessageError):
            messages.raw_image(whole[:size], 0, 0)


def test_a_compressed_message_says_how_to_read_it():
    with Bag(BAGS / 'amber_soccer_goal' / 'soccer_goal_12.mcap') as bag:
        one = next(bag.messages(bag.topics))
    with pytest.raises(MessageError, match=r"zstd.*folder"):
        messages.raw_image(one.cdr, 0, 0)


class TestDefinitions:

    def topic(self, definition: str, **fields: object) -> Topic:
        return replace(Topic('/t', messages.STRING, 1, definition), **fields)

    def test_our_own_and_none_at_all_are_accepted(self):
        for name in messages.TYPES:
            messages.check_definition(Topic('/t', name, 1, messages.definition(name)))
        messages.check_definition(self.topic(''))

    def test_those_of_other_peoples_bags_are_accepted(self):
        for name in ('amber_soccer_goal', 'geocam_all_types_mcap', 'geocam_all_types_sqlite3'):
            with Bag(BAGS / name) as bag:
                for topic in bag.topics.values():
                    if topic.type in messages.TYPES:
                        messages.check_definition(topic)

    def test_an_idl_definition_is_compared_too(self):
        idl = ('=' * 80 + '\nIDL: std_msgs/msg/String\nmodule std_msgs { module msg { struct '
               'String { string data; }; }; };')
        messages.check_definition(self.topic(idl, definition_is_idl=True))
        with pytest.raises(MessageTypeError):
            messages.check_definition(self.topic(
                idl.replace('string data', 'long data'), definition_is_idl=True))

    @pytest.mark.parametrize('definition', [
        'string text', 'string data\nint32 more', 'int32 data', 'string[] data'])
    def test_another_layout_under_a_standard_name_is_refused(self, definition):
        with pytest.raises(MessageTypeError, match='a type of the same name'):
            messages.check_definition(self.topic(definition))

    def test_another_layout_of_a_part_is_refused(self):
        definition = messages.definition(messages.IMAGE).replace(
            'uint32 nanosec', 'uint64 nanosec')
        with pytest.raises(MessageTypeError, match='builtin_interfaces/msg/Time'):
            messages.check_definition(Topic('/t', messages.IMAGE, 1, definition))

    @pytest.mark.parametrize('definition', ['this is no definition at all', '###\0', 'x' * 9999])
    def test_a_text_that_is_no_definition_is_refused(self, definition):
        with pytest.raises(MessageTypeError, match='/t'):
            messages.check_definition(self.topic(definition))


def test_rclpy_reads_the_same_from_the_same_bytes():
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import Image, JointState

    from robot_infer.ros import messages as ros_messages
    sent = image(ORIGIN_NS, value=9, encoding='bgr8')
    theirs = ros_messages.raw_image(deserialize_message(sent.cdr, Image), 1, 2)
    ours = messages.raw_image(sent.cdr, 1, 2)
    assert ours.data.tobytes() == theirs.data.tobytes()
    assert replace(ours, data=theirs.data).__dict__ == theirs.__dict__
    joints = deserialize_message(state(ORIGIN_NS).cdr, JointState)
    assert list(joints.position) == messages.joint_positions(
        state(ORIGIN_NS).cdr).positions.tolist()
