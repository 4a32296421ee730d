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
"""Golden values of one checkpoint folder: taken with LeRobot, checked, and written to two files.

`golden.safetensors` holds the tensors and `golden.json` says what they belong to; README.md lists
every key and shape. A policy whose actions do not depend on an image, the words or the state is
refused: golden values of such a policy would prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
import copy
from dataclasses import asdict, dataclass, replace
import hashlib
from importlib.metadata import version
import json
from pathlib import Path
import platform

from checkpoint import Reference
import numpy as np
from recording import PREFIX, Observation, Recording, record
from safetensors.torch import save_file
import torch
from torch import Tensor

VARIANTS = ('bf16_vlm', 'bf16_vlm_expert')
TRUNCATED = 5
LEAST_EFFECT = 0.001  # of the actions' RMS: a hundred times what parity tests look for


@dataclass(frozen=True)
class Sample:
    """One observation to record: its name, which image of each camera it shows, and its noise."""

    name: str
    image_index: dict[str, int]
    observation: Observation
    noise: Tensor


def write(
    folder: Path, checkpoint: Path, reference: Reference, samples: Sequence[Sample], note: str
) -> None:
    """Record `samples` in float32 and in both bf16 variants and write the two golden files."""
    torch.set_num_threads(1)
    recordings = [record(reference, sample.observation, sample.noise) for sample in samples]
    effects = _effects(reference, samples, recordings[0])
    weights = {variant: _cast(reference, variant) for variant in VARIANTS}
    tensors: dict[str, Tensor] = {'patch_positions': recordings[0].patch_positions}
    entries = []
    for index, (sample, recording) in enumerate(zip(samples, recordings, strict=True)):
        tensors |= _images(sample, recording) | _observation(f'observations.{index}', sample)
        tensors |= _recording(f'observations.{index}', recording)
        entry = _entry(sample, recording)
        for variant, cast in weights.items():
            noisy = record(cast, sample.observation, sample.noise)
            tensors |= _actions(f'observations.{index}.{variant}', noisy)
            entry[variant] = _noise(noisy, recording)
        # The expert's dtype does not reach the prefix: both variants have these.
        tensors |= _prefix(f'observations.{index}.bf16', noisy)
        tensors['bf16.patch_positions'] = noisy.patch_positions
        entries.append(entry)
    short = record(_truncated(reference), samples[0].observation, samples[0].noise[:TRUNCATED])
    tensors['observations.0.truncated.actions_normalised'] = short.actions_normalised
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise SystemExit(f'{folder.name}: expected finite values in {key}')
    meta = {
        'note': note,
        'made_with': _versions(),
        'model_sha256': _digest(checkpoint / 'model.safetensors'),
        'cameras': [key.removeprefix(PREFIX) for key in reference.policy.config.image_features],
        'effects': effects,
        'observations': entries,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: t.contiguous() for k, t in tensors.items()}, folder / 'golden.safetensors')
    (folder / 'golden.json').write_text(json.dumps(meta, indent=1) + '\n')


def _images(sample: Sample, recording: Recording) -> dict[str, Tensor]:
    tensors = {}
    for camera, index in sample.image_index.items():
        key = f'images.{camera}.{index}'
        tensors[f'{key}.rgb'] = torch.from_numpy(sample.observation.images[camera])
        tensors[f'{key}.pixels'] = recording.pixels[camera]
        tensors[f'{key}.embedding'] = recording.embeddings[camera]
    return tensors


def _observation(key: str, sample: Sample) -> dict[str, Tensor]:
    state = torch.from_numpy(sample.observation.state)
    return {f'{key}.state': state, f'{key}.noise': sample.noise}


def _recording(key: str, recording: Recording) -> dict[str, Tensor]:
    return {
        f'{key}.prompt_ids': recording.prompt_ids,
        f'{key}.prompt_mask': recording.prompt_mask.to(torch.uint8),
        f'{key}.state_normalised': recording.state_normalised,
        f'{key}.prefix_mask': recording.prefix_mask.to(torch.uint8),
        f'{key}.prefix_embeddings': recording.prefix_embeddings,
        f'{key}.velocities': recording.velocities,
        f'{key}.points': recording.points,
        **_prefix(key, recording),
        **_actions(key, recording),
    }


def _prefix(key: str, recording: Recording) -> dict[str, Tensor]:
    return {f'{key}.keys': recording.keys, f'{key}.values': recording.values}


def _actions(key: str, recording: Recording) -> dict[str, Tensor]:
    return {
        f'{key}.actions_normalised': recording.actions_normalised,
        f'{key}.actions': recording.actions,
    }


def _entry(sample: Sample, recording: Recording) -> dict[str, object]:
    return {
        'name': sample.name,
        'instruction': sample.observation.instruction,
        'images': sample.image_index,
        'prefix_length': len(recording.prefix_mask),
        'valid_tokens': int(recording.prefix_mask.sum()),
        'segments': [asdict(segment) for segment in recording.segments],
    }


def _noise(noisy: Recording, exact: Recording) -> dict[str, float | list[float]]:
    """Return the relative RMS distance of a bf16 run from the float32 run."""
    return {
        'actions_normalised': _distance(noisy.actions_normalised, exact.actions_normalised),
        'keys': [_distance(a, b) for a, b in zip(noisy.keys, exact.keys, strict=True)],
        'values': [_distance(a, b) for a, b in zip(noisy.values, exact.values, strict=True)],
    }


def _distance(a: Tensor, b: Tensor) -> float:
    a, b = a.double(), b.double()
    return float(f'{(a - b).pow(2).mean().sqrt() / b.pow(2).mean().sqrt():.3g}')


def _cast(reference: Reference, variant: str) -> Reference:
    """Return the reference in bfloat16.

    bf16_vlm: the backbone alone. bf16_vlm_expert: as load_vlm_weights=True leaves a policy, that
    is, backbone and expert, but the k and v projections of cross-attention layers in float32,
    because LeRobot replaces those after the expert was made in the backbone's dtype. The
    projections of state, actions and time are float32 in both.
    """
    policy = copy.deepcopy(reference.policy)
    model = policy.model.vlm_with_expert
    model.vlm.to(torch.bfloat16)
    if variant == 'bf16_vlm_expert':
        every = model.self_attn_every_n_layers
        model.lm_expert.norm.to(torch.bfloat16)
        for index, layer in enumerate(model.lm_expert.layers):
            attention = layer.self_attn
            projections = copy.deepcopy((attention.k_proj, attention.v_proj))
            layer.to(torch.bfloat16)
            if 'cross' in model.attention_mode and not (every > 0 and index % every == 0):
                attention.k_proj, attention.v_proj = projections
    return replace(reference, policy=policy)


def _truncated(reference: Reference) -> Reference:
    policy = copy.deepcopy(reference.policy)
    policy.config.chunk_size = TRUNCATED
    return replace(reference, policy=policy)


def _effects(
    reference: Reference, samples: Sequence[Sample], recording: Recording
) -> dict[str, float]:
    """Return how far each input moves the actions, relative RMS; refuse a policy that ignores one.

    Changed one at a time: state and words (to another sample's), each image (turned round).
    """
    sample, base = samples[0], samples[0].observation
    others = [other.observation for other in samples[1:]]
    states = [o.state for o in others if not np.array_equal(o.state, base.state)]
    words = [o.instruction for o in others if o.instruction != base.instruction]
    changed = {
        'state': replace(base, state=states[0]),
        'instruction': replace(base, instruction=(words or [base.instruction + ' now'])[0]),
    }
    for camera, rgb in base.images.items():
        changed[f'image {camera}'] = replace(
            base, images={**base.images, camera: np.ascontiguousarray(rgb[::-1, ::-1])}
        )
    effects = {
        name: _distance(
            record(reference, observation, sample.noise).actions_normalised,
            recording.actions_normalised,
        )
        for name, observation in changed.items()
    }
    idle = [name for name, effect in effects.items() if effect < LEAST_EFFECT]
    if idle:
        raise SystemExit(f'expected every input to move the actions, got {effects} ({idle} idle)')
    return effects


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _versions() -> dict[str, str]:
    packages = ('lerobot', 'torch', 'transformers', 'tokenizers', 'safetensors', 'numpy')
    return {name: version(name) for name in packages} | {'python': platform.python_version()}
