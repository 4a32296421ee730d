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


"""Hanging, raising and dying policies, storms and changes under load, over DDS: what goes out.

Every test asserts the whole stream of actions. Times are judged beside loops that only sleep
(bare_loop.py). Faults of the policy are planted in the real one (planted_node.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
import shutil
import statistics
import sys
import time

import psutil
import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from lifecycle_msgs.srv import ChangeState, GetState
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from robot_infer.control.memory import held_bytes
from robot_infer.sim.children import Child, ros_environment

PERIOD_S = 1 / 30.0
RED, BLUE = 'move to the red cube', 'go to the blue block'
MIB = 2**20


@pytest.fixture(scope='module')
def plant(tmp_path_factory) -> Path:
    """A folder: a file in it plants a fault in the policy of `planted`."""
    return tmp_path_factory.mktemp('plant')


@pytest.fixture(scope='module')
def planted_process(harness, _robot, domain_id, checkpoint, plant) -> Iterator[Child]:
    """A node whose policy does as the files in `plant` say."""
    child = Child('planted', [
        sys.executable, str(Path(__file__).with_name('planted_node.py')), str(plant),
        '--ros-args', '-r', '__ns:=/planted', '-p', f'policy.checkpoint:={checkpoint}', '-p',
        'policy.threads:=1'], {
        **ros_environment(domain_id), 'OMP_NUM_THREADS': '1', 'ROS_LOG_DIR': str(plant)})
    yield child
    assert child.stop() == 0 and not child.was_killed


@pytest.fixture(scope='module', params=['thread', 'process'])
def configured(request, harness, domain_id, planted_process, checkpoint):
    """The robot of that node, with its policy in a thread or a process of its own."""
    robot = harness.Robot(domain_id, 'planted/robot_infer')
    robot.by_process = request.param == 'process'
    assert robot.set({
        **harness.BASELINE, 'policy.checkpoint': str(checkpoint),
        'policy.process': robot.by_process, 'cameras.max_age_s': 1.0, 'state.max_age_s': 1.0,
        'control.chunk_validity_s': 1.0}) == (True, '')
    assert robot.transition('configure')
    yield robot
    if robot.lifecycle_state() == 'active':
        assert robot.transition('deactivate')
    assert robot.transition('cleanup')
    robot.close()


@pytest.fixture
def planted(configured, planted_process, plant):
    """The same, and the node follows its policy."""
    robot = configured
    if robot.lifecycle_state() == 'active':
        assert robot.transition('deactivate')
    robot.wait_status(state='inactive')
    robot.reset()
    robot.wait_reports(2)  # what the test before sent is replaced meanwhile
    robot.actions.clear()
    assert robot.transition('activate')
    robot.instruct(RED)
    robot.wait_status(state='active', source='chunk')
    robot.wait_actions(10)
    yield robot
    for name in ('hang', 'raise'):
        (plant / name).unlink(missing_ok=True)
    assert planted_process.exit_status is None, '\n'.join(planted_process.last_lines())


@pytest.fixture
def hanging(plant, planted_process) -> Callable:
    """While open, the policy hangs: its thread waits, its process is stopped."""
    @contextmanager
    def hang(robot) -> Iterator[None]:
        if robot.by_process:
            engine = engine_of(planted_process.pid)
            engine.suspend()
            yield
            engine.resume()
        else:
            (plant / 'hang').touch()
            yield
            (plant / 'hang').unlink()
    return hang


def engine_of(node_pid: int) -> psutil.Process:
    """The process that the policy runs in."""
    (engine,) = psutil.Process(node_pid).children()
    return engine


def at_rate(bare, actions) -> bool:
    """Whether an action came every period, beside stalls of the machine."""
    return bare.share_without([action.sent_ns for action in actions], PERIOD_S) < 0.05


def other_image(harness) -> Callable:
    """A picture that the policy answers otherwise."""
    def make():
        image = harness.good_image()
        image.data = image.data[::-1]
        return image
    return make


def test_a_policy_that_hangs_for_seconds_stops_no_tick_and_its_chunk_is_not_used(
    planted, hanging, harness, stream, chunk_of, bare,
) -> None:
    seen = other_image(harness)
    hang_ticks = round((2.0 if planted.by_process else 5.0) / PERIOD_S)
    before, after = chunk_of(RED), chunk_of(RED, overhead=seen(), wrist=seen())
    with hanging(planted):
        planted.wait_status(source='hold', reason='chunk_exhausted')
        planted.image = seen  # the chunk under way knows nothing of it
        began = len(planted.actions)
        planted.wait_fault('EngineError', 'inference step: expected its end within')
        planted.wait_actions(hang_ticks - (len(planted.actions) - began))
    planted.wait_status(source='chunk', faults='')
    planted.wait_actions(20)
    stream.expect_stream(
        planted.actions, stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(before),
        stream.Hold(at_least=hang_ticks),
        stream.Follow(after, at_least=10, first_row=0))
    assert at_rate(bare, planted.actions)
    assert planted.lifecycle_state() == 'active'


def test_an_error_in_the_policy_stops_no_tick_and_is_over_when_it_is(
    planted, plant, harness, stream, chunk_of, bare,
) -> None:
    (plant / 'raise').touch()
    planted.wait_status(source='hold', reason='chunk_exhausted')
    planted.wait_fault('UnexpectedError', 'RuntimeError: planted')
    planted.wait_held(20)
    (plant / 'raise').unlink()
    planted.wait_status(source='chunk', faults='')
    planted.wait_actions(20)
    chunk = chunk_of(RED)
    stream.expect_stream(
        planted.actions, stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(chunk),
        stream.Hold(at_least=20), stream.Follow(chunk, at_least=10, first_row=0))
    assert at_rate(bare, planted.actions)


def test_deactivate_while_the_policy_hangs_is_answered_at_once_and_nothing_follows(
    planted, hanging, harness, stream, chunk_of, bare,
) -> None:
    chunk, home, took_s = chunk_of(RED), stream.Hold(at=harness.POSITION, at_least=0), []
    phases = [home, stream.Follow(chunk), stream.Hold()]
    with hanging(planted):
        planted.wait_status(source='hold', reason='chunk_exhausted')
        for _ in range(3):
            took_s.append(deactivate(planted, bare))
            stream.expect_stream(planted.actions, *phases)
            planted.actions.clear()
            assert planted.transition('activate')
            planted.wait_actions(3)
            phases = [stream.Hold(at=harness.POSITION)]
        assert planted.transition('deactivate')
        planted.wait_reports(1)
        planted.actions.clear()
    # The step ends now, and its chunk is thrown away. It is given a period before the answer.
    assert statistics.median(took_s) < 2.0 * PERIOD_S, took_s
    assert planted.transition('activate')
    planted.wait_status(state='active', source='chunk')
    planted.wait_actions(10)
    stream.expect_stream(planted.actions, home, stream.Follow(chunk, at_least=5, first_row=0))


def test_numbers_that_are_not_finite_hold_the_robot_and_do_not_linger(
    robot, checkpoint, tmp_path, harness, stream, chunk_of,
) -> None:
    """One word of this checkpoint is spoilt: its embedding overflows where it is scaled."""
    folder = tmp_path / 'spoilt'
    shutil.copytree(checkpoint, folder)
    (word,) = set(Tokenizer.from_file(str(folder / 'tokenizer.json')).encode('Z').ids)
    tensors = load_file(folder / 'model.safetensors')
    (name,) = [name for name in tensors if name.endswith('embed_tokens.weight')]
    tensors[name][word] = 3e38
    save_file(tensors, folder / 'model.safetensors')
    assert robot.set({'policy.checkpoint': str(folder)}) == (True, '')
    assert robot.transition('configure') and robot.transition('activate')
    robot.wait_actions(1)
    robot.instruct(RED)
    robot.wait_status(source='chunk')
    robot.instruct('go to Z')
    robot.wait_status(source='hold', reason='action_not_finite', faults='ActionError')
    robot.wait_actions(15)
    robot.instruct(RED)
    robot.wait_status(source='chunk', faults='')
    robot.wait_actions(10)
    chunk = chunk_of(RED)
    stream.expect_stream(
        robot.actions, stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(chunk),
        stream.Hold(at_least=15), stream.Follow(chunk, at_least=10, first_row=0))


_STORM = """
import sys, time, rclpy
from rclpy.duration import Duration
from std_msgs.msg import String
seconds, last = float(sys.argv[1]), sys.argv[2]
rclpy.init()
node = rclpy.create_node('storm')
out = node.create_publisher(String, 'instruction', 10)
while not out.get_subscription_count():
    time.sleep(0.01)
began = due = time.monotonic()
number = 0
while number < round(1000 * seconds):
    out.publish(String(data=f'go to place {number % 5}'))
    number += 1
    due += 0.001
    time.sleep(max(0.0, due - time.monotonic()))
out.publish(String(data=last))
out.wait_for_all_acked(Duration(seconds=30))
print('sent', number, 'in', time.monotonic() - began, flush=True)
"""


@pytest.fixture
def storm(domain_id) -> Iterator[Callable[[float, str], Child]]:
    """A thousand instructions a second from a process of its own, and then a last one."""
    children: list[Child] = []

    def begin(seconds: float, last: str) -> Child:
        children.append(Child('storm', [sys.executable, '-c', _STORM, str(seconds), last],
                              ros_environment(domain_id)))
        return children[-1]
    yield begin
    for child in children:
        child.stop()


def diagnosed(robot, task: str, key: str) -> float:
    """One figure of /diagnostics."""
    values = robot.diagnostics[f'/robot_infer: {task}'].values
    return float(next(pair.value for pair in values if pair.key == key))


def test_a_storm_of_instructions_starves_nothing_and_the_newest_wins(
    active, process, harness, storm, stream, chunk_of, bare,
) -> None:
    places = [chunk_of(f'go to place {number}') for number in range(5)]
    last = chunk_of(BLUE)
    first = storm(1.0, RED)  # what is taken once and kept is taken here
    active.wait(lambda: first.exit_status == 0, 'the end of the first storm')
    active.wait(lambda: active.active_instruction == RED, 'its last instruction')
    active.wait_status(source='chunk', instruction=RED)
    active.actions.clear()
    before_bytes = held_bytes('RssAnon', process.pid)
    second = storm(3.0, BLUE)
    active.wait(lambda: active.active_instruction != RED, 'the second storm')
    active.wait_actions(1)  # one may have been on its way
    began = len(active.actions)
    active.wait_reports(3)
    rates = [diagnosed(active, task, 'rate_hz')
             for task in ('camera overhead', 'camera wrist', 'joint states')]
    active.wait(lambda: second.exit_status == 0, 'the end of the second storm')
    active.wait(lambda: active.active_instruction == BLUE, 'the last instruction')
    active.wait_status(source='chunk', instruction=BLUE)
    active.wait_actions(10)
    sent = float(second.lines_with('sent')[0].split()[1])
    assert sent == 3000

    stream.expect_stream(
        active.actions[:began], stream.Follow(chunk_of(RED)))
    stream.expect_stream(
        active.actions[began:], stream.Hold(at=active.actions[began]),
        stream.Follow(*places, at_least=0),  # where there was time for a step between two
        stream.Hold(at_least=0), stream.Follow(last, at_least=5, first_row=0))
    assert at_rate(bare, active.actions)
    assert min(rates) > 5.0, f'inputs that come 20 times a second were taken {rates} times'
    assert held_bytes('RssAnon', process.pid) - before_bytes < 4 * MIB


def asked(robot, kind: type, name: str, request: object) -> tuple[int, int]:
    """Ask for a service; when it was asked and when the answer was there, by the wall clock."""
    client = robot.node.create_client(kind, f'/{robot.name}/{name}')
    try:
        robot.wait(client.service_is_ready, 'the service')
        asked_ns = time.time_ns()
        future = client.call_async(request)
        robot.wait(future.done, 'the answer')
        answered_ns = time.time_ns()
        assert getattr(future.result(), 'success', True)
        return asked_ns, answered_ns
    finally:
        robot.node.destroy_client(client)


def deactivate(robot, bare) -> float:
    """Deactivate, and see that no action follows the answer.

    Returns the seconds until it was answered, less those that a question takes which the node
    only has to answer, and less stalls of the machine.
    """
    plain = [asked(robot, GetState, 'get_state', GetState.Request()) for _ in range(3)]
    request = ChangeState.Request()
    request.transition.id = 4
    asked_ns, answered_ns = asked(robot, ChangeState, 'change_state', request)
    robot.wait_reports(1)
    assert robot.actions[-1].sent_ns < answered_ns, 'an action after the answer'
    took_ns = answered_ns - asked_ns - bare.worst_ns(asked_ns, answered_ns)
    return (took_ns - statistics.median(end - begin for begin, end in plain)) / 1e9


def test_deactivate_under_load_stops_within_a_period_and_nothing_follows(
    active, harness, storm, stream, chunk_of, bare,
) -> None:
    assert active.set({'inference.rate_hz': 50.0}) == (True, '')
    child = storm(60.0, BLUE)
    active.wait(lambda: active.active_instruction != RED, 'the storm')
    took_s = []
    for _ in range(5):
        active.wait_actions(3)
        took_s.append(deactivate(active, bare))
        active.actions.clear()
        assert active.transition('activate')
    assert child.exit_status is None, 'the storm went on meanwhile'
    child.stop()
    assert statistics.median(took_s) < PERIOD_S, took_s
    active.instruct(RED)
    active.wait_status(state='active', source='chunk', instruction=RED)
    places = [chunk_of(f'go to place {number}') for number in range(5)]
    stream.expect_stream(
        active.actions, stream.Hold(at=harness.POSITION, at_least=0),
        stream.Follow(*places, at_least=0), stream.Hold(at_least=0),
        stream.Follow(chunk_of(RED), first_row=0))


LIVE = [
    {'inference.rate_hz': 20.0}, {'control.deadline_s': 0.02}, {'cameras.max_age_s': 4.0},
    {'instruction.text': BLUE}, {'inference.deadline_s': 0.2, 'state.max_age_s': 4.0},
    {'control.chunk_validity_s': 4.0}, {'diagnostics.input_age_warn_s': 1.0},
    {'inference.ladder': False}, {'instruction.text': RED, 'inference.rate_hz': 10.0},
    {'inference.ladder': True, 'cameras.max_skew_s': 4.0}]
REFUSED = [
    ({'control.rate_hz': 50.0}, 'unconfigured'),
    ({'cameras.max_age_s': 1000.0, 'instruction.text': 'go away'}, 'cameras.max_age_s'),
    ({'inference.rate_hz': 5.0, 'cameras.names': ['a', 'b']}, 'unconfigured'),
    ({'inference.rate_hz': 'fast', 'instruction.text': 'go away'}, 'inference.rate_hz'),
    ({'instruction.text': 'go away', 'control.deadline_s': float('nan')}, 'control.deadline_s')]


def test_parameters_changed_fifty_times_under_way_leave_the_stream_whole(
    active, stream, harness, chunk_of, bare,
) -> None:
    watched = ['inference.rate_hz', 'cameras.max_age_s', 'instruction.text', 'control.deadline_s']
    for turn in range(5):
        for number, values in enumerate(LIVE):
            assert active.set(values) == (True, '')
            if number % 5 == turn:
                was = active.get(watched), active.active_instruction
                done, reason = active.set(REFUSED[turn][0])
                assert not done and REFUSED[turn][1] in reason
                assert (active.get(watched), active.active_instruction) == was
    active.wait_status(instruction=RED, source='chunk', faults='')
    active.wait_actions(10)
    red, blue = chunk_of(RED), chunk_of(BLUE)
    heard = [action for action, before in pairwise(active.actions)]
    assert set(red) & set(heard) and set(blue) & set(heard), 'both were followed'
    stream.expect_stream(
        active.actions, stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(red, blue),
        stream.Follow(red, at_least=5))
    assert at_rate(bare, active.actions)


def test_two_nodes_side_by_side_share_nothing(
    harness, _robot, start, make_robot, checkpoint, stream, chunk_of,
) -> None:
    names = ('left', 'right')
    nodes = [start('-r', f'__ns:=/{name}', '-p', f'policy.checkpoint:={checkpoint}', '-p',
                   'policy.threads:=1') for name in names]
    left, right = robots = [make_robot(f'{name}/robot_infer') for name in names]
    positions = {'left': (0.1, -0.2), 'right': (-0.3, 0.4)}
    for name, robot in zip(names, robots):
        robot.reset()
        robot.state = lambda name=name: harness.JointState(
            name=list(harness.JOINTS), position=list(positions[name]))
        assert robot.set({**harness.BASELINE, 'policy.checkpoint': str(checkpoint),
                          'diagnostics.hardware_id': name}) == (True, '')
        assert robot.transition('configure') and robot.transition('activate')

    def together(condition: Callable[[], object], what: str) -> None:
        left.wait(lambda: right.executor.spin_once(timeout_sec=0.0) or condition(), what)

    def values(robot) -> dict[str, str]:
        return {pair.key: pair.value for pair in robot.status.values}

    together(lambda: left.actions and right.actions, 'both to hold')
    left.instruct(RED)
    together(lambda: values(left).get('source') == 'chunk', 'the left to follow')
    number = len(right.actions)
    together(lambda: len(right.actions) > number + 10, 'the right to go on')
    stream.expect_stream(right.actions, stream.Hold(at=positions['right']))
    assert values(right)['reason'] == 'no_instruction' and not right.active_instruction

    assert right.set({'instruction.text': BLUE, 'inference.rate_hz': 5.0}) == (True, '')
    together(lambda: values(right).get('source') == 'chunk', 'the right to follow')
    assert left.get(['inference.rate_hz', 'instruction.text']) == [10.0, '']
    began_ns = time.time_ns()
    together(lambda: all(sum(action.sent_ns >= began_ns for action in robot.actions) > 10
                         for robot in robots), 'both to go on')
    for name, robot, text in zip(names, robots, (RED, BLUE)):
        stream.expect_stream(
            robot.actions, stream.Hold(at=positions[name]),
            stream.Follow(chunk_of(text, positions=positions[name]), at_least=10, first_row=0))

    together(lambda: left.diagnostics and right.diagnostics, 'diagnostics of both')
    for name, robot in zip(names, robots):
        assert {key.split(':')[0] for key in robot.diagnostics} == {f'/{name}/robot_infer'}
        assert {status.hardware_id for status in robot.diagnostics.values()} == {name}

    assert left.transition('deactivate')
    number = len(right.actions)
    together(lambda: len(right.actions) > number + 10, 'the right to go on alone')
    assert values(right)['state'] == 'active'
    for node in nodes:
        assert node.stop() == 0 and not node.lines_with('Traceback', 'collid')
