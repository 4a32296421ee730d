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

From the compiler's own figures (registers, spilled bytes, shared memory for sm_80 to sm_120;
`robot-infer kernels check` repeats them):

- one page a tile wherever a page holds one: a tile that gathers from small pages costs 517
  instructions a turn where one page a tile costs 305. A page of 32 is one tile of 32.
- few rows: 16, the least a matrix instruction takes, with 4 warps.
- 64 rows of 128 columns spill with 4 warps on sm_80 to sm_89 (76 bytes on Orin), with 8 nowhere.
  So do 64 rows of 256 columns with 64 keys (252 bytes): they take 32 keys at a time.
- 128 rows spill on chips whose matrix instructions are a warp's (40 bytes for 32 columns, 92 for
  128 on Orin), so they are for sm_90 to sm_110 only.
- stages: loading the page's number takes two, so 3 is one buffer of keys and values and 5 are two;
  two where two blocks of them fit an SM (80, 87, 90, 100, 110).
- what is quantised is widened in registers: tiles of 64 rows then take 32 keys (fp8 with 64 spills
  572 bytes on sm_120), with 256 columns they have 32 rows at most, as those of int4 always. One
  buffer of quantised pages is small, so more blocks fit, which hide each other's loads.
- float32 takes twice the bytes and no matrix unit: it is there to be exact, not to be fast.

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
    """How a kernel is compiled: rows and keys of a tile, warps and stages.

    max_registers: of a thread; None leaves it to ptxas, which spills a few bytes where that lets
    one more block onto an SM.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    max_registers: int | None = None


def chip(capability: int) -> Chip:
    """Entry of a compute capability; a newer one is served as the newest known before it.

    :raises ValueError: for one older than sm_80.
    """
    known = [number for number in CHIPS if number <= capability]
    if not known:
        raise ValueError(f'device: expected compute capability 8.0 or newer; got '
                         f'{capability // 10}.{capability % 10}')
    return CHIPS[max(known)]


def parts(head_dim: int, form: str = 'plain') -> tuple[int, int]:
    """Cut a head into one or two powers of two: 64 -> (64, 0), 96 -> (64, 32), 72 -> (64, 32).

    int4 into even and odd columns: 64 -> (32, 32), 96 -> (64, 64).

    A second part of 16 columns costs more than one of 32: the warps of a tile then hold it twice
    (72 as 64 + 16: 255 registers and 160 matrix instructions; as 64 + 32: 128 and 48; as a padded
    128: 154 and 64). Beyond 128 columns two parts spill where one does not.
    """
    if form == 'int4':
        half = 1 << max(4, (head_dim // 2 - 1).bit_length())
        return half, half
    first = 1 << max(4, head_dim.bit_length() - 1)
    if head_dim <= first:
        return first, 0
    if first >= 128:
        return 2 * first, 0
    second = max(32, 1 << (head_dim - first - 1).bit_length())
    return (first, second) if second < first else (2 * first, 0)


def widest_rows(capability: int, head_dim: int, element_bytes: int, form: str = 'plain') -> int:
    """Most rows that a tile of this head takes."""
    return max(_tiles(capability, head_dim, element_bytes, form))


def tile(capability: int, head_dim: int, element_bytes: int, page_tokens: int,
         num_rows: int, form: str = 'plain') -> Tile:
    """Tile for blocks of up to `num_rows` rows (queries times heads of a group).

    :param element_bytes: of a query. form: format of the pages.
    """
    by_rows = _tiles(capability, head_dim, element_bytes, form)
    block_m = min((rows for rows in by_rows if rows >= num_rows), default=max(by_rows))
    keys, num_warps = by_rows[block_m]
    if page_tokens % keys and page_tokens % 32 == 0:
        keys = 32
    two_buffers = (chip(capability).two_buffers and block_m == 16 and form == 'plain'
                   and element_bytes < 4
                   and 4 * keys * sum(parts(head_dim)) * element_bytes <= 72 * 1024)
    # Few rows of a wide head, float32, and quantised pages: one block less on an SM, but no spill.
    most = 255 if element_bytes == 4 or form != 'plain' or (
        block_m == 16 and sum(parts(head_dim)) > 64) else None
    return Tile(block_m, keys, num_warps, 5 if two_buffers else 3, most)


# Columns -> rows -> (keys, warps).
_NARROW = {
    32: {16: (64, 4), 64: (64, 4)},
    64: {16: (64, 4), 32: (64, 8), 64: (64, 4), 128: (64, 8)},
    128: {16: (64, 4), 64: (64, 8), 128: (64, 8)},
    256: {16: (32, 4), 64: (32, 8)},
}
_BYTES = {  # int8 and fp8
    32: {16: (64, 4), 64: (64, 4)},
    64: {16: (64, 4), 32: (64, 8), 64: (32, 8), 128: (64, 8)},
    128: {16: (64, 4), 64: (32, 8), 128: (64, 8)},
    256: {16: (32, 4), 32: (32, 8)},
}
_INT4 = {
    128: {16: (64, 4), 32: (32, 4)},
    256: {16: (32, 4), 32: (32, 8)},
}
_FLOAT32 = {
    64: {16: (32, 4), 32: (32, 4)},
    128: {16: (32, 8)},
    256: {16: (16, 8)},
}


def _tiles(capability: int, head_dim: int, element_bytes: int, form: str
           ) -> dict[int, tuple[int, int]]:
    table = _FLOAT32 if element_bytes == 4 else {'plain': _NARROW, 'int4': _INT4}.get(form, _BYTES)
    columns = min(columns for columns in table if columns >= sum(parts(head_dim, form)))
    if not 90 <= capability < 120:
        return {rows: about for rows, about in table[columns].items() if rows <= 64}
    return table[columns]
