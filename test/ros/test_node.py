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


"""The node as a robot sees it: a process of its own, over real DDS."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.config import settings
from robot_infer.sim.children import Child, ros_environment


def shown(robot, task: str) -> dict[str, str]:
    """Values of a diagnostics task."""
    status = robot.diagnostics.get(f'/robot_infer: {task}')
    return {pair.key: pair.value for pair in status.values} if status else {}


def test_it_goes_through_its_life_twice_and_acts_only_while_active(robot):
    for _ in range(2):
        assert robot.transition('configure')
        robot.wait_status(state='inactive')
        robot.actions.clear()
        robot.instruct('move to the red cube')
        robot.wait(lambda: robot.active_instruction == 'move to the red cube')
        robot.wait_reports(2)
        assert not robot.actions

        assert robot.transition('activate')
        robot.wait_status(state='active', source='chunk', faults='')
        robot.wait_actions(10)
        assert len(set(robot.actions[-10:])) > 1

        assert robot.transition('deactivate')
        robot.wait_status(state='inactive')  # what was sent before that has arrived by now
        robot.actions.clear()
        robot.wait_reports(2)
        assert not robot.actions
        assert robot.transition('cleanup')
        robot.wait_status(state='unconfigured')


def test_actions_can_be_bare_numbers(robot):
    assert robot.set({'control.output': 'float64_multi_array'})[0]
    assert robot.transition('configure') and robot.transition('activate')
    heard = robot.listen_to_arrays()
    robot.instruct('move to the red cube')
    robot.wait(lambda: 'chunk' in [pair.value for pair in robot.status.values], 'the policy')
    heard.clear()
    robot.wait(lambda: len(heard) > 3, 'arrays')
    assert len(heard[-1].data) == 2 and heard[-1].layout.dim[0].size == 2


def test_the_active_instruction_is_told_and_can_be_set_as_a_parameter(active):
    active.wait(lambda: active.active_instruction == 'move to the red cube')
    assert active.set({'instruction.text': 'go to the blue block'}) == (True, '')
    active.wait(lambda: active.active_instruction == 'go to the blue block')
    active.wait_status(instruction='go to the blue block', source='chunk')
    active.instruct('')
    active.wait(lambda: active.active_instruction == '')
    active.wait_status(source='hold', reason='no_instruction')


def test_diagnostics_name_the_node_and_every_part_of_it(active):
    active.wait_reports(2)
    active.wait_diagnostics('camera overhead', ' Hz')
    active.wait_diagnostics('joint states', ' Hz')
    active.wait_diagnostics('faults', 'none')
    assert set(active.diagnostics) == {f'/robot_infer: {task}' for task in (
        'node', 'faults', 'control', 'inference', 'camera overhead', 'camera wrist',
        'joint states', 'instruction', 'action', 'clock', 'cache', 'realtime', 'memory')}
    assert {status.hardware_id for status in active.diagnostics.values()} == {'robot'}
    control = shown(active, 'control')
    assert float(control['update_rate']) == 30 and int(control['chunk_ticks']) > 0
    camera = shown(active, 'camera wrist')
    assert camera['publishers'] == '1' and int(camera['used']) > 0


def test_each_inference_step_is_told_on_request(robot):
    with robot.hearing_steps() as heard:
        assert robot.transition('configure') and robot.transition('activate')
        robot.instruct('move to the red cube')
        robot.wait(lambda: len(heard) > 2 and heard[-1].ticks, 'steps')
    assert [step.epoch for step in heard] == list(range(heard[0].epoch, heard[-1].epoch + 1))
    assert set(heard[-1].frame_stamps_ns) == {'overhead', 'wrist'}
    assert heard[-1].tokens_total > 0 and 'denoise' in heard[-1].stages_s


def test_the_format_of_the_pages_is_shown(robot):
    assert robot.set({'cache.kv_format': 'int8'})[0] and robot.transition('configure')
    robot.wait(lambda: shown(robot, 'node').get('kv_format') == 'int8', 'the format')


def test_the_plan_is_logged_at_configure_and_what_was_measured_of_it(robot, process):
    assert robot.transition('configure')
    for words in ('the plan:', 'all lines', 'headroom', 'pages and image embeddings:',
                  'process of the policy:'):
        robot.wait(lambda words=words: process.lines_with(words), words)
    assert 'MiB planned' in process.lines_with('process of the policy:')[-1]


def test_an_impossible_transition_is_refused_and_the_node_lives_on(robot):
    for name in ('activate', 'deactivate', 'cleanup'):
        assert not robot.transition(name)
    assert robot.lifecycle_state() == 'unconfigured'
    assert robot.transition('configure')


def test_every_setting_is_a_described_parameter(robot):
    table = {setting.name: setting for setting in settings()}
    for descriptor in robot.describe(list(table)):
        setting = table[descriptor.name]
        assert descriptor.description == setting.help
        assert setting.wanted in descriptor.additional_constraints
        ranges = [*descriptor.floating_point_range, *descriptor.integer_range]
        assert bool(ranges) == (setting.low is not None or setting.high is not None)
        if setting.low is not None:
            assert ranges[0].from_value == setting.low


def test_live_parameters_change_at_once_and_others_are_refused(active):
    assert active.set({'inference.rate_hz': 5.0, 'control.deadline_s': 1}) == (True, '')
    done, reason = active.set({'control.rate_hz': 50.0})
    assert not done and 'control.rate_hz' in reason and 'unconfigured' in reason
    done, reason = active.set({'cameras.max_age_s': 1000.0})
    assert not done and 'cameras.max_age_s' in reason
    active.wait_actions(3)


def test_an_empty_list_is_a_value_and_the_rest_of_the_set_still_counts(robot):
    done, reason = robot.set({'control.action_low': [-1.0, -1.0], 'control.fallback': 'jump'})
    assert not done and 'control.fallback' in reason and 'hold, zero, stop' in reason
    assert robot.transition('configure'), 'nothing of the refused set was taken over'
    assert robot.transition('cleanup')


def test_a_publisher_with_other_reliability_is_named(robot):
    assert robot.set({'cameras.reliability': 'reliable'})[0]
    assert robot.transition('configure') and robot.transition('activate')
    message = robot.wait_diagnostics('camera overhead', 'incompatible QoS')
    assert 'RELIABILITY' in message and 'cameras.reliability: best_effort' in message
    robot.wait_fault('StaleFrameError', 'overhead')


_DRIVER = """
import array, time, rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
rclpy.init()
node = rclpy.create_node('driver')
publisher = node.create_publisher(Image, 'big/image', qos_profile_sensor_data)
image = Image(encoding='rgb8', width=640, height=480, step=1920)
image.data = array.array('B', bytes(640 * 480 * 3))
while True:
    image.header.stamp = node.get_clock().now().to_msg()
    publisher.publish(image)
    time.sleep(1 / 30)
"""


def test_the_loss_of_large_frames_is_recognised_and_its_cure_named(robot, domain_id):
    """A camera driver without the Fast DDS profile: most of its raw frames are lost."""
    environment = {name: value for name, value in ros_environment(domain_id).items()
                   if 'PROFILES_FILE' not in name}
    driver = Child('driver', [sys.executable, '-c', _DRIVER], environment)
    try:
        assert robot.set({'cameras.names': ['big', 'wrist'],
                          'cameras.policy_inputs': ['overhead', 'wrist']})[0]
        assert robot.transition('configure') and robot.transition('activate')
        message = robot.wait_diagnostics('camera big', 'FASTDDS_DEFAULT_PROFILES_FILE')
        assert 'config/fastdds.xml' in message and 'cameras.transport: compressed' in message
    finally:
        driver.stop()


@pytest.mark.parametrize('deactivate', [True, False])
def test_too_many_misses_stop_the_robot_and_where_wanted_the_node(robot, deactivate):
    assert robot.set({'control.max_consecutive_misses': 6, 'cameras.max_age_s': 0.5,
                      'control.deactivate_on_stop': deactivate}) == (True, '')
    assert robot.transition('configure') and robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_status(state='active', source='chunk')
    robot.image = lambda: None
    if deactivate:
        robot.wait_status(state='inactive')
        assert robot.lifecycle_state() == 'inactive'
        return
    robot.wait_status(state='active', source='stop', reason='deadlines_missed')
    robot.wait_fault('DeadlineError', 'fewer than 6 missed in a row')
    robot.wait_diagnostics('control', 'until the node is activated again')
