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
"""Make the golden values of the demo policy; its checkpoint is not copied.

    python test/golden/make_demo.py robot_infer/assets/demo_policy test/golden/data/demo

Runs in the LeRobot environment (README.md). `golden.json` records the digest of the
model.safetensors it was made from, so that a test can tell when the golden values are stale.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / 'tools/bench_lerobot'), str(ROOT)]

# The neighbours of this script are found through the path set above.
import checkpoint  # noqa: E402
from golden import Sample, write  # noqa: E402
import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from recording import Observation  # noqa: E402
import torch  # noqa: E402

from robot_infer.sim.world import CAMERAS, World, instruction  # noqa: E402

NOTE = (
    'frames rendered by robot_infer/sim/world.py and thinned to 120 x 160 pixels to keep the '
    'file small; new_state has the frames of first'
)
ROWS = 120


def samples(noise_shape: tuple[int, int]) -> list[Sample]:
    """Return three observations of the demo world: a scene, the same with a new state, another."""
    generator = torch.Generator().manual_seed(5)
    first, second = World(seed=11), World(seed=12)
    frames, state = _frames(first), first.state()
    words = instruction(first.blocks[0].colour)
    first.place_gripper((0.1, -0.05))
    looks = (
        ('first', 0, Observation(frames, state, words)),
        ('new_state', 0, Observation(frames, first.state(), words)),
        (
            'other_scene',
            1,
            Observation(_frames(second), second.state(), instruction(second.blocks[1].colour, 3)),
        ),
    )
    return [
        Sample(
            name,
            dict.fromkeys(CAMERAS, index),
            observation,
            torch.randn(noise_shape, generator=generator),
        )
        for name, index, observation in looks
    ]


def _frames(world: World) -> dict[str, NDArray[np.uint8]]:
    frames = {}
    for camera in CAMERAS:
        frame = world.render(camera)
        every = frame.shape[0] // ROWS
        frames[camera] = np.ascontiguousarray(frame[::every, ::every])
    return frames


def main() -> None:
    """Read the command line and write the two golden files."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('checkpoint', type=Path, help='the demo policy, a LeRobot checkpoint')
    parser.add_argument('output', type=Path, help='folder of golden.safetensors and golden.json')
    arguments = parser.parse_args()
    reference = checkpoint.load(arguments.checkpoint)
    config = reference.policy.config
    shape = (config.chunk_size, config.max_action_dim)
    write(arguments.output, arguments.checkpoint, reference, samples(shape), NOTE)
    size = (arguments.output / 'golden.safetensors').stat().st_size
    print(f'{arguments.output}: {size / 1e3:.0f} kB')


if __name__ == '__main__':
    main()
