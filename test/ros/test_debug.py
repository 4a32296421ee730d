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

"""~/debug over DDS: one message for every control tick and every inference step."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from std_msgs.msg import Float64

LATENESS, PROCESSING, INFERENCE = TOPICS = tuple(
    f'/robot_infer/debug/{name}' for name in (
        'deadline_lateness_ms', 'processing_time_ms', 'inference_time_ms'))


@pytest.fixture
def heard(robot):
    """What is heard on each topic below ~/debug, in milliseconds."""
    heard: dict[str, list[float]] = {topic: [] for topic in TOPICS}
    listeners = [robot.node.create_subscription(
        Float64, topic, lambda message, topic=topic: heard[topic].append(message.data), 1000)
        for topic in TOPICS]
    yield heard
    for listener in listeners:
        robot.node.destroy_subscription(listener)


def figures(robot, task: str) -> dict[str, str]:
    """The values of a diagnostics task."""
    return {pair.key: pair.value for pair in robot.diagnostics[f'/robot_infer: {task}'].values}


def test_on_request_every_tick_and_step_is_told(robot, heard):
    assert robot.set({'diagnostics.publish_debug': True})[0]
    assert robot.transition('configure')
    robot.wait(lambda: all(robot.node.count_publishers(topic) for topic in TOPICS), 'topics')
    assert robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_status(source='chunk')
    robot.wait_actions(60)
    assert robot.transition('deactivate')
    robot.wait_status(state='inactive')
    robot.wait_reports(2)
    control, inference = figures(robot, 'control'), figures(robot, 'inference')
    assert len(heard[LATENESS]) == len(heard[PROCESSING]) == int(control['ticks']) > 60
    assert len(heard[INFERENCE]) == int(inference['steps']) > 0
    for topic, figure in ((LATENESS, control['lateness.max_ms']), (
            PROCESSING, control['execution_time.max_ms']), (INFERENCE, inference['step.max_ms'])):
        assert max(heard[topic]) == pytest.approx(float(figure), rel=1e-3)
    assert min(heard[LATENESS]) >= 0.0 and min(heard[PROCESSING] + heard[INFERENCE]) > 0.0


def test_otherwise_there_are_no_such_topics(active):
    assert not any('/debug/' in name for name, _ in active.node.get_topic_names_and_types()
                   if active.node.count_publishers(name))
