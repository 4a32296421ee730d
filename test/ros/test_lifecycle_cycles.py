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


"""Configured and cleaned up over and over, and asked for what cannot be: nothing grows or ends.

The long form, 200 cycles, is `make bench-cycles` (tools/bench/cycles.py); here it is shortened.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from lifecycle_msgs.srv import ChangeState

CYCLES, FAILURES = 15, 15


@pytest.fixture(scope='module')
def cycles():
    """tools/bench/cycles.py."""
    folder = str(Path(__file__).parents[2] / 'tools' / 'bench')
    sys.path.insert(0, folder)
    try:
        return importlib.import_module('cycles')
    finally:
        sys.path.remove(folder)


def test_neither_cycles_nor_failures_make_the_process_grow(cycles, harness) -> None:
    found = cycles.run(CYCLES, 0, FAILURES)
    assert set(found) == {'cycles, policy in the process', 'configures that fail'}
    assert all(growth.none for growth in found.values()), found


@pytest.mark.parametrize('growth, none', [
    ((100.0, 0.0, 0.0, 0), True), ((2.0**21, 0.0, 0.0, 0), False), ((-5.0, 1.0, 0.0, 0), False),
    ((0.0, 0.0, 1.0, 0), False), ((0.0, 0.0, 0.0, 1), False),
], ids=['little', 'memory', 'a thread', 'a file', 'a process'])
def test_whatever_grows_is_found(cycles, growth, none) -> None:
    class Grower:
        turns = 0

        def sample(self) -> object:
            own, threads, files, children = growth
            self.turns += 1
            late = self.turns > 90
            return cycles.Sample(round(own * late), round(threads * late), round(files * late),
                                 children * late)
    assert cycles.grow(Grower(), lambda driver: None, 100).none is none


def test_a_configure_that_failed_is_undone_and_can_be_tried_again(robot, checkpoint) -> None:
    for wrong in ({'policy.checkpoint': '/nowhere'}, {'state.joints': ['slide_x']},
                  {'cameras.names': ['overhead', 'nobody']}):
        right = {'policy.checkpoint': str(checkpoint), 'state.joints': ['slide_x', 'slide_y'],
                 'cameras.names': ['overhead', 'wrist']}
        assert robot.set(wrong) == (True, '')
        assert not robot.transition('configure')
        robot.wait(lambda: 'configure failed' in robot.status.message, 'the reason')
        assert robot.lifecycle_state() == 'unconfigured'
        topics = robot.node.get_topic_names_and_types()
        assert not robot.node.get_subscriptions_info_by_topic('/instruction'), topics
        assert robot.set(right) == (True, '')
        assert robot.transition('configure') and robot.transition('cleanup')


def ask(robot, number: int) -> bool:
    """Ask for a transition by its number."""
    request = ChangeState.Request()
    request.transition.id = number
    return robot._call(ChangeState, 'change_state', request).success


def test_transitions_that_do_not_exist_or_do_not_fit_stop_no_action(
    active, stream, harness, chunk_of,
) -> None:
    for _ in range(3):
        for number in (0, 1, 2, 3, 8, 60, 99, 255):  # deactivate and shutdown would be possible
            assert not ask(active, number)
    active.wait_actions(5)
    assert active.lifecycle_state() == 'active'
    stream.expect_stream(
        active.actions, stream.Hold(at=harness.POSITION, at_least=0),
        stream.Follow(chunk_of(), at_least=10))
