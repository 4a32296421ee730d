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


"""What /diagnostics says of topics, on records made by hand; no ROS graph is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from diagnostic_msgs.msg import DiagnosticStatus

from robot_infer.camera import CameraCounters
from robot_infer.control import Fault
from robot_infer.errors import FrameError
from robot_infer.ros import topic_diagnostics
from robot_infer.ros.diagnostics import NodeStatus
from robot_infer.ros.inputs import LinkStatus
from robot_infer.ros.outputs import OutputStatus
from robot_infer.ros.ros_time import TimeStatus
from robot_infer.ros.topic_diagnostics import LinkRate, Rates
from robot_infer.transport import Profile

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
NODE = NodeStatus('/arm/robot_infer', 'active', '', {}, None, 2**20)
LINK = LinkStatus(
    '/cam/image', 'sensor_msgs/msg/Image', publishers=1, other_types=(), received=100,
    last_ns=5_000_000_000, size_bytes=921_600, lost=0, incompatible='')
GOOD = Profile('/x.xml', 33_554_432, '')
NONE = Profile('', 0, 'no profile is set')
ENCODING = FrameError('camera cam', expected='a colour image', got='16UC1', remedy='Use rgb8.')
OUTPUT = OutputStatus('/action', 'trajectory_msgs/msg/JointTrajectory', ('/arm/controller',), (),
                      '', ())


def camera(link=LINK, rate_hz=30.0, lost=0, wanted=True, profile=GOOD, age_s=0.01, refused=0,
           fault=None):
    return topic_diagnostics.camera(
        NODE, 'cam', LinkRate(link, rate_hz, lost, age_s, refused), CameraCounters(received=100),
        fault, wanted, 0.25, profile, 'robot')


def joint_states(link=LINK, fault='', wanted=True, age_s=0.01):
    return topic_diagnostics.link(
        NODE, 'joint states', LinkRate(link, 30.0, 0, age_s), fault, wanted, 0.25, 'robot')


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
    status = topic_diagnostics.instruction(NODE, LinkRate(both, 0.0, 0, None), '', True, 'robot')
    assert status.level == ERROR
    for policy, least in (('reliability', 'best_effort'), ('durability', 'volatile')):
        assert f'qos_overrides./cam/image.subscription.{policy}: {least}' in status.message


def test_two_publishers_of_one_camera_are_named():
    status = camera(replace(LINK, publishers=2, senders=('/arm/driver', '/left')))
    assert status.level == WARN
    assert '2 publishers on /cam/image (/arm/driver, /left)' in status.message


def test_silence_on_the_instruction_is_no_fault():
    silent = LinkRate(replace(LINK, publishers=0), 0.0, 0, None)
    status = topic_diagnostics.instruction(NODE, silent, 'go', True, 'robot')
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
    for status in (camera(replace(LINK, stampless=True)),
                   joint_states(replace(LINK, stampless=True))):
        assert status.level == WARN and 'without a stamp (0)' in status.message
    assert 'nothing arrives' in camera(replace(LINK, stampless=True), 0.0).message


def test_simulated_time_without_a_clock_says_what_to_do():
    def clock(*values, faults=()):
        return topic_diagnostics.clock(NODE, TimeStatus(*values), faults, 3, 'robot')
    assert (clock(False, 0, 10**18).level, clock(True, 1, 10**9).message) == (
        OK, 'simulated time (/clock)')
    silent = clock(True, 0, 0)
    assert silent.level == ERROR and 'no publisher on /clock' in silent.message
    stands = clock(True, 1, 10**9, faults=(Fault('ClockError', 'it stands', 1, 1, 2, True),))
    assert (stands.level, stands.message) == (ERROR, 'it stands')
    jumped = clock(True, 1, 10**9, faults=(
        Fault('ClockError', 'it jumped', 1, 1, 2, True, ends_ns=3),))
    assert (jumped.level, jumped.message) == (WARN, 'it jumped')


def test_rates_are_those_since_the_last_look():
    rates = Rates()
    assert rates.measure(LINK, 10_000_000_000).rate_hz == 0.0
    now = rates.measure(replace(LINK, received=130, lost=4), 12_000_000_000)
    assert (now.rate_hz, now.lost, now.age_s) == (15.0, 4, 7.0)
    assert rates.measure(replace(LINK, received=130, last_ns=0), 12_000_000_000).age_s is None
    assert rates.measure(LINK, 13_000_000_000, refused=5).refused == 5
    assert rates.measure(LINK, 14_000_000_000, refused=7).refused == 2


@pytest.mark.parametrize('status', [camera, joint_states])
def test_what_stopped_within_the_period_is_not_ok_once_it_is_too_old(status):
    stopped, idle = status(age_s=0.3), status(age_s=0.3, wanted=False)
    assert (stopped.level, idle.level) == (ERROR, WARN)
    assert 'nothing arrived on /cam/image for 0.30 s; after 0.25 s' in stopped.message


def test_images_that_cannot_be_used_are_named_with_the_remedy_in_the_status_of_their_camera():
    wanted, idle = camera(fault=ENCODING), camera(fault=ENCODING, wanted=False, refused=30)
    assert wanted.message == idle.message == str(ENCODING)
    assert (wanted.level, idle.level) == (ERROR, WARN)
    assert camera(fault=ENCODING, wanted=False).level == OK, 'it was before, and nobody looked'
    some = camera(refused=3)
    assert some.level == WARN and '3 images were refused' in some.message


def test_a_fault_of_the_state_is_named_in_the_status_of_the_joint_states():
    assert joint_states().level == OK
    bad = joint_states(fault='joint x: expected a number; got nan. Mend it.')
    assert (bad.level, bad.message) == (ERROR, 'joint x: expected a number; got nan. Mend it.')


def test_actions_that_nobody_hears_are_no_error_of_the_policy_but_shown():
    def action(wanted=True, **changes):
        return topic_diagnostics.action(NODE, replace(OUTPUT, **changes), wanted, 'robot')
    assert (action().level, action().message) == (OK, '1 listener(s) on /action')
    alone = action(listeners=())
    assert alone.level == WARN and 'nobody listens to /action' in alone.message
    assert action(wanted=False, listeners=()).level == OK


def test_a_listener_that_asks_for_another_type_or_qos_is_named():
    def action(**changes):
        return topic_diagnostics.action(NODE, replace(OUTPUT, **changes), True, 'robot')
    deaf = action(listeners=(), deaf=('/arm/controller',), incompatible='DEADLINE')
    assert deaf.level == ERROR and '(/arm/controller) requests QoS' in deaf.message
    assert deaf.message.endswith('it receives nothing. Change it.'), 'it cannot be overridden'
    unreliable = action(listeners=(), deaf=('/x',), incompatible='RELIABILITY')
    assert unreliable.message.endswith(
        'or set qos_overrides./action.publisher.reliability: reliable.')
    assert action(deaf=('/x',), incompatible='DEADLINE').level == WARN, 'another one hears them'
    other = action(listeners=(), other_types=('std_msgs/msg/Float64MultiArray',))
    assert other.level == ERROR and 'set control.output' in other.message
