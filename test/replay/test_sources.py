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

"""Which topic feeds what, and what is said where none can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import sys

import pytest

from robot_infer.config import Config
from robot_infer.errors import ConfigError, InstructionError, RobotInferError, StateError
from robot_infer.replay.bag import Bag
from robot_infer.replay.errors import MessageTypeError, TopicError
from robot_infer.replay.sources import Sources, Wishes, choose

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import ORIGIN_NS, image, state, text, trajectory

GOOD = [image(ORIGIN_NS, '/overhead/image'), image(ORIGIN_NS, '/wrist/image'), state(ORIGIN_NS),
        text(ORIGIN_NS, 'go'), trajectory(ORIGIN_NS, (0.0, 0.0))]
OTHER = [image(ORIGIN_NS, '/left'), image(ORIGIN_NS, '/right'), state(ORIGIN_NS, topic='/arm'),
         text(ORIGIN_NS, 'go', '/say')]


@pytest.fixture
def find(make_bag: Callable[..., Path], config: Config) -> Callable[..., Sources]:
    """Choose the sources of a bag of given messages."""
    def chosen(sent: list, flat: dict | None = None, **wishes: object) -> Sources:
        settings = Config.from_flat({**config.flat(), **(flat or {})})
        with Bag(make_bag(sent)) as bag:
            return choose(bag, settings, Wishes(**wishes))
    return chosen


def names(sources: Sources) -> tuple:
    """The names of all topics of a choice."""
    return ({camera: topic.name for camera, topic in sources.cameras.items()},
            *(topic and topic.name for topic in (
                sources.state, sources.instruction, sources.actions, sources.steps)))


def test_the_topics_of_the_node_are_found_by_themselves(find):
    assert names(find(GOOD)) == (
        {'overhead': '/overhead/image', 'wrist': '/wrist/image'}, '/joint_states', '/instruction',
        None, None)
    assert set(find(GOOD, compare='/action').fed) == {
        '/overhead/image', '/wrist/image', '/joint_states', '/instruction'}


def test_others_are_found_by_the_users_names(find):
    assert names(find(OTHER, cameras={'overhead': '/left', 'wrist': '/right'}, state='/arm',
                      instruction='/say')) == (
        {'overhead': '/left', 'wrist': '/right'}, '/arm', '/say', None, None)


def test_the_words_and_a_fixed_state_can_stand_in(find):
    sources = find(GOOD[:2], text='go', fixed_state=(0.0, 0.0))
    assert sources.state is None and sources.instruction is None
    assert find(GOOD[:3], flat={'instruction.text': 'go'}).instruction is None


def test_step_records_are_found_whatever_the_node_is_called(find):
    step = text(ORIGIN_NS, '{}', '/arm/my_node/step')
    assert find([*GOOD, step]).steps.name == '/arm/my_node/step'


def test_the_instruction_in_force_is_found_for_a_bag_that_begins_in_the_middle(find):
    active = text(ORIGIN_NS, 'go', '/robot_infer/instruction_active')
    sources = find([*GOOD[:3], active])
    assert sources.instruction is None and sources.active.name == active.topic
    assert find([*GOOD, active], text='stop').active is None


@pytest.mark.parametrize(('sent', 'wishes', 'kind', 'words'), [
    (OTHER, {}, TopicError, (
        'topic /overhead/image for camera overhead', '--camera overhead=TOPIC',
        '/left (sensor_msgs/msg/Image, 1)', '/right')),
    (GOOD[:2] + OTHER[2:], {}, TopicError, (
        'topic /joint_states for the state', '--state TOPIC', '--fixed-state', '/arm')),
    (GOOD[:3] + OTHER[3:], {}, InstructionError, ('--text', '--instruction', '/say')),
    (GOOD, {'cameras': {'wrist': '/overhead/image'}}, TopicError, (
        'cameras overhead and wrist', '/overhead/image for both')),
    (GOOD, {'cameras': {'front': '/overhead/image'}}, ConfigError, ('front', 'overhead, wrist')),
    (GOOD, {'cameras': {'wrist': '/joint_states'}}, MessageTypeError, (
        'sensor_msgs/msg/Image or sensor_msgs/msg/CompressedImage', 'got sensor_msgs/msg/Joint')),
    (GOOD, {'state': '/instruction'}, MessageTypeError, ('got std_msgs/msg/String',)),
    (GOOD, {'instruction': '/nobody'}, TopicError, (
        'topic /nobody for the instruction', '--text')),
    (GOOD, {'compare': '/joint_states'}, MessageTypeError, ('the recorded actions', '/action')),
    (GOOD, {'compare': '/nobody'}, TopicError, ('--compare TOPIC', '/action (traj')),
    (GOOD, {'fixed_state': (1.0,)}, StateError, ('slide_x, slide_y', 'got 1')),
    ([*GOOD, text(ORIGIN_NS, 'x', '/wrist/image')], {}, MessageTypeError, (
        'sensor_msgs/msg/Image and std_msgs/msg/String',)),
], ids=range(12))
def test_what_does_not_fit_is_told_with_what_is_there(find, sent, wishes, kind, words):
    with pytest.raises(kind) as caught:
        find(sent, **wishes)
    assert isinstance(caught.value, RobotInferError)
    for word in words:
        assert word in str(caught.value)


def test_a_topic_the_recorder_knew_but_never_heard_is_told(config, tmp_path):
    from rosbags.rosbag2 import StoragePlugin, Writer

    from robot_infer.replay import messages
    with Writer(tmp_path / 'bag', version=8, storage_plugin=StoragePlugin.MCAP) as writer:
        for one in GOOD:
            writer.add_connection(one.topic, one.type, typestore=messages.STORE)
            if one.topic != '/wrist/image':
                writer.write(writer.connections[-1], one.time_ns, one.cdr)
    with Bag(tmp_path / 'bag') as bag, pytest.raises(TopicError, match='received nothing'):
        choose(bag, config, Wishes())


def test_a_custom_message_is_refused_by_its_type(config, tmp_path):
    from rosbags.rosbag2 import StoragePlugin, Writer
    with Writer(tmp_path / 'bag', version=8, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(
            '/joint_states', 'my_arm_msgs/msg/ArmState', msgdef='float64[7] q\n', rihs01='x')
        writer.write(connection, ORIGIN_NS, b'\0\1\0\0' + bytes(56))
        for one in (GOOD[0], GOOD[1], GOOD[3]):
            from robot_infer.replay import messages
            writer.write(writer.add_connection(one.topic, one.type, typestore=messages.STORE),
                         one.time_ns, one.cdr)
    with Bag(tmp_path / 'bag') as bag, pytest.raises(MessageTypeError) as caught:
        choose(bag, config, Wishes())
    assert 'got my_arm_msgs/msg/ArmState' in str(caught.value)
