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

"""An example to read: attention of one head in tiles, and what it saves in memory traffic.

    python -m robot_infer_kernels.tiled

The plain form writes all scores to slow memory, reads them for the softmax, writes the weights,
and reads those for the sum of values. The tiled form keeps for each query a running maximum m, a
running sum l of exp(score - m) and a running output; where a new tile of keys raises m, what was
summed so far is scaled by exp(old m - new m). No score ever reaches slow memory.
(Milakov & Gimelshein 2018 for the softmax; Dao et al. 2022 for attention in tiles.)

Both forms run here in NumPy against a fast memory of a given size: what is in use must fit into
it, and every byte read from and written to slow memory is counted. `tiled_bytes` and
`plain_bytes` are the closed formulas of those counts. The kernels of gpu/ and cpu/ work the same
way over pages; nothing imports this file.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
_BYTES = 4  # float32


class Memory:
    """Slow memory that counts its traffic, and a fast memory that says what it cannot hold."""

    def __init__(self, fast_bytes: int) -> None:
        self.fast_bytes = fast_bytes
        self.read_bytes = self.written_bytes = self.peak_bytes = 0

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes

    def read(self, slow: Array) -> Array:
        """Bring a piece of slow memory into fast memory."""
        self.read_bytes += slow.nbytes
        return slow.copy()

    def write(self, slow: Array, fast: Array) -> None:
        """Put what is in fast memory into a piece of slow memory."""
        slow[...] = fast
        self.written_bytes += slow.nbytes

    def hold(self, *in_use: Array) -> None:
        """All that is in use now fits into fast memory."""
        used = sum(array.nbytes for array in in_use)
        self.peak_bytes = max(self.peak_bytes, used)
        assert used <= self.fast_bytes, f'{used} bytes in a fast memory of {self.fast_bytes}'


@dataclass(frozen=True)
class Tiles:
    """Queries and keys that are worked on at a time.

    Traffic depends on the rows alone, so they get all that is left beside one tile of keys.
    """

    rows: int
    keys: int

    @classmethod
    def fitting(cls, fast_bytes: int, head_dim: int, keys: int = 16) -> Tiles:
        """Tiles for a fast memory of this size.

        rows (q and out, scores, m and l) and keys (k and v):
        rows (2 head_dim + keys + 2) + keys (2 head_dim) <= fast_bytes / 4

        :raises ValueError: where not one row fits.
        """
        rows = (fast_bytes // _BYTES - 2 * keys * head_dim) // (2 * head_dim + keys + 2)
        if rows < 1:
            least = _BYTES * (2 * head_dim + keys + 2 + 2 * keys * head_dim)
            raise ValueError(f'fast_bytes: expected at least {least} for one query and {keys} '
                             f'keys of {head_dim}; got {fast_bytes}')
        return cls(rows, keys)


def tiled_attention(q: Array, k: Array, v: Array, scale: float, memory: Memory, tiles: Tiles,
                    limit: NDArray[np.int64] | None = None) -> Array:
    """Attention of one head, without its scores in slow memory.

    :param q: (num_queries, head_dim) float32. k, v: (num_keys, head_dim) float32.
    :param limit: (num_queries,) non-decreasing, at least 1: query i sees the keys j < limit[i];
        None for all. Keys that no query of a tile sees are not read.
    """
    out = np.empty_like(q)
    for start in range(0, len(q), tiles.rows):
        rows = slice(start, start + tiles.rows)
        q_tile = memory.read(q[rows])
        seen = len(k) if limit is None else int(limit[rows][-1])
        m = np.full((len(q_tile), 1), -np.inf, np.float32)
        total, out_tile = np.zeros_like(m), np.zeros_like(q_tile)
        for first in range(0, seen, tiles.keys):
            keys = slice(first, min(first + tiles.keys, seen))
            k_tile, v_tile = memory.read(k[keys]), memory.read(v[keys])
            scores = _scores(q_tile, k_tile, scale)
            if limit is not None:
                scores[np.arange(keys.start, keys.stop) >= limit[rows][:, None]] = -np.inf
            new_m = np.maximum(m, scores.max(axis=1, keepdims=True))
            rescale = np.exp(m - new_m)  # 0 at the first tile: every query sees its first key
            weights = np.exp(scores - new_m, out=scores)
            total = total * rescale + weights.sum(axis=1, keepdims=True)
            out_tile = out_tile * rescale + weights @ v_tile
            m = new_m
            memory.hold(q_tile, k_tile, v_tile, weights, out_tile, m, total)
        memory.write(out[rows], out_tile / total)
    return out


def plain_attention(q: Array, k: Array, v: Array, scale: float, memory: Memory, tiles: Tiles,
                    ) -> Array:
    """The same in three steps, each from slow memory to slow memory, in the same tiles."""
    scores = np.empty((len(q), len(k)), np.float32)
    weights, out = np.empty_like(scores), np.empty_like(q)
    for start in range(0, len(q), tiles.rows):
        rows = slice(start, start + tiles.rows)
        q_tile = memory.read(q[rows])
        for first in range(0, len(k), tiles.keys):
            keys = slice(first, first + tiles.keys)
            tile = _scores(q_tile, k_tile := memory.read(k[keys]), scale)
            memory.hold(q_tile, k_tile, tile)
            memory.write(scores[rows, keys], tile)
    for row, into in zip(scores, weights, strict=True):
        _softmax(row, into, memory)
    for start in range(0, len(q), tiles.rows):
        rows = slice(start, start + tiles.rows)
        out_tile = np.zeros_like(q[rows])
        for first in range(0, len(k), tiles.keys):
            keys = slice(first, first + tiles.keys)
            tile, v_tile = memory.read(weights[rows, keys]), memory.read(v[keys])
            out_tile += tile @ v_tile
            memory.hold(tile, v_tile, out_tile)
        memory.write(out[rows], out_tile)
    return out


def tiled_bytes(limit: NDArray[np.int64], head_dim: int, tiles: Tiles) -> int:
    """q and out once, and for each tile of queries the keys and values that its last one sees."""
    last = np.minimum(np.arange(tiles.rows, len(limit) + tiles.rows, tiles.rows), len(limit)) - 1
    return _BYTES * head_dim * (2 * len(limit) + 2 * int(limit[last].sum()))


def plain_bytes(num_queries: int, num_keys: int, head_dim: int, tiles: Tiles,
                fast_bytes: int) -> int:
    """What the tiled form moves, and each score written, read and its weight written and read.

    A row of scores that fast memory cannot hold is read three times: for its maximum, its sum
    and its weights.
    """
    everything = np.full(num_queries, num_keys, np.int64)
    reads = 1 if num_keys * _BYTES <= fast_bytes else 3
    return (tiled_bytes(everything, head_dim, tiles)
            + _BYTES * num_queries * num_keys * (1 + reads + 1 + 1))


def _scores(q: Array, k: Array, scale: float) -> Array:
    return np.float32(scale) * (q @ k.T)


def _softmax(row: Array, into: Array, memory: Memory) -> None:
    """One row of scores to weights, in pieces where it does not fit."""
    piece = memory.fast_bytes // _BYTES
    pieces = [slice(first, first + piece) for first in range(0, len(row), piece)]
    if len(pieces) == 1:
        held = memory.read(row)
        memory.hold(held)
        held -= held.max()
        np.exp(held, out=held)
        memory.write(into, held / held.sum())
        return
    m = max(memory.read(row[each]).max() for each in pieces)
    total = sum(np.exp(memory.read(row[each]) - m).sum() for each in pieces)
    for each in pieces:
        memory.write(into[each], np.exp(memory.read(row[each]) - m) / total)


def table() -> str:
    """The figures of the README: self-attention of one head of 64 in float32."""
    lines = ['| tokens | fast memory | queries a tile | plain | tiled | less | tiled, causal |',
             '| --- | --- | --- | --- | --- | --- | --- |']
    rng = np.random.default_rng(0)
    for tokens, fast_bytes in ((256, 32_768), (1024, 32_768), (1024, 101_376), (1024, 166_912)):
        q, k, v = rng.standard_normal((3, tokens, 64), np.float32)
        tiles, scale = Tiles.fitting(fast_bytes, 64), 1.0 / math.sqrt(64)
        plain, tiled, causal = (Memory(fast_bytes) for _ in range(3))
        plain_attention(q, k, v, scale, plain, tiles)
        tiled_attention(q, k, v, scale, tiled, tiles)
        tiled_attention(q, k, v, scale, causal, tiles, np.arange(1, tokens + 1))
        lines.append(
            f'| {tokens} | {fast_bytes:,} B | {tiles.rows} | {plain.moved_bytes:,} B | '
            f'{tiled.moved_bytes:,} B | {plain.moved_bytes / tiled.moved_bytes:.1f} times | '
            f'{causal.moved_bytes:,} B |')
    return '\n'.join(lines)


if __name__ == '__main__':
    print(table())
