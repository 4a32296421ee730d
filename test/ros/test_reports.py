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

"""~/status and /diagnostics over DDS: when they come, and what they say of a real graph."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.duration import Duration
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


def figures(robot, task: str) -> dict[str, str]:
    """The values of a diagnostics task."""
    return {pair.key: pair.value for pair in robot.diagnostics[f'/robot_infer: {task}'].values}


def test_the_status_comes_once_a_period_where_nothing_changes(active):
    active.wait_reports(1)
    before = active.num_status, active.num_diagnostics
    active.wait_reports(4)
    came = active.num_status - before[0], active.num_diagnostics - before[1]
    assert came[1] == 4 and abs(came[0] - came[1]) <= 1


def test_a_change_of_the_status_is_not_kept_back_until_the_period_is_over(robot):
    assert robot.set({'diagnostics.period_s': 60.0})[0]
    assert robot.transition('configure') and robot.transition('activate')
    robot.wait_status(state='active', source='hold', reason='no_instruction')
    robot.wait(lambda: robot.diagnostics['/robot_infer: node'].message == 'active', 'diagnostics')
    reports = robot.num_diagnostics
    robot.instruct('move to the red cube')
    robot.wait_status(source='chunk', instruction='move to the red cube')
    robot.instruct('')
    robot.wait_status(source='hold', reason='no_instruction', instruction='')
    assert robot.enable(False)[0]
    robot.wait_status(enabled='False')
    assert robot.enable(True)[0]
    robot.wait_status(enabled='True')
    assert robot.num_diagnostics == reports, 'those come once a minute now'
    assert robot.transition('deactivate')
    robot.wait(lambda: robot.num_diagnostics > reports, 'diagnostics at once after a transition')


def test_a_camera_whose_frames_are_too_old_is_an_error_in_its_own_status(robot):
    assert robot.set({'cameras.max_age_s': 0.5})[0]
    robot.stamp = lambda topic, now_ns: now_ns - (2 * 10**9 if 'wrist' in topic else 0)
    assert robot.transition('configure') and robot.transition('activate')
    message = robot.wait_diagnostics('camera wrist', 'a frame at most 500.0 ms old', level=ERROR)
    assert '(its stamp was 20' in message and 'stamps follow the ROS clock' in message
    robot.wait_diagnostics('camera overhead', ' Hz', level=OK)
    assert int(figures(robot, 'camera wrist')['stale']) > 0
    robot.reset()
    robot.wait_diagnostics('camera wrist', ' Hz', level=OK)


def test_an_encoding_that_is_refused_is_named_with_the_remedy_before_and_after_activation(
    robot, spoil_image,
):
    robot.images = {'wrist': spoil_image(encoding='16UC1')}
    assert robot.transition('configure')
    for level in (WARN, ERROR):
        message = robot.wait_diagnostics('camera wrist', '16UC1', level=level)
        assert message.startswith('camera wrist: ')
        if level == WARN:
            assert robot.transition('activate')
    robot.wait_diagnostics('camera overhead', ' Hz', level=OK)
    robot.reset()
    robot.wait_diagnostics('camera wrist', ' Hz', level=OK)


def test_a_joint_that_is_no_number_is_named_in_the_status_of_the_joint_states(active, harness):
    def broken():
        state = harness.good_state()
        state.position[1] = float('nan')
        return state
    active.state = broken
    message = active.wait_diagnostics('joint states', 'slide_y', level=ERROR)
    assert 'nan' in message
    active.reset()
    active.wait_diagnostics('joint states', ' Hz', level=OK)


def test_listeners_that_cannot_hear_the_actions_are_named(active):
    active.wait_diagnostics('action', '1 listener(s) on /action', level=OK)
    strict = active.node.create_subscription(
        JointTrajectory, 'action', lambda message: None,
        QoSProfile(depth=1, deadline=Duration(seconds=1)))
    try:
        message = active.wait_diagnostics('action', '(DEADLINE)', level=WARN)
        assert '/robot' in message and 'qos_overrides' not in message
    finally:
        active.node.destroy_subscription(strict)
    active.wait_diagnostics('action', '1 listener(s) on /action', level=OK)
    active.listen_to_arrays()
    active.wait_diagnostics('action', 'std_msgs/msg/Float64MultiArray', level=WARN)


def test_memory_was_taken_as_planned(active):
    active.wait_diagnostics('memory', 'taken as planned', level=OK)
    values = figures(active, 'memory')
    assert values['taken_bytes'] == values['planned_bytes'] != '0'
    assert int(values['ready_bytes']) < int(values['resident_bytes']) * 2
    assert active.set({'diagnostics.memory_warn_bytes': 0}) == (True, ''), 'live'
