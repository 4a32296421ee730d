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


"""Time as robots have it, over DDS: simulated, set back, standing still; stamps that are wrong.

Each test asserts all that was sent: the picture in the frames says which of them the actions
follow from. GOOD is what the robot sends by itself; OTHER comes after a change; of REFUSED nothing
may ever be followed.
"""

from __future__ import annotations

from array import array

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

MAX_AGE_S, RATE_HZ, HORIZON = 1.0, 30, 8
POSITION = (0.1, -0.2)


@pytest.fixture
def other(spoil_image):
    """A picture unlike the usual one."""
    return spoil_image(data=array('B', bytes(range(199, -1, -1)) * 48))


@pytest.fixture
def refused(spoil_image):
    """A third one."""
    return spoil_image(data=array('B', bytes(9600)))


@pytest.fixture
def good(stream, chunk_of):
    """The phase in which the usual picture is followed."""
    return lambda **how: stream.Follow(chunk_of(), **how)


@pytest.fixture
def then(stream, chunk_of, other):
    """The phase in which the other one is followed, with nothing left of the usual one."""
    return lambda **how: stream.Follow(chunk_of(overhead=other(), wrist=other()), **how)


@pytest.fixture
def home(stream):
    """The phase before anything is followed."""
    return stream.Hold(at=POSITION, at_least=0)


@pytest.fixture
def simulated(robot, harness):
    """The node follows the policy in simulated time."""
    robot.clock = harness.SimulatedTime()
    assert robot.set({'use_sim_time': True, 'cameras.max_age_s': MAX_AGE_S,
                      'diagnostics.period_s': 0.2}) == (True, '')
    assert robot.transition('configure') and robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_status(source='chunk', faults='')
    yield robot
    robot.clock = None
    assert robot.set({'use_sim_time': False}) == (True, '')


@pytest.fixture
def told(process):
    """Wait until the log has a line with all these words."""
    def wait(robot, *words: str) -> None:
        robot.wait(lambda: any(all(word in line for word in words)
                               for line in process.lines_with(words[0])), f'{words} in the log')
    return wait


def figures(robot, task: str) -> dict[str, str]:
    """The values of a diagnostics task, of now."""
    robot.wait_reports(2)
    return {pair.key: pair.value for pair in robot.diagnostics[f'/robot_infer: {task}'].values}


def jumps(robot) -> int:
    """How many jumps of the clock the node has counted."""
    return int(figures(robot, 'clock')['clock_jumps'])


# Simulated time.


@pytest.mark.parametrize('jump_s, words', [
    (-60, 'a jump back by '), (60, 'a jump forward by ')], ids=['looped bag', 'forward'])
def test_after_a_jump_nothing_of_the_time_before_is_used(
    simulated, stream, home, good, then, other, jump_s, words,
):
    before = jumps(simulated)
    simulated.image = lambda: None
    simulated.clock.jump(jump_s)
    simulated.wait_status(source='hold', reason='clock_jumped')
    simulated.wait_fault('ClockError', words)
    told = figures(simulated, 'faults')['ClockError'].partition(words)[2].split()[0]
    assert 55 < float(told) < 65, 'less or more by what passed between two ticks of /clock'
    simulated.image = other
    simulated.wait_status(source='chunk')
    stream.expect_stream(
        simulated.actions, home, good(), stream.Hold(), then(first_row=0))
    assert jumps(simulated) == before + 1


@pytest.mark.parametrize('messages', [False, True], ids=['paused bag', 'live drivers'])
def test_while_the_clock_stands_the_robot_does(simulated, stream, home, good, messages):
    before, image, state = jumps(simulated), simulated.image, simulated.state
    if not messages:
        simulated.image = simulated.state = lambda: None
    simulated.clock.stand()
    simulated.wait_fault('ClockError', 'unchanged for')
    simulated.wait_diagnostics('clock', 'expected time that passes')
    simulated.wait_status(source='hold', reason='chunk_exhausted')
    simulated.wait_actions(10)
    stream.expect_stream(simulated.actions, home, good(), stream.Hold(at_least=10))
    simulated.image, simulated.state = image, state
    simulated.clock.go_on()
    simulated.wait_status(source='chunk', faults='')
    stream.expect_stream(simulated.actions, home, good(), stream.Hold(at_least=10), good())
    assert jumps(simulated) == before, 'time that stood has not jumped'


def test_a_switch_to_simulated_time_and_back(active, harness, stream, home, good, then, other):
    before, active.image = jumps(active), lambda: None
    assert active.set({'use_sim_time': True}) == (True, '')
    try:
        active.wait_fault('ClockError', 'set use_sim_time to false')
        active.wait_diagnostics('clock', 'no publisher on /clock')
        active.wait_status(source='hold', reason='clock_jumped')
        active.image, active.clock = other, harness.SimulatedTime()
        active.wait_status(source='chunk')
        active.wait_diagnostics('clock', 'simulated time (/clock)')
        stream.expect_stream(active.actions, home, good(), stream.Hold(), then(first_row=0))
        # ROS remembers the last time on /clock; one more jump where another test left one.
        then_jumps = jumps(active)
        assert before < then_jumps <= before + 2
    finally:
        active.clock = None
        assert active.set({'use_sim_time': False}) == (True, '')
    active.wait_status(source='chunk')
    assert jumps(active) == then_jumps + 1


def test_without_a_clock_the_node_says_so_and_does_not_move_the_robot(
    robot, start, make_robot, harness, checkpoint, stream, good,
):
    child = start(
        '-p', 'use_sim_time:=true', '-p', f'policy.checkpoint:={checkpoint}', '-p',
        'policy.process:=false', '-p', 'policy.threads:=1', '-p', 'cameras.max_age_s:=5.0', '-p',
        'cameras.max_skew_s:=5.0', '-p', 'state.max_age_s:=5.0', '-p',
        'control.chunk_validity_s:=5.0', '-p', 'inference.rate_hz:=10.0', '-r',
        '__node:=without_clock')
    other = make_robot('without_clock')
    other.image, other.state = harness.good_image, harness.good_state
    assert other.transition('configure') and other.transition('activate')
    other.instruct('move to the red cube')
    other.wait_fault('ClockError', 'Start what publishes it')
    other.wait_diagnostics('clock', 'no publisher on /clock')
    other.wait(lambda: 'use_sim_time is true' in other.status.message, 'the status')
    other.wait_reports(1)
    assert not other.actions and other.lifecycle_state() == 'active'
    other.clock = harness.SimulatedTime()
    other.wait_status(source='chunk', faults='')
    stream.expect_stream(other.actions, stream.Hold(at=POSITION, at_least=0), good())
    assert child.stop() == 0 and not child.lines_with('Traceback')


# Stamps that are wrong, beside the system's clock.


@pytest.mark.parametrize('wrong_s, fault, words', [
    (-2, 'StaleFrameError', 'its stamp was 20'),
    (-3600, 'StaleFrameError', 'its stamp was 3600'),
    (3, 'FrameStampError', 'ahead of the ROS clock'),
    (3600, 'FrameStampError', 'ahead of the ROS clock'),
], ids=['late', 'an hour back', 'ahead', 'an hour ahead'])
def test_frames_whose_stamps_are_off_are_not_used(
    active, stream, home, good, then, other, refused, wrong_s, fault, words,
):
    assert active.set({'cameras.max_age_s': MAX_AGE_S}) == (True, '')
    last_good_ns = active.node.get_clock().now().nanoseconds
    active.image = refused
    active.stamp = lambda topic, now_ns: (
        now_ns if topic == 'joint_states' else now_ns + wrong_s * 10**9)
    active.wait_fault(fault, words)
    active.wait_status(source='hold', reason='chunk_exhausted', faults=fault)
    active.wait_actions(10)
    active.image, active.stamp = other, lambda topic, now_ns: now_ns
    active.wait_status(source='chunk', faults='')
    phases = home, good(), stream.Hold(at_least=10), then(first_row=0)
    held_from = stream.expect_stream(active.actions, *phases)[-2]
    late = [action for action in active.actions[:held_from] if action.sent_ns > last_good_ns]
    assert len(late) <= MAX_AGE_S * RATE_HZ + 1 + HORIZON, 'the last good frame, then its chunk'


def test_of_frames_out_of_order_the_newest_stamp_wins(active, stream, home, good, refused):
    made = [0]
    usual, wrong = active.image, refused

    def is_late() -> bool:
        return made[0] // 2 % 2 == 1

    def image():
        made[0] += 1
        return wrong() if is_late() else usual()

    def stamp(topic, now_ns):
        return now_ns - 900_000_000 if topic != 'joint_states' and is_late() else now_ns
    active.image, active.stamp = image, stamp
    active.wait(lambda: int(figures(active, 'camera wrist')['out_of_order']) > 5, 'some of them')
    active.wait_status(source='chunk', faults='')
    stream.expect_stream(active.actions, home, good())


def test_frames_without_a_stamp_are_used_with_a_warning(
    active, stream, home, good, chunk_of, other, told,
):
    active.actions.clear()
    active.image, active.stamp = other, lambda topic, now_ns: 0
    active.wait_diagnostics('camera wrist', 'without a stamp (0)')
    active.wait_diagnostics('joint states', 'without a stamp (0)')
    told(active, '/wrist/image', 'without a stamp (0)')
    assert int(figures(active, 'camera wrist')['stamp_missing']) > 0
    active.stamp = lambda topic, now_ns: now_ns
    active.wait_diagnostics('camera wrist', ' Hz')
    active.wait_status(source='chunk', faults='')
    new = other()
    mixed = stream.Follow(chunk_of(), chunk_of(overhead=new), chunk_of(wrist=new),
                          chunk_of(overhead=new, wrist=new))
    stream.expect_stream(active.actions, mixed)
    assert set(active.actions[-HORIZON:]) <= set(chunk_of(overhead=new, wrist=new))
