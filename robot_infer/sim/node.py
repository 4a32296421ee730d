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

"""The simulated robot as a ROS 2 process: what a real one would publish and subscribe.

    overhead/image   sensor_msgs/Image, bgr8 640x480, 30 Hz, best effort
    wrist/image      sensor_msgs/Image, rgb8 320x240 with padded rows, 30 Hz, best effort
    joint_states     sensor_msgs/JointState, 60 Hz
    action           trajectory_msgs/JointTrajectory or std_msgs/Float64MultiArray, taken

and, for the demo driver alone, sim/reset, sim/disturb, sim/look, sim/truth, sim/picture (see
messages.py). Everything runs in the one thread that spins. Physics live in robot.py and world.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
import sys
import time

import cv2
import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from robot_infer.errors import ConfigError, RobotInferError
from robot_infer.ros.spin import run
from robot_infer.sim import messages
from robot_infer.sim.cameras import rows
from robot_infer.sim.messages import Disturb, Look, Reset
from robot_infer.sim.robot import PHYSICS_RATE_HZ, SimulatedRobot
from robot_infer.sim.world import CAMERAS, COLOURS, JOINT_NAMES

NODE_NAME = 'robot_infer_sim'
OUTPUT_PARAMETER = 'control.output'  # the policy node's name, so that one YAML key sets both
_JPEG_QUALITY = 70


class SimNode(Node):
    """Publishes what the simulated robot sees and feels; takes actions."""

    def __init__(self) -> None:
        super().__init__(NODE_NAME)
        output = self.declare_parameter(OUTPUT_PARAMETER, 'joint_trajectory').value
        seed = self._count('seed', 0, low=0, high=2**31)
        blocks = self._count('blocks', 3, low=1, high=len(COLOURS))
        self._was_idle = True
        self._images = {
            'overhead': self.create_publisher(Image, 'overhead/image', qos_profile_sensor_data),
            'wrist': self.create_publisher(Image, 'wrist/image', qos_profile_sensor_data)}
        self._states = self.create_publisher(JointState, 'joint_states', 10)
        self._truth = self.create_publisher(String, messages.TRUTH_TOPIC, QoSProfile(depth=100))
        self._pictures = self.create_publisher(
            CompressedImage, messages.PICTURE_TOPIC, QoSProfile(depth=10))
        self._subscribe(output)
        self._robot = SimulatedRobot(Reset(seed, blocks, episode=-1), time.monotonic_ns())
        self.create_timer(1.0 / PHYSICS_RATE_HZ, self._advance)
        self.get_logger().info(
            f'simulated robot ready: cameras {", ".join(CAMERAS)}, joints '
            f'{", ".join(JOINT_NAMES)}, actions as {output}')

    def end(self) -> None:
        """Nothing is at work beside the callbacks."""

    def _count(self, name: str, default: int, low: int, high: int) -> int:
        value = self.declare_parameter(name, default).value
        if not low <= value <= high:
            raise ConfigError(f'parameter {name}', expected=f'{low} to {high}', got=str(value),
                              remedy=f'The default is {default}.')
        return value

    def _subscribe(self, output: str) -> None:
        if output == 'joint_trajectory':
            self.create_subscription(JointTrajectory, 'action', self._on_trajectory, 10)
        elif output == 'float64_multi_array':
            self.create_subscription(Float64MultiArray, 'action', self._on_array, 10)
        else:
            raise ConfigError(
                f'parameter {OUTPUT_PARAMETER}', expected='joint_trajectory or '
                'float64_multi_array', got=repr(output), remedy='Use one of these.')
        reliable = QoSProfile(depth=10)
        self.create_subscription(String, messages.RESET_TOPIC, self._on_reset, reliable)
        self.create_subscription(String, messages.DISTURB_TOPIC, self._on_disturb, reliable)
        self.create_subscription(String, messages.LOOK_TOPIC, self._on_look, reliable)

    def _advance(self) -> None:
        """Let time go on; the timer only wakes us, the steady clock says how far."""
        progress = self._robot.advance(time.monotonic_ns())
        if not progress.steps:
            return
        self._report_idle()
        self._publish_state()
        if progress.frame_due:
            self._truth.publish(String(data=messages.to_json(self._robot.truth())))
            self._publish_frames()

    def _publish_state(self) -> None:
        message = JointState()
        message.header.stamp = self.get_clock().now().to_msg()
        message.name = list(JOINT_NAMES)
        message.position = [float(value) for value in self._robot.world.state()]
        self._states.publish(message)

    def _publish_frames(self) -> None:
        """Render and send what somebody listens to."""
        stamp = self.get_clock().now().to_msg()
        for camera, publisher in self._images.items():
            if publisher.get_subscription_count() == 0:
                continue
            sent = rows(camera, self._robot.world.render(camera))
            message = Image(encoding=sent.encoding, width=sent.width)
            message.header.stamp = stamp
            message.header.frame_id = f'{camera}_camera'
            message.height, message.step = sent.pixels.shape
            message.data = _as_array(sent.pixels)
            publisher.publish(message)

    def _report_idle(self) -> None:
        if self._robot.idle and not self._was_idle:
            self.get_logger().warning('no action for 0.5 s: the robot stands still')
        self._was_idle = self._robot.idle

    def _on_trajectory(self, message: JointTrajectory) -> None:
        if not message.points:
            self._refuse('action: expected at least one point; got none. Nothing is moved.')
            return
        self._command(dict(zip(message.joint_names, message.points[0].positions)))

    def _on_array(self, message: Float64MultiArray) -> None:
        self._command(dict(zip(JOINT_NAMES, message.data)))

    def _command(self, positions: dict[str, float]) -> None:
        try:
            self._robot.command(positions, time.monotonic_ns())
        except RobotInferError as error:
            self._refuse(str(error))

    def _on_reset(self, message: String) -> None:
        try:
            self._robot.reset(messages.from_json(Reset, message.data, messages.RESET_TOPIC))
            self._was_idle = True  # standing still after a reset is no news
        except RobotInferError as error:
            self._refuse(str(error))

    def _on_disturb(self, message: String) -> None:
        try:
            self._robot.disturb(
                messages.from_json(Disturb, message.data, messages.DISTURB_TOPIC))
        except RobotInferError as error:
            self._refuse(str(error))
        except KeyError as error:
            self._refuse(f'message on {messages.DISTURB_TOPIC}: {error.args[0]}')

    def _on_look(self, message: String) -> None:
        try:
            label = messages.from_json(Look, message.data, messages.LOOK_TOPIC).label
        except RobotInferError as error:
            self._refuse(str(error))
            return
        bgr = cv2.cvtColor(self._robot.world.render('overhead'), cv2.COLOR_RGB2BGR)
        encoded, jpeg = cv2.imencode('.jpg', bgr, (cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY))
        assert encoded, 'OpenCV encodes an 8-bit picture'
        picture = CompressedImage(format='bgr8; jpeg compressed bgr8')
        picture.header.stamp = self.get_clock().now().to_msg()
        picture.header.frame_id = label
        picture.data = _as_array(jpeg)
        self._pictures.publish(picture)

    def _refuse(self, words: str) -> None:
        self.get_logger().warning(words, throttle_duration_sec=1.0)


def _as_array(pixels: np.ndarray) -> array:
    """Return the bytes as rclpy takes them without looking at each (2000 times as fast)."""
    data = array('B')
    data.frombytes(memoryview(pixels).cast('B'))
    return data


def main(args: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; returns the exit status."""
    cv2.setNumThreads(1)  # small pictures: threads would only take cores from the policy
    return run(lambda _: SimNode(), args)


if __name__ == '__main__':
    sys.exit(main())
