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

"""The policy in a process of its own, over DDS: its end is a fault, and it is started again."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')


def engine_of(node_pid: int) -> psutil.Process | None:
    """The process that the policy runs in."""
    for child in psutil.Process(node_pid).children():
        if 'robot_infer.engine_process' in ' '.join(child.cmdline()):
            return child
    return None


@pytest.fixture
def remote(robot, process):
    """The robot, followed by a node whose policy has a process of its own."""
    assert robot.set({'policy.process': True}) == (True, '')
    assert robot.transition('configure') and robot.transition('activate')
    robot.instruct('move to the red cube')
    robot.wait_status(state='active', source='chunk')
    return robot


def test_a_policy_that_is_killed_is_named_and_comes_back_each_time(
    remote, process, harness, stream, chunk_of,
) -> None:
    chunk, files = chunk_of(), []
    phases = [stream.Hold(at=harness.POSITION, at_least=0), stream.Follow(chunk)]
    for _ in range(2):
        remote.wait_actions(10)
        files.append(psutil.Process(process.pid).num_fds())
        engine_of(process.pid).kill()
        remote.wait_status(source='hold', faults='EngineError')
        remote.wait_status(source='chunk', faults='')
        phases += [stream.Hold(at_least=10), stream.Follow(chunk, first_row=0)]
    stream.expect_stream(remote.actions, *phases)
    assert files[0] == files[1], 'nothing is left open'
    assert remote.lifecycle_state() == 'active'


def test_a_policy_that_hangs_does_not_keep_the_node_from_being_cleaned_up(
    remote, process,
) -> None:
    engine = engine_of(process.pid)
    os.kill(engine.pid, signal.SIGSTOP)
    remote.wait_status(source='hold', reason='chunk_exhausted')
    number = len(remote.actions)
    remote.wait(lambda: len(remote.actions) > number + 10, 'actions go on')
    assert remote.transition('deactivate') and remote.transition('cleanup')
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    assert remote.transition('configure') and remote.transition('activate')
    remote.instruct('move to the red cube')
    remote.wait_status(state='active', source='chunk')


def test_a_failed_configure_leaves_no_process_behind(robot, process) -> None:
    assert robot.set({'policy.process': True, 'policy.checkpoint': '/nowhere'}) == (True, '')
    assert not robot.transition('configure')
    assert engine_of(process.pid) is None
    robot.wait(lambda: 'CheckpointError' in robot.status.message, 'the failure')
