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
"""A tiny random SmolVLA and what it is shown: configuration, statistics, weights, words, images.

Weights are scaled so that activations are of order 1 and no path is idle. Everything is seeded by
the names of the case and of what is drawn, so one case can change without the others. The cases
themselves are listed in `cases.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import math
from typing import Any
import zlib

import checkpoint
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
import numpy as np
from numpy.typing import NDArray
from recording import PREFIX, Observation
import torch
from torch import Tensor
from transformers import SmolVLMConfig

VOCABULARY = 336
CORPUS = (
    'move to the red cube',
    'move to the blue cube and wait',
    'pick up the green block and put it into the box',
    'push the yellow block to the left of the red one',
    'open the top drawer, then close the gripper',
    'stack the 3 small blocks on the large one',
)


@dataclass(frozen=True)
class Step:
    """One observation of a case: which image of each camera, which state, which words."""

    name: str
    images: tuple[int, ...]
    state: int
    instruction: str


@dataclass(frozen=True)
class Case:
    """One tiny SmolVLA and the observations it is run on. cameras: name -> (height, width)."""

    name: str
    note: str
    cameras: dict[str, tuple[int, int]]
    steps: tuple[Step, ...]
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    layers: int
    image_px: int
    patch_px: int
    pixel_shuffle: int = 2
    backbone_layers: int = 0
    backbone_image_px: int = 0
    expert_width: float = 0.75
    state_dim: int = 6
    action_dim: int = 6
    max_dim: int = 8
    chunk: int = 10
    num_steps: int = 10
    constant_state: bool = False
    backbone_bf16: bool = False
    policy: dict[str, Any] = field(default_factory=dict)

    def config(self) -> SmolVLAConfig:
        """Return LeRobot's configuration of the policy."""
        visual = {
            PREFIX + name: PolicyFeature(FeatureType.VISUAL, (3, *size))
            for name, size in self.cameras.items()
        }
        state = PolicyFeature(FeatureType.STATE, (self.state_dim,))
        action = PolicyFeature(FeatureType.ACTION, (self.action_dim,))
        return SmolVLAConfig(
            input_features={'observation.state': state, **visual},
            output_features={'action': action},
            device='cpu',
            push_to_hub=False,
            chunk_size=self.chunk,
            n_action_steps=self.chunk,
            num_steps=self.num_steps,
            max_state_dim=self.max_dim,
            max_action_dim=self.max_dim,
            resize_imgs_with_padding=(self.image_px, self.image_px),
            num_vlm_layers=self.layers,
            expert_width_multiplier=self.expert_width,
            **self.policy,
        )

    def backbone(self) -> SmolVLMConfig:
        """Return the backbone's configuration."""
        ids = {name: index for index, name in enumerate(checkpoint.SPECIAL_TOKENS)}
        text = {
            'model_type': 'llama',
            'vocab_size': VOCABULARY,
            'hidden_size': self.hidden,
            'intermediate_size': 2 * self.hidden,
            'num_hidden_layers': self.backbone_layers or self.layers,
            'num_attention_heads': self.heads,
            'num_key_value_heads': self.kv_heads,
            'head_dim': self.head_dim,
            'rms_norm_eps': 1e-5,
            'rope_theta': 100000.0,
            'max_position_embeddings': 512,
            'pad_token_id': ids['<|im_end|>'],
            'bos_token_id': ids['<|im_start|>'],
            'eos_token_id': ids['<end_of_utterance>'],
        }
        vision = {
            'hidden_size': 32,
            'intermediate_size': 48,
            'num_hidden_layers': 2,
            'num_attention_heads': 2,
            'image_size': self.backbone_image_px or self.image_px,
            'patch_size': self.patch_px,
        }
        return SmolVLMConfig(
            text_config=text,
            vision_config=vision,
            scale_factor=self.pixel_shuffle,
            image_token_id=ids['<image>'],
            pad_token_id=ids['<|im_end|>'],
        )

    def statistics(self) -> dict[str, dict[str, Tensor]]:
        """Return data set statistics: a mean and std per vector, and unused ones beside them."""
        random = _random(self.name, 'statistics')
        result = {}
        for key, size in (('observation.state', self.state_dim), ('action', self.action_dim)):
            mean = torch.from_numpy(random.normal(0, 0.8, size).astype(np.float32))
            std = torch.from_numpy(np.exp(random.uniform(-2, 1, size)).astype(np.float32))
            if self.constant_state and key != 'action':
                std[-1] = 0.0
            spread = 3 * std
            result[key] = {'mean': mean, 'std': std, 'min': mean - spread, 'max': mean + spread}
        for name in self.cameras:
            mean = torch.full((3, 1, 1), 0.45)
            result[PREFIX + name] = {'mean': mean, 'std': mean / 2}
        return result

    def observation(self, step: Step) -> Observation:
        """Return the raw inputs of `step`; the same indices give the same images and state."""
        stats = self.statistics()['observation.state']
        away = _random(self.name, 'state', step.state).normal(0, 1.0, self.state_dim)
        state = stats['mean'].numpy() + stats['std'].numpy() * away.astype(np.float32)
        sizes = self.cameras.items()
        images = {
            name: draw(_random(self.name, name, index), *size)
            for (name, size), index in zip(sizes, step.images, strict=True)
        }
        return Observation(images, state.astype(np.float32), step.instruction)

    def noise(self, step: Step) -> Tensor:
        """Return (chunk, max_action_dim) float32 standard normal noise."""
        values = _random(self.name, 'noise', step.name).normal(size=(self.chunk, self.max_dim))
        return torch.from_numpy(values.astype(np.float32))


def _random(*names: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32('/'.join(map(str, names)).encode()))


def draw(random: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """Return an RGB image of gradients, hard-edged rectangles and noise."""
    y, x = np.mgrid[0:1:height * 1j, 0:1:width * 1j]
    phase = random.uniform(0, 2 * math.pi, 3)
    speed = random.uniform(1, 6, (3, 2))
    image = 127 + 90 * np.sin(y[..., None] * speed[:, 0] + x[..., None] * speed[:, 1] + phase)
    for _ in range(4):
        top, left = random.integers(0, height * 3 // 4), random.integers(0, width * 3 // 4)
        size = random.integers(2, max(3, height // 2)), random.integers(2, max(3, width // 2))
        image[top : top + size[0], left : left + size[1]] = random.integers(0, 256, 3)
    image += random.normal(0, 6, image.shape)
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def tokenizer_json() -> str:
    """Return the tokenizer of all cases."""
    return checkpoint.tokenizer_json(CORPUS, VOCABULARY)


@torch.no_grad()
def randomise(policy: SmolVLAPolicy, seed: int) -> None:
    """Set every weight: order 1 through every layer, norms away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(seed)
    hidden = policy.model.state_proj.out_features
    for name, weight in policy.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith('.bias'):
            weight.copy_(0.2 * noise)
        elif weight.ndim == 1:
            weight.copy_(1 + 0.3 * noise)
        elif 'position_embedding' in name:
            weight.copy_(0.5 * noise)
        elif 'embed_tokens' in name:
            weight.copy_(noise / math.sqrt(hidden))
        else:
            weight.copy_(_gain(name, hidden) * noise / math.sqrt(weight[0].numel()))


def _gain(name: str, hidden: int) -> float:
    if 'modality_projection' in name:
        return 1 / math.sqrt(hidden)  # the policy multiplies image embeddings by sqrt(hidden)
    if 'down_proj' in name or 'action_out_proj' in name:
        return 0.7  # float32's own rounding stays below 1e-5 in the velocities
    if 'patch_embedding' in name or 'state_proj' in name:
        return 2.0
    return 1.0
