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
"""Time one inference step of LeRobot's own SmolVLA: raw frames in, actions in physical units out.

    python tools/bench_lerobot/lerobot_step.py CHECKPOINT [--steps 10]     prints one JSON object
    python tools/bench_lerobot/lerobot_step.py CHECKPOINT --serve          steps on request

A step is LeRobot's preprocessor, `predict_action_chunk` and its postprocessor. LeRobot keeps
nothing between steps, so every step costs the same whatever has changed in the observation.

With --serve, requests and answers are JSON lines. The first answer is {"ready": true, ...} once
the policy is loaded and warm; then each {"op": "step"} is answered by {"seconds": x}, anything
else by {"error": text}; end of input ends the process. Standard output carries these lines and
nothing else, so that a benchmark can take turns with this process, step by step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import contextlib
from importlib.metadata import version
import json
from pathlib import Path
import sys
import time
from typing import TextIO

import checkpoint
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
import numpy as np
import torch

NUM_OBSERVATIONS = 4
Observation = tuple[dict[str, np.ndarray], np.ndarray, str]


class Stepper:
    """One policy and a few random observations; each call of `step` takes the next of them."""

    def __init__(self, folder: Path, instruction: str) -> None:
        self._reference = checkpoint.load(folder)
        self.config: SmolVLAConfig = self._reference.policy.config
        random = np.random.default_rng(0)
        self._observations = [self._draw(random, instruction) for _ in range(NUM_OBSERVATIONS)]
        self._count = 0

    def _draw(self, random: np.random.Generator, instruction: str) -> Observation:
        images = {
            key: random.integers(0, 256, (*feature.shape[1:], 3), dtype=np.uint8)
            for key, feature in self.config.image_features.items()
            if 'empty_camera' not in key
        }
        feature = self.config.robot_state_feature
        state = random.normal(size=feature.shape if feature else 0).astype(np.float32)
        return images, state, instruction

    def num_parameters(self) -> int:
        """Return the number of parameters without lm_head, which SmolVLA never uses."""
        named = self._reference.policy.named_parameters()
        return sum(p.numel() for name, p in named if 'lm_head' not in name)

    @torch.inference_mode()
    def step(self) -> float:
        """Run one step and return its seconds."""
        observation = self._observations[self._count % NUM_OBSERVATIONS]
        self._count += 1
        start = time.perf_counter()
        batch = self._reference.batch(*observation)
        actions = self._reference.policy.predict_action_chunk(batch)
        self._reference.postprocess(actions)
        return time.perf_counter() - start


def about(stepper: Stepper) -> dict[str, object]:
    """Return what was timed, and with what."""
    return {
        'parameters': stepper.num_parameters(),
        'chunk': stepper.config.chunk_size,
        'num_steps': stepper.config.num_steps,
        'threads': torch.get_num_threads(),
        'lerobot': version('lerobot'),
        'torch': torch.__version__,
    }


def serve(stepper: Stepper, requests: TextIO, answer: Callable[[object], None]) -> None:
    """Answer requests until the input ends."""
    for line in requests:
        try:
            operation = json.loads(line)['op']
        except (ValueError, KeyError, TypeError):
            operation = None
        if operation == 'step':
            answer({'seconds': stepper.step()})
        else:
            answer({'error': f'expected {{"op": "step"}}, got {line.strip()!r}'})


def main() -> None:
    """Read the command line, load and warm up the policy, then serve or measure."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('checkpoint', type=Path, help='a complete SmolVLA checkpoint folder')
    parser.add_argument('--serve', action='store_true', help='step on request, see above')
    parser.add_argument('--steps', type=int, default=10, help='steps to measure without --serve')
    parser.add_argument('--warmup', type=int, default=2, help='steps that are not counted')
    parser.add_argument('--threads', type=int, default=1, help='threads of torch')
    parser.add_argument('--instruction', default='pick up the red cube', help='the prompt')
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    output = sys.stdout

    def answer(value: object) -> None:
        print(json.dumps(value), file=output, flush=True)

    with contextlib.redirect_stdout(sys.stderr):  # LeRobot prints while it loads
        stepper = Stepper(arguments.checkpoint, arguments.instruction)
        for _ in range(arguments.warmup):
            stepper.step()
        if arguments.serve:
            answer({'ready': True, **about(stepper)})
            serve(stepper, sys.stdin, answer)
            return
        seconds = [stepper.step() for _ in range(arguments.steps)]
    answer(
        {
            'median_s': float(np.median(seconds)),
            'p90_s': float(np.percentile(seconds, 90)),
            'n': len(seconds),
            **about(stepper),
        }
    )


if __name__ == '__main__':
    main()
