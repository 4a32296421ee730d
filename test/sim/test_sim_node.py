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

"""The simulated robot over real DDS: one process of its own, this one listens and commands."""

from collections.abc import Callable, Iterator
import json
import os
import re
import signal
import sys
import time

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from rclpy.context import Context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.qos import QoSProfile, qos_profile_sensor_data  # noqa: E402
from sensor_msgs.msg import CompressedImage, Image, JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray, String  # noqa: E402
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint  # noqa: E402

from robot_infer.sim.cameras import PADDING, WRIST_STEP  # noqa: E402
from robot_infer.sim.children import Child, free_domain_id, ros_environment  # noqa: E402
from robot_infer.sim.messages import Truth, from_json  # noqa: E402
from robot_infer.sim.world import World  # noqa: E402

PATIENCE_S = 30.0


class Listener:
    """A node of this process that keeps the newest message of each topic."""

    def __init__(self, domain_id: int) -> None:
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain_id)
        self.node = Node('listener', context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.newest: dict[str, object] = {}

    def listen(self, kind: type, topic: str, qos: QoSProfile | int = 10) -> None:
        """Keep the newest message of `topic`."""
        self.node.create_subscription(
            kind, topic, lambda message: self.newest.__setitem__(topic, message), qos)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Spin until `condition` holds."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, f'waited in vain; heard {sorted(self.newest)}'
            self.executor.spin_once(timeout_sec=0.1)

    def hear(self, topic: str, condition: Callable[[object], bool] = lambda _: True) -> object:
        """Wait for a new message of `topic` that meets `condition`."""
        self.newest.pop(topic, None)
        self.wait(lambda: topic in self.newest and condition(self.newest[topic]))
        return self.newest[topic]

    def truth(self, condition: Callable[[Truth], bool] = lambda _: True) -> Truth:
        """Wait for a truth that meets `condition`."""
        def read(message: String) -> Truth:
            return from_json(Truth, message.data, 'sim/truth')
        return read(self.hear('sim/truth', lambda message: condition(read(message))))

    def say(self, topic: str, **fields: object) -> None:
        """Publish JSON on `topic`, once somebody listens."""
        publisher = self.node.create_publisher(String, topic, 10)
        self.wait(lambda: publisher.get_subscription_count() > 0)
        publisher.publish(String(data=json.dumps(fields)))

    def close(self) -> None:
        """Leave the graph."""
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture(scope='module')
def environment() -> Iterator[dict[str, str]]:
    """The environment of both processes; ours is put back afterwards."""
    before = dict(os.environ)
    chosen = ros_environment(free_domain_id())
    os.environ.update(chosen)
    yield chosen
    os.environ.clear()
    os.environ.update(before)


def start(environment: dict[str, str], *arguments: str) -> Child:
    """Start robot_infer_sim."""
    return Child('robot_infer_sim', [
        sys.executable, '-m', 'robot_infer.sim.node', '--ros-args', *arguments], environment)


@pytest.fixture(scope='module')
def listener(environment: dict[str, str]) -> Iterator[Listener]:
    """A listener to a running simulated robot, which is ended afterwards."""
    child = start(environment)
    ours = Listener(int(environment['ROS_DOMAIN_ID']))
    try:
        ours.listen(String, 'sim/truth')
        ours.truth()
        yield ours
    finally:
        ours.close()
        assert child.stop() == 0, child.last_lines()


def test_overhead_images_arrive_as_bgr8_in_the_colours_of_the_world(listener: Listener):
    listener.listen(Image, 'overhead/image', qos_profile_sensor_data)
    listener.say('sim/reset', seed=5, episode=1)
    listener.truth(lambda truth: truth.episode == 1)
    image = listener.hear('overhead/image')
    assert (image.encoding, image.width, image.height, image.step) == ('bgr8', 640, 480, 1920)
    bgr = np.frombuffer(image.data, np.uint8).reshape(480, 640, 3)
    world = World(5)
    difference = bgr[:, :, ::-1].astype(int) - world.render('overhead')
    assert np.median(np.abs(difference)) < 25  # the same picture but for light and noise
    assert image.header.stamp.sec > 0
    assert image.header.frame_id == 'overhead_camera'


def test_wrist_images_arrive_as_rgb8_with_padded_rows(listener: Listener):
    listener.listen(Image, 'wrist/image', qos_profile_sensor_data)
    image = listener.hear('wrist/image')
    assert (image.encoding, image.width, image.height, image.step) == (
        'rgb8', 320, 240, WRIST_STEP)
    rows = np.frombuffer(image.data, np.uint8).reshape(240, WRIST_STEP)
    assert (rows[:, 960:] == PADDING).all()
    assert rows[:, :960].std() > 1.0


def test_actions_move_the_robot_and_their_end_stops_it(listener: Listener):
    listener.listen(JointState, 'joint_states')
    before = listener.hear('joint_states')
    assert list(before.name) == ['slide_x', 'slide_y']
    target = -0.2 if before.position[0] > 0 else 0.2
    publisher = listener.node.create_publisher(JointTrajectory, 'action', 10)
    listener.wait(lambda: publisher.get_subscription_count() > 0)
    action = JointTrajectory(joint_names=['slide_y', 'slide_x'])
    action.points = [JointTrajectoryPoint(positions=[0.1, target])]

    def moves(message: JointState) -> bool:
        publisher.publish(action)
        return abs(message.position[0] - target) < 0.01 and abs(message.position[1] - 0.1) < 0.01

    listener.hear('joint_states', moves)
    assert not listener.truth().idle
    assert listener.truth(lambda truth: truth.idle).commands > 0


def test_an_action_without_points_or_with_nan_does_not_move_the_robot(listener: Listener):
    publisher = listener.node.create_publisher(JointTrajectory, 'action', 10)
    listener.wait(lambda: publisher.get_subscription_count() > 0)
    before = listener.truth(lambda truth: truth.idle)
    publisher.publish(JointTrajectory(joint_names=['slide_x', 'slide_y']))
    nan = JointTrajectory(joint_names=['slide_x', 'slide_y'])
    nan.points = [JointTrajectoryPoint(positions=[float('nan'), 0.0])]
    publisher.publish(nan)
    publisher.publish(JointTrajectory(
        joint_names=['slide_x'], points=[JointTrajectoryPoint(positions=[0.0])]))
    after = listener.truth(lambda truth: truth.step > before.step + 60)
    assert (after.gripper, after.commands) == (before.gripper, before.commands)


def test_reset_starts_the_world_of_that_seed(listener: Listener):
    listener.say('sim/reset', seed=42, blocks=2, episode=7)
    truth = listener.truth(lambda truth: truth.episode == 7)
    world = World(42, 2)
    assert truth.blocks == {block.colour: block.xy for block in world.blocks}
    assert truth.gripper == pytest.approx(tuple(world.state()))


def test_a_bad_reset_changes_nothing(listener: Listener):
    before = listener.truth()
    listener.say('sim/reset', seed=-1)
    listener.say('sim/disturb', colour='mauve')
    after = listener.truth(lambda truth: truth.step > before.step + 30)
    assert (after.episode, after.blocks) == (before.episode, before.blocks)


def test_disturb_moves_the_block_and_a_look_shows_it(listener: Listener):
    before = listener.truth()
    colour = next(iter(before.blocks))
    listener.say('sim/disturb', colour=colour, seed=1)
    after = listener.truth(lambda truth: truth.moved == before.moved + 1)
    assert after.blocks[colour] != before.blocks[colour]
    listener.listen(CompressedImage, 'sim/picture')
    listener.wait(lambda: listener.node.count_publishers('sim/picture') == 1)
    listener.say('sim/look', label='after')
    picture = listener.hear('sim/picture')
    assert picture.header.frame_id == 'after'
    assert bytes(picture.data[:2]) == b'\xff\xd8'


def test_actions_as_an_array_move_the_robot_where_that_is_configured(
        environment: dict[str, str]):
    child = start(environment, '-r', '__ns:=/other', '-p',
                  'control.output:=float64_multi_array')
    ours = Listener(int(environment['ROS_DOMAIN_ID']))
    try:
        ours.listen(JointState, '/other/joint_states')
        publisher = ours.node.create_publisher(Float64MultiArray, '/other/action', 10)
        ours.wait(lambda: publisher.get_subscription_count() > 0)

        def moves(message: JointState) -> bool:
            publisher.publish(Float64MultiArray(data=[0.05, -0.05]))
            return np.allclose(message.position, [0.05, -0.05], atol=0.005)

        ours.hear('/other/joint_states', moves)
    finally:
        ours.close()
        assert child.stop() == 0, child.last_lines()


@pytest.mark.parametrize(('argument', 'words'), [
    ('control.output:=twist', "parameter control.output.*joint_trajectory.*'twist'"),
    ('blocks:=9', 'parameter blocks.*1 to 4.*got 9')])
def test_a_bad_parameter_is_named_and_ends_the_process(
        environment: dict[str, str], argument: str, words: str):
    child = start(environment, '-p', argument)
    while child.exit_status is None:
        time.sleep(0.02)
    assert child.stop() == 2
    assert re.search(words, '\n'.join(child.last_lines()))
    assert 'Traceback' not in '\n'.join(child.last_lines())


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly_with_status_0(environment: dict[str, str], number: int):
    child = start(environment, '-r', '__ns:=/mortal')
    ours = Listener(int(environment['ROS_DOMAIN_ID']))
    try:
        ours.listen(String, '/mortal/sim/truth')
        ours.hear('/mortal/sim/truth')
        os.kill(child.pid, number)
        give_up = time.monotonic() + PATIENCE_S
        while child.exit_status is None and time.monotonic() < give_up:
            time.sleep(0.02)
        assert child.exit_status == 0
        assert not child.lines_with('Traceback', 'Error', 'error')
    finally:
        ours.close()
        child.stop()
