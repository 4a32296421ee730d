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

"""The memory behind the pages: keys and values, and the block tables that name them.

What lives here: tensors, taken once. What does not: who owns which block (pool.py, sequence.py).
This and embeddings.py are the only torch of the cache.
"""

from __future__ import annotations

import hashlib
import math

import torch


class KVStorage:
    """Keys and values of all blocks, in `num_planes` planes (one a layer, or what a policy needs).

    One tensor (num_planes, 2, num_blocks, page_tokens, num_kv_heads, head_dim); a plane is
    contiguous and token-major, so a run of neighbouring blocks is one strided view.

    :param poison: fill fresh blocks with NaN, so that a read of what was never written shows.
    """

    def __init__(
        self, num_planes: int, num_blocks: int, page_tokens: int, num_kv_heads: int,
        head_dim: int, dtype: torch.dtype, device: torch.device | str = 'cpu',
        poison: bool = False,
    ) -> None:
        shape = (num_planes, 2, num_blocks, page_tokens, num_kv_heads, head_dim)
        if min(shape) < 1:
            raise ValueError(f'shape: expected positive sizes (num_planes, 2, num_blocks, '
                             f'page_tokens, num_kv_heads, head_dim); got {shape}')
        self.num_planes, self.num_blocks, self.page_tokens = num_planes, num_blocks, page_tokens
        self.poison = poison
        # Filled, not just reserved: the operating system hands pages out at the first write.
        self._data = torch.empty(shape, dtype=dtype, device=device)
        self._data.fill_(math.nan if poison else 0.0)
        self._planes = tuple(self._data.unbind(0))

    @classmethod
    def bytes_per_block(cls, num_planes: int, page_tokens: int, num_kv_heads: int, head_dim: int,
                        dtype: torch.dtype) -> int:
        """Bytes one block takes in all planes, keys and values."""
        return num_planes * 2 * page_tokens * num_kv_heads * head_dim * dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return self._data.nbytes

    @property
    def dtype(self) -> torch.dtype:
        """Type of keys and values."""
        return self._data.dtype

    @property
    def device(self) -> torch.device:
        """Where keys and values lie."""
        return self._data.device

    def plane(self, number: int) -> torch.Tensor:
        """Keys and values of one plane: (2, num_blocks, page_tokens, num_kv_heads, head_dim)."""
        return self._planes[number]

    def copy_block(self, source: int, target: int, num_tokens: int | None = None) -> None:
        """Copy the first `num_tokens` tokens of a block (None: all of them), in all planes."""
        self._data[:, :, target, :num_tokens].copy_(self._data[:, :, source, :num_tokens])

    def fingerprint(self, block: int, num_tokens: int) -> bytes:
        """Digest of the first tokens of a block, in all planes (for checks)."""
        content = self._data[:, :, block, :num_tokens].contiguous().view(torch.uint8)
        return hashlib.blake2b(content.cpu().numpy().tobytes(), digest_size=16).digest()

    def refresh(self, blocks: list[int]) -> None:
        """Poison freshly taken blocks; does nothing without `poison`."""
        if self.poison and blocks:
            self._data[:, :, blocks] = math.nan


class BlockTable:
    """Which block holds which page of one sequence: room for `max_blocks`, taken once."""

    def __init__(self, max_blocks: int, page_tokens: int, device: torch.device | str) -> None:
        self._blocks = torch.zeros(max_blocks, dtype=torch.int64, device=device)
        self._page_tokens = page_tokens

    def set(self, start: int, blocks: list[int]) -> None:
        """Write the blocks of pages start, start + 1, and so on."""
        if blocks:
            self._blocks[start:start + len(blocks)] = torch.tensor(blocks)

    def view(self, num_blocks: int) -> torch.Tensor:
        """The blocks of the first pages: (num_blocks,) int64, a view."""
        return self._blocks[:num_blocks]

    def slots(self, start: int, end: int) -> torch.Tensor:
        """Where tokens [start, end) lie: (end - start,) int64, block * page_tokens + offset."""
        tokens = torch.arange(start, end, device=self._blocks.device)
        pages = torch.div(tokens, self._page_tokens, rounding_mode='floor')
        first_slots = (self._blocks.index_select(0, pages) - pages).mul_(self._page_tokens)
        return first_slots.add_(tokens)
