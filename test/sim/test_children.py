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

"""Processes are started, read and always ended."""

from collections.abc import Callable, Iterator
import os
import signal
import socket
import sys
import time

import psutil
import pytest

from robot_infer.sim import children
from robot_infer.sim.children import Child, free_domain_id, ros_environment

PATIENCE_S = 20.0

OBEYS = ('import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n'
         'print("up", flush=True)\nsignal.sigwait({signal.SIGINT})\nprint("bye")')
DEAF = ('import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n'
        'signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint("up", flush=True)\n'
        'while True: time.sleep(60)')


@pytest.fixture
def started() -> Iterator[Callable[[str], Child]]:
    """Start a Python program; it is killed after the test, come what may."""
    all_of_them: list[Child] = []

    def start(program: str) -> Child:
        child = Child('program', [sys.executable, '-c', program], os.environ)
        all_of_them.append(child)
        return child

    yield start
    for child in all_of_them:
        if child.exit_status is None:
            os.kill(child.pid, signal.SIGKILL)


def wait(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_a_child_that_obeys_is_asked_and_ends_in_order(started: Callable[[str], Child]):
    child = started(OBEYS)
    wait(child.last_lines)
    assert child.stop() == 0
    assert not child.was_killed
    assert child.last_lines() == ('up', 'bye')


def test_a_child_that_does_not_listen_is_killed(
        started: Callable[[str], Child], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(children, '_PATIENCE_S', (
        (signal.SIGINT, 0.1), (signal.SIGTERM, 0.1), (signal.SIGKILL, PATIENCE_S)))
    child = started(DEAF)
    wait(child.last_lines)
    assert child.stop() == -signal.SIGKILL
    assert child.was_killed


def test_the_end_of_a_child_and_its_last_words_are_known(started: Callable[[str], Child]):
    child = started('import sys; print("one"); print("two", file=sys.stderr); sys.exit(7)')
    wait(lambda: child.exit_status is not None)
    assert child.stop() == 7
    assert set(child.last_lines()) == {'one', 'two'}
    assert child.lines_with('tw', 'nothing') == ('two',)


def test_only_so_many_lines_are_kept(started: Callable[[str], Child]):
    child = started('for n in range(5000): print(n)')
    assert child.stop() in (0, -signal.SIGINT)
    assert len(child.last_lines(5000)) <= 400


@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux ends children with their parent')
def test_a_child_ends_also_when_its_parent_is_killed(started: Callable[[str], Child]):
    parent = started(
        'import os, sys, time\nfrom robot_infer.sim.children import Child\n'
        'child = Child("c", [sys.executable, "-c", "import time; time.sleep(600)"], os.environ)\n'
        'print(child.pid, flush=True)\ntime.sleep(600)')
    wait(parent.last_lines)
    grandchild = psutil.Process(int(parent.last_lines()[0]))
    os.kill(parent.pid, signal.SIGKILL)
    wait(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


@pytest.fixture
def candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Domains are tried in order: 95, and then 96."""
    monkeypatch.setattr(children.random, 'sample', lambda population, k: [95, 96])
    monkeypatch.setattr(children, '_RESERVED', {})


@pytest.mark.parametrize('port', [0, 10, 13])
def test_a_domain_in_use_is_not_chosen(candidates, port: int):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as participant:
        participant.bind(('', 7400 + 250 * 95 + port))
        assert free_domain_id() == 96
    assert free_domain_id() == 95


def test_a_domain_with_a_node_that_only_this_machine_sees_is_not_chosen(candidates):
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    node = Child('node', [sys.executable, '-c', 'import rclpy, time\nrclpy.init()\n'
                          'n = rclpy.create_node("n")\nprint("up", flush=True)\ntime.sleep(600)'],
                 ros_environment(95))
    try:
        wait(lambda: 'up' in node.last_lines())
        assert free_domain_id() == 96
    finally:
        node.stop()


def test_two_that_ask_at_the_same_time_get_two_domains(candidates, started):
    other = started(
        'import random, time\nrandom.sample = lambda population, k: [95, 96]\n'
        'from robot_infer.sim.children import free_domain_id\n'
        'print(free_domain_id(), flush=True)\ntime.sleep(600)')
    wait(other.last_lines)
    assert (other.last_lines(), free_domain_id()) == (('95',), 96)


def test_the_domain_of_the_environment_is_not_chosen(candidates, monkeypatch):
    monkeypatch.setenv('ROS_DOMAIN_ID', '95')
    assert free_domain_id() == 96


def test_the_environment_keeps_discovery_here_and_lets_large_images_through():
    environment = ros_environment(42)
    assert environment['ROS_DOMAIN_ID'] == '42'
    assert environment['ROS_AUTOMATIC_DISCOVERY_RANGE'] == 'LOCALHOST'
    assert environment['FASTDDS_DEFAULT_PROFILES_FILE'].endswith('config/fastdds.xml')
    assert os.path.isfile(environment['FASTDDS_DEFAULT_PROFILES_FILE'])


@pytest.mark.parametrize(('distribution', 'old_name'), [('humble', True), ('kilted', False)])
def test_the_older_names_are_used_only_where_nothing_else_is_understood(
        monkeypatch: pytest.MonkeyPatch, distribution: str, old_name: bool):
    monkeypatch.setenv('ROS_DISTRO', distribution)
    environment = ros_environment(42)
    assert ('FASTRTPS_DEFAULT_PROFILES_FILE' in environment) == old_name
    assert ('ROS_LOCALHOST_ONLY' in environment) == old_name
