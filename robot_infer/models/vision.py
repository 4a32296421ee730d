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

"""The SigLIP-style vision encoder of SmolVLM, with the connector that makes prefix tokens of it.

Pre-norm transformer over square patches with learned positions, then `scale_factor` squared
neighbouring patches are folded into one token and projected to the language model's width.
As in the decoder, the residual and the norms are float32 whatever the projections' dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
import torch.nn.functional as F

from robot_infer.models.checkpoint import TensorReader
from robot_infer.models.projections import Projection, Projections
from robot_infer.models.shapes import VisionShape


@dataclass(frozen=True)
class _EncoderLayer:
    norm1: tuple[Tensor, Tensor]
    qkv: Projection
    out: Projection
    norm2: tuple[Tensor, Tensor]
    fc1: Projection
    fc2: Projection

    def __call__(self, x: Tensor, shape: VisionShape) -> Tensor:
        normed = F.layer_norm(x, (shape.width,), *self.norm1, shape.eps)
        qkv = self.qkv(normed).view(-1, 3, shape.num_heads, shape.head_dim)
        q, k, v = qkv.permute(1, 2, 0, 3)[:, None]
        attended = F.scaled_dot_product_attention(q, k, v)[0]
        x = x + self.out(attended.transpose(0, 1).flatten(1))
        normed = F.layer_norm(x, (shape.width,), *self.norm2, shape.eps)
        return x + self.fc2(F.gelu(self.fc1(normed), approximate='tanh'))


@dataclass(frozen=True)
class VisionEncoder:
    """One image in, its prefix tokens out; always batch 1, so every step runs the same shapes."""

    shape: VisionShape
    patch: tuple[Tensor, Tensor]
    positions: Tensor
    layers: tuple[_EncoderLayer, ...]
    post_norm: tuple[Tensor, Tensor]
    connector: Projection

    def tokens_of(self, height: int, width: int) -> int:
        """Prefix tokens an image of this size becomes."""
        rows, columns = height // self.shape.patch, width // self.shape.patch
        return rows * columns // self.shape.scale_factor ** 2

    def encode(self, pixels: Tensor) -> Tensor:
        """Encode one image.

        :param pixels: (1, 3, height, width) in [-1, 1].
        :returns: (num_tokens, language width) in the dtype of the weights, not yet scaled by the
            embedding scale.
        """
        weight, bias = self.patch
        patches = F.conv2d(pixels.to(weight.dtype), weight, bias, stride=self.shape.patch)
        rows, columns = patches.shape[2:]
        x = patches[0].flatten(1).T.float() + self.positions[self._position_ids(rows, columns)]
        for layer in self.layers:
            x = layer(x, self.shape)
        x = F.layer_norm(x, (self.shape.width,), *self.post_norm, self.shape.eps)
        return self.connector(self._fold(x, rows, columns))

    def _position_ids(self, rows: int, columns: int) -> Tensor:
        """Learned position of each patch, by the fraction of the side at which it begins."""
        side = self.shape.image_size // self.shape.patch
        edges = torch.arange(1 / side, 1.0, 1 / side)
        ids = []
        for count in (rows, columns):
            fractions = torch.arange(count, dtype=torch.float32) * (1.0 / torch.tensor(count))
            fractions = fractions.clamp(max=1.0 - 1e-6).to(self.positions.dtype)
            ids.append(torch.bucketize(fractions, edges, right=True))
        return (ids[0][:, None] * side + ids[1][None, :]).flatten().to(self.positions.device)

    def _fold(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """Fold factor x factor neighbouring patches into one: (n, d) -> (n / f^2, f^2 d)."""
        factor, width = self.shape.scale_factor, x.shape[1]
        x = x.view(rows // factor, factor, columns // factor, factor, width)
        return x.permute(0, 2, 1, 3, 4).reshape(-1, factor * factor * width)


def read_vision(
    tensors: TensorReader, prefix: str, shape: VisionShape, projections: Projections, rows: int,
) -> VisionEncoder:
    """Take encoder and connector from a checkpoint; `prefix` ends before `.vision_model`.

    :param projections: makes them of the weights.
    :param rows: patches of an image.
    """
    model, width, hidden = f'{prefix}.vision_model', shape.width, shape.hidden
    dtype, device = projections.dtype, projections.device

    def pair(name: str, *dims: int) -> tuple[Tensor, Tensor]:
        kind = dtype if len(dims) > 1 else torch.float32  # norms stay float32
        return (tensors.take(f'{name}.weight', dims, kind).to(device),
                tensors.take(f'{name}.bias', dims[:1], kind).to(device))

    def take(name: str, *dims: int) -> tuple[Tensor, Tensor]:
        return (tensors.take(f'{name}.weight', dims, projections.read_as),
                tensors.take(f'{name}.bias', dims[:1], projections.read_as))

    def make(name: str, *dims: int) -> Projection:
        return projections.make(name, *take(name, *dims), rows=rows)

    def layer(number: int) -> _EncoderLayer:
        name = f'{model}.encoder.layers.{number}'
        parts = [take(f'{name}.self_attn.{part}_proj', width, width) for part in 'qkv']
        weights, biases = zip(*parts, strict=True)
        return _EncoderLayer(
            norm1=pair(f'{name}.layer_norm1', width),
            qkv=projections.make(f'{name}.self_attn.qkv', torch.cat(weights), torch.cat(biases),
                                 rows=rows),
            out=make(f'{name}.self_attn.out_proj', width, width),
            norm2=pair(f'{name}.layer_norm2', width),
            fc1=make(f'{name}.mlp.fc1', hidden, width), fc2=make(f'{name}.mlp.fc2', width, hidden))

    side, folded = shape.image_size // shape.patch, shape.scale_factor ** 2
    connector = f'{prefix}.connector.modality_projection.proj'
    weight = tensors.take(f'{connector}.weight', (shape.text_width, width * folded),
                          projections.read_as)
    return VisionEncoder(
        shape=shape,
        patch=pair(f'{model}.embeddings.patch_embedding', width, 3, shape.patch, shape.patch),
        positions=tensors.take(f'{model}.embeddings.position_embedding.weight',
                               (side * side, width), dtype).to(device),
        layers=tuple(layer(number) for number in range(shape.num_layers)),
        post_norm=pair(f'{model}.post_layernorm', width),
        connector=projections.make(connector, weight, rows=rows // folded))
