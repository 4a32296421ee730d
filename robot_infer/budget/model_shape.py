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

"""What a plan must know of a model: its weights by part, its stacks, what it caches.

The words that the other files here share; shapes.py reads one from a checkpoint folder, presets.py
has those of named models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Part = Literal['vision', 'language', 'action', 'other']


@dataclass(frozen=True)
class WeightGroup:
    """Weights that belong together.

    :param num_bytes: as stored, in the checkpoint's dtype.
    :param kept: False: in the files, and never loaded (tied, unused).
    :param note: why it is not kept; or what of it is peculiar.
    """

    name: str
    part: Part
    num_params: int
    num_bytes: int
    kept: bool = True
    note: str = ''


@dataclass(frozen=True)
class Stack:
    """Transformer layers of one kind.

    :param width: of the residual stream.
    :param hidden: of the feed-forward part.
    :param gated: the feed-forward part has three matrices (gate, up, down), else two.
    :param vocab: entries of the token table; 0 where there is none.
    """

    name: str
    num_layers: int
    width: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    gated: bool = True
    vocab: int = 0


@dataclass(frozen=True)
class KVGroup:
    """Layers that cache keys and values alike.

    :param num_kv_heads: heads of keys, which with GQA and MQA are fewer than query heads.
    :param window: the newest tokens that a sliding-window layer keeps; None: all.
    """

    name: str
    num_layers: int
    num_kv_heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True)
class ModelShape:
    """A model, as the plan sees it.

    :param source: where its numbers come from.
    :param image_size: width and height, as the vision encoder sees them; (0, 0) without one.
    :param patch: pixels of a patch's side.
    :param image_tokens: of one camera, behind the connector.
    :param state_tokens: of the prefix; 0 where the state is words, or is in the suffix.
    :param horizon: actions in a chunk.
    :param denoise_steps: of one chunk; 0: actions are decoded, token by token.
    :param action_tokens: decoded for one chunk at most; 0 where actions are denoised.
    :param max_tokens: the longest sequence.
    :param image_marks: words around one camera's image tokens.
    :param suffix_state_tokens: tokens of state that go before the action tokens in the suffix.
    :param more_vision: further encoders that see the same patches (OpenVLA has two).
    """

    name: str
    family: str
    source: str
    weights: tuple[WeightGroup, ...]
    vision: Stack | None
    language: Stack
    action: Stack | None
    kv: tuple[KVGroup, ...]
    image_size: tuple[int, int]
    patch: int
    image_tokens: int
    cameras: tuple[str, ...]
    max_prompt_tokens: int
    state_tokens: int
    horizon: int
    denoise_steps: int
    action_tokens: int
    max_tokens: int
    image_marks: int = 0
    suffix_state_tokens: int = 0
    more_vision: tuple[Stack, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights that are kept, as stored."""
        return sum(group.num_bytes for group in self.weights if group.kept)

    @property
    def num_params(self) -> int:
        """Parameters that are kept."""
        return sum(group.num_params for group in self.weights if group.kept)

    def prefix_tokens(self, num_cameras: int | None = None) -> int:
        """Tokens of the longest prefix: images, words, state.

        :param num_cameras: all that the model has, if not said.
        """
        count = len(self.cameras) if num_cameras is None else num_cameras
        return (count * (self.image_tokens + self.image_marks) + self.max_prompt_tokens
                + self.state_tokens)

    @property
    def suffix_tokens(self) -> int:
        """Tokens behind the prefix: those that are denoised together, or decoded one by one."""
        return self.suffix_state_tokens + (self.horizon if self.denoise_steps
                                           else self.action_tokens)
