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

"""SmolVLA: its layout, its prefill into pages, its flow-matching action head over them.

    prefix   [camera 1] ... [camera k] [words] | [state]        two attention groups: images and
                                                               words see each other; the state
                                                               sees all and is seen by none
    suffix   [action 1] ... [action n]                          causal, in scratch pages

    planes   0 .. L-1        keys and values of the prefix, one plane a layer; self layers of the
                             action head write the suffix behind them
             L .. L+C-1      the same keys and values re-projected for the C cross layers of the
                             action head: they depend on the prefix only, so they are computed
                             with the page and reused with it, not once per denoising step

Numbers are those of LeRobot 0.6.1 (`lerobot/policies/smolvla`), in the order of its operations.
"""

from __future__ import annotations

from dataclasses import dataclass
import hashlib
import math

import numpy as np
from numpy.typing import NDArray
import torch
from torch import Tensor

from robot_infer.actions.normalize import make_normalizer
from robot_infer.cache import EmbeddingCache, KVStorage, Sequence
from robot_infer.camera.preprocess import Preprocessor
from robot_infer.errors import CheckpointError, ConfigError, InstructionError, StateError
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.embedding import RotaryTable, Rotation
from robot_infer.models.projections import Projections
from robot_infer.models.shapes import read_shape
from robot_infer.models.smolvla import read_smolvla
from robot_infer.policies.base import PrefixShape, Prepared
from robot_infer.prompt.layout import Layout, Segment
from robot_infer.prompt.tokenizer import InstructionTokenizer
from robot_infer.types import Observation
from robot_infer_kernels import AttentionPlan, append_kv, plan_attention, planned_attention
from robot_infer_kernels.pages import Plane

# Part of every cache key: raise it when preprocessing or the meaning of a page changes.
_PAGE_VERSION = b'smolvla-1'
_IMAGES_AND_WORDS, _STATE = 0, 1
_IMAGE_START, _IMAGE_END = ('<fake_token_around_image>', '<global-img>'), (
    '<fake_token_around_image>',)


@dataclass(frozen=True)
class Place:
    """Where one expert layer's action tokens stand: the same in all denoising steps of a chunk.

    kv: the plane it reads. rotation: at positions behind the prefix where action tokens see each
    other, at positions from 0 where they see the prefix only (LeRobot). slots: where it writes
    keys and values of its own; None where it has none.
    """

    kv: Plane
    plan: AttentionPlan
    rotation: Rotation
    slots: Tensor | None = None


Suffix = tuple[Place, ...]


class SmolVLAPolicy:
    """A SmolVLA checkpoint, ready to run; what it remembers between calls never shows."""

    def __init__(
        self, folder: CheckpointFolder, *, dtype: torch.dtype, device: torch.device,
        horizon: int = 0, denoise_steps: int = 0, fewer_steps: int = 0, noise_seed: int = 0,
        kv_format: str = 'auto', weights: str = 'as_loaded',
    ) -> None:
        """Read the checkpoint.

        :param horizon: actions per chunk, 0 for the checkpoint's own; a shorter chunk is exactly
            the head of the full one.
        :param denoise_steps: Euler steps, 0 for the checkpoint's own.
        :param fewer_steps: a smaller count that `act` may be asked for too; 0 for none.
        :param kv_format: of the pages that it will be given; auto: plain, in `dtype`.
        :param weights: as_loaded, int8 or int4 (models/projections.py).
        :raises CheckpointError: see robot_infer.models; nothing is guessed.
        """
        self.shape = shape = read_shape(folder)
        self.inputs, self.state_dim, self.action_dim = (
            shape.inputs, shape.state_dim, shape.action_dim)
        if horizon > shape.horizon:
            raise CheckpointError(
                'parameter policy.horizon', expected=f'at most the checkpoint\'s {shape.horizon}',
                got=str(horizon), remedy='0 takes the checkpoint\'s own.')
        self.horizon = horizon or shape.horizon
        self.denoise_steps = denoise_steps or shape.denoise_steps
        if fewer_steps >= self.denoise_steps:
            raise ConfigError(
                'parameter inference.min_denoise_steps',
                expected=f'fewer than the {self.denoise_steps} steps of the policy',
                got=str(fewer_steps), remedy='0 allows no fewer steps.')
        self._device = device
        counts = (self.denoise_steps, fewer_steps) if fewer_steps else (self.denoise_steps,)
        projections = Projections(dtype, device, weights)
        self._model = read_smolvla(folder, shape, counts, projections)
        self.weights = projections.tally
        self._tokenizer = InstructionTokenizer(
            folder.path / 'tokenizer.json', max_tokens=shape.max_prompt_tokens,
            vocab_size=shape.vocab_size)
        self._normalize_state, self._normalize_action = _normalizers(folder, self)
        self._preprocess = Preprocessor(shape.image_size)
        self._image_start, self._image_end = self._special_tokens()
        self._image_tokens = self._model.vision.tokens_of(*shape.image_size[::-1])
        per_camera = self._image_tokens + len(self._image_start) + len(self._image_end)
        self.prefix_shape = PrefixShape(
            num_planes=shape.num_layers + sum(
                not shape.is_self_layer(layer) for layer in range(shape.num_layers)),
            num_heads=shape.attention.num_heads, num_kv_heads=shape.attention.num_kv_heads,
            head_dim=shape.attention.head_dim,
            max_prefix=len(self.inputs) * per_camera + shape.max_prompt_tokens + 1,
            image_tokens=self._image_tokens, width=shape.width, dtype=dtype)
        self._rotary = RotaryTable(
            shape.attention.head_dim, self.prefix_shape.max_prefix + shape.horizon, device)
        self._scale = shape.attention.head_dim ** -0.5
        self._noise_seed = noise_seed
        self._domain = self._describe(folder, dtype, kv_format)

    # --- layout ---------------------------------------------------------------------------------

    def state_at(self, normal: float) -> NDArray[np.float32]:
        """The state that is `normal` in every joint once normalised; 0 is that of the data."""
        return self._normalize_state.unnormalize(np.full(self.state_dim, normal, np.float32))

    def prepare(self, observation: Observation) -> Prepared:
        """Preprocess the frames, tokenise the words, normalise the state."""
        frames = {name: self._preprocess(name, observation.frames[name]) for name in self.inputs}
        ids = self._word_ids(observation.instruction)
        state = self._prepare_state(observation.state.values)
        segments = []
        for name, frame in frames.items():
            segments += [
                Segment(f'{name}.start', len(self._image_start), _IMAGES_AND_WORDS,
                        ids=self._image_start),
                Segment(name, self._image_tokens, _IMAGES_AND_WORDS, frame.digest),
                Segment(f'{name}.end', len(self._image_end), _IMAGES_AND_WORDS,
                        ids=self._image_end)]
        segments += [
            Segment('words', len(ids), _IMAGES_AND_WORDS, ids=ids),
            Segment('state', 1, _STATE, hashlib.sha256(state.tobytes()).digest())]
        return Prepared(
            layout=Layout(self._domain, tuple(segments)), frames=frames,
            word_ids=torch.tensor(ids, dtype=torch.int64, device=self._device),
            state=torch.from_numpy(state).to(self._device))

    def _word_ids(self, instruction: str) -> tuple[int, ...]:
        """Ids of the instruction and the newline that LeRobot puts behind it."""
        ids = self._tokenizer.encode(
            instruction if instruction.endswith('\n') else f'{instruction}\n')
        if not ids:
            raise InstructionError(
                'instruction', expected='at least one token', got='none after tokenising',
                remedy='Say what the robot should do.')
        return ids

    def _prepare_state(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(state_dim,) physical -> (1, max_state_dim) normalised, padded with zeros."""
        if values.shape != (self.state_dim,):
            raise StateError('state', expected=f'{self.state_dim} joint positions',
                             got=f'{values.shape}', remedy='Set state.joints for this policy.')
        normal = self._normalize_state.normalize(values.astype(np.float32))
        padded = np.zeros((1, self.shape.max_state_dim), np.float32)
        padded[0, :self.state_dim] = normal
        return padded

    # --- prefix ---------------------------------------------------------------------------------

    def embed(self, prepared: Prepared, embeddings: EmbeddingCache) -> tuple[dict, int]:
        """Image embeddings by input: known frames from the cache, the others encoded."""
        embedded, encoded = {}, 0
        for name, frame in prepared.frames.items():
            known = embeddings.get(name, frame.digest)
            if known is None:
                known = embeddings.put(name, frame.digest, self.encode(frame.pixels))
                encoded += 1
            embedded[name] = known
        return embedded, encoded

    def encode(self, pixels: Tensor) -> Tensor:
        """One preprocessed frame -> (image_tokens, width), scaled as the language model wants."""
        return self._model.vision.encode(pixels.to(self._device)) * math.sqrt(self.shape.width)

    def prefill(self, prepared: Prepared, embedded: dict[str, Tensor], storage: KVStorage,
                sequence: Sequence, start: int, end: int) -> None:
        """Append one attention group, tokens [start, end), to the sequence's pages."""
        model, shape = self._model, self.shape
        x = self._embed_state(prepared.state) if start else self._embed_group(prepared, embedded)
        assert x.shape[0] == end - start and sequence.length == start
        slots = sequence.append(end - start)
        plan = plan_attention(storage.plane(0), sequence.table, end, end, end - start)
        rotation, cross_plane = self._rotary.at(start, end - start), shape.num_layers
        for number in range(shape.num_layers):
            if number < len(model.prefix_layers):
                layer = model.prefix_layers[number]
                q, k, v = layer.project(x, rotation)
            else:
                k, v = model.last_prefix_layer.project(x, rotation)
            plane = storage.plane(number)
            append_kv(k, v, plane, slots)
            if not shape.is_self_layer(number):
                append_kv(*model.expert_layers[number].project_cross(k, v),
                          storage.plane(cross_plane), slots)
                cross_plane += 1
            if number < len(model.prefix_layers):
                x = layer.finish(x, planned_attention(q, plane, plan, self._scale))

    def _embed_group(self, prepared: Prepared, embedded: dict[str, Tensor]) -> Tensor:
        """Images and words: (num_tokens, width) float32."""
        words = self._model.token_embedding
        scale = math.sqrt(self.shape.width)
        parts = []
        for image in embedded.values():
            parts += [words[list(self._image_start)], image, words[list(self._image_end)]]
        return torch.cat([*parts, words[prepared.word_ids] * scale]).float()

    def _embed_state(self, state: Tensor) -> Tensor:
        return self._model.state(state)

    # --- action head ----------------------------------------------------------------------------

    def act(self, prepared: Prepared, storage: KVStorage, sequence: Sequence, horizon: int,
            denoise_steps: int = 0) -> NDArray[np.float32]:
        """Denoise a chunk over the prefix; its own tokens live in pages that are given back."""
        noise = self.noise_for(prepared.layout)[:horizon]
        actions = self.denoise(storage, sequence, noise, denoise_steps)[-1]
        values = actions[:, :self.action_dim].float().cpu().numpy()
        return self._normalize_action.unnormalize(values)

    def noise_for(self, layout: Layout) -> Tensor:
        """The noise a chunk starts from: (horizon, max_action_dim) float32.

        Drawn from the seed and from what is observed: equal observations give equal actions, to
        the last bit and in any order, and different ones start from different noise, so that one
        draw does not bias a whole run. Of the longest chunk, so that a shorter one is its head.
        """
        seed = hashlib.blake2b(
            layout.identity, key=self._noise_seed.to_bytes(8, 'little'), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(seed, 'little') >> 1)
        size = (self.shape.horizon, self.shape.max_action_dim)
        return torch.randn(size, generator=generator, dtype=torch.float32).to(self._device)

    def denoise(
        self, storage: KVStorage, sequence: Sequence, noise: Tensor, denoise_steps: int = 0,
    ) -> list[Tensor]:
        """Integrate the velocity field from noise (t = 1) to actions (t = 0), Euler.

        :param noise: (horizon, max_action_dim) float32.
        :param denoise_steps: 0 for the policy's own.
        :returns: x after every step, (horizon, max_action_dim) float32, normalised.
        """
        steps = denoise_steps or self.denoise_steps
        snapshot = sequence.snapshot()
        try:
            suffix = self.place(storage, sequence, noise.shape[0])
            x, states = noise, []
            for step in range(steps):
                velocity = self.velocity(suffix, x, step, steps)
                x = x + (-1.0 / steps) * velocity
                states.append(x)
        finally:
            sequence.restore(snapshot)
        return states

    def place(self, storage: KVStorage, sequence: Sequence, count: int) -> Suffix:
        """Make room for action tokens behind the prefix, and plan what each layer reads."""
        prefix, shape, kv = sequence.length, self.shape, storage.plane(0)
        slots = sequence.append(count)
        limit = torch.arange(prefix + 1, prefix + 1 + count, device=self._device)
        own, cross = self._rotary.at(prefix, count), self._rotary.at(0, count)
        on_all = plan_attention(kv, sequence.table, prefix + count, limit, count)
        on_prefix = plan_attention(kv, sequence.table, prefix, prefix, count)
        places, cross_plane = [], shape.num_layers
        for number in range(shape.num_layers):
            if shape.is_self_layer(number):
                places.append(Place(storage.plane(number), on_all, own, slots))
            else:
                places.append(Place(storage.plane(cross_plane), on_prefix, cross))
                cross_plane += 1
        return tuple(places)

    def velocity(self, suffix: Suffix, x: Tensor, step: int, denoise_steps: int = 0) -> Tensor:
        """Velocity of the noisy actions x: (horizon, max_action_dim) at one denoising step."""
        model = self._model
        hidden = model.action_embedding(x, step, denoise_steps or self.denoise_steps)
        for layer, place in zip(model.expert_layers, suffix, strict=True):
            if place.slots is None:
                q = layer.project_query(hidden, place.rotation)
            else:
                q, k, v = layer.project(hidden, place.rotation)
                append_kv(k, v, place.kv, place.slots)
            attended = planned_attention(q, place.kv, place.plan, self._scale)
            hidden = layer.finish(hidden, attended)
        return model.action(model.expert_norm(hidden))

    # --- identity -------------------------------------------------------------------------------

    def _special_tokens(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if not self.shape.image_special_tokens:
            return (), ()
        return (tuple(self._tokenizer.special_id(token) for token in _IMAGE_START),
                tuple(self._tokenizer.special_id(token) for token in _IMAGE_END))

    def _describe(self, folder: CheckpointFolder, dtype: torch.dtype, kv_format: str) -> bytes:
        """What all page keys share: weights, dtype, format, device, preprocessing, inputs, order.
        """
        digest = hashlib.sha256(_PAGE_VERSION)
        digest.update(folder.weights_digest())
        digest.update(repr((self.shape, str(dtype), self.weights.form, kv_format,
                            str(self._device))).encode())
        return digest.digest()


def _normalizers(folder: CheckpointFolder, policy: SmolVLAPolicy):  # noqa: ANN202
    """The maps of state (in) and action (out), from the checkpoint's processor files."""
    modes = folder.config.get('normalization_mapping', {})
    if modes.get('VISUAL', 'IDENTITY') != 'IDENTITY':
        raise CheckpointError(
            f'checkpoint {folder.path}', expected='normalization_mapping VISUAL = IDENTITY',
            got=str(modes['VISUAL']), remedy='SmolVLA scales its images itself.')
    state = make_normalizer(
        'observation.state', modes.get('STATE', 'MEAN_STD'), policy.state_dim,
        folder.statistics('policy_preprocessor', 'normalizer_processor'),
        'policy_preprocessor.json and its state file')
    action = make_normalizer(
        'action', modes.get('ACTION', 'MEAN_STD'), policy.action_dim,
        folder.statistics('policy_postprocessor', 'unnormalizer_processor'),
        'policy_postprocessor.json and its state file')
    return state, action
