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
"""Make the tiny SmolVLA checkpoints and their golden values: data/<case>/{checkpoint/,golden.*}.

    python test/golden/make_smolvla.py [CASE ...]     (in the LeRobot environment, see README.md)

Each checkpoint is written by LeRobot, opened again by LeRobot, and the golden values come from the
reopened policy. `--check` opens the committed checkpoints and compares instead of writing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import shutil
import sys
import zlib

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / 'tools/bench_lerobot')]

# The neighbours of this script are found through the path set above.
from cases import CASES  # noqa: E402, I001
from tiny import Case, randomise, tokenizer_json  # noqa: E402
from golden import Sample, write  # noqa: E402
from recording import record  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
import checkpoint  # noqa: E402
import torch  # noqa: E402

DATA = HERE / 'data'


def samples(case: Case) -> list[Sample]:
    """Return the observations of a case, with their noise."""
    return [
        Sample(
            step.name,
            dict(zip(case.cameras, step.images, strict=True)),
            case.observation(step),
            case.noise(step),
        )
        for step in case.steps
    ]


def make(case: Case) -> None:
    """Write data/<case>: the checkpoint, then the golden values of the reopened checkpoint."""
    folder = DATA / case.name
    shutil.rmtree(folder, ignore_errors=True)
    target = folder / 'checkpoint'
    built = checkpoint.create(
        target,
        case.config(),
        case.backbone(),
        tokenizer_json(),
        case.statistics(),
        lambda policy: randomise(policy, zlib.crc32(case.name.encode())),
        case.backbone_bf16,
    )
    reference = checkpoint.load(target)
    for (name, a), b in zip(
        built.state_dict().items(), reference.policy.state_dict().values(), strict=True
    ):
        if not torch.equal(a.float(), b):
            raise SystemExit(f'{case.name}: expected {name} to survive saving and loading')
    write(folder, target, reference, samples(case), case.note)
    size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())
    print(f'{case.name}: {size / 1e3:.0f} kB')


def check(case: Case) -> None:
    """Compare the committed golden values with what the checkpoint gives here and now."""
    folder = DATA / case.name
    golden = load_file(folder / 'golden.safetensors')
    reference = checkpoint.load(folder / 'checkpoint')
    for index, sample in enumerate(samples(case)):
        got = record(reference, sample.observation, sample.noise)
        for name in ('prefix_embeddings', 'keys', 'values', 'velocities', 'actions'):
            want = golden[f'observations.{index}.{name}']
            worst = float((getattr(got, name) - want).abs().max())
            if worst > 1e-5:
                raise SystemExit(f'{case.name} {sample.name} {name}: got {worst:.1e} off')
        print(f'{case.name} {sample.name}: the same')


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('case', nargs='*', help='names from cases.py; all of them by default')
    parser.add_argument('--check', action='store_true', help='compare, write nothing')
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    known = {case.name: case for case in CASES}
    unknown = set(arguments.case) - set(known)
    if unknown:
        parser.error(f'expected cases out of {", ".join(known)}, got {", ".join(unknown)}')
    for name in arguments.case or known:
        (check if arguments.check else make)(known[name])


if __name__ == '__main__':
    main()
