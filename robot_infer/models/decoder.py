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

"""The decoder layer that SmolVLA's language model and its action expert are built of.

Llama's layer: RMS norm, grouped-query attention, RMS norm, SwiGLU. A layer here is its weights
and the parts between attentions; which keys a layer attends to is the policy's business.
What runs from layer to layer (the residual) and the norms are float32 whatever the dtype of the
projections: it costs little and keeps bfloat16's error below the reference's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
import torch.nn.functional as F

from robot_infer.models.checkpoint import TensorReader
from robot_infer.models.embedding import Rotation
from robot_infer.models.norm import RMSNorm
from robot_infer.models.projections import Projection, Projections


@dataclass(frozen=True)
class AttentionShape:
    """Heads of one attention: query heads share key/value heads in equal groups."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def q_width(self) -> int:
        """Columns of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of all key (or value) heads."""
        return self.num_kv_heads * self.head_dim


@dataclass(frozen=True)
class DecoderLayer:
    """Weights of one layer, projections of the same input fused.

    qkv: width -> q_width + 2 kv_width, or q_width where the layer projects no keys of its own
    tokens; o: q_width -> width; gate_up: width -> 2 hidden; down: hidden -> width.
    cross_k, cross_v: kv_width -> kv_width where the layer re-projects another model's keys.
    """

    shape: AttentionShape
    input_norm: RMSNorm
    qkv: Projection
    o: Projection
    post_norm: RMSNorm
    gate_up: Projection
    down: Projection
    cross_k: Projection | None = None
    cross_v: Projection | None = None

    def project(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """Norm x: (num_tokens, width) float32 and project it to queries, keys and values.

        :param rotation: of queries and keys, at the positions of these tokens.
        :returns: (num_tokens, heads, head_dim) each, with num_kv_heads for keys and values.
        """
        heads, kv_heads = self.shape.num_heads, self.shape.num_kv_heads
        mixed = self.qkv(self.input_norm(x)).view(-1, heads + 2 * kv_heads, self.shape.head_dim)
        rotated = rotation(mixed[:, :heads + kv_heads])
        return rotated[:, :heads], rotated[:, heads:], mixed[:, heads + kv_heads:]

    def project_query(self, x: Tensor, rotation: Rotation) -> Tensor:
        """As `project`, for a layer that has no keys of its own tokens."""
        mixed = self.qkv(self.input_norm(x))
        return rotation(mixed.view(-1, self.shape.num_heads, self.shape.head_dim))

    def project_cross(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Re-project another model's keys and values: (num_tokens, num_kv_heads, head_dim)."""
        assert self.cross_k is not None and self.cross_v is not None
        return (self.cross_k(k.flatten(1)).view(k.shape),
                self.cross_v(v.flatten(1)).view(v.shape))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attention's result to x, then the gated MLP: (num_tokens, width) float32."""
        x = self.o.add_to(x, attended.flatten(1))
        gate, up = self.gate_up(self.post_norm(x)).chunk(2, dim=-1)
        return self.down.add_to(x, F.silu(gate).mul_(up))


def read_layer(
    tensors: TensorReader, prefix: str, shape: AttentionShape, eps: float, width: int,
    projections: Projections, *, rows: int, cross: bool = False,
) -> DecoderLayer:
    """Take one layer's weights from a checkpoint.

    :param projections: makes them of the weights.
    :param rows: tokens it will usually see at once.
    :param cross: the layer re-projects foreign keys and values instead of its own tokens.
    """
    hidden = tensors.shape(f'{prefix}.mlp.gate_proj.weight')[0]

    def take(name: str, *dims: int) -> Tensor:
        return tensors.take(f'{prefix}.{name}.weight', dims, projections.read_as)

    def norm(name: str) -> RMSNorm:
        weight = tensors.take(f'{prefix}.{name}.weight', (width,), torch.float32)
        return RMSNorm.of(weight.to(projections.device), eps)

    def make(name: str, weight: Tensor) -> Projection:
        return projections.make(f'{prefix}.{name}', weight, rows=rows)

    kv_input = shape.kv_width if cross else width
    q = take('self_attn.q_proj', shape.q_width, width)
    k = take('self_attn.k_proj', shape.kv_width, kv_input)
    v = take('self_attn.v_proj', shape.kv_width, kv_input)
    gate_up = torch.cat([take('mlp.gate_proj', hidden, width),
                         take('mlp.up_proj', hidden, width)])
    return DecoderLayer(
        shape=shape,
        input_norm=norm('input_layernorm'),
        qkv=make('self_attn.qkv', q if cross else torch.cat([q, k, v])),
        o=make('self_attn.o_proj', take('self_attn.o_proj', width, shape.q_width)),
        post_norm=norm('post_attention_layernorm'),
        gate_up=make('mlp.gate_up', gate_up),
        down=make('mlp.down_proj', take('mlp.down_proj', width, hidden)),
        cross_k=make('self_attn.k_proj', k) if cross else None,
        cross_v=make('self_attn.v_proj', v) if cross else None)
