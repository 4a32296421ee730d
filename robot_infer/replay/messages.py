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

"""Messages of a bag (CDR) to our words and back, without ROS.

The twin of ros/messages.py, by rosbags instead of rclpy: the same RawImage, looking into the
message's own bytes. No checks of meaning: what a message says is judged by its room, as in the
running node. Only the layout of the bytes is checked here, against the definition the bag carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

from robot_infer.camera import EncodedImage, RawImage
from robot_infer.replay.bag import Topic
from robot_infer.replay.errors import MessageError, MessageTypeError

IMAGE = 'sensor_msgs/msg/Image'
COMPRESSED_IMAGE = 'sensor_msgs/msg/CompressedImage'
JOINT_STATE = 'sensor_msgs/msg/JointState'
STRING = 'std_msgs/msg/String'
JOINT_TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
FLOAT64_MULTI_ARRAY = 'std_msgs/msg/Float64MultiArray'
DIAGNOSTIC_STATUS = 'diagnostic_msgs/msg/DiagnosticStatus'
TYPES = (IMAGE, COMPRESSED_IMAGE, JOINT_STATE, STRING, JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY,
         DIAGNOSTIC_STATUS)

# The layout of TYPES is the same in every distribution; a test holds rosbags' stores to that.
STORE = get_typestore(Stores.LATEST)
_NS_PER_S = 1_000_000_000
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'


@dataclass(frozen=True)
class JointPositions:
    """What is used of a JointState. stamp_ns: 0 where it has none."""

    names: tuple[str, ...]
    positions: NDArray[np.float64]
    stamp_ns: int


@dataclass(frozen=True)
class Action:
    """An action as it was sent. joints: () where the message names none."""

    joints: tuple[str, ...]
    values: NDArray[np.float64]


def check_definition(topic: Topic) -> None:
    """See that the bag defines the topic's type as ROS 2 does, where it defines it at all.

    The definition is parsed and compared, never executed.

    :raises MessageTypeError: where it is another layout, or no definition.
    """
    if not topic.definition:  # a bag of before 2023: its types are those of ROS
        return
    try:
        defined = _parse(topic)
    except Exception as error:  # whatever the parser says of a text that is none
        raise MessageTypeError(
            f'topic {topic.name}', expected=f'a readable definition of {topic.type}',
            got=f'{type(error).__name__}: {" ".join(str(error).split())[:120]}',
            remedy='Record the bag again with a recorder that writes it whole.') from error
    for name, fields in defined.items():
        if name in STORE.fielddefs and fields != _fields(STORE.fielddefs[name][1]):
            raise MessageTypeError(
                f'topic {topic.name}', expected=f'{name} as ROS 2 defines it: '
                f'{", ".join(field for field, _ in _fields(STORE.fielddefs[name][1]))}',
                got=f'a type of the same name with {", ".join(field for field, _ in fields)}',
                remedy='Give the topic of a standard message, or convert the bag.')


def raw_image(cdr: bytes, received_ns: int, received_stamp_ns: int) -> RawImage:
    """A sensor_msgs/Image as a RawImage; its bytes are a view."""
    message = _decode(cdr, IMAGE)
    return RawImage(
        encoding=message.encoding, width=message.width, height=message.height,
        step=message.step, is_bigendian=bool(message.is_bigendian), data=message.data,
        stamp_ns=_stamp_ns(message.header.stamp), received_ns=received_ns,
        received_stamp_ns=received_stamp_ns)


def encoded_image(cdr: bytes, received_ns: int, received_stamp_ns: int) -> EncodedImage:
    """A sensor_msgs/CompressedImage as an EncodedImage; its bytes are a view."""
    message = _decode(cdr, COMPRESSED_IMAGE)
    return EncodedImage(
        format=message.format, data=message.data, stamp_ns=_stamp_ns(message.header.stamp),
        received_ns=received_ns, received_stamp_ns=received_stamp_ns)


def joint_positions(cdr: bytes) -> JointPositions:
    """A sensor_msgs/JointState."""
    message = _decode(cdr, JOINT_STATE)
    return JointPositions(
        tuple(message.name), message.position, _stamp_ns(message.header.stamp))


def text(cdr: bytes) -> str:
    """A std_msgs/String."""
    return _decode(cdr, STRING).data


def action(cdr: bytes, type_name: str) -> Action:
    """A JointTrajectory, of which the first point counts, or a Float64MultiArray."""
    message = _decode(cdr, type_name)
    if type_name == FLOAT64_MULTI_ARRAY:
        return Action((), np.asarray(message.data, np.float64))
    if not message.points:
        raise MessageError(type_name, expected='one point or more', got='none',
                           remedy='Such an action is not compared.')
    return Action(tuple(message.joint_names),
                  np.asarray(message.points[0].positions, np.float64))


def new(type_name: str, **fields: object) -> object:
    """Make a message of one of TYPES, or a part of one."""
    return STORE.types[type_name](**fields)


def encode(message: object, type_name: str) -> bytes:
    """The CDR of a message made with `new`."""
    return bytes(STORE.serialize_cdr(message, type_name))


def definition(type_name: str) -> str:
    """The definition of a type and all its parts, as bags carry it."""
    return STORE.generate_msgdef(type_name, ros_version=2)[0]


def _decode(cdr: bytes, type_name: str):  # noqa: ANN202 - a class that rosbags makes at run time
    try:
        # As a view: of bytes, rosbags would first copy all but the first four.
        return STORE.deserialize_cdr(memoryview(cdr), type_name)
    except Exception as error:  # whatever the decoder says of bytes that are not what they claim
        if bytes(cdr[:4]) == _ZSTD_MAGIC:
            raise MessageError(
                type_name, expected='a message', got='a compressed one (zstd)',
                remedy='Give the bag\'s folder: its metadata.yaml says how to read it.') from error
        raise MessageError(
            type_name, expected='bytes of this type (CDR)',
            got=f'{len(cdr)} bytes that are not: {error}',
            remedy='See who publishes the topic, and in which version of the type.') from error


def _parse(topic: Topic) -> Mapping[str, list]:
    if not topic.definition_is_idl:
        types = get_types_from_msg(topic.definition, topic.type)
    else:
        types = {}
        for part in topic.definition.split('=' * 80 + '\n'):
            if part.strip():
                types.update(get_types_from_idl(
                    part.split('\n', 1)[1] if part.startswith('IDL: ') else part))
    return {name: _fields(definition[1]) for name, definition in types.items()}


def _fields(fields: list) -> list[tuple[str, object]]:
    return [(name.lower(), kind) for name, kind in fields]


def _stamp_ns(stamp: object) -> int:
    return stamp.sec * _NS_PER_S + stamp.nanosec
