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

"""The node configured, activated and cleaned up over and over: does anything grow?

    make bench-cycles                             200 cycles, 24 with a policy process, 50 failures
    make bench-cycles ARGS='--cycles 1000'        more

After each cleanup the process is looked at: its own memory (anonymous pages), threads, open files
and the processes it left behind. The first fifth of the cycles is for what is taken once and kept
(pools, caches of the middleware); from there on memory may grow by less than 1 MiB (the medians of
the ten samples behind that and of the last ten are compared) and nothing else at all. To that come
8 KiB a cycle, because libraries lose some each time: safetensors 0.8.0 two objects for each tensor
it reads, 4 KiB for the policy used here; Fast DDS and rclpy 2 KiB for the topics of a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
import statistics
import subprocess
import sys
import tempfile
import time

import click
import psutil
import random_checkpoint
import soak

GROWTH_BYTES, LOST_BYTES = 2**20, 8 * 2**10
_SAMPLES = 10
_PATIENCE_S = 60.0
_IDS = {'configure': 1, 'cleanup': 2, 'activate': 3, 'deactivate': 4}
TINY = random_checkpoint.Shape(
    width=32, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=8, vision_width=24,
    vision_hidden=48, vision_layers=1, vision_heads=2, image_px=32, patch_px=8, scale_factor=2,
    vocabulary=300, joints=2, max_dim=4, chunk=8, denoise_steps=2)


@dataclass(frozen=True)
class Sample:
    """What the process held once it was cleaned up."""

    own_bytes: int
    threads: int
    files: int
    children: int


@dataclass(frozen=True)
class Growth:
    """What became of it in the `settled` cycles behind the settling phase."""

    cycles: int
    settled: int
    seconds: float
    own_bytes: float
    threads: float
    files: float
    children: int

    @property
    def none(self) -> bool:
        """Whether nothing grew."""
        allowed_bytes = GROWTH_BYTES + self.settled * LOST_BYTES
        return (self.own_bytes < allowed_bytes and self.threads <= 0 and self.files <= 0
                and self.children == 0)


class Driver:
    """A node in a process of its own, and whoever asks it for transitions."""

    def __init__(self, domain_id: int, checkpoint: Path, log: Path) -> None:
        from lifecycle_msgs.srv import ChangeState
        from rcl_interfaces.srv import SetParametersAtomically
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        from robot_infer.sim.children import ros_environment

        self._process = subprocess.Popen(
            [sys.executable, '-m', 'robot_infer.ros.start', 'node', '--ros-args', '-p',
             f'policy.checkpoint:={checkpoint}', '-p', 'policy.threads:=1', '-p',
             'policy.process:=false'],
            env={**ros_environment(domain_id), 'OMP_NUM_THREADS': '1',
                 'ROS_LOG_DIR': str(log)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context, domain_id=domain_id)
        self._node = rclpy.create_node('cycles', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._change = self._node.create_client(ChangeState, '/robot_infer/change_state')
        self._set = self._node.create_client(
            SetParametersAtomically, '/robot_infer/set_parameters_atomically')

    def transition(self, name: str) -> bool:
        """Whether a transition succeeded."""
        request = self._change.srv_type.Request()
        request.transition.id = _IDS[name]
        return self._ask(self._change, request).success

    def set(self, values: Mapping[str, object]) -> None:
        """Set parameters."""
        from rclpy.parameter import Parameter

        request = self._set.srv_type.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
        result = self._ask(self._set, request).result
        assert result.successful, result.reason

    def sample(self) -> Sample:
        """Look at the process."""
        process = psutil.Process(self._process.pid)
        return Sample(soak.held(process.pid, 'RssAnon'), process.num_threads(),
                      process.num_fds(), len(process.children(recursive=True)))

    def close(self) -> int:
        """End it by Ctrl-C; its exit status."""
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()
        self._process.send_signal(soak.signal.SIGINT)
        try:
            return self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _ask(self, client, request):  # noqa: ANN001, ANN202
        give_up = time.monotonic() + _PATIENCE_S
        while not client.service_is_ready():
            assert time.monotonic() < give_up and self._process.poll() is None, 'no node'
            self._executor.spin_once(timeout_sec=0.05)
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, _PATIENCE_S)
        assert future.done(), f'no answer of {client.srv_name}'
        return future.result()


def cycle(driver: Driver) -> None:
    """Once through the whole life."""
    for name in ('configure', 'activate', 'deactivate', 'cleanup'):
        assert driver.transition(name), f'{name} failed'


def fail(driver: Driver) -> None:
    """A configure that fails with the policy loaded."""
    assert not driver.transition('configure')


def grow(driver: Driver, turn, cycles: int) -> Growth:  # noqa: ANN001
    """Turn after turn, and what grew."""
    began_s, samples = time.monotonic(), []
    for _ in range(cycles):
        turn(driver)
        samples.append(driver.sample())
    settled = samples[cycles // 5:]
    few = max(1, min(_SAMPLES, len(settled) // 2))

    def growth(name: str) -> float:
        first, last = ([getattr(one, name) for one in part]
                       for part in (settled[:few], settled[-few:]))
        return statistics.median(last) - statistics.median(first)

    return Growth(
        cycles, len(settled), time.monotonic() - began_s, growth('own_bytes'), growth('threads'),
        growth('files'), max(one.children for one in samples))


def run(cycles: int, processes: int, failures: int) -> dict[str, Growth]:
    """All three, in one node that lives on; growth by name."""
    from robot_infer.sim.children import free_domain_id

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random_checkpoint.write(folder / 'tiny', TINY)
        driver = Driver(free_domain_id(), folder / 'tiny', folder)
        try:
            found = {'cycles, policy in the process': grow(driver, cycle, cycles)}
            driver.set({'state.joints': ['slide_x', 'slide_y', 'third']})
            found['configures that fail'] = grow(driver, fail, failures)
            driver.set({'state.joints': ['slide_x', 'slide_y'], 'policy.process': True})
            if processes:
                found['cycles, policy process'] = grow(driver, cycle, processes)
                driver.set({'policy.checkpoint': '/nowhere'})
                found['configures that fail, policy process'] = grow(
                    driver, fail, max(1, processes // 3))
        finally:
            status = driver.close()
        assert status == 0, f'the node ended with {status}'
    return found


@click.command(help=__doc__)
@click.option('--cycles', default=200, help='With the policy in the process of the node.')
@click.option('--processes', default=24, help='With a policy process.')
@click.option('--failures', default=50, help='Configures that fail.')
def main(cycles: int, processes: int, failures: int) -> None:
    """Run, print, and fail where something grew."""
    good = True
    for name, growth in run(cycles, processes, failures).items():
        good = good and growth.none
        print(f'{name}: {growth.cycles} in {growth.seconds:.1f} s; own memory '
              f'{growth.own_bytes / 1024:+.0f} KiB, threads {growth.threads:+g}, files '
              f'{growth.files:+g}, processes left {growth.children}')
    print('no growth' if good else 'NOT met: no growth')
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
