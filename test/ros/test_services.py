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

"""~/enable, ~/reset, ~/clear_statistics over DDS: what the robot gets, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator
import time

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')


@pytest.fixture
def operated(robot) -> Iterator:
    """The robot; whatever a test disabled is enabled again, for the tests that follow."""
    yield robot
    robot.reset()
    if robot.enable(True)[0]:
        return
    if robot.lifecycle_state() == 'unconfigured':
        assert robot.transition('configure')
    if robot.lifecycle_state() == 'active':
        assert robot.transition('deactivate')
    assert robot.transition('activate') and robot.enable(True)[0]


@pytest.fixture
def following(operated):
    """As `operated`, and the node follows the policy."""
    assert operated.transition('configure') and operated.transition('activate')
    operated.instruct('move to the red cube')
    operated.wait_status(state='active', source='chunk', enabled='True')
    operated.wait_actions(5)
    return operated


def figures(robot, task: str) -> dict[str, str]:
    """The values of a diagnostics task."""
    return {pair.key: pair.value for pair in robot.diagnostics[f'/robot_infer: {task}'].values}


def test_disabled_it_holds_at_once_and_enabled_it_begins_with_a_fresh_chunk(
    following, stream, chunk_of, harness,
):
    done, words = following.enable(False)
    answered_ns = time.time_ns()
    assert done and words == 'disabled: from the next control tick on the fallback is sent'
    following.wait_status(state='active', source='hold', reason='disabled', enabled='False')
    following.wait_actions(12)
    after = [action for action in following.actions if action.sent_ns > answered_ns]
    assert len(set(after[1:])) == 1, 'one tick may have been under way'
    following.wait_diagnostics('control', 'fallback hold: disabled', level=b'\1')
    assert following.lifecycle_state() == 'active'
    assert following.enable(False)[0], 'again changes nothing'
    done, words = following.enable(True)
    assert done and words == 'enabled: the policy is followed from its next chunk on'
    following.wait_status(source='chunk', reason='', enabled='True', faults='')
    following.wait_actions(10)
    assert following.enable(True) == (True, 'it was enabled already')
    chunk = chunk_of()
    stream.expect_stream(
        following.actions, stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(chunk),
        stream.Hold(at_least=10), stream.Follow(chunk, at_least=8, first_row=0))


def test_what_was_disabled_stays_so_through_every_transition(following, stream, chunk_of, harness):
    assert following.enable(False)[0]
    for names in (('deactivate', 'activate'), ('deactivate', 'cleanup', 'configure', 'activate')):
        for name in names[:-1]:
            assert following.transition(name)
        following.wait_status(enabled='False', source='nothing')
        assert following.status.message.endswith(', disabled')
        following.actions.clear()
        assert following.transition(names[-1])
        following.instruct('move to the red cube')
        following.wait_status(state='active', source='hold', reason='disabled')
        following.wait_actions(10)
        stream.expect_stream(following.actions, stream.Hold(at=harness.POSITION, at_least=10))
    assert following.enable(True)[0]
    following.wait_status(source='chunk')
    following.wait_actions(8)
    stream.expect_stream(following.actions, stream.Hold(at=harness.POSITION, at_least=10),
                         stream.Follow(chunk_of(), at_least=8, first_row=0))


def test_what_cannot_be_done_is_answered_in_words_and_changes_nothing(operated):
    for answer in (operated.enable(True), operated.trigger('reset'),
                   operated.trigger('clear_statistics')):
        assert answer == (False, 'not configured: configure and activate the node first')
    done, words = operated.enable(False)
    assert done and 'will not be followed' in words, 'an order to be safe is always taken'
    assert operated.transition('configure')
    assert operated.enable(True) == (False, 'not active: activate the node first')
    operated.wait_status(state='inactive', enabled='False')
    done, words = operated.trigger('reset')
    assert done and 'the node is not active' in words and 'still disabled' in words
    assert operated.trigger('clear_statistics')[0]


def test_reset_ends_a_stop_that_enable_cannot(operated, stream, chunk_of, harness):
    assert operated.set({'control.max_consecutive_misses': 6, 'cameras.max_age_s': 0.5}) == (
        True, '')
    assert operated.transition('configure') and operated.transition('activate')
    operated.instruct('move to the red cube')
    operated.wait_status(source='chunk')
    operated.image = lambda: None
    operated.wait_status(source='stop', reason='deadlines_missed')
    operated.wait_fault('StaleFrameError', 'overhead')
    done, words = operated.enable(True)
    assert not done and words.startswith('the robot is stopped (deadlines_missed): call ~/reset')
    operated.image = harness.good_image
    operated.wait_diagnostics('camera overhead', ' Hz')
    operated.wait_actions(5)
    resets = int({pair.key: pair.value for pair in operated.status.values}['resets'])
    done, words = operated.trigger('reset')
    assert done and 'the stop (deadlines_missed)' in words and 'fault' in words
    operated.wait_status(source='chunk', reason='', faults='', resets=str(resets + 1))
    operated.wait_diagnostics('faults', 'none')
    operated.wait_actions(8)
    assert not any(key.endswith('.count') for key in figures(operated, 'faults'))
    chunk = chunk_of()
    stream.expect_stream(
        operated.actions, stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(chunk),
        stream.Hold(at_least=11), stream.Follow(chunk, at_least=8, first_row=0))


def test_after_a_reset_the_next_step_is_a_cold_one(operated):
    with operated.hearing_steps() as heard:
        assert operated.transition('configure') and operated.transition('activate')
        operated.instruct('move to the red cube')
        operated.wait(lambda: len(heard) > 3, 'steps')
        assert all(step.tokens_computed <= 1 for step in heard[1:]), 'the same frames'
        heard.clear()
        assert 'the next step is a cold one' in operated.trigger('reset')[1]
        operated.wait(lambda: len(heard) > 3, 'steps')
    cold = [step for step in heard if step.tokens_computed == step.tokens_total]
    assert len(cold) == 1 and cold[0].cameras_encoded == 2
    assert [step.epoch for step in heard] == list(range(heard[0].epoch, heard[-1].epoch + 1))


def test_cleared_statistics_count_from_zero_and_the_policy_is_followed_all_along(
    following, stream, chunk_of, harness,
):
    following.wait(lambda: int(figures(following, 'control')['ticks']) > 30, 'ticks')
    ticks = int(figures(following, 'control')['ticks'])
    done, words = following.trigger('clear_statistics')
    assert done and 'begin anew' in words
    following.wait(lambda: int(figures(following, 'control')['ticks']) < ticks, 'fewer ticks')
    assert int(figures(following, 'inference')['steps']) < ticks
    stream.expect_stream(following.actions, stream.Hold(at=harness.POSITION, at_least=0),
                         stream.Follow(chunk_of(), at_least=20))
