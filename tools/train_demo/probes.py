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
"""Auxiliary targets that teach where the blocks are; their heads are thrown away after training.

(a) each picture token, after the connector: is the centre of the red, green, ... block in my cell,
    and where; (b) the words and the state token, inside the backbone: where is the named block.
"""

from __future__ import annotations

from data import TOKEN_MASK, Batch
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from policy import HIDDEN, IMAGE_PX
import torch
from torch import nn
import torch.nn.functional as F

from robot_infer.sim.world import COLOURS, TABLE_SIZE

_GRID = 4
_PX_PER_M = (100.0, 64.0 / 0.24)  # of the preprocessed overhead and wrist pictures
_PAD_ROWS = 16
_DEPTHS = (3, 5)
_SCALE_M = 0.15


class Probes(nn.Module):
    """Listens to a policy during its forward pass and turns what it heard into a loss."""

    def __init__(self, policy: SmolVLAPolicy) -> None:
        """Attach to `policy`; every picture is encoded once and serves `repeat` samples."""
        super().__init__()

        def head(size: int) -> nn.Module:
            return nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, size))

        self.pictures = nn.ModuleList(head(len(COLOURS) * 3) for _ in _PX_PER_M)
        self.words = nn.ModuleList(head(2) for _ in _DEPTHS)
        self.states = nn.ModuleList(head(4) for _ in _DEPTHS)
        self.repeat = 1
        self._tokens: list[torch.Tensor] = []
        self._hidden: dict[int, torch.Tensor] = {}
        self._attach(policy)

    def _attach(self, policy: SmolVLAPolicy) -> None:
        backbone = policy.model.vlm_with_expert
        embed_image, prepare_images = backbone.embed_image, policy.prepare_images

        def embed_once(image: torch.Tensor) -> torch.Tensor:
            tokens = embed_image(image)
            if not self.training:
                return tokens
            self._tokens.append(tokens)
            return tokens.repeat_interleave(self.repeat, dim=0)

        def prepare(batch: dict[str, torch.Tensor]):
            images, masks = prepare_images(batch)
            if self.training:
                masks = [mask.repeat_interleave(self.repeat, dim=0) for mask in masks]
            return images, masks

        def listen(depth: int):
            def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
                if self.training:
                    self._hidden[depth] = args[0]

            return hook

        backbone.embed_image, policy.prepare_images = embed_once, prepare
        for depth in _DEPTHS:
            layer = backbone.vlm.model.text_model.layers[depth]
            layer.input_layernorm.register_forward_pre_hook(listen(depth))

    def picture_loss(self, batch: Batch) -> torch.Tensor:
        """Return loss (a) for the pictures of the pass that has just been made."""
        tokens, self._tokens = self._tokens, []
        origins = (torch.zeros_like(batch.seen_from), batch.seen_from)
        sizes = (torch.tensor(TABLE_SIZE) / 2, torch.tensor([0.12, 0.12]))
        losses = [
            self._picture_loss(head, seen, batch, origin, px_per_m, size)
            for head, seen, origin, px_per_m, size in zip(
                self.pictures, tokens, origins, _PX_PER_M, sizes, strict=True
            )
        ]
        return torch.stack(losses).sum()

    @staticmethod
    def _picture_loss(
        head: nn.Module,
        tokens: torch.Tensor,
        batch: Batch,
        origin: torch.Tensor,
        px_per_m: float,
        size: torch.Tensor,
    ) -> torch.Tensor:
        away = batch.blocks - origin[:, None, :]
        px = away * torch.tensor([px_per_m, -px_per_m]) + torch.tensor([32.0, 24.0 + _PAD_ROWS])
        cell = torch.floor(px / (IMAGE_PX / _GRID)).long()
        inside = batch.present & ((cell >= 0) & (cell < _GRID)).all(dim=-1)
        inside &= px[..., 1] >= _PAD_ROWS
        index = (cell[..., 1] * _GRID + cell[..., 0]).clamp(0, _GRID * _GRID - 1)
        out = head(tokens.float()).unflatten(-1, (len(COLOURS), 3))
        here = F.one_hot(index, _GRID * _GRID).permute(0, 2, 1).bool() & inside[:, None, :]
        weight = 1.0 + 4.0 * here
        presence = F.binary_cross_entropy_with_logits(out[..., 0], here.float(), weight)
        wanted = (away / size)[:, None].expand(-1, _GRID * _GRID, -1, -1)
        error = F.smooth_l1_loss(out[..., 1:], wanted, reduction='none', beta=0.1).sum(dim=-1)
        position = (error * here).sum() / here.sum().clamp(min=1)
        return presence + position

    def named_loss(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return loss (b) and the error in metres of the deepest state probe."""
        hidden, self._hidden = self._hidden, {}
        length = batch.policy[TOKEN_MASK].shape[1]
        mask = batch.policy[TOKEN_MASK][..., None]
        where = batch.target / _SCALE_M
        both = torch.cat([where, (batch.target - batch.state) / _SCALE_M], dim=-1)
        loss = torch.zeros(())
        error = torch.zeros(())
        for i, depth in enumerate(_DEPTHS):
            words = hidden[depth][:, -1 - length : -1].float()
            words = (self.words[i](words) * mask).sum(dim=1) / mask.sum(dim=1)
            state = self.states[i](hidden[depth][:, -1].float())
            loss = loss + F.smooth_l1_loss(words, where, beta=0.1)
            loss = loss + F.smooth_l1_loss(state, both, beta=0.1)
            error = (state[:, :2] - where).detach().norm(dim=-1).mean() * _SCALE_M
        return loss, error
