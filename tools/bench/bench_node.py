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

"""How late the node's control ticks are, beside two loops that do nothing else, in one run.

Processes, at work at the same time on the same schedule:

    sim      the simulated robot: two cameras and joint states over DDS
    node     the policy node with the demo policy; each of its ticks is noted
    engine   the process that the policy runs in; a plain rclpy timer there publishes actions too
    bare     a loop that sleeps until the next period and does nothing; two of them

A shared machine stalls whole processes; where the bare loop was late too, nobody could have been
on time. So ours is judged where the bare loop was within 1 ms. The second bare loop, judged in the
same way, shows how late a process is there that has nothing to do.

    make bench-node                          120 s, then 120 s with SCHED_FIFO
    make bench-node ARGS='--guard'           through a guard that paces the actions
    make bench-node ARGS='--in-process'      the policy in the node's own process, to compare
"""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import threading
import time

from robot_infer.ros.start import share_freed_memory

share_freed_memory()  # as the node does, before there are threads

import click  # noqa: E402
from lateness import PERIOD_NS, RATE_HZ, judge, show  # noqa: E402
import numpy as np  # noqa: E402

CORE_FIFO = 40
_LEAD_NS = 500_000_000


# Roles of the processes: each notes its times and writes them to its file.


def be_node(
    folder: Path, seconds: float, priority: int, in_process: bool, alone: bool = False,
    guarded: bool = False,
) -> int:
    """The policy node, as robot_infer_node runs it, with every tick noted.

    alone: without the rclpy timer beside the policy. guarded: its actions go through a guard.
    """
    import rclpy

    from robot_infer.control import remote
    from robot_infer.control.stats import DeadlineStatistics
    from robot_infer.ros import node as policy_node
    from robot_infer.ros.spin import spin
    from robot_infer.shared_files import shared_file

    noted = _Notes(seconds)
    record = DeadlineStatistics.record

    def note(self, *what, **times):  # noqa: ANN001, ANN002, ANN003, ANN202
        noted.add(times['scheduled_ns'], times['started_ns'])
        record(self, *what, **times)

    DeadlineStatistics.record = note
    if not alone:
        remote.COMMAND = (sys.executable, __file__, 'engine', str(folder), str(seconds))
    sys.setswitchinterval(policy_node.SWITCH_INTERVAL_S)
    rclpy.init(args=[
        '--ros-args', '--params-file', str(shared_file('config/demo.yaml')),
        '-p', f'control.rate_hz:={RATE_HZ}', '-p', f'realtime.priority:={priority}',
        '-p', f'realtime.process_priority:={max(0, priority - 1)}',
        '-p', f'policy.process:={"false" if in_process else "true"}',
        '-p', 'instruction.text:="move to the red block"',
        *(('-r', 'action:=action_raw') if guarded else ())])
    node = policy_node.PolicyNode()
    assert node.trigger_configure().name == 'SUCCESS', 'the log says why'
    if in_process and not alone:
        threading.Thread(target=plain_timer, args=(folder, seconds), daemon=True).start()
    assert node.trigger_activate().name == 'SUCCESS', 'the log says why'
    threading.Thread(target=_end_later, args=(node, seconds + 3.0), daemon=True).start()
    while not noted.count:
        time.sleep(0.001)
    if not guarded:
        _publish_phase(folder, noted.first_ns)
    try:
        spin(node)
    except KeyboardInterrupt:
        pass
    status = node.session.runtime.status()
    node.end()
    noted.save(folder / ('behind.npy' if guarded else 'node.npy'))
    (folder / 'status.json').write_text(json.dumps({
        'steps': status.inference.counters.steps, 'step_p50_s': status.inference.step_s.p50,
        'step_p99_s': status.inference.step_s.p99,
        'chunk_ticks': status.deadline.counters.chunk_ticks,
        'fallback_ticks': status.deadline.counters.fallback_ticks,
        'decide_p99_s': status.deadline.decide_s.p99,
        'publish_p99_s': status.deadline.publish_s.p99,
        'gc_pause_max_s': status.gc_pause_s.max,
        'realtime': [f'{o.name}: {o.words}' for o in status.realtime]}))
    return 0


def be_guard(folder: Path, priority: int, seconds: float) -> int:
    """The guard, paced: its periods are what the robot sees."""
    from robot_infer.control.guard import Guard
    from robot_infer.ros import guard

    noted = _Notes(seconds)
    begin = Guard._begin_period

    def note(self, now_ns):  # noqa: ANN001, ANN202
        noted.add(self._due_ns, now_ns)
        begin(self, now_ns)
        if noted.count == round(RATE_HZ):  # a second: the phase is settled
            _publish_phase(folder, self._due_ns)

    Guard._begin_period = note
    status = guard.main([
        '--ros-args', '-p', f'control.rate_hz:={RATE_HZ}', '-p', 'guard.paced:=true', '-p',
        f'realtime.priority:={priority}', '-p',
        f'realtime.process_priority:={max(0, priority - 1)}'])
    noted.save(folder / 'node.npy')
    return status


class _Notes:
    """Pairs of times; their memory is taken at once."""

    def __init__(self, seconds: float) -> None:
        self._pairs = np.full((round(seconds * RATE_HZ * 1.5) + 1000, 2), 0, np.int64)
        self.count = 0

    @property
    def first_ns(self) -> int:
        """The first time of all."""
        return int(self._pairs[0, 0])

    def add(self, scheduled_ns: int, started_ns: int) -> None:
        """Take one pair."""
        if self.count < len(self._pairs):
            self._pairs[self.count] = scheduled_ns, started_ns
            self.count += 1

    def save(self, path: Path) -> None:
        """Write them."""
        np.save(path, self._pairs[:self.count])


def _end_later(node, after_s: float) -> None:  # noqa: ANN001
    time.sleep(after_s)
    os.kill(os.getpid(), signal.SIGINT)


def be_engine(folder: Path, seconds: float, descriptor: str) -> int:
    """The policy's process, with a plain rclpy timer beside the policy."""
    from robot_infer import engine_process

    threading.Thread(target=plain_timer, args=(folder, seconds), daemon=True).start()
    sys.argv = [sys.argv[0], descriptor]
    return engine_process.main()


def plain_timer(folder: Path, seconds: float) -> None:
    """The same work as a control tick's, in a timer of rclpy, in the process of the policy."""
    import rclpy
    from rclpy.clock import Clock, ClockType
    from rclpy.executors import SingleThreadedExecutor
    from trajectory_msgs.msg import JointTrajectory

    from robot_infer.ros import messages, qos

    phase_ns = _await_phase(folder)
    context = rclpy.Context()
    rclpy.init(args=[], context=context)
    node = rclpy.create_node('plain_timer', context=context)
    publisher = node.create_publisher(JointTrajectory, 'plain_action', qos.action())
    noted: list[int] = []
    values = np.zeros(2)

    def tick() -> None:
        noted.append(time.monotonic_ns())
        publisher.publish(messages.joint_trajectory(('slide_x', 'slide_y'), values, 1 / RATE_HZ))

    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    time.sleep(max(0, phase_ns + _LEAD_NS - PERIOD_NS - time.monotonic_ns()) / 1e9)
    begun_ns = time.monotonic_ns()  # the timer's schedule begins just behind this
    node.create_timer(PERIOD_NS / 1e9, tick, clock=Clock(clock_type=ClockType.STEADY_TIME))
    while time.monotonic_ns() < begun_ns + seconds * 1e9:
        executor.spin_once(timeout_sec=0.5)
    np.save(folder / 'timer.npy', np.array([begun_ns, *noted], np.int64))


def be_bare(folder: Path, seconds: float, priority: int, name: str) -> int:
    """A loop that only sleeps; `name`: of its file."""
    phase_ns = _await_phase(folder) + _LEAD_NS
    if priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    noted = np.zeros(round(seconds * RATE_HZ), np.int64)
    for number in range(len(noted)):
        left_ns = phase_ns + number * PERIOD_NS - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)
        noted[number] = time.monotonic_ns()
    np.save(folder / name, np.concatenate([[phase_ns], noted]))
    return 0


def _publish_phase(folder: Path, phase_ns: int) -> None:
    (folder / 'phase.tmp').write_text(str(phase_ns))
    (folder / 'phase.tmp').rename(folder / 'phase')


def _await_phase(folder: Path) -> int:
    while not (folder / 'phase').exists():
        time.sleep(0.01)
    return int((folder / 'phase').read_text())


# The run, and what is made of it.


def measure(
    seconds: float, priority: int, in_process: bool, guarded: bool = False,
) -> dict[str, object]:
    """Run all processes once; figures by name."""
    from robot_infer.sim.children import free_domain_id, ros_environment

    environment = ros_environment(free_domain_id())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = (folder / 'log').open('w')

        def start(*arguments: object) -> subprocess.Popen:
            return subprocess.Popen(
                [sys.executable, *map(str, arguments)], env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)

        sim = start('-m', 'robot_infer.sim.node')
        guards = [start(__file__, 'guard', folder, priority, seconds)] if guarded else []
        node = start(__file__, 'node', folder, seconds + 3.0 * guarded, priority,
                     int(in_process), int(guarded))
        bares = [start(__file__, 'bare', folder, seconds, priority, name)
                 for name in ('bare.npy', 'second.npy')]
        try:
            patience_s = seconds + 90.0
            for process in (*bares, node):
                if process.wait(patience_s):
                    raise click.ClickException(
                        f'{" ".join(map(str, process.args[1:3]))} ended with '
                        f'{process.returncode}\n{(folder / "log").read_text()[-3000:]}')
        finally:
            for process in (sim, node, *bares, *guards):
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(10.0)
                except subprocess.TimeoutExpired:
                    process.kill()
        return judge(folder)


@click.command(help=__doc__)
@click.option('--seconds', default=120.0, help='Length of each run.')
@click.option('--in-process', is_flag=True, help='Run the policy in the node\'s process.')
@click.option('--fifo/--no-fifo', default=True, help='A second run with SCHED_FIFO.')
@click.option('--guard', 'guarded', is_flag=True,
              help='Actions go through a paced guard, and its periods are judged as ours.')
@click.option('--json', 'path', type=click.Path(path_type=Path), help='Write the figures there.')
def main(
    seconds: float, in_process: bool, fifo: bool, guarded: bool, path: Path | None,
) -> None:
    """Measure and print."""
    results = {}
    for priority in (0, CORE_FIFO) if fifo else (0,):
        title = f'{seconds:.0f} s at {RATE_HZ:.0f} Hz, ' + (
            f'SCHED_FIFO {priority}' if priority else 'normal scheduling') + (
            ', policy in the node\'s process' if in_process else '') + (
            ', through a paced guard' if guarded else '')
        results[title] = measure(seconds, priority, in_process, guarded)
        show(title, results[title])
    if path is not None:
        path.write_text(json.dumps(results, indent=1))


if __name__ == '__main__':
    roles = {'node': lambda a: be_node(Path(a[0]), float(a[1]), int(a[2]), a[3] == '1',
                                       guarded=a[4] == '1'),
             'guard': lambda a: be_guard(Path(a[0]), int(a[1]), float(a[2])),
             'soaked': lambda a: be_node(Path(a[0]), float(a[1]), 0, False, alone=True),
             'engine': lambda a: be_engine(Path(a[0]), float(a[1]), a[2]),
             'bare': lambda a: be_bare(Path(a[0]), float(a[1]), int(a[2]), a[3])}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        sys.exit(roles[sys.argv[1]](sys.argv[2:]))
    main()
