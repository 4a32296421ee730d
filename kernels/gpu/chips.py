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

"""Which tiles and how many splits attention uses on which chip: a table, no tuning at run time.

From the compiler's own figures (research/kernels.md 2; `robot-infer kernels check` repeats them):

- decode: 16 rows, 64 keys, 4 warps, one page a tile; a tile that gathers from small pages costs
  517 instructions a turn where one page a tile costs 305. A page of 32 is one tile of 32.
- num_stages: loading the page's number takes two of them, so 3 is one buffer of keys and values
  and 5 are two; two only where the chip's shared memory holds two blocks so (80, 87, 90, 100,
  110), and they are worth it.
- prefill: 64 rows of head_dim 128 spill with 4 warps on 80 to 89; with 8 nothing spills.
- float32 takes twice the bytes: half the keys. It is there to be exact, not to be fast.

What does not live here: limits of chips (targets.py), and the choice of kernel (attention.py).
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_SPLITS = 64


@dataclass(frozen=True)
class Chip:
    """What a compute capability is served with.

    :param num_sms: multiprocessors of its usual card, where the card itself cannot be asked.
    :param blocks_per_sm: blocks of decode that an SM is given, so that its loads hide each other.
    :param two_buffers: whether two blocks fit an SM with two buffers of keys and values each.
    :param last_split_merges: merge in the launch of the splits instead of a second one. Off until
        its memory ordering was seen to hold on such a card (`tools/bench/bench_gpu.py`).
    """

    num_sms: int
    blocks_per_sm: int
    two_buffers: bool
    last_split_merges: bool = False


CHIPS = {
    80: Chip(108, 2, True),
    86: Chip(82, 1, False),
    87: Chip(16, 1, True),
    89: Chip(128, 1, False),
    90: Chip(132, 2, True),
    100: Chip(148, 2, True),
    103: Chip(148, 2, True),
    110: Chip(20, 2, True),
    120: Chip(170, 1, False),
    121: Chip(48, 1, False),
}


@dataclass(frozen=True)
class Tile:
    """How a kernel is compiled: rows and keys of a tile, warps and stages."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


def chip(capability: int) -> Chip:
    """Entry of a compute capability; a newer one is served as the newest known before it.

    :raises ValueError: for one older than sm_80.
    """
    known = [number for number in CHIPS if number <= capability]
    if not known:
        raise ValueError(f'device: expected compute capability 8.0 or newer; got '
                         f'{capability // 10}.{capability % 10}')
    return CHIPS[max(known)]


def parts(head_dim: int) -> tuple[int, int]:
    """Cut a head into one or two powers of two: 64 -> (64, 0), 96 -> (64, 32), 72 -> (64, 16).

    A dot wants at least 16 columns, so what is left over is padded to that.
    """
    if head_dim <= 16:
        return 16, 0
    first = 1 << (head_dim.bit_length() - 1)
    rest = head_dim - first
    if not rest:
        return first, 0
    return first, max(16, 1 << (rest - 1).bit_length())


def tile_keys(head_dim: int, element_bytes: int, page_tokens: int) -> int:
    """Keys of a tile: one page or a part of it, where that is at least 32."""
    most = 32 if element_bytes * head_dim > 512 else 64
    for keys in (most, 32):
        if page_tokens % keys == 0:
            return keys
    return most


def decode_tile(capability: int, head_dim: int, element_bytes: int, page_tokens: int,
                num_rows: int) -> Tile:
    """Tile for splits along the keys; `num_rows` is queries times heads of a group."""
    block_m = 16 if num_rows <= 16 else 32 if num_rows <= 32 else 64
    keys = tile_keys(head_dim, element_bytes, page_tokens)
    wide = block_m * head_dim * element_bytes > 64 * 64 * 2
    two_buffers = (chip(capability).two_buffers and block_m == 16
                   and 4 * keys * head_dim * element_bytes <= 72 * 1024)
    return Tile(block_m, keys, 8 if wide else 4, 5 if two_buffers else 3)


def prefill_tile(capability: int, head_dim: int, element_bytes: int, page_tokens: int,
                 num_rows: int, num_kv_heads: int, num_sms: int) -> Tile:
    """Tile for whole rows; 128 rows only where that still fills the chip."""
    keys = tile_keys(head_dim, element_bytes, page_tokens)
    fills = -(-num_rows // 128) * num_kv_heads >= num_sms
    block_m = 128 if fills and head_dim * element_bytes <= 256 else 64
    if element_bytes == 4:
        block_m = 32
    return Tile(block_m, keys, 4 if block_m * head_dim <= 64 * 64 else 8, 3)
