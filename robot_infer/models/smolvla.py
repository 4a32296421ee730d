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

"""The weights of a SmolVLA, read once and strictly, in the order they are used.

Names as LeRobot 0.6.1 stores them. What a checkpoint holds and inference never uses (the
language head, the last prefix layer beyond its keys and values, the prefix's final norm) is
known here and not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
import torch.nn.functional as F

from robot_infer.models.checkpoint import CheckpointFolder, TensorReader
from robot_infer.models.decoder import DecoderLayer, read_layer
from robot_infer.models.embedding import Rotation, time_embeddings
from robot_infer.models.linear import Linear
from robot_infer.models.norm import RMSNorm
from robot_infer.models.projections import Projection, Projections
from robot_infer.models.shapes import SmolVLAShape
from robot_infer.models.vision import VisionEncoder, read_vision

_VLM = 'model.vlm_with_expert.vlm.model'
_TEXT = f'{_VLM}.text_model'
_EXPERT = 'model.vlm_with_expert.lm_expert'


@dataclass(frozen=True)
class KeyValueLayer:
    """The last prefix layer: nothing reads its output, so only its keys and values are needed.

    kv: width -> 2 kv_width.
    """

    norm: RMSNorm
    kv: Projection
    num_kv_heads: int
    head_dim: int

    def project(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """Keys (rotated) and values of x: (num_tokens, width), each (num_tokens, heads, dim)."""
        mixed = self.kv(self.norm(x)).view(-1, 2 * self.num_kv_heads, self.head_dim)
        return rotation(mixed[:, :self.num_kv_heads]), mixed[:, self.num_kv_heads:]


@dataclass(frozen=True)
class ActionEmbedding:
    """Noisy actions and time to action tokens (LeRobot `embed_suffix`), with constants folded.

    The reference computes  W2 silu(W1 [Wa x + ba ; time] + b1) + b2.  W1 Wa is one small matrix,
    and what time contributes is one row per denoising step; both are folded in float64.
    inner: (width, max_action_dim); time_rows: (steps, width) for each number of steps there may
    be; outer: width -> width.
    """

    inner: Tensor
    time_rows: Mapping[int, Tensor]
    outer: Linear

    def __call__(self, x: Tensor, step: int, steps: int) -> Tensor:
        """x: (horizon, max_action_dim) at one of `steps` denoising steps -> (horizon, width)."""
        return self.outer(F.silu(F.linear(x, self.inner, self.time_rows[steps][step])))


@dataclass(frozen=True)
class SmolVLAModel:
    """All weights of one SmolVLA on one device."""

    shape: SmolVLAShape
    vision: VisionEncoder
    token_embedding: Tensor
    prefix_layers: tuple[DecoderLayer, ...]
    last_prefix_layer: KeyValueLayer
    state: Linear
    action_embedding: ActionEmbedding
    expert_layers: tuple[DecoderLayer, ...]
    expert_norm: RMSNorm
    action: Linear


def read_smolvla(
    folder: CheckpointFolder, shape: SmolVLAShape, denoise_steps: tuple[int, ...],
    projections: Projections,
) -> SmolVLAModel:
    """Load a SmolVLA.

    :param denoise_steps: every number of denoising steps there may be.
    :param projections: dtype and form of vision encoder, language model and expert layers; the
        projections in and out of the action space stay float32, as in the reference.
    :raises CheckpointError: where a tensor is missing, misshapen, or has no place here.
    """
    tensors, dtype, device = folder.tensors(), projections.dtype, projections.device
    attention, width, last = shape.attention, shape.width, shape.num_layers - 1

    def prefix_layer(number: int) -> DecoderLayer:
        return read_layer(
            tensors, f'{_TEXT}.layers.{number}', attention, shape.eps, width, projections,
            rows=shape.prefix_tokens)

    def expert_layer(number: int) -> DecoderLayer:
        return read_layer(
            tensors, f'{_EXPERT}.layers.{number}', attention, shape.eps, shape.expert_width,
            projections, rows=shape.horizon, cross=not shape.is_self_layer(number))

    def plain(name: str, *dims: int, rows: int) -> Linear:
        return Linear(
            tensors.take(f'model.{name}.weight', dims, torch.float32).to(device),
            tensors.take(f'model.{name}.bias', dims[:1], torch.float32).to(device), rows=rows)

    model = SmolVLAModel(
        shape=shape,
        vision=read_vision(tensors, _VLM, shape.vision, projections, rows=shape.num_patches),
        token_embedding=tensors.take(f'{_TEXT}.embed_tokens.weight', (shape.vocab_size, width),
                                     dtype).to(device),
        prefix_layers=tuple(prefix_layer(number) for number in range(last)),
        last_prefix_layer=_read_last(tensors, shape, projections),
        state=plain('state_proj', width, shape.max_state_dim, rows=1),
        action_embedding=_read_action_embedding(tensors, shape, denoise_steps, device),
        expert_layers=tuple(expert_layer(number) for number in range(shape.num_layers)),
        expert_norm=RMSNorm.of(
            tensors.take(f'{_EXPERT}.norm.weight', (shape.expert_width,), torch.float32)
            .to(device), shape.eps),
        action=plain('action_out_proj', shape.max_action_dim, shape.expert_width,
                     rows=shape.horizon))
    tensors.refuse_unmapped(known_unused=(
        'model.vlm_with_expert.vlm.lm_head.', f'{_TEXT}.norm.', f'{_TEXT}.layers.{last}.'))
    return model


def _read_last(
    tensors: TensorReader, shape: SmolVLAShape, projections: Projections,
) -> KeyValueLayer:
    name = f'{_TEXT}.layers.{shape.num_layers - 1}'
    heads, width = shape.attention, shape.width
    k, v = (tensors.take(f'{name}.self_attn.{part}_proj.weight', (heads.kv_width, width),
                         projections.read_as) for part in 'kv')
    norm = tensors.take(f'{name}.input_layernorm.weight', (width,), torch.float32)
    return KeyValueLayer(
        RMSNorm.of(norm.to(projections.device), shape.eps),
        projections.make(f'{name}.self_attn.kv', torch.cat([k, v]), rows=shape.prefix_tokens),
        heads.num_kv_heads, heads.head_dim)


def _read_action_embedding(
    tensors: TensorReader, shape: SmolVLAShape, counts: tuple[int, ...], device: torch.device,
) -> ActionEmbedding:
    width = shape.expert_width

    def take(name: str, *dims: int) -> Tensor:
        return tensors.take(f'model.{name}', dims, torch.float64)

    w_action, b_action = (take('action_in_proj.weight', width, shape.max_action_dim),
                          take('action_in_proj.bias', width))
    w1, b1 = (take('action_time_mlp_in.weight', width, 2 * width),
              take('action_time_mlp_in.bias', width))
    w2, b2 = (take('action_time_mlp_out.weight', width, width),
              take('action_time_mlp_out.bias', width))
    on_action, on_time = w1[:, :width], w1[:, width:]

    def time_rows(steps: int) -> Tensor:
        times = torch.tensor([1.0 + step * (-1.0 / steps) for step in range(steps)],
                             dtype=torch.float32)
        rows = time_embeddings(times, width, shape.min_period, shape.max_period)
        return single(rows.to(torch.float64) @ on_time.T + on_action @ b_action + b1)

    def single(value: Tensor) -> Tensor:
        return value.to(torch.float32).contiguous().to(device)

    return ActionEmbedding(
        inner=single(on_action @ w_action),
        time_rows={steps: time_rows(steps) for steps in counts},
        outer=Linear(single(w2), single(b2), rows=shape.horizon))
