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


"""The checker of action streams lets through what may be, and nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

A = tuple((float(row), 0.0) for row in range(4))
B = tuple((float(row), 1.0) for row in range(4))
HOME = (9.0, 9.0)


@pytest.mark.parametrize('actions, begun', [
    ([HOME, HOME, A[0], A[1], A[1], A[1], B[0], B[1]], (0, 2, 4, 6)),
    ([HOME, A[0], A[1], A[0], A[1], A[2], A[3], A[3], A[3], B[2], B[2]], (0, 1, 7, 9)),
    ([HOME, A[0], A[0], A[0], A[1], A[1], A[1], B[0]], (0, 1, 5, 7)),
], ids=['plain', 'newer chunks', 'an underrun is not the hold'])
def test_phases_in_their_order(stream, actions, begun):
    phases = stream.Hold(at=HOME), stream.Follow(A), stream.Hold(at_least=2), stream.Follow(B)
    assert stream.expect_stream(actions, *phases) == begun


@pytest.mark.parametrize('actions, begun', [
    ([A[0], A[1]], (0, 0)), ([HOME, A[0], A[1]], (0, 1)), ([HOME, A[1], A[1]], (0, 1))])
def test_a_phase_may_be_missing_where_none_of_it_is_asked_for(stream, actions, begun):
    phases = stream.Hold(at=HOME, at_least=0), stream.Follow(A, at_least=2)
    assert stream.expect_stream(actions, *phases) == begun


def test_a_chunk_of_something_else_takes_over_without_jumping_over_an_action(stream):
    phases = stream.Follow(A), stream.Follow(B)
    stream.expect_stream([A[0], B[1], B[2]], *phases)
    stream.expect_stream([A[0], A[0], B[0]], *phases)
    with pytest.raises(AssertionError, match='may not follow'):
        stream.expect_stream([A[0], B[2]], *phases)


@pytest.mark.parametrize('actions', [
    [],
    [A[0]],
    [A[0], A[2]],
    [A[0], A[1], B[0]],
    [A[0], A[1], A[1], B[0]],
    [A[0], A[1], A[0], A[0], A[0]],
    [A[0], A[1], A[1], A[1], A[0], B[0]],
    [A[0], A[1], A[1], A[1], HOME, B[0]],
    [A[0], A[1], A[1], A[1], B[1]],
    [A[0], A[1], A[1], A[1], B[0], B[0], A[1]],
], ids=['nothing', 'short', 'jumped over', 'no hold', 'hold too short', 'no end',
        'back to the policy', 'another value', 'first row', 'the old chunk again'])
def test_anything_else_is_refused(stream, actions):
    phases = stream.Follow(A), stream.Hold(at_least=2), stream.Follow(B, first_row=0)
    with pytest.raises(AssertionError):
        stream.expect_stream(actions, *phases)


def test_an_action_may_be_missing_only_where_the_middleware_says_that_it_was_lost(stream):
    heard = []
    for number, row in ((7, 0), (9, 2)):
        heard.append(stream.Action.heard(
            A[row], {'publication_sequence_number': number, 'source_timestamp': 0}))
    assert stream.expect_stream(heard, stream.Follow(A)) == (0,)
    heard[1].number = 8
    with pytest.raises(AssertionError, match='may not follow row 0 of phase 0'):
        stream.expect_stream(heard, stream.Follow(A))


def test_the_node_sends_what_an_engine_in_lock_step_computes(active, stream, chunk_of):
    chunk = chunk_of()
    active.wait_actions(20)
    stream.expect_stream(
        active.actions, stream.Hold(at=(0.1, -0.2), at_least=0),  # may be over before it is heard
        stream.Follow(chunk, at_least=10))
