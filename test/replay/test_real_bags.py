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

"""Bags that other people recorded (test/data/bags/SOURCES.txt): replayed, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
import sys

import pytest

from robot_infer.replay import command

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import BAGS

ONE_CAMERA = Path(__file__).parents[1] / 'golden' / 'data' / 'one_camera' / 'checkpoint'


@pytest.fixture
def one_camera(tmp_path: Path) -> Path:
    """A parameter file for the golden policy with the one camera `top`."""
    shape = json.loads((ONE_CAMERA / 'config.json').read_text())
    joints = [f'joint{number + 1}' for number in range(
        shape['input_features']['observation.state']['shape'][0])]
    path = tmp_path / 'one_camera.yaml'
    path.write_text(json.dumps({'/**': {'ros__parameters': {
        'policy': {'checkpoint': str(ONE_CAMERA), 'threads': 1},
        'cameras': {'names': ['top']}, 'state': {'joints': joints},
        'inference': {'rate_hz': 30.0}}}}))
    return path


def replayed(capsys: pytest.CaptureFixture[str], bag: str, *arguments: object) -> dict:
    """The JSON of a replay that must go well."""
    status = command.main([str(BAGS / bag), '--json', *map(str, arguments)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


def refused(capsys: pytest.CaptureFixture[str], bag: str, *arguments: object) -> str:
    """The line that a bag is refused with."""
    assert command.main([str(BAGS / bag), *map(str, arguments)]) == 2
    return capsys.readouterr().err


class TestAmberSoccerGoal:
    """Two frames of a 640x480 camera; each message compressed; its type without /msg/."""

    CAMERA = ('--camera', 'top=/camera/image_raw')

    def fixed(self, one_camera: Path) -> tuple[str, ...]:
        joints = json.loads(one_camera.read_text())['/**']['ros__parameters']['state']['joints']
        return ('--fixed-state', ','.join(['0.1'] * len(joints)), '--text', 'kick the ball')

    def test_its_frames_go_through_a_policy(self, one_camera, capsys):
        found = replayed(capsys, 'amber_soccer_goal', '--config', one_camera, *self.CAMERA,
                         *self.fixed(one_camera), '--latency-ticks', 0)
        assert found['steps'] == 2 and found['sources']['chunk'] == found['ticks'] == 2
        assert found['topics']['/camera/image_raw'] == {
            'type': 'sensor_msgs/msg/Image', 'in_bag': 2, 'read': 2, 'unreadable': 0, 'early': 0,
            'stamps_back': 0}
        assert any('--fixed-state' in note for note in found['notes'])
        again = replayed(capsys, 'amber_soccer_goal', '--config', one_camera, *self.CAMERA,
                         *self.fixed(one_camera), '--latency-ticks', 0)
        assert again['actions_sha256'] == found['actions_sha256']

    def test_without_a_state_it_is_refused(self, one_camera, capsys):
        told = refused(capsys, 'amber_soccer_goal', '--config', one_camera, *self.CAMERA)
        assert 'TopicError: topic /joint_states for the state' in told
        assert '--fixed-state' in told and '/camera/image_raw (sensor_msgs/msg/Image, 2)' in told

    def test_without_the_topic_of_its_camera_it_is_refused_with_a_hint(self, one_camera, capsys):
        told = refused(capsys, 'amber_soccer_goal', '--config', one_camera)
        assert '--camera top=TOPIC' in told and '/camera/image_raw' in told

    def test_its_file_alone_cannot_be_decompressed_and_says_so(self, one_camera, capsys):
        assert command.main([
            str(BAGS / 'amber_soccer_goal' / 'soccer_goal_12.mcap'), '--config', str(one_camera),
            *self.CAMERA, *self.fixed(one_camera)]) == 1
        told = ' '.join(capsys.readouterr().out.split())
        assert '2 of 2 messages of /camera/image_raw could not be decoded' in told
        assert 'compressed one (zstd)' in told


@pytest.mark.parametrize('bag', ['geocam_all_types_mcap', 'geocam_all_types_sqlite3'])
class TestGeocamAllTypes:
    """94 types, two synthetic messages each: an image without its pixels, old stamps."""

    TOPICS = ('--camera', 'top=/test/sensor_msgs/image', '--state',
              '/test/sensor_msgs/joint_state', '--instruction', '/test/std_msgs/string')

    def test_it_is_read_and_each_thing_that_cannot_be_used_is_named(self, bag, one_camera, capsys):
        found = replayed(capsys, bag, '--config', one_camera, *self.TOPICS)
        assert found['steps'] == 0 and found['sources']['chunk'] == 0
        assert found['topics']['/test/sensor_msgs/image']['read'] == 2
        told = ' '.join(found['notes'])
        assert 'Of 2 images of camera top: 2 not decodable' in told
        assert 'joint joint4: expected a joint of this name' in told  # it has three, not six
        assert 'No message for more than 10 s' not in told

    def test_other_types_are_refused_with_those_that_fit(self, bag, one_camera, capsys):
        told = refused(capsys, bag, '--config', one_camera, '--camera',
                       'top=/test/sensor_msgs/range', *self.TOPICS[2:])
        assert 'MessageTypeError' in told and 'got sensor_msgs/msg/Range' in told
        assert '/test/sensor_msgs/compressed_image' in told


class TestPlotJuggler:
    """An old sqlite3 bag without definitions: pose, battery, IMU; nothing for a policy."""

    def test_it_is_refused_with_what_it_has(self, capsys):
        told = refused(capsys, 'plotjuggler_rosbag2_test')
        assert 'topic /overhead/image for camera overhead' in told
        assert '/pose (geometry_msgs/msg/PoseStamped, 1565)' in told

    def test_its_pose_is_no_state(self, one_camera, capsys):
        told = refused(capsys, 'plotjuggler_rosbag2_test', '--camera', 'overhead=/pose')
        assert 'got geometry_msgs/msg/PoseStamped' in told


class TestTalker:
    """metadata.yaml and storage write the QoS in different words."""

    def test_it_is_refused_for_want_of_cameras_and_not_for_being_empty(self, capsys):
        told = refused(capsys, 'rosbag2_talker_sqlite3')
        assert 'camera overhead' in told and '/topic (std_msgs/msg/String, 10)' in told

    def test_a_copy_cut_in_half_is_damaged(self, tmp_path, capsys):
        shutil.copytree(BAGS / 'rosbag2_talker_sqlite3', tmp_path / 'cut')
        file = tmp_path / 'cut' / 'talker.db3'
        file.write_bytes(file.read_bytes()[:file.stat().st_size // 2])
        assert command.main([str(tmp_path / 'cut')]) == 2
        assert 'sqlite3 talker.db3 .recover' in capsys.readouterr().err


def test_every_bag_here_has_its_source_and_licence():
    listed = (BAGS / 'SOURCES.txt').read_text()
    for folder in BAGS.iterdir():
        if folder.is_dir():
            (line,) = [one for one in listed.splitlines() if one.startswith(f'{folder.name} | ')]
            *source, licence = line.split(' | ')
            assert len(source) == 4 and licence in ('Apache-2.0', 'MPL-2.0')
