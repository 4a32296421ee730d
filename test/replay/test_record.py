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

"""Recording over real DDS: byte for byte, from publishers of every QoS, ended in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from pathlib import Path
import sys
import time
from types import SimpleNamespace

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from rosbags.interfaces import QosDurability, QosReliability
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String

from robot_infer.config import Config
from robot_infer.replay import record
from robot_infer.replay.bag import Bag
from robot_infer.replay.dds_recorder import DdsRecorder, rclpy_qos, servable_qos
from robot_infer.replay.errors import MessageTypeError
from robot_infer.shared_files import shared_file
from robot_infer.sim.children import Child, free_domain_id, ros_environment

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import ORIGIN_NS, image, state, text

# Of a length that DDS need not fill up to a multiple of four bytes, as are the messages below.
LATCHED_TEXT = text(0, 'said before the recorder was there.').cdr
PATIENCE_S = 60.0
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
BEST_EFFORT = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture(scope='module')
def environment() -> dict[str, str]:
    """A ROS domain of our own, for us and for the recorder."""
    found = ros_environment(free_domain_id())
    os.environ.update({key: value for key, value in found.items()
                       if key.startswith(('ROS_', 'FAST'))})
    return found


@pytest.fixture
def node(environment: dict[str, str]) -> Iterator[Node]:
    """A node that publishes."""
    context = Context()
    rclpy.init(context=context, domain_id=int(environment['ROS_DOMAIN_ID']))
    made = Node('speaker', context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(made)
    yield made
    executor.shutdown()
    made.destroy_node()
    context.try_shutdown()


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., Child]]:
    """Start `robot-infer record` as a process."""
    children: list[Child] = []

    def launch(*arguments: object) -> Child:
        children.append(Child('recorder', [
            sys.executable, '-m', 'robot_infer.replay.record', *map(str, arguments)],
            environment))
        return children[-1]
    yield launch
    for child in children:
        child.stop()


def wait(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition` holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f'waited in vain for {what}'
        time.sleep(0.02)


def test_bytes_come_back_as_they_were_sent_whatever_the_qos(node, start, tmp_path):
    publishers = {
        '/overhead/image': node.create_publisher(
            Image, '/overhead/image', qos_profile_sensor_data),
        '/joint_states': node.create_publisher(JointState, '/joint_states', 10),
        '/status': node.create_publisher(String, '/status', LATCHED)}
    publishers['/status'].publish(LATCHED_TEXT)
    child = start(tmp_path / 'bag', '--topics', '/overhead/image,joint_states', '/status')
    for topic in ('/overhead/image', '/joint_states', '/status'):
        wait(lambda topic=topic: publishers[topic].get_subscription_count(), f'a listener {topic}')
    sent = [image(ORIGIN_NS + k, width=640, height=480, value=k) for k in range(5)]
    for k, one in enumerate(sent):
        publishers['/overhead/image'].publish(one.cdr)
        publishers['/joint_states'].publish(state(k).cdr)
        time.sleep(0.05)  # no faster than a camera; nothing is waited for by it
    wait(lambda: (tmp_path / 'bag' / 'bag.mcap').stat().st_size > 4 * 921_600, 'four images')
    assert child.stop() == 0 and not child.was_killed, '\n'.join(child.last_lines())
    with Bag(tmp_path / 'bag') as bag:
        assert bag.notes == []
        found = {topic: [bytes(one.cdr) for one in bag.messages([topic])] for topic in bag.topics}
        assert found['/overhead/image'] == [one.cdr for one in sent]
        assert found['/joint_states'] == [state(k).cdr for k in range(5)]
        assert found['/status'] == [LATCHED_TEXT]
        reliability = {name: topic.qos[0].reliability for name, topic in bag.topics.items()}
        assert reliability['/overhead/image'] is QosReliability.BEST_EFFORT
        assert reliability['/joint_states'] is QosReliability.RELIABLE
        assert bag.topics['/status'].qos[0].durability is QosDurability.TRANSIENT_LOCAL
        assert abs(bag.start_ns - time.time_ns()) < 600e9


def test_a_topic_that_nobody_publishes_is_told_and_is_status_1(node, start, tmp_path):
    publisher = node.create_publisher(String, '/said', 10)
    child = start(tmp_path / 'bag', '/said', '/nobody')
    wait(publisher.get_subscription_count, 'a listener')
    publisher.publish(String(data='x'))
    wait(lambda: child.lines_with('recording 2 topics'), 'its first words')
    time.sleep(0.5)  # lets the message arrive; not arriving would only fail the test
    assert child.stop() == 1
    told = '\n'.join(child.last_lines())
    assert '/nobody: nobody published it' in told and 'Traceback' not in told
    with Bag(tmp_path / 'bag') as bag:
        assert bag.topics['/said'].count == 1


def test_it_ends_by_itself_after_its_time(start, tmp_path):
    child = start(tmp_path / 'bag', '--duration', '0.2', '/nobody')
    wait(lambda: child.exit_status is not None, 'its end')
    assert child.exit_status == 1


def test_a_folder_that_is_there_already_is_refused(tmp_path, capsys, environment):
    assert record.main([str(tmp_path), '/x', '--duration', '0.1']) == 2
    told = capsys.readouterr().err
    assert 'expected a place for a new bag' in told and '..' not in told.replace(str(tmp_path), '')


def test_a_type_of_ones_own_is_refused(node, tmp_path, monkeypatch):
    """No wheel carries a type that ROS itself does not have: the graph's answer stands in."""
    monkeypatch.setattr(node, 'get_publishers_info_by_topic',
                        lambda topic: [SimpleNamespace(topic_type='my_msgs/msg/Own')])
    recorder = DdsRecorder(node, tmp_path / 'bag', ['/own'])
    with pytest.raises(MessageTypeError, match='got my_msgs/msg/Own. .* ros2 bag record'):
        recorder.look()
    recorder.abort()


def test_the_default_topics_are_all_around_the_policy_node():
    config = Config.from_yaml(shared_file('config/demo.yaml'))
    assert record.policy_topics(config) == [
        '/overhead/image', '/wrist/image', '/joint_states', '/instruction', '/action',
        '/robot_infer/step', '/robot_infer/status', '/robot_infer/instruction_active']
    compressed = Config.from_flat({**config.flat(), 'cameras.transport': 'compressed'})
    assert record.needed_topics(compressed)[0] == '/overhead/image/compressed'


def test_qos_is_the_most_that_all_publishers_serve():
    reliable = QoSProfile(depth=5)
    assert servable_qos([reliable, reliable]).reliability == ReliabilityPolicy.RELIABLE
    assert servable_qos([reliable, BEST_EFFORT]).reliability == ReliabilityPolicy.BEST_EFFORT
    assert servable_qos([LATCHED, reliable]).durability == DurabilityPolicy.VOLATILE
    assert servable_qos([LATCHED]).durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert rclpy_qos((), 3).reliability == ReliabilityPolicy.RELIABLE
