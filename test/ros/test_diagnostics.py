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


"""The verdicts of /diagnostics on records made by hand; no ROS graph is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from diagnostic_msgs.msg import DiagnosticStatus

from robot_infer.camera import CameraCounters
from robot_infer.control import Fault
from robot_infer.ros import diagnostics
from robot_infer.ros.diagnostics import LinkRate, NodeStatus, Rates
from robot_infer.ros.inputs import LinkStatus
from robot_infer.ros.ros_time import TimeStatus
from robot_infer.transport import Profile

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
NODE = NodeStatus('/arm/robot_infer', 'active', '', {}, None, 2**20)
LINK = LinkStatus(
    '/cam/image', 'sensor_msgs/msg/Image', publishers=1, other_types=(), received=100,
    last_ns=5_000_000_000, size_bytes=921_600, lost=0, incompatible='')
GOOD = Profile('/x.xml', 33_554_432, '')
NONE = Profile('', 0, 'no profile is set')


def camera(link=LINK, rate_hz=30.0, lost=0, wanted=True, profile=GOOD):
    return diagnostics.camera(
        NODE, 'cam', LinkRate(link, rate_hz, lost, 0.01), CameraCounters(received=100), wanted,
        profile, 'robot')


def test_a_camera_that_delivers_is_ok_and_says_its_rate():
    status = camera()
    assert (status.level, status.message) == (OK, '30.0 Hz')
    assert status.name == '/arm/robot_infer: camera cam' and status.hardware_id == 'robot'
    assert {pair.key: pair.value for pair in status.values}['received'] == '100'


@pytest.mark.parametrize('link, words', [
    (replace(LINK, publishers=0), 'no publisher on /cam/image'),
    (replace(LINK, publishers=0, other_types=('std_msgs/msg/String',)), 'std_msgs/msg/String'),
    (replace(LINK, incompatible='RELIABILITY', incompatible_nodes=('/driver',)),
     '(/driver) offers incompatible QoS (RELIABILITY)'),
    (LINK, 'nothing arrives'),
])
def test_a_silent_camera_says_why_and_is_an_error_only_while_frames_are_wanted(link, words):
    wanted, idle = camera(link, 0.0), camera(link, 0.0, wanted=False)
    assert words in wanted.message and words in idle.message
    assert (wanted.level, idle.level) == (ERROR, WARN)


def test_a_publisher_that_cannot_be_heard_is_a_warning_while_another_is():
    both = replace(LINK, incompatible='RELIABILITY, DURABILITY', incompatible_nodes=('/driver',))
    status = camera(both)
    assert status.level == WARN and 'cameras.reliability: best_effort' in status.message
    status = diagnostics.instruction(NODE, LinkRate(both, 0.0, 0, None), '', True, 'robot')
    assert status.level == ERROR
    for policy, least in (('reliability', 'best_effort'), ('durability', 'volatile')):
        assert f'qos_overrides./cam/image.subscription.{policy}: {least}' in status.message


def test_two_publishers_of_one_camera_are_named():
    status = camera(replace(LINK, publishers=2, senders=('/arm/driver', '/left')))
    assert status.level == WARN
    assert '2 publishers on /cam/image (/arm/driver, /left)' in status.message


def test_silence_on_the_instruction_is_no_fault():
    silent = LinkRate(replace(LINK, publishers=0), 0.0, 0, None)
    status = diagnostics.instruction(NODE, silent, 'go', True, 'robot')
    assert (status.level, status.message) == (OK, 'in force: go')


def test_losses_name_the_cure():
    cure = 'FASTDDS_DEFAULT_PROFILES_FILE'
    lost = camera(lost=3)
    assert lost.level == WARN and '3 frames lost' in lost.message and cure in lost.message
    large = camera(profile=NONE)
    assert large.level == WARN and cure in large.message and '921600' in large.message
    nothing = camera(replace(LINK, received=0), 0.0, profile=NONE)
    assert nothing.level == ERROR and cure in nothing.message and NONE.fault in nothing.message


def test_small_frames_and_other_middlewares_need_no_profile():
    assert camera(replace(LINK, size_bytes=300_000), profile=NONE).level == OK
    assert camera(profile=None).level == OK
    assert 'FASTDDS' not in camera(replace(LINK, received=0), 0.0, profile=None).message


def test_messages_without_a_stamp_are_a_warning():
    for status in (camera(replace(LINK, stampless=True)), diagnostics.link(
            NODE, 'joint states', LinkRate(replace(LINK, stampless=True), 30.0, 0, 0.01), True,
            'robot')):
        assert status.level == WARN and 'without a stamp (0)' in status.message
    assert 'nothing arrives' in camera(replace(LINK, stampless=True), 0.0).message


def test_simulated_time_without_a_clock_says_what_to_do():
    def clock(*values, faults=()):
        return diagnostics.clock(NODE, TimeStatus(*values), faults, 3, 'robot')
    assert (clock(False, 0, 10**18).level, clock(True, 1, 10**9).message) == (
        OK, 'simulated time (/clock)')
    silent = clock(True, 0, 0)
    assert silent.level == ERROR and 'no publisher on /clock' in silent.message
    stands = clock(True, 1, 10**9, faults=(Fault('ClockError', 'it stands', 1, 1, 2, True),))
    assert (stands.level, stands.message) == (ERROR, 'it stands')


def test_rates_are_those_since_the_last_look():
    rates = Rates()
    assert rates.measure(LINK, 10_000_000_000).rate_hz == 0.0
    now = rates.measure(replace(LINK, received=130, lost=4), 12_000_000_000)
    assert (now.rate_hz, now.lost, now.age_s) == (15.0, 4, 7.0)
    assert rates.measure(replace(LINK, received=130, last_ns=0), 12_000_000_000).age_s is None


def test_the_first_fault_is_the_message_and_all_are_listed():
    late = Fault('StateError', 'state: expected a; got b. Do c.', 7, 1, 2, True)
    bad = Fault('FrameError', 'frame: expected d; got e. Do f.', 1, 3, 3, True)
    status = diagnostics.faults(NODE, (late, bad), (late, bad), 'robot')
    values = {pair.key: pair.value for pair in status.values}
    assert status.level == ERROR and status.message == f'{late.message} (and 1 more)'
    assert values['FrameError'] == bad.message and values['StateError.count'] == '7'
    assert diagnostics.faults(NODE, (), (late,), 'robot').level == OK


def test_a_failed_configure_is_an_error_everywhere():
    failed = replace(NODE, state='unconfigured', failure='configure failed: X: y')
    for status in (diagnostics.node(failed, 'r'), diagnostics.faults(failed, (), (), 'r'),
                   diagnostics.summary(failed, None, 'r')):
        assert (status.level, status.message) == (ERROR, failed.failure)
