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

"""Planned against measured: what the process of a policy holds, and what its plan said.

    python tools/bench/bench_memory.py [FOLDER ...] [--steps 20]

For the demo policy and for each checkpoint FOLDER, in fp32, bf16, int8 and int4: a process of its
own loads the engine and says what is resident: when it is ready; and, what loading freed having
been given back to the system, some steps later. Weights, and pages with embeddings, are summed
over their tensors. On a CPU, where all of it is one process's memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
import json
from pathlib import Path
import subprocess
import sys

ROOT = Path(__file__).parents[2]
DEMO = ROOT / 'robot_infer' / 'assets' / 'demo_policy'
FORMS = (('fp32', 'as_loaded'), ('bf16', 'as_loaded'), ('fp32', 'int8'), ('fp32', 'int4'))
MIB = 2 ** 20


@dataclass(frozen=True)
class Measured:
    """Bytes, of one process."""

    ready: int
    steady: int
    weights: int
    pages: int


def settings(folder: Path, dtype: str, weights: str) -> dict[str, object]:
    """Of the policy in a folder, on one thread."""
    content = json.loads((folder / 'config.json').read_text())
    count = content['input_features']['observation.state']['shape'][0]
    cameras = [name.rpartition('.')[2] for name in content['input_features'] if 'images' in name]
    return {'policy.checkpoint': str(folder), 'policy.dtype': dtype, 'policy.weights': weights,
            'policy.threads': 1, 'cameras.names': cameras,
            'state.joints': [f'joint_{number}' for number in range(count)]}


def measure(flat: dict[str, object], steps: int) -> Measured:
    """Load the engine and run steps with new frames; called in a process of its own."""
    import numpy as np

    from robot_infer.config import Config
    from robot_infer.control.memory import give_back_memory, resident_bytes
    from robot_infer.engine import Engine
    from robot_infer.types import Frame, Observation, RobotState

    config = Config.from_flat(flat)
    engine, rng = Engine.from_config(config), np.random.default_rng(0)
    ready, policy = resident_bytes(), engine._policy
    give_back_memory()
    for number in range(steps):
        frames = {name: Frame(name, rng.integers(0, 255, (480, 640, 3), np.uint8), 0, 0)
                  for name in config.cameras.names}
        state = RobotState(policy.state_at(number / steps), 0, 0)
        engine.step(Observation(frames, state, 'pick up the red cube', 0))
    steady = resident_bytes()
    policy._preprocess._last.clear()  # frames are no weights
    return Measured(ready, steady, sum(_storages(policy).values()),
                    engine._storage.nbytes + engine._embeddings.nbytes)


def _storages(policy: object) -> dict[int, int]:
    """Bytes of each storage that a policy holds; of packed weights, what they take."""
    import torch

    return {(id(tensor) if tensor.layout == torch._mkldnn else
             tensor.untyped_storage().data_ptr()): (
                 torch.ops.mkldnn._nbytes(tensor) if tensor.layout == torch._mkldnn else
                 tensor.untyped_storage().nbytes()) for tensor in _tensors(policy)}


def _tensors(value: object) -> Iterator[object]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(each)
    elif type(value).__module__.startswith('robot_infer') and hasattr(value, '__dict__'):
        yield from _tensors(vars(value))


def show(folder: Path, dtype: str, weights: str, steps: int, process_bytes: int) -> None:
    """One line of the table."""
    from robot_infer.budget.devices import given_device
    from robot_infer.budget.headers import read_headers
    from robot_infer.budget.layout import Facts, lay_out
    from robot_infer.budget.shapes import read_shape
    from robot_infer.config import Config

    flat = settings(folder, dtype, weights)
    layout = lay_out(
        read_shape(folder), Config.from_flat(flat),
        replace(given_device(1024.0, 1.0), unified=True), Facts(
            tensors=read_headers(folder).shapes,
            process_bytes=process_bytes))
    done = subprocess.run(
        [sys.executable, __file__, '--measure', json.dumps(flat), '--steps', str(steps)],
        capture_output=True, text=True, check=True)
    found = Measured(**json.loads(done.stdout.splitlines()[-1]))
    planned = {kind: sum(line.num_bytes for line in layout.lines if line.kind in kinds)
               for kind, kinds in (('weights', ('weights',)), ('pages', ('kv', 'embeddings')))}
    cells = [f'{layout.engine_bytes / MIB:7.1f}']
    for measured in (found.ready, found.steady):
        cells.append(f'{measured / MIB:7.1f} ({_off(layout.engine_bytes, measured)})')
    for name, measured in (('weights', found.weights), ('pages', found.pages)):
        cells.append(f'{planned[name] / MIB:6.1f} ({_off(planned[name], measured)})')
    print(f'{folder.name:14} {dtype} {weights:9}  ' + '  '.join(cells), flush=True)


def _off(planned: int, measured: int) -> str:
    return f'{100 * (planned / measured - 1):+.2f} %'


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('folders', nargs='*', type=Path, metavar='FOLDER')
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--measure', help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(asdict(measure(json.loads(given.measure), given.steps))))
        return
    from robot_infer.footprint import measure_process

    process_bytes = measure_process()
    print('MiB (2^20 bytes); in brackets, planned against measured')
    print(f'{"policy":29}planned       ready         after steps          weights           pages')
    for folder in (DEMO, *given.folders):
        for dtype, weights in FORMS:
            show(folder, dtype, weights, given.steps, process_bytes)


if __name__ == '__main__':
    main()
