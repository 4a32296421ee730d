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

"""What the engine asks of a policy family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
import torch
from torch import Tensor

from robot_infer.cache import EmbeddingCache, KVStorage, Sequence
from robot_infer.camera.preprocess import PreprocessedFrame
from robot_infer.models.projections import Tally
from robot_infer.prompt.layout import Layout
from robot_infer.types import Observation


@dataclass(frozen=True)
class Prepared:
    """An observation made ready: everything that names it and everything that is computed on.

    frames: by policy input, in the trained order; state: (1, max_state_dim) float32, normalised
    and padded; word_ids: (num_words,) int64.
    """

    layout: Layout
    frames: dict[str, PreprocessedFrame]
    word_ids: Tensor
    state: Tensor


@dataclass(frozen=True)
class PrefixShape:
    """What the pages of one policy hold, and how many tokens there can be.

    num_planes: pairs of key and value planes, e.g. one a layer; num_heads: of queries, in every
    layer that attends to them; max_prefix: tokens; image_tokens and width: of one camera's
    embedding.
    """

    num_planes: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_prefix: int
    image_tokens: int
    width: int
    dtype: torch.dtype


class Policy(Protocol):
    """One vision-language-action policy: bound to its weights, free of any state of its own."""

    inputs: tuple[str, ...]
    state_dim: int
    action_dim: int
    horizon: int
    denoise_steps: int
    prefix_shape: PrefixShape
    weights: Tally

    def state_at(self, normal: float) -> NDArray[np.float32]:
        """The state that is `normal` in every joint once normalised: (state_dim,), physical."""
        ...

    def prepare(self, observation: Observation) -> Prepared:
        """Preprocess frames, words and state; raises the named errors of bad input."""
        ...

    def embed(self, prepared: Prepared, embeddings: EmbeddingCache) -> tuple[dict, int]:
        """Image embeddings by input, encoding only unknown frames; and how many were encoded."""
        ...

    def prefill(self, prepared: Prepared, embedded: dict, storage: KVStorage, sequence: Sequence,
                start: int, end: int) -> None:
        """Append prefix tokens [start, end), one attention group, to the sequence."""
        ...

    def act(self, prepared: Prepared, storage: KVStorage, sequence: Sequence, horizon: int,
            denoise_steps: int) -> NDArray[np.float32]:
        """Run the action head over the prefix: (horizon, action_dim), physical units.

        denoise_steps: the policy's own, or another count that was made ready. The sequence is
        left as it was.
        """
        ...
