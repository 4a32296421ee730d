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
from pathlib import Path
import shutil
import subprocess
import sys

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


# The system's time as ROS reads it; timeouts of the middleware must not see another one.
_SET_CLOCK = """
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

int rcutils_system_time_now(int64_t *now_ns) {
    static const volatile int64_t *ahead_s;
    if (!ahead_s)
        ahead_s = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("AHEAD_S"), O_RDONLY), 0);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *now_ns = (now.tv_sec + *ahead_s) * 1000000000 + now.tv_nsec;
    return 0;
}
"""


@pytest.fixture(scope='module')
def ahead(tmp_path_factory) -> tuple[Path, Path | None]:
    """A file that says by how much the clock of a process is ahead, and what to preload for it."""
    folder = tmp_path_factory.mktemp('ahead')
    said, source, library = folder / 'seconds', folder / 'clock.c', folder / 'clock.so'
    said.write_bytes(bytes(8))
    source.write_text(_SET_CLOCK)
    compiler = shutil.which('cc') if sys.platform == 'linux' else None
    if compiler is None:
        return said, None
    subprocess.run([compiler, '-shared', '-fPIC', '-O1', '-o', library, source], check=True)
    return said, library


@pytest.fixture
def set_clock(ahead):
    """Set the clock of the node of `alone` so many seconds ahead."""
    said, library = ahead
    if library is None:
        pytest.skip('no C compiler (cc) on Linux, to make a clock that can be set for one process')

    def set_ahead(seconds: int) -> None:
        with open(said, 'r+b', buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder))
    return set_ahead


@pytest.fixture(scope='module')
def _alone(harness, domain_id, ahead, checkpoint, tmp_path_factory):
    settings = {
        'use_sim_time': True, 'policy.checkpoint': checkpoint, 'policy.process': False,
        'policy.threads': 1, 'cameras.max_age_s': 5.0, 'cameras.max_skew_s': 5.0,
        'state.max_age_s': 5.0, 'control.chunk_validity_s': 5.0, 'inference.rate_hz': 10.0,
        'diagnostics.period_s': 0.2}
    said, library = ahead
    child = harness.start_node(
        domain_id, '-r', '__node:=alone',
        *(word for key, value in settings.items() for word in ('-p', f'{key}:={value}')),
        AHEAD_S=str(said), ROS_LOG_DIR=str(tmp_path_factory.mktemp('log')),
        **({'LD_PRELOAD': str(library)} if library else {}))
    yield child
    assert child.stop() == 0 and not child.lines_with('Traceback')


@pytest.fixture
def alone(robot, _alone, make_robot):
    """A node of its own, unconfigured, that began with use_sim_time and heard no /clock yet."""
    alone = make_robot('alone')
    yield alone
    for name in ('deactivate', 'cleanup'):
        assert alone.transition(name)


@pytest.fixture
def told(process):
    """Wait until the log has a line with all these words."""
    def wait(robot, *words: str) -> None:
        robot.wait(lambda: any(all(word in line for word in words)
                               for line in process.lines_with(words[0])), f'{words} in the log')
    return wait


def figures(robot, task: str) -> dict[str, str]:
    """The values of a diagnostics task of the robot's node, of now."""
    seen: list[object] = []

    def fresh() -> bool:
        status = robot.diagnostics.get(f'/{robot.name}: {task}')
        if status is not None and not any(status is other for other in seen):
            seen.append(status)
        return len(seen) > 2  # the first was there, the second may have been under way
    robot.wait(fresh, f'diagnostics of {task}')
    return {pair.key: pair.value for pair in seen[-1].values}


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
    simulated.wait_fault('ClockError', words, b'\1')
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
    simulated.wait_held(10)
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
    alone, harness, stream, home, good,
):
    alone.image, alone.state = harness.good_image, harness.good_state
    assert alone.transition('configure') and alone.transition('activate')
    alone.instruct('move to the red cube')
    alone.wait_fault('ClockError', 'Start what publishes it')
    alone.wait_diagnostics('clock', 'no publisher on /clock')
    alone.wait(lambda: 'a time on /clock' in alone.status.message, 'the status')
    alone.wait_reports(1)
    assert not alone.actions and alone.lifecycle_state() == 'active'
    alone.clock = harness.SimulatedTime()
    alone.wait_status(source='chunk', faults='')
    stream.expect_stream(alone.actions, home, good())


# The system's clock, set.


def test_when_the_clock_of_the_computer_is_set_nothing_of_the_time_before_is_used(
    alone, harness, set_clock, stream, home, good, then, other,
):
    assert alone.set({'use_sim_time': False}) == (True, '')
    alone.image, alone.state = harness.good_image, harness.good_state
    assert alone.transition('configure') and alone.transition('activate')
    alone.instruct('move to the red cube')
    alone.wait_status(source='chunk', faults='')
    before = jumps(alone)
    for number, (ahead_s, image) in enumerate(
            [(3600, other), (0, harness.good_image)], before + 1):
        alone.image = alone.state = lambda: None  # it is noticed without messages too
        set_clock(ahead_s)
        alone.stamp = lambda topic, now_ns, ahead_s=ahead_s: now_ns + ahead_s * 10**9
        alone.wait_status(source='hold', reason='clock_jumped')
        alone.wait_fault(
            'ClockError', f'a jump {"forward" if ahead_s else "back"} by 3', b'\1')
        alone.image, alone.state = image, harness.good_state
        alone.wait_status(source='chunk')
        assert jumps(alone) == number
    stream.expect_stream(alone.actions, home, good(), stream.Hold(), then(first_row=0),
                         stream.Hold(), good(first_row=0))


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
    active.wait_held(10)
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
