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
"""Watch LeRobot's SmolVLA during one inference step, and keep what passes.

Nothing is computed here that the reference does not compute itself: its own methods are wrapped
on the instance, run as they are, and their arguments and results are kept. What is written to
files, and in which shape, is in `golden.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkpoint import Reference
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
import numpy as np
from numpy.typing import NDArray
import torch
from torch import Tensor

PREFIX = 'observation.images.'


@dataclass(frozen=True)
class Observation:
    """Raw inputs of one step. images: camera name -> (height, width, 3) uint8 RGB."""

    images: dict[str, NDArray[np.uint8]]
    state: NDArray[np.float32]
    instruction: str


@dataclass(frozen=True)
class Segment:
    """A run of prefix positions: kind is image_start, image, image_end, language or state."""

    kind: str
    camera: str
    start: int
    stop: int


@dataclass(frozen=True)
class Recording:
    """What one step of the reference did; T positions, V of them valid, batch axis removed.

    pixels: camera -> (3, size, size); embeddings: camera -> (tokens, hidden), scaled.
    prefix_embeddings: (V, hidden). keys, values: (layers, V, kv_heads, head_dim), keys after RoPE.
    velocities, points: (num_steps, chunk, max_action_dim); points[i] is x_t after step i.
    actions_normalised, actions: (chunk, action_dim).
    """

    pixels: dict[str, Tensor]
    embeddings: dict[str, Tensor]
    patch_positions: Tensor
    prompt_ids: Tensor
    prompt_mask: Tensor
    state_normalised: Tensor
    segments: tuple[Segment, ...]
    prefix_mask: Tensor
    prefix_embeddings: Tensor
    keys: Tensor
    values: Tensor
    velocities: Tensor
    points: Tensor
    actions_normalised: Tensor
    actions: Tensor


class _Watch:
    """Wraps the methods of one policy while in use, and puts them back afterwards."""

    def __init__(self, policy: SmolVLAPolicy) -> None:
        model = policy.model
        self.kept: dict[str, list[tuple[tuple[Any, ...], dict[str, Any], Any]]] = {}
        self._targets: list[tuple[Any, str]] = [
            (policy, 'prepare_images'),
            (policy, 'prepare_state'),
            (model, 'embed_prefix'),
            (model, 'denoise_step'),
            (model, 'sample_actions'),
            (model.vlm_with_expert, 'embed_image'),
            (model.vlm_with_expert, 'forward'),
        ]
        embeddings = model.vlm_with_expert.vlm.model.vision_model.embeddings
        self._targets.append((embeddings.position_embedding, 'forward'))

    def __enter__(self) -> _Watch:
        for owner, name in self._targets:
            label = 'positions' if owner.__class__.__name__ == 'Embedding' else name
            self.kept[label] = []
            setattr(owner, name, self._wrap(getattr(owner, name), label))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name in self._targets:
            delattr(owner, name)

    def _wrap(self, method: Any, label: str) -> Any:
        def watched(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            copy = result
            if label == 'forward' and kwargs['past_key_values'] is None:
                # The cache grows and is cropped again during denoising: keep the prefix as it is.
                layers = result[1].layers
                copy = [(layer.keys.clone(), layer.values.clone()) for layer in layers]
            self.kept[label].append((args, kwargs, copy))
            return result

        return watched


def record(reference: Reference, observation: Observation, noise: Tensor) -> Recording:
    """Run one step of the reference on (chunk, max_action_dim) float32 noise."""
    policy = reference.policy
    images = {PREFIX + camera: rgb for camera, rgb in observation.images.items()}
    batch = reference.batch(images, observation.state, observation.instruction)
    with _Watch(policy) as watch:
        normalised = policy.predict_action_chunk(batch, noise=noise[None].clone())
    kept = watch.kept
    cameras = _cameras(policy, observation)
    pixels, _ = kept['prepare_images'][0][2]
    embeddings, mask, _ = kept['embed_prefix'][0][2]
    valid = mask[0].bool()
    counts = [call[2].shape[1] for call in kept['embed_image']]
    prompt_ids = batch['observation.language.tokens'][0]
    special = policy.config.add_image_special_tokens
    segments = _segments(cameras, counts, len(prompt_ids), special)
    if segments[-1].stop != len(valid):
        raise SystemExit(f'expected {len(valid)} prefix positions, the segments give {segments}')
    caches = kept['forward'][0][2]
    denoise = kept['denoise_step']
    final = kept['sample_actions'][0][2]
    points = [call[1]['x_t'] for call in denoise[1:]] + [final]
    return Recording(
        pixels={c: p[0] for c, p in zip(cameras, pixels, strict=True)},
        embeddings={
            s.camera: embeddings[0, s.start : s.stop] for s in segments if s.kind == 'image'
        },
        patch_positions=kept['positions'][0][0][0][0],
        prompt_ids=prompt_ids,
        prompt_mask=batch['observation.language.attention_mask'][0],
        state_normalised=kept['prepare_state'][0][2][0],
        segments=segments,
        prefix_mask=valid,
        prefix_embeddings=embeddings[0, valid],
        keys=_stack([keys for keys, _ in caches], valid),
        values=_stack([values for _, values in caches], valid),
        velocities=torch.cat([call[2] for call in denoise]),
        points=torch.cat(points),
        actions_normalised=normalised[0],
        actions=reference.postprocess(normalised.clone())[0],
    )


def _cameras(policy: SmolVLAPolicy, observation: Observation) -> list[str]:
    """Return the cameras in the reference's order: those there, then as many empty as allowed."""
    names = [key.removeprefix(PREFIX) for key in policy.config.image_features]
    there = [name for name in names if name in observation.images]
    missing = [name for name in names if name not in observation.images]
    return there + missing[: policy.config.empty_cameras]


def _segments(
    cameras: list[str], counts: list[int], num_words: int, special: bool
) -> tuple[Segment, ...]:
    runs: list[tuple[str, str, int]] = []
    for camera, count in zip(cameras, counts, strict=True):
        runs += [('image_start', camera, 2)] if special else []
        runs += [('image', camera, count)]
        runs += [('image_end', camera, 1)] if special else []
    runs += [('language', '', num_words), ('state', '', 1)]
    segments, start = [], 0
    for kind, camera, count in runs:
        segments.append(Segment(kind, camera, start, start + count))
        start += count
    return tuple(segments)


def _stack(layers: list[Tensor], valid: Tensor) -> Tensor:
    """Return (layers, valid tokens, kv_heads, head_dim) of [(1, kv_heads, tokens, head_dim)]."""
    return torch.stack([layer[0].transpose(0, 1)[valid] for layer in layers])
