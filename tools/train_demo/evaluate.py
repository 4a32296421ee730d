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
"""Closed-loop evaluation of a checkpoint in the demo world, with LeRobot's own policy.

Episodes run side by side in lock-step. As in the real node, an inference step begins every few
control steps on pictures that are one step old, and its chunk takes over when it is that late.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
import sys

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from data import TOKEN_MASK, TOKENS, pad, shrink  # noqa: E402
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy  # noqa: E402
import policy as demo  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from robot_infer.sim.world import CAMERAS, Episode, World, instruction  # noqa: E402

Stats = Mapping[str, Mapping[str, torch.Tensor]]


class Runner:
    """Turns pictures, states and words of many worlds into action chunks in metres."""

    def __init__(self, policy: SmolVLAPolicy, stats: Stats, exact: bool, seed: int = 0) -> None:
        """`exact` hands the policy the full pictures; else they are shrunk beforehand (faster)."""
        self._policy, self._stats, self._exact = policy, stats, exact
        self._tokenizer = policy.model.vlm_with_expert.processor.tokenizer
        self._generator = torch.Generator().manual_seed(seed)

    def images(self, pictures: list[np.ndarray]) -> torch.Tensor:
        """Return float (batch, 3, height, width) in 0..1."""
        if self._exact:
            return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255.0
        return pad(torch.from_numpy(np.stack([shrink(picture) for picture in pictures])))

    def chunks(
        self, pictures: Mapping[str, list[np.ndarray]], states: np.ndarray, texts: list[str]
    ) -> np.ndarray:
        """Return absolute joint positions, (batch, chunk, 2)."""
        encoded = self._tokenizer([t + '\n' for t in texts], padding='longest')
        state, action = self._stats[demo.STATE], self._stats[demo.ACTION]
        batch = {
            demo.OVERHEAD: self.images(pictures['overhead']),
            demo.WRIST: self.images(pictures['wrist']),
            demo.STATE: (torch.from_numpy(states) - state['mean']) / state['std'],
            TOKENS: torch.tensor(encoded['input_ids']),
            TOKEN_MASK: torch.tensor(encoded['attention_mask']).bool(),
        }
        noise = torch.randn(len(texts), demo.CHUNK, 2, generator=self._generator)
        chunk = self._policy.predict_action_chunk(batch, noise=noise)
        return (chunk * action['std'] + action['mean']).numpy()


class Trial:
    """One episode: a world, the block asked for, and the chunk being followed."""

    def __init__(self, seed: int, moved: bool) -> None:
        self._rng = np.random.default_rng(seed + 1)
        self.world = World(seed)
        colours = [block.colour for block in self.world.blocks]
        colour = colours[self._rng.integers(len(colours))]
        self.episode = Episode(colour)
        self.text = instruction(colour, int(self._rng.integers(6)))
        self._move_at = int(self._rng.integers(15, 60)) if moved else -1
        self.frames = {camera: self.world.render(camera) for camera in CAMERAS}
        self.plan = np.tile(self.world.state(), (64, 1))
        self.moved_at = 0

    def step(self, command: np.ndarray, render: bool) -> None:
        """Follow `command` for one control step; `render` takes pictures before it."""
        if self.episode.steps == self._move_at:
            self.world.disturb(self._rng, self.episode.colour)
            self.moved_at = self._move_at
        if self.episode.steps <= self._move_at:
            self.episode.restart()  # arriving before the block is moved does not count
        if render:
            self.frames = {camera: self.world.render(camera) for camera in CAMERAS}
        self.world.step(command)
        self.episode.update(self.world.distance_to(self.episode.colour))


def evaluate(
    policy: SmolVLAPolicy,
    stats: Stats,
    seeds: range,
    moved: bool,
    every: int = 3,
    latency: int = 3,
    exact: bool = False,
) -> dict[str, float]:
    """Return success rate, median steps to success and mean final distance over `seeds`."""
    policy.eval()
    runner = Runner(policy, stats, exact)
    trials = [Trial(seed, moved) for seed in seeds]
    step = 0
    plans: list[tuple[int, list[Trial], np.ndarray]] = []
    while any(not trial.episode.done for trial in trials):
        live = [trial for trial in trials if not trial.episode.done]
        if step % every == 0:
            pictures = {c: [trial.frames[c] for trial in live] for c in CAMERAS}
            states = np.stack([trial.world.state() for trial in live])
            chunks = runner.chunks(pictures, states, [trial.text for trial in live])
            plans.append((step, live, chunks))
        while plans and step >= plans[0][0] + latency:
            begun, asked, chunks = plans.pop(0)
            for trial, chunk in zip(asked, chunks, strict=True):
                late = chunk[step - begun :]
                trial.plan = np.concatenate([late, np.tile(late[-1], (64, 1))])
        for trial in live:
            trial.step(trial.plan[0], render=(step + 1) % every == 0)
            trial.plan = trial.plan[1:]
        step += 1
    won = [trial for trial in trials if trial.episode.success]
    steps = [trial.episode.steps - trial.moved_at for trial in won]
    far = [trial.world.distance_to(trial.episode.colour) for trial in trials]
    return {
        'success': len(won) / len(trials),
        'steps': float(np.median(steps)) if steps else float('nan'),
        'distance': float(np.mean(far)),
    }


def main() -> None:
    """Print success with and without a moved block."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('checkpoint', type=Path)
    parser.add_argument('--episodes', type=int, default=100)
    parser.add_argument('--first-seed', type=int, default=1_000_000)
    parser.add_argument('--every', type=int, default=3, help='control steps between inferences')
    parser.add_argument('--latency', type=int, default=3, help='steps until a chunk is used')
    parser.add_argument('--exact', action='store_true', help='full pictures through the policy')
    parser.add_argument('--threads', type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = args.checkpoint
    stats: dict[str, dict[str, torch.Tensor]] = {demo.STATE: {}, demo.ACTION: {}}
    path = next(folder.glob('policy_preprocessor_step_*_normalizer_processor.safetensors'))
    flat = load_file(path)
    for key, value in flat.items():
        name, field = key.rsplit('.', 1)
        if name in stats:
            stats[name][field] = value
    policy = demo.load(folder)
    seeds = range(args.first_seed, args.first_seed + args.episodes)
    for moved in (False, True):
        result = evaluate(policy, stats, seeds, moved, args.every, args.latency, args.exact)
        print('moved' if moved else 'still', result, flush=True)


if __name__ == '__main__':
    main()
