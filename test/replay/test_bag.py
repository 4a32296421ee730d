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

"""Bags as files: whole ones of every kind, other people's, and every way to be none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import shutil
import sqlite3
import sys

import numpy as np
import pytest
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from robot_infer.replay.bag import Bag, normal_type
from robot_infer.replay.errors import BagDamagedError, BagError

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import BAGS, ORIGIN_NS, PERIOD_NS, image, punch, state, text

MCAP, SQLITE3 = StoragePlugin.MCAP, StoragePlugin.SQLITE3
MESSAGES = [text(ORIGIN_NS, 'go'), *(
    one for k in range(20) for one in (
        image(ORIGIN_NS + k * PERIOD_NS, value=k), state(ORIGIN_NS + k * PERIOD_NS + 7)))]


def read(path: Path) -> list[tuple[str, int, bytes]]:
    """Everything in a bag."""
    with Bag(path) as bag:
        return [(one.topic, one.time_ns, bytes(one.cdr)) for one in bag.messages(bag.topics)]


def sent(messages: list) -> list[tuple[str, int, bytes]]:
    """Messages as `read` returns them."""
    return sorted(((one.topic, one.time_ns, one.cdr) for one in messages), key=lambda one: one[1])


def refusal(path: Path) -> str:
    """What opening the bag is refused with."""
    with pytest.raises(BagError) as caught:
        Bag(path)
    return str(caught.value)


@pytest.mark.parametrize('how', [
    {'storage': MCAP}, {'storage': SQLITE3},
    {'storage': MCAP, 'compression': (CompressionMode.STORAGE, CompressionFormat.ZSTD)},
    {'storage': MCAP, 'compression': (CompressionMode.MESSAGE, CompressionFormat.ZSTD)},
    {'storage': SQLITE3, 'compression': (CompressionMode.MESSAGE, CompressionFormat.ZSTD)},
    {'storage': SQLITE3, 'compression': (CompressionMode.FILE, CompressionFormat.ZSTD)},
], ids=['mcap', 'sqlite3', 'mcap chunks', 'mcap messages', 'sqlite3 messages', 'sqlite3 file'])
def test_every_kind_of_bag_gives_the_messages_that_were_written(make_bag, how):
    path = make_bag(MESSAGES, **how)
    assert read(path) == sent(MESSAGES)
    with Bag(path) as bag:
        assert bag.notes == [] and bag.count == len(MESSAGES)
        assert (bag.start_ns, bag.end_ns) == (ORIGIN_NS, MESSAGES[-1].time_ns)
        assert [(one.name, one.type, one.count) for one in bag.topics.values()] == [
            ('/instruction', 'std_msgs/msg/String', 1),
            ('/joint_states', 'sensor_msgs/msg/JointState', 20),
            ('/overhead/image', 'sensor_msgs/msg/Image', 20)]


def test_a_window_and_a_choice_of_topics(make_bag):
    path = make_bag(MESSAGES)
    with Bag(path) as bag:
        start_ns, stop_ns = ORIGIN_NS + 5 * PERIOD_NS, ORIGIN_NS + 7 * PERIOD_NS
        found = list(bag.messages(['/joint_states'], start_ns, stop_ns))
        assert [one.time_ns for one in found] == [start_ns + 7, start_ns + PERIOD_NS + 7]
        assert list(bag.messages(['/nobody'])) == []


def test_files_that_overlap_in_time_are_read_as_one_stream(make_bag, tmp_path):
    halves = [make_bag(MESSAGES[start::2], name=f'half{start}') for start in (0, 1)]
    folder = tmp_path / 'whole'
    folder.mkdir()
    for half in halves:
        shutil.copy(half / f'{half.name}.mcap', folder)
    assert [one[1] for one in read(folder)] == [one[1] for one in sent(MESSAGES)]
    with Bag(folder) as bag:
        assert any('no metadata.yaml' in note and '2 storage files' in note for note in bag.notes)


class TestMetadataThatDisagrees:

    def test_other_words_for_qos_do_not_hide_the_messages(self):
        with Bag(BAGS / 'rosbag2_talker_sqlite3') as bag:
            assert len(list(bag.messages(['/topic']))) == 10
            assert [note for note in bag.notes if 'QoS of /parameter_events, /rosout, /topic'
                    in note]

    def test_other_types_and_numbers_are_told_and_the_storage_is_believed(self, make_bag):
        path = make_bag(MESSAGES, storage=SQLITE3)
        metadata = path / 'metadata.yaml'
        metadata.write_text(metadata.read_text().replace(
            'sensor_msgs/msg/JointState', 'sensor_msgs/msg/Joints').replace(
            'message_count: 20', 'message_count: 19'))
        with Bag(path) as bag:
            assert bag.topics['/joint_states'].type == 'sensor_msgs/msg/JointState'
            assert 'disagree about the types of /joint_states' in bag.notes[0]
            assert 'numbers of messages of /joint_states, /overhead/image' in bag.notes[1]
            assert len(list(bag.messages(bag.topics))) == len(MESSAGES)

    def test_a_file_that_is_not_listed_is_told(self, make_bag):
        path = make_bag(MESSAGES)
        shutil.copy(path / 'bag.mcap', path / 'later.mcap')
        with Bag(path) as bag:
            assert 'later.mcap' in bag.notes[0] and 'not listed' in bag.notes[0]
            assert len(list(bag.messages(bag.topics))) == len(MESSAGES)

    def test_a_listed_file_that_is_missing_is_refused(self, make_bag):
        path = make_bag(MESSAGES)
        (path / 'bag.mcap').rename(path / 'other.mcap')
        assert 'no bag.mcap' in refusal(path)

    @pytest.mark.parametrize('words', ['', '[', 'a: 1', 'rosbag2_bagfile_information: {}', '\xff'])
    def test_one_that_cannot_be_read_is_passed_over(self, make_bag, words):
        path = make_bag(MESSAGES)
        (path / 'metadata.yaml').write_text(words, encoding='latin-1')
        with Bag(path) as bag:
            assert 'metadata.yaml cannot be read' in bag.notes[0]
            assert len(list(bag.messages(bag.topics))) == len(MESSAGES)

    def test_compressed_messages_that_it_hides_are_damage_not_silence(self, make_bag):
        path = make_bag(MESSAGES, compression=(CompressionMode.MESSAGE, CompressionFormat.ZSTD))
        metadata = path / 'metadata.yaml'
        metadata.write_text(metadata.read_text().replace('JointState', 'Joints'))
        with Bag(path) as bag, pytest.raises(BagDamagedError, match='expected the 20 messages'):
            list(bag.messages(['/joint_states']))


class TestWhatIsNoBag:

    def test_nothing_there(self, tmp_path):
        assert 'nothing there' in refusal(tmp_path / 'none')

    def test_a_folder_without_a_bag(self, tmp_path):
        assert '.mcap or .db3' in refusal(tmp_path)

    @pytest.mark.parametrize(('name', 'content', 'words'), [
        ('x.txt', b'hello', "begins b'hello'"), ('x.bin', b'', 'an empty file'),
        ('x.bag', b'#ROSBAG V2.0\n', 'a ROS 1 bag'), ('x.db', b'SQLite format 3\0', '.db3'),
        ('x', b'\x89MCAP0\r\n', 'ends in .mcap'), ('x.zstd', b'\x28\xb5\x2f\xfd', 'compressed'),
        ('x.mcap', b'', 'whole rosbag2 storage file'), ('x.mcap', b'hello', 'magic'),
        ('x.db3', b'', 'whole rosbag2 storage file'), ('x.db3', b'hello' * 99, 'not a database')])
    def test_a_foreign_file(self, tmp_path, name, content, words):
        (tmp_path / name).write_bytes(content)
        assert words in refusal(tmp_path / name)

    def test_an_sqlite_file_of_something_else(self, tmp_path):
        with sqlite3.connect(tmp_path / 'x.db3') as database:
            database.execute('create table t (x)')
        assert 'missing tables' in refusal(tmp_path / 'x.db3')

    def test_mcap_of_something_else_than_ros(self, tmp_path):
        from mcap.writer import Writer
        for name, profile, encoding in (('a.mcap', '', 'ros2msg'), ('b.mcap', 'ros2', 'protobuf')):
            with (tmp_path / name).open('wb') as stream:
                writer = Writer(stream)
                writer.start(profile=profile)
                schema = writer.register_schema('x', encoding, b'')
                channel = writer.register_channel('/x', 'cdr', schema)
                writer.add_message(channel, 1, b'', 1)
                writer.finish()
            assert 'whole rosbag2 storage file' in refusal(tmp_path / name)

    def test_a_bag_without_messages(self, make_bag):
        path = make_bag([])
        assert 'expected messages; got none' in refusal(path)


class TestDamage:

    @pytest.mark.parametrize('storage', [MCAP, SQLITE3])
    def test_a_bag_cut_off_anywhere_is_refused_or_read_as_far_as_it_goes(
            self, make_bag, tmp_path, storage):
        path = make_bag(MESSAGES, storage=storage)
        whole = next(file for file in path.iterdir() if file.suffix != '.yaml')
        content = whole.read_bytes()
        cut = tmp_path / f'cut{whole.suffix}'
        for size in sorted({*range(0, len(content), len(content) // 40), len(content) - 1}):
            cut.write_bytes(content[:size])
            try:
                with Bag(cut) as bag:
                    found = []
                    with pytest.raises(BagDamagedError, match='then'):
                        found.extend(bag.messages(bag.topics))
            except BagError as error:
                assert str(cut) in str(error) and 'mend it' in str(error)
            else:
                assert len(found) < len(MESSAGES)

    def test_a_hole_in_the_middle_is_damage_at_that_place(self, make_bag):
        noise = np.random.default_rng(0).integers(0, 256, (6, 640 * 480 * 3), np.uint8)
        many = [image(ORIGIN_NS + k * PERIOD_NS, width=640, height=480, data=data)
                for k, data in enumerate(noise)]
        path = make_bag(many, compression=(CompressionMode.STORAGE, CompressionFormat.ZSTD))
        punch(path / 'bag.mcap')
        found = []
        with Bag(path) as bag, pytest.raises(BagDamagedError) as caught:
            for one in bag.messages(bag.topics):
                found.append(one)
        assert 0 < len(found) < 6
        assert f'expected the 6 messages that bag.mcap announces; got {len(found)}, up to' in str(
            caught.value)

    def test_messages_that_only_stand_in_sqlites_log_are_told(self, make_bag):
        path = make_bag(MESSAGES, storage=SQLITE3)
        (path / 'bag.db3-wal').write_bytes(b'x' * 100)
        with Bag(path) as bag:
            assert 'bag.db3-wal holds messages that never reached the bag' in bag.notes[0]


@pytest.mark.parametrize(('written', 'normal'), [
    ('sensor_msgs/Image', 'sensor_msgs/msg/Image'), ('a/msg/B', 'a/msg/B'), ('Odd', 'Odd'),
    ('a/srv/B', 'a/srv/B')])
def test_types_without_msg_are_the_same_types(written, normal):
    assert normal_type(written) == normal


def test_an_old_sqlite_bag_has_types_but_no_definitions():
    with Bag(BAGS / 'plotjuggler_rosbag2_test') as bag:
        assert bag.topics['/pose'].type == 'geometry_msgs/msg/PoseStamped'
        assert bag.topics['/pose'].definition == ''
        assert len(list(bag.messages(bag.topics))) == 4695


def test_a_bag_of_a_database_as_it_was_first_written(tmp_path):
    """Before schema 2: no QoS, no definitions, no version, and no metadata.yaml."""
    with sqlite3.connect(tmp_path / 'old.db3') as database:
        database.executescript(
            'create table topics(id integer primary key, name text, type text, '
            'serialization_format text);'
            'create table messages(id integer primary key, topic_id integer, timestamp integer, '
            'data blob);')
        topics = list(dict.fromkeys((one.topic, one.type) for one in MESSAGES))
        database.executemany('insert into topics values (?, ?, ?, "cdr")', [
            (number, *topic) for number, topic in enumerate(topics)])
        database.executemany(
            'insert into messages (topic_id, timestamp, data) values (?, ?, ?)',
            [(topics.index((one.topic, one.type)), one.time_ns, one.cdr) for one in MESSAGES])
    assert sorted(read(tmp_path / 'old.db3')) == sorted(sent(MESSAGES))


def test_a_definition_that_nobody_can_parse_hides_no_other_topic(tmp_path):
    from robot_infer.replay import messages
    with Writer(tmp_path / 'bag', version=8, storage_plugin=MCAP) as writer:
        service = writer.add_connection('/service/_service_event', 'x/srv/Y_Event',
                                        msgdef='---\nthis is none', rihs01='x')
        writer.write(service, ORIGIN_NS, b'')
        one = MESSAGES[0]
        writer.write(writer.add_connection(one.topic, one.type, typestore=messages.STORE),
                     one.time_ns, one.cdr)
    with Bag(tmp_path / 'bag') as bag:
        assert [bytes(found.cdr) for found in bag.messages([one.topic])] == [one.cdr]


def test_a_topic_of_two_types_is_one_topic(make_bag: Callable[..., Path]):
    path = make_bag([text(ORIGIN_NS, 'a', '/x'), state(ORIGIN_NS + 1, topic='/x')])
    with Bag(path) as bag:
        assert bag.topics['/x'].type == 'std_msgs/msg/String and sensor_msgs/msg/JointState'
