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

from robot_infer_kernels.pages import Plane, QuantisedPlane, format_of, zero_plane


class KVStorage:
    """Keys and values of all blocks, in `num_planes` planes (one a layer, or what a policy needs).

    One tensor (num_planes, 2, num_blocks, page_tokens, num_kv_heads, head_dim); a plane is
    contiguous and token-major, so a run of neighbouring blocks is one strided view. Quantised
    pages are two such tensors, codes and scales (robot_infer_kernels.pages).

    :param dtype: of plain pages.
    :param kv_format: 'plain', or 'int8', 'fp8' or 'int4'.
    :param poison: fill fresh blocks with NaN, so that a read of what was never written shows.
    """

    def __init__(
        self, num_planes: int, num_blocks: int, page_tokens: int, num_kv_heads: int,
        head_dim: int, dtype: torch.dtype, device: torch.device | str = 'cpu',
        poison: bool = False, kv_format: str = 'plain',
    ) -> None:
        shape = (num_planes, 2, num_blocks, page_tokens, num_kv_heads, head_dim)
        if min(shape) < 1:
            raise ValueError(f'shape: expected positive sizes (num_planes, 2, num_blocks, '
                             f'page_tokens, num_kv_heads, head_dim); got {shape}')
        self.num_planes, self.num_blocks, self.page_tokens = num_planes, num_blocks, page_tokens
        self.poison = poison
        # Filled, not just reserved: the operating system hands pages out at the first write.
        self._pages = pages = zero_plane(shape, kv_format, dtype, device)
        quantised = isinstance(pages, QuantisedPlane)
        # What is moved byte for byte, all of it (num_planes, 2, num_blocks, page_tokens, ...).
        self._parts = (pages.raw(), pages.scales) if quantised else (pages,)
        self._planes: tuple[Plane, ...] = (
            tuple(pages.plane(number) for number in range(num_planes)) if quantised
            else tuple(pages.unbind(0)))
        self.refresh(list(range(num_blocks)))

    @classmethod
    def bytes_per_block(cls, num_planes: int, page_tokens: int, num_kv_heads: int, head_dim: int,
                        dtype: torch.dtype, kv_format: str = 'plain') -> int:
        """Bytes one block takes in all planes, keys and values, scales included."""
        head_bytes = (head_dim * dtype.itemsize if kv_format == 'plain'
                      else format_of(kv_format).head_bytes(head_dim))
        return num_planes * 2 * page_tokens * num_kv_heads * head_bytes

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return self._pages.nbytes

    @property
    def dtype(self) -> torch.dtype:
        """Type of stored keys and values; of quantised ones that of their codes."""
        pages = self._pages
        return pages.values.dtype if isinstance(pages, QuantisedPlane) else pages.dtype

    @property
    def device(self) -> torch.device:
        """Where keys and values lie."""
        return self._pages.device

    def plane(self, number: int) -> Plane:
        """Keys and values of one plane: (2, num_blocks, page_tokens, num_kv_heads, head_dim)."""
        return self._planes[number]

    def copy_block(self, source: int, target: int, num_tokens: int | None = None) -> None:
        """Copy the first `num_tokens` tokens of a block (None: all of them), in all planes."""
        for part in self._parts:
            part[:, :, target, :num_tokens].copy_(part[:, :, source, :num_tokens])

    def fingerprint(self, block: int, num_tokens: int) -> bytes:
        """Digest of the first tokens of a block, in all planes (for checks)."""
        digest = hashlib.blake2b(digest_size=16)
        for part in self._parts:
            content = part[:, :, block, :num_tokens].contiguous().view(torch.uint8)
            digest.update(content.cpu().numpy().tobytes())
        return digest.digest()

    def refresh(self, blocks: list[int]) -> None:
        """Poison freshly taken blocks; does nothing without `poison`."""
        if not self.poison or not blocks:
            return
        if isinstance(self._pages, QuantisedPlane):
            self._pages.poison(blocks)
        else:
            self._pages[:, :, blocks] = math.nan


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
