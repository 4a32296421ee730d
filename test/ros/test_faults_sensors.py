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


"""Sensors that fail and come back, over DDS: every action that goes out is accounted for.

While a sensor fails the last action is held and the fault has its name; then the policy's own
actions come again, without a new activation. Those are known in their exact values, because the
robot of these tests sends the same picture and the same state again and again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
import os
import signal
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String

from robot_infer.report.record import StepRecord
from robot_infer.shared_files import shared_file
from robot_infer.sim.children import Child, ros_environment

NAN, INF = float('nan'), float('inf')
POSITION = (0.1, -0.2)
MAX_AGE_S = 0.5
HORIZON = 8
HELD = 8  # ticks; a chunk that is late for once is not held that long
RELIABLE = QoSProfile(depth=1)
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
LATCHED_BEST_EFFORT = QoSProfile(
    depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL,
    reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture
def begin(robot) -> Callable[..., None]:
    """Configure with further settings and activate; it follows the policy where it can."""
    def begin(follows: bool = True, **values: object) -> None:
        named = {name.replace('__', '.'): value for name, value in values.items()}
        assert robot.set({
            'cameras.max_age_s': MAX_AGE_S, 'state.max_age_s': MAX_AGE_S, **named}) == (True, '')
        assert robot.transition('configure') and robot.transition('activate')
        robot.instruct('move to the red cube')
        if follows:
            robot.wait_status(state='active', source='chunk', faults='')
            robot.wait_actions(5)
    return begin


@pytest.fixture
def steps(robot) -> Iterator[list[StepRecord]]:
    """The records of ~/step, as they come."""
    with robot.hearing_steps() as heard:
        yield heard


@pytest.fixture
def told(process) -> Callable[..., bool]:
    """Whether the log has a line with all these words."""
    def told(*words: str) -> bool:
        return any(all(word in line for word in words) for line in process.lines_with(words[0]))
    return told


def holds(robot, *, fault: str, words: str, reason: str = 'chunk_exhausted') -> None:
    """The named fault is shown, and the last action is held for its reason."""
    robot.wait(lambda: words in robot.status.message, f'{words!r} in the status')
    robot.wait_status(source='hold', reason=reason, faults=fault)
    robot.wait_held(HELD)


def follows(robot) -> None:
    """The policy is followed, nothing is wrong any more, and the node was active all the time."""
    robot.wait_status(state='active', source='chunk', faults='')
    robot.wait_actions(HORIZON)


def picture(pixels: np.ndarray, encoding: str) -> Callable[[], Image]:
    """A source of one image: (height, width) or (height, width, channels) uint8."""
    def make() -> Image:
        height, width = pixels.shape[:2]
        image = Image(encoding=encoding, width=width, height=height,
                      step=pixels.size // height)
        image.data = array('B', pixels.tobytes())
        return image
    return make


def pixels_of(image: Image) -> np.ndarray:
    """(height, width, 3) uint8 of the good image, whose rows are padded."""
    rows = np.frombuffer(image.data, np.uint8).reshape(image.height, image.step)
    return rows[:, :3 * image.width].reshape(image.height, image.width, 3)


def other_picture(width: int = 64, height: int = 48) -> Callable[[], Image]:
    """An rgb8 picture that is none of the good ones."""
    return picture(np.random.default_rng(width).integers(
        0, 255, (height, width, 3), np.uint8), 'rgb8')


# Cameras


@pytest.mark.parametrize('stopped', [('wrist',), ('overhead', 'wrist')], ids=['one', 'both'])
def test_a_camera_stops(robot, begin, stream, chunk_of, stopped):
    begin()
    robot.images = {camera: lambda: None for camera in stopped}
    stopped_ns = time.time_ns()
    holds(robot, fault='StaleFrameError', words=f'camera {stopped[0]}')
    robot.wait_fault('StaleFrameError', stopped[0])
    for camera in stopped:
        robot.wait_diagnostics(f'camera {camera}', 'but nothing arrives')
    robot.images = {}
    follows(robot)
    chunk = chunk_of()
    begun = stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=0), stream.Follow(chunk),
        stream.Hold(at_least=HELD), stream.Follow(chunk, at_least=HORIZON, first_row=0))
    too_old_ns = stopped_ns + MAX_AGE_S * 1e9
    from_too_old = [action for action in robot.actions[begun[1]:begun[2]]
                    if action.sent_ns > too_old_ns]
    assert len(from_too_old) <= HORIZON, 'what its last frames lead to, and no more'


def test_a_camera_changes_its_encoding_and_size_while_running(
    robot, begin, steps, stream, chunk_of, harness,
):
    """With the policy in a process of its own, as it is by default."""
    begin(policy__process=True, diagnostics__publish_steps=True, inference__rate_hz=20.0)

    def show(make: Callable[[], Image] | None) -> list[StepRecord]:
        """Let the overhead camera send this; the steps that are made of it."""
        changed_ns = robot.node.get_clock().now().nanoseconds
        robot.images = {'overhead': make} if make else {}

        def made() -> list[StepRecord]:
            return [step for step in steps if step.frame_stamps_ns['overhead'] > changed_ns]
        robot.wait(lambda: len(made()) > 2, 'steps of the new frames')
        return made()

    rgb = pixels_of(harness.good_image())
    grey, large, exact = rgb[..., 1].copy(), other_picture(128, 96), other_picture(32, 32)
    assert show(None)
    same = show(picture(rgb[..., ::-1], 'bgr8'))
    assert not any(step.cameras_encoded for step in same), 'the same pixels, known already'
    assert max(step.tokens_computed for step in same) <= 1, 'only the last token is computed'
    assert sum(step.cameras_encoded for step in show(picture(grey, 'mono8'))) <= 1
    robot.images = {'overhead': picture(np.zeros((48, 64), np.float32).view(np.uint8), '32FC1')}
    holds(robot, fault='FrameError', words='32FC1')
    robot.images = {}
    follows(robot)
    for make in (large, exact, None, large):
        assert sum(step.cameras_encoded for step in show(make)) <= 1
    robot.images = {'overhead': other_picture(2000, 2)}
    holds(robot, fault='FrameError', words='2000 x 2')
    robot.images = {}
    follows(robot)

    first = chunk_of()
    as_grey = chunk_of(overhead=picture(np.repeat(grey[..., None], 3, axis=2), 'rgb8')())
    of_large, of_exact = chunk_of(overhead=large()), chunk_of(overhead=exact())
    assert len({first, as_grey, of_large, of_exact}) == 4
    stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=0), stream.Follow(first, at_least=10),
        stream.Follow(as_grey), stream.Hold(at_least=HELD), stream.Follow(first, first_row=0),
        stream.Follow(of_large), stream.Follow(of_exact), stream.Follow(first),
        stream.Follow(of_large), stream.Hold(at_least=HELD), stream.Follow(first, first_row=0))


def test_a_second_publisher_on_a_camera_is_named(robot, begin, stream, chunk_of, told):
    begin()
    other = other_picture()
    with robot.publishing(other, 'overhead/image', qos_profile_sensor_data):
        robot.wait_diagnostics('camera overhead', '2 publishers on /overhead/image (/robot')
        robot.wait(lambda: told('2 publishers on /overhead/image'), 'the log')
        assert robot.diagnostics['/robot_infer: camera wrist'].level == b'\0'
    robot.wait_diagnostics('camera overhead', ' Hz')
    follows(robot)
    chunk = chunk_of()
    stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=0), stream.Follow(chunk),
        stream.Follow(chunk, chunk_of(overhead=other())), stream.Follow(chunk, at_least=HORIZON))


# Quality of service


def test_best_effort_cameras_against_a_reliable_subscription(
    robot, begin, stream, chunk_of, harness, told,
):
    begin(follows=False, cameras__reliability='reliable')

    def refused() -> None:
        for camera in harness.CAMERAS:
            words = robot.wait_diagnostics(f'camera {camera}', 'incompatible QoS', level=b'\2')
            assert 'RELIABILITY' in words and f'/{camera}/image' in words
        holds(robot, fault='StaleFrameError', words='overhead', reason=reason)
    reason = 'instruction_changed'
    refused()
    robot.wait(lambda: told('/wrist/image', 'incompatible QoS (RELIABILITY)'), 'the log')
    with robot.publishing(harness.good_image, 'overhead/image', RELIABLE), \
            robot.publishing(harness.good_image, 'wrist/image', LATCHED):
        follows(robot)
        robot.wait_diagnostics('camera overhead', 'RELIABILITY', level=b'\1')
    reason = 'chunk_exhausted'
    refused()
    stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=HELD),
        stream.Follow(chunk_of(), at_least=HORIZON, first_row=0), stream.Hold(at_least=HELD))


def test_publishers_of_any_qos_are_heard(robot, begin, stream, chunk_of, harness):
    robot.image = robot.state = lambda: None
    begin(follows=False)
    profiles = RELIABLE, LATCHED, LATCHED_BEST_EFFORT
    for profile in profiles:
        with robot.publishing(harness.good_image, 'overhead/image', profile), \
                robot.publishing(harness.good_image, 'wrist/image', profile), \
                robot.publishing(harness.good_state, 'joint_states', profile):
            follows(robot)
        robot.wait_status(source='hold', reason='chunk_exhausted')
        robot.wait_held(HELD)
    stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=0),
        *[stream.Follow(chunk_of(), at_least=HORIZON, first_row=0), stream.Hold(at_least=HELD)]
        * len(profiles))


def test_other_inputs_whose_qos_was_overridden(start, make_robot, stream, chunk_of, harness,
                                               checkpoint):
    """joint_states made reliable, instruction latched, by parameter; their publishers are not."""
    overrides = {'/strict/joint_states.subscription.reliability': 'reliable',
                 '/strict/instruction.subscription.durability': 'transient_local'}
    child = start(
        '-r', '__ns:=/strict', '-p', f'policy.checkpoint:={checkpoint}', '-p',
        'policy.threads:=1', *(word for name, value in overrides.items()
                               for word in ('-p', f'qos_overrides.{name}:={value}')))
    robot = make_robot('strict/robot_infer')
    assert robot.set(harness.BASELINE)[0]
    robot.image = harness.good_image
    assert robot.transition('configure') and robot.transition('activate')
    with robot.publishing(harness.good_state, 'joint_states', qos_profile_sensor_data):
        for task, policy in (('joint states', 'RELIABILITY'), ('instruction', 'DURABILITY')):
            words = robot.wait_diagnostics(task, 'incompatible QoS', level=b'\2')
            assert policy in words
        robot.wait_fault('StateError', 'no message yet')
        robot.wait_fault('InstructionError', 'expected a text')
        robot.wait(lambda: all(
            child.lines_with(f'/strict/{topic}: a publisher offers incompatible QoS')
            for topic in ('joint_states', 'instruction')), 'the log')
    assert not robot.actions, 'where the robot stands is not known'
    robot.state = harness.good_state
    robot.wait_status(source='hold', reason='no_instruction')
    robot.wait_actions(5)
    with robot.publishing(lambda: String(data='move to the red cube'), 'instruction', LATCHED):
        follows(robot)
    stream.expect_stream(robot.actions, stream.Hold(at=POSITION, at_least=5),
                         stream.Follow(chunk_of(), at_least=HORIZON, first_row=0))


# Joint states


BAD_STATES = {
    'none': (lambda: None, 'one not older than'),
    'nan': (lambda: JointState(name=['slide_x', 'slide_y'], position=[0.1, NAN]), 'slide_y'),
    'infinite': (lambda: JointState(name=['slide_x', 'slide_y'], position=[INF, 0.0]), 'inf'),
    'a joint missing': (lambda: JointState(name=['slide_y', 'grip'], position=[0.1, 0.2]),
                        'slide_x'),
    'lengths differ': (lambda: JointState(name=['slide_x', 'slide_y'], position=[0.1]),
                       'position'),
    'no names': (lambda: JointState(position=[0.1, -0.2]), 'names'),
}


def test_joint_states_that_stop_or_are_none_in_one_run(
    robot, begin, stream, chunk_of, harness,
):
    begin()
    for make, words in BAD_STATES.values():
        robot.state = make
        holds(robot, fault='StateError', words=words)
        robot.state = harness.good_state
        follows(robot)
    chunk = chunk_of()
    stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=0), stream.Follow(chunk),
        *[stream.Hold(at_least=HELD), stream.Follow(chunk, at_least=HORIZON, first_row=0)]
        * len(BAD_STATES))


def test_joints_in_another_order_and_among_others_are_the_same_joints(
    robot, begin, stream, chunk_of,
):
    begin()
    robot.state = lambda: JointState(
        name=['grip', 'slide_y', 'elbow', 'slide_x'], position=[NAN, -0.2, INF, 0.1])
    robot.wait_actions(20)
    robot.state = lambda: JointState(
        name=['slide_y', 'grip', 'slide_x'], position=[0.05, NAN, 0.3])
    moved = chunk_of(positions=(0.3, 0.05))
    robot.wait(lambda: robot.actions[-1] in moved, 'actions of the new position')
    robot.wait_actions(5)
    stream.expect_stream(
        robot.actions, stream.Hold(at=POSITION, at_least=0),
        stream.Follow(chunk_of(), at_least=20), stream.Follow(moved, at_least=5))
    assert not robot.status.message.startswith('joint')


# The whole robot


def test_the_simulated_robot_is_killed_and_started_again(
    start, make_robot, stream, domain_id, tmp_path,
):
    """The demo policy goes on without a new activation; no step mixes old frames with new."""
    parameters = ('--params-file', str(shared_file('config/demo.yaml')), '-r', '__ns:=/table')

    def start_sim() -> Child:
        return Child('sim', [sys.executable, '-m', 'robot_infer.sim.node', '--ros-args',
                             *parameters], ros_environment(domain_id))

    start(*parameters, '-p', 'policy.threads:=1', '-p', 'policy.process:=false')
    sims = [start_sim()]
    robot = make_robot('table/robot_infer')
    with ExitStack() as undo:
        undo.callback(lambda: [sim.stop() for sim in sims])
        steps = undo.enter_context(robot.hearing_steps())
        assert robot.transition('configure') and robot.transition('activate')
        robot.instruct('move to the red cube')
        robot.wait_status(state='active', source='chunk', faults='')
        robot.wait_actions(20)

        os.kill(sims[0].pid, signal.SIGKILL)
        killed_ns = time.time_ns()
        robot.wait_fault('StaleFrameError', 'overhead')
        robot.wait_fault('StateError', 'joint states')
        robot.wait(lambda: {'hold', 'StateError', 'StaleFrameError'} <= {
            word for pair in robot.status.values if pair.key in ('source', 'faults')
            for word in pair.value.split(', ')}, 'the hold, for both reasons')
        robot.wait_held(15)
        held = robot.actions[-1]
        assert held in robot.actions[:-15], 'the last one sent'

        restarted_ns = time.time_ns()
        sims.append(start_sim())
        robot.wait_status(state='active', source='chunk', faults='')
        known = len(steps)
        robot.wait(lambda: len(steps) >= known + 5, 'steps of the new sim')
        robot.wait_actions(20)
    policy = tuple(dict.fromkeys(action for action in robot.actions if action != held))
    assert len(policy) > 20
    of_old = [step for step in steps if max(stamps(step)) <= killed_ns]
    of_new = [step for step in steps if min(stamps(step)) >= restarted_ns]
    assert len(of_old) > 2 and len(of_new) >= 5
    assert of_old + of_new == steps, 'each is made of frames and a state of one robot'


def stamps(step: StepRecord) -> tuple[int, ...]:
    """The stamps of everything a step looked at."""
    return *step.frame_stamps_ns.values(), step.state_stamp_ns
