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

"""Attention on the GPU: which kernel, in how many pieces, and the launch.

What lives here: the host's side, from checked arguments to a launch, without a look at a value on
the device. What does not: the kernels (prefill.py, decode.py) and the sizes of tiles (chips.py).

A block of rows holds queries times the heads of a group. Where such blocks, times the KV heads,
fill the chip, each attends to all its keys (prefill); where not, the keys are split until they do
(decode). One token, and the 50 action tokens of a suffix over a long prefix, are both split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import functools
import math

import torch

from robot_infer_kernels.backends import may_look
from robot_infer_kernels.debug import debugging
from robot_infer_kernels.gpu import chips, compiling
from robot_infer_kernels.gpu import decode as decode_kernels
from robot_infer_kernels.gpu.launch import (
    ALIGNMENT,
    capability,
    check_reach,
    check_start,
    launch,
    workspace,
)
from robot_infer_kernels.gpu.plane import check_plane, sides
from robot_infer_kernels.gpu.prefill import prefill
from robot_infer_kernels.pages import Plane
from robot_infer_kernels.plan import AttentionPlan

_LOG2_E = math.log2(math.e)
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_MERGE_SPLITS = 16
_SPREAD_ROWS = 128


@dataclass(frozen=True)
class Choice:
    """How a call is launched.

    :param num_splits: 1: prefill.py, each block of rows to its end; more: decode.py.
    :param merge_here: whether the last split merges, instead of a second launch.
    """

    tile: chips.Tile
    num_splits: int
    merge_here: bool = False


@functools.lru_cache(maxsize=65536)
def choose(
    on: int, num_sms: int, num_tokens: int, num_heads: int, num_kv_heads: int, head_dim: int,
    page_tokens: int, num_pages: int, element_bytes: int, form: str = 'plain',
) -> Choice:
    """Choose from what a graph fixes: shapes, and the length of the table, not of the sequence.

    :param on: compute capability. num_sms: multiprocessors. num_pages: of the table.
    :param element_bytes: of one element of a query. form: format of the pages.
    """
    num_rows = num_tokens * (num_heads // num_kv_heads)
    # Blocks of more than 64 rows only where they alone fill the chip.
    widest = chips.widest_rows(on, head_dim, element_bytes, form)
    if -(-num_rows // widest) * num_kv_heads < num_sms:
        widest = min(widest, 64)
    tile = chips.tile(on, head_dim, element_bytes, page_tokens, min(num_rows, widest), form)
    programs = -(-num_rows // tile.block_m) * num_kv_heads
    num_tiles = -(-num_pages * page_tokens // tile.block_n)
    chip = chips.chip(on)
    num_splits = min(chip.blocks_per_sm * num_sms // programs, num_tiles, chips.MAX_SPLITS)
    if num_splits > 1:
        return Choice(tile, num_splits, chip.last_split_merges)
    if 90 <= on < 120 and tile.block_m <= 64:
        # So few rows never fill such a chip twice: registers are worth more than a further block.
        tile = replace(tile, max_registers=255)
    return Choice(tile, 1)


def choose_for(q: torch.Tensor, kv: Plane, num_pages: int) -> Choice:
    """`choose` for these tensors on the chip they lie on, and a table of `num_pages`."""
    on, num_sms = chip_of(kv.device)
    return choose(on, num_sms, q.shape[0], q.shape[1], kv.shape[3], kv.shape[4], kv.shape[2],
                  num_pages, q.element_size(), sides(kv)[4])


def attend(
    q: torch.Tensor, kv: Plane, plan: AttentionPlan, scale: float, softcap: float | None,
    choice: Choice | None = None,
) -> torch.Tensor:
    """See `attention.planned_attention`; `choice`: another than the table's, to test or time."""
    check(q, kv)
    if debugging() and may_look(q.device):
        plan.check_values()
    if choice is None:
        choice = choose_for(q, kv, plan.table.shape[0])
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    *planes, form = sides(kv)
    unit = ALIGNMENT // q.element_size()
    arguments = (
        q, *planes, plan.table, plan.length_there, plan.limits_there, out,
        q.shape[0], q.stride(0) // unit, q.stride(1) // unit, plan.window or 0,
        *_factors(scale, softcap))
    num_kv_heads, head_dim = kv.shape[3:]
    group, tile = q.shape[1] // num_kv_heads, choice.tile
    part_0, part_1 = chips.parts(head_dim, form)
    constants = {
        'GROUP': group, 'HEADS': num_kv_heads, 'HEAD_DIM': head_dim, 'PART_0': part_0,
        'PART_1': part_1, 'PAGE': kv.shape[2], 'BLOCK_M': tile.block_m, 'BLOCK_N': tile.block_n,
        'FORMAT': form, 'HAS_WINDOW': plan.window is not None,
        'HAS_SOFTCAP': softcap is not None}
    blocks = -(-q.shape[0] * group // tile.block_m)
    if choice.num_splits == 1:
        launch(prefill, (blocks, num_kv_heads), arguments, constants, tile.num_warps,
               tile.num_stages, tile.max_registers)
        return out
    room = workspace(q.device)
    room.reserve(*room_needed(q.shape[0], q.shape[1], num_kv_heads, head_dim, choice))
    constants['MERGE'] = choice.merge_here
    launch(decode_kernels.decode, (choice.num_splits, num_kv_heads, blocks),
           (*arguments, room.averages, room.sums, room.arrived), constants, tile.num_warps,
           tile.num_stages, tile.max_registers)
    if not choice.merge_here:
        num_rows = q.shape[0] * q.shape[1]
        merging = _merge_constants(num_rows, head_dim)
        launch(decode_kernels.merge, (-(-num_rows // merging['BLOCK_R']),),
               (room.averages, room.sums, out, num_rows, choice.num_splits), merging, 4, 2)
    return out


def room_needed(num_tokens: int, num_heads: int, num_kv_heads: int, head_dim: int,
                choice: Choice) -> tuple[int, int, int]:
    """Numbers that splits leave for the merge: of averages, of sums (float32), of counters."""
    if choice.num_splits == 1:
        return 0, 0, 0
    sums = num_tokens * num_heads * choice.num_splits
    blocks = -(-num_tokens * (num_heads // num_kv_heads) // choice.tile.block_m)
    return sums * head_dim, sums, blocks * num_kv_heads


def compiled_as(num_tokens: int, num_heads: int, head_dim: int, choice: Choice
                ) -> tuple[chips.Tile, bool, int]:
    """What of a choice is compiled in: calls of one shape that are equal here share kernels."""
    if choice.num_splits == 1 or choice.merge_here:
        return choice.tile, choice.merge_here, 0
    return choice.tile, False, _merge_constants(num_tokens * num_heads, head_dim)['BLOCK_R']


def check(q: torch.Tensor, kv: Plane) -> None:
    """What these kernels want beyond `attention.planned_attention`.

    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    check_reach(kv.device)
    if q.dtype not in _DTYPES:
        raise ValueError(f'q: expected float32, bfloat16 or float16; got {q.dtype}')
    if kv.shape[4] % 8:
        raise ValueError(f'kv: expected head_dim a multiple of 8 on a GPU; got {kv.shape[4]}')
    check_plane(kv)
    elements = ALIGNMENT // q.element_size()
    if q.stride(2) != 1 or q.stride(0) % elements or q.stride(1) % elements:
        raise ValueError(f'q: expected strides (multiple of {elements}, multiple of {elements}, '
                         f'1), so that rows begin at 16 bytes; got {q.stride()}')
    check_start('q', q)


def chip_of(device: torch.device) -> tuple[int, int]:
    """Compute capability and number of multiprocessors behind a device."""
    on = capability(device)
    if device.type == 'cuda' and compiling.capability() is None:
        return on, torch.cuda.get_device_properties(device).multi_processor_count
    return on, chips.chip(on).num_sms


def _merge_constants(num_rows: int, head_dim: int) -> dict[str, int]:
    """Few rows: one a program, so that they spread over the chip; many: as registers allow."""
    columns = max(16, 1 << (head_dim - 1).bit_length())
    rows = 1 if num_rows <= _SPREAD_ROWS else max(1, 8192 // (_MERGE_SPLITS * columns))
    return {'HEAD_DIM': head_dim, 'BLOCK_R': rows, 'BLOCK_S': _MERGE_SPLITS, 'BLOCK_D': columns}


def _factors(scale: float, softcap: float | None) -> tuple[float, float]:
    """The numbers `factor` and `cap` of online.py."""
    if softcap is None:
        return scale * _LOG2_E, 0.0
    return 2.0 * scale / softcap * _LOG2_E, softcap * _LOG2_E
