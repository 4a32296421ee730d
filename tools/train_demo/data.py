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
"""Training data: rendered scenes in a ring buffer, and batches of (pictures, words, expert chunk).

The expert's chunk depends on the joint state and the target alone, so scenes are drawn at random
and never rolled out. Pictures go through the policy's own preprocessing before they are kept; only
the padding is added when a batch is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from policy import ACTION, CHUNK, IMAGE_PX, OVERHEAD, STATE, WRIST
import torch
import torch.nn.functional as F

from robot_infer.sim.world import (
    COLOURS,
    CONTROL_PERIOD_S,
    JOINT_LIMITS,
    World,
    expert,
    instructions,
)

TOKENS = 'observation.language.tokens'
TOKEN_MASK = 'observation.language.attention_mask'
_ROWS = 48  # both cameras are 4:3, so 64 x 64 holds 48 rows of picture under 16 of padding
_MAX_AGE_STEPS = 2.0
_SPEED = 0.25


def shrink(picture: np.ndarray) -> np.ndarray:
    """Return uint8 (3, 48, 64): what bilinear resizing without antialias takes from a picture.

    640x480 is ten to one, where a sample lies midway between pixels 4 and 5; 320x240 is five to
    one, where it lies on pixel 2. Equal to lerobot's resize_with_pad up to rounding to uint8.
    """
    if picture.shape[0] == 480:
        wide = picture.astype(np.uint16)
        rows = wide[4::10] + wide[5::10]
        small = ((rows[:, 4::10] + rows[:, 5::10] + 2) >> 2).astype(np.uint8)
    else:
        small = picture[2::5, 2::5]
    return small.transpose(2, 0, 1)


def pad(pictures: torch.Tensor) -> torch.Tensor:
    """Return float (batch, 3, 64, 64) in 0..1 of uint8 (batch, 3, 48, 64): zeros on top."""
    return F.pad(pictures.float() / 255.0, (0, 0, IMAGE_PX - _ROWS, 0))


@dataclass(frozen=True)
class Batch:
    """`num_scenes` pictures, each with `repeat` instructions; everything else is per sample."""

    policy: dict[str, torch.Tensor]  # what SmolVLAPolicy.forward takes, normalised
    repeat: int
    target: torch.Tensor  # (samples, 2) metres: the named block
    state: torch.Tensor  # (samples, 2) metres
    present: torch.Tensor  # (scenes, 4) bool per colour
    blocks: torch.Tensor  # (scenes, 4, 2) metres
    seen_from: torch.Tensor  # (scenes, 2) metres: the gripper in the pictures


class SceneBuffer:
    """A ring of rendered scenes that is renewed bit by bit, and the batches drawn from it."""

    def __init__(self, capacity: int, seed: int, tokenizer) -> None:
        """Render `capacity` scenes out of `seed`; `tokenizer` is a Hugging Face fast tokenizer."""
        self._rng = np.random.default_rng(seed)
        self._world = World(seed)
        self._overhead = np.zeros((capacity, 3, _ROWS, IMAGE_PX), np.uint8)
        self._wrist = np.zeros_like(self._overhead)
        self._state = np.zeros((capacity, 2), np.float32)
        self._seen_from = np.zeros((capacity, 2), np.float32)
        self._present = np.zeros((capacity, len(COLOURS)), bool)
        self._blocks = np.zeros((capacity, len(COLOURS), 2), np.float32)
        self._next = 0
        self._texts = instructions()
        encoded = tokenizer([text + '\n' for text in self._texts], padding='longest')
        self._tokens = torch.tensor(encoded['input_ids'])
        self._token_mask = torch.tensor(encoded['attention_mask']).bool()
        self.refresh(capacity)
        self.stats = self._measure()

    def refresh(self, count: int) -> None:
        """Replace the `count` oldest scenes by new ones; two pictures are taken of each table."""
        rng = self._rng
        for i in range(count):
            if i % 2 == 0:
                seed = (1 << 31) + int(rng.integers(1 << 31))  # apart from the seeds of evaluation
                self._world = World(seed, int(rng.choice([2, 3, 3, 4])))
            self._render(self._next)
            self._next = (self._next + 1) % len(self._state)

    def _render(self, slot: int) -> None:
        rng, world = self._rng, self._world
        kind = rng.random()
        if kind < 0.55:
            xy = rng.uniform(-1.0, 1.0, 2) * JOINT_LIMITS
        else:
            block = world.blocks[rng.integers(len(world.blocks))]
            xy = np.array(block.xy) + rng.normal(0.0, 0.06 if kind < 0.8 else 0.015, 2)
        world.place_gripper((float(xy[0]), float(xy[1])))
        seen_from = world.state()
        angle = rng.uniform(0.0, 2 * np.pi)
        moved = rng.uniform(0.0, _MAX_AGE_STEPS) * CONTROL_PERIOD_S * _SPEED * rng.random()
        state = seen_from + moved * np.array([np.cos(angle), np.sin(angle)], np.float32)
        self._overhead[slot] = shrink(world.render('overhead'))
        self._wrist[slot] = shrink(world.render('wrist'))
        self._seen_from[slot] = seen_from
        self._state[slot] = np.clip(state, -np.array(JOINT_LIMITS), JOINT_LIMITS)
        self._present[slot] = False
        self._blocks[slot] = 0.0
        for block in world.blocks:
            index = COLOURS.index(block.colour)
            self._present[slot, index] = True
            self._blocks[slot, index] = block.xy

    def _measure(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return mean and standard deviation of states and of expert actions over the buffer."""
        colour = np.array([self._rng.choice(np.flatnonzero(row)) for row in self._present])
        target = self._blocks[np.arange(len(colour)), colour]
        actions = expert(self._state, target, CHUNK).reshape(-1, 2)
        return {
            name: {
                'mean': torch.tensor(values.mean(axis=0)),
                'std': torch.tensor(values.std(axis=0)),
            }
            for name, values in ((STATE, self._state), (ACTION, actions))
        }

    def batch(self, num_scenes: int, repeat: int) -> Batch:
        """Draw scenes and, for each, `repeat` (at most 2) instructions about different blocks."""
        rng = self._rng
        scenes = rng.choice(len(self._state), num_scenes, replace=False)
        order = rng.random((num_scenes, len(COLOURS))) - 2.0 * self._present[scenes]
        colours = np.argsort(order, axis=1)[:, :repeat].reshape(-1)
        samples = np.repeat(scenes, repeat)
        target = self._blocks[samples, colours]
        state = self._state[samples]
        chunk = expert(state, target, CHUNK)
        phrases = len(self._texts) // len(COLOURS)
        text = colours * phrases + rng.integers(phrases, size=len(colours))
        mask = self._token_mask[text]
        longest = int(mask.sum(dim=1).max())
        policy = {
            OVERHEAD: pad(torch.from_numpy(self._overhead[scenes])),
            WRIST: pad(torch.from_numpy(self._wrist[scenes])),
            STATE: self._normalised(STATE, state),
            ACTION: self._normalised(ACTION, chunk),
            TOKENS: self._tokens[text][:, :longest],
            TOKEN_MASK: mask[:, :longest],
        }
        return Batch(
            policy,
            repeat,
            torch.from_numpy(target),
            torch.from_numpy(state),
            torch.from_numpy(self._present[scenes]),
            torch.from_numpy(self._blocks[scenes]),
            torch.from_numpy(self._seen_from[scenes]),
        )

    def _normalised(self, name: str, values: np.ndarray) -> torch.Tensor:
        stats = self.stats[name]
        return (torch.from_numpy(values) - stats['mean']) / stats['std']
