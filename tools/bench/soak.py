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

"""The node with the demo policy and the simulated robot, for a long time: no growth, no drift.

    make soak                          30 minutes
    make soak ARGS='--minutes 3'       shorter

Memory is that of the processes' own (anonymous pages), of the node and of the process that the
policy runs in: the most they held in the last tenth of the time against the most in the first
minute. (At single moments a busy system takes some megabytes from the policy's process and gives
them back; a comparison of averages showed that, not growth.) What the middleware shares between
processes is touched page by page, by the largest backlog there ever was; it is shown, not judged.
The schedule has drifted where the last control tick was not scheduled a whole number of periods
after the first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
import json
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time

import bench_node
import click
import numpy as np
import psutil

GROWTH_BYTES = 2**20
SETTLED_S = 60.0
DRIFT_NS = 1_000
_SAMPLES = 10


@dataclass(frozen=True)
class Sample:
    """What the processes held at one moment."""

    at_s: float
    node_bytes: int
    policy_bytes: int
    shared_bytes: int
    threads: int
    files: int


def held(pid: int, kind: str) -> int:
    """Bytes of one kind that a process holds; 0 where it has just ended."""
    from robot_infer.control.memory import held_bytes

    try:
        return held_bytes(kind, pid)
    except OSError:
        return 0


def sample(process: psutil.Process, began_s: float) -> Sample:
    """Take the process and those it started."""
    children = process.children(recursive=True)
    family = [process, *children]
    return Sample(
        time.monotonic() - began_s, held(process.pid, 'RssAnon'),
        sum(held(child.pid, 'RssAnon') for child in children),
        sum(held(member.pid, 'RssShmem') for member in family),
        sum(member.num_threads() for member in family),
        sum(member.num_fds() for member in family))


def observe(node: subprocess.Popen, phase: Path, seconds: float) -> list[Sample]:
    """Samples from the first tick until the node ends."""
    while not phase.exists():
        if node.poll() is not None:
            return []
        time.sleep(0.1)
    began_s, samples = time.monotonic(), []
    process = psutil.Process(node.pid)
    every_s = max(0.5, seconds / 600.0)
    while node.poll() is None and time.monotonic() - began_s < seconds:
        samples.append(sample(process, began_s))
        time.sleep(every_s)
    return samples


def judge(samples: list[Sample], ticks: np.ndarray, settled_s: float) -> dict[str, float]:
    """Growth and drift."""
    first = [one for one in samples if one.at_s < settled_s]
    last = samples[-max(_SAMPLES, len(samples) // 10):]
    assert min(len(first), len(samples) - len(first)) > _SAMPLES, 'too few samples'

    def growth(of) -> float:  # noqa: ANN001
        return max(map(of, last)) - max(map(of, first))

    elapsed_ns = int(ticks[-1, 0] - ticks[0, 0])
    off_ns = (elapsed_ns + bench_node.PERIOD_NS // 2) % bench_node.PERIOD_NS
    node, policy = growth(lambda one: one.node_bytes), growth(lambda one: one.policy_bytes)
    return {
        'growth_bytes': growth(lambda one: one.node_bytes + one.policy_bytes),
        'growth_of_node_bytes': node,
        'growth_of_policy_bytes': policy,
        'growth_of_shared_bytes': growth(lambda one: one.shared_bytes),
        'growth_threads': growth(lambda one: one.threads),
        'growth_files': growth(lambda one: one.files),
        'resident_bytes': last[-1].node_bytes + last[-1].policy_bytes,
        'minutes': samples[-1].at_s / 60.0,
        'drift_ns': abs(off_ns - bench_node.PERIOD_NS // 2), 'ticks': len(ticks),
        'periods': round(elapsed_ns / bench_node.PERIOD_NS) + 1}


def run(
    seconds: float, settled_s: float = SETTLED_S, trace: Path | None = None,
) -> dict[str, float]:
    """Run node and robot for that long; figures by name.

    trace: where to write every sample, as JSON.
    """
    from robot_infer.sim.children import free_domain_id, ros_environment

    environment = ros_environment(free_domain_id())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / 'log').open('w') as log:
            def start(*arguments: object) -> subprocess.Popen:
                return subprocess.Popen(
                    [sys.executable, *map(str, arguments)], env=environment,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)

            sim = start('-m', 'robot_infer.sim.node')
            node = start(bench_node.__file__, 'soaked', folder, seconds)
            try:
                samples = observe(node, folder / 'phase', seconds)
                status = node.wait(60.0)
            finally:
                for process in (sim, node):
                    process.send_signal(signal.SIGINT)
                    try:
                        process.wait(10.0)
                    except subprocess.TimeoutExpired:
                        process.kill()
        if status or not samples:
            raise click.ClickException(
                f'the node ended with {status}\n{(folder / "log").read_text()[-3000:]}')
        if trace is not None:
            trace.write_text(json.dumps([asdict(one) for one in samples]))
        return judge(samples, np.load(folder / 'node.npy'), settled_s)


@click.command(help=__doc__)
@click.option('--minutes', default=30.0, help='How long.')
@click.option('--trace', type=click.Path(path_type=Path), help='Write every sample there.')
def main(minutes: float, trace: Path | None) -> None:
    """Run, print, and fail where something grew or drifted."""
    seconds = minutes * 60.0
    figures = run(seconds, min(SETTLED_S, seconds / 3.0), trace)
    for name, value in figures.items():
        print(f'{name:16} {value:g}')
    good = (figures['growth_bytes'] < GROWTH_BYTES and figures['growth_threads'] <= 0
            and figures['growth_files'] <= 0 and figures['drift_ns'] <= DRIFT_NS)
    print('no growth, no drift' if good else 'NOT met: growth below 1 MiB, no drift')
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
