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

"""The operations beside attention on the GPU: from checked arguments to a launch.

What lives here: the host's side. What does not: the kernels (rope.py, rowwise.py, write.py). Tiles
depend on widths and dtypes only, never on the number of rows: one compile key a shape. They are
bound by the memory or, for the few rows of batch 1, by the launch, so no chip has a table here.
"""

from __future__ import annotations

import torch

from robot_infer_kernels.gpu import rope, rowwise
from robot_infer_kernels.gpu.launch import ALIGNMENT, check_reach, check_start, launch
from robot_infer_kernels.gpu.plane import check_plane, sides
from robot_infer_kernels.pages import Plane

_HEAD_ELEMENTS = 512  # of a program of rope.py, 2 warps
_PART = 1024  # elements or words of a program that goes over a part of a row, 4 warps
_WORDS = (torch.int32, torch.int16, torch.uint8)
_WORD = 4  # bytes


def rotate(q: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None,
           interleaved: bool, out: torch.Tensor) -> None:
    """See `elementwise.rotate`."""
    _rope(q, None, None, cos_sin, None, None, positions, interleaved, out)


def rope_append(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cos_sin: torch.Tensor,
                kv: Plane, slots: torch.Tensor, positions: torch.Tensor | None,
                interleaved: bool, out: torch.Tensor) -> None:
    """See `elementwise.rope_append`."""
    _rope(q, k, v, cos_sin, kv, slots, positions, interleaved, out)


def append(k: torch.Tensor, v: torch.Tensor, kv: Plane, slots: torch.Tensor) -> None:
    """Write k and v as they are, in one launch: `rope_append` without queries and rotation."""
    _rope(None, k, v, None, kv, slots, None, False, None)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None,
             plus_one: bool, out: torch.Tensor) -> None:
    """See `elementwise.rms_norm`."""
    for name, tensor in (('x', x), ('residual', residual)):
        _check_rows(name, tensor)
    for name, tensor in (('weight', weight), ('out', out)):
        _check(name, tensor)
    width = x.shape[1]
    block = _power_of_two(width)
    launch(rowwise.rms_norm, (x.shape[0],),
           (x, weight, residual, out, _step(x), 0 if residual is None else _step(residual), eps),
           {'WIDTH': width, 'PLUS_ONE': plus_one, 'HAS_RESIDUAL': residual is not None,
            'BLOCK': block}, min(16, max(1, block // 512)), 1)


def gated(form: str, gate_up: torch.Tensor, out: torch.Tensor) -> None:
    """See `elementwise.gated_silu`."""
    _check_rows('gate_up', gate_up)
    _check('out', out)
    hidden = out.shape[1]
    launch(rowwise.gated, (out.shape[0], -(-hidden // _PART)), (gate_up, out, _step(gate_up)),
           {'HIDDEN': hidden, 'FORM': form, 'BLOCK': _PART}, 4, 1)


def copy_blocks(pages: torch.Tensor, pairs: torch.Tensor, num_tokens: int) -> None:
    """See `elementwise.copy_blocks`."""
    _check('pages', pages)
    num_planes, _, num_blocks, page_tokens = pages.shape[:4]
    token_bytes = pages.stride(3) * pages.element_size()
    word = next(word for word in _WORDS if token_bytes % word.itemsize == 0)
    words = token_bytes // word.itemsize
    together = 4 if token_bytes % ALIGNMENT == 0 else 1
    launch(rowwise.copy_blocks,
           (-(-num_tokens * words // _PART), pairs.shape[0], 2 * num_planes),
           (pages.view(-1).view(word), pairs, num_blocks, num_tokens * words // together),
           {'WORDS': page_tokens * words, 'TOGETHER': together, 'BLOCK': _PART}, 4, 1)


def gather_rows(source: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
    """See `elementwise.gather_rows`."""
    _check_rows('source', source)
    _check('out', out)
    words = _words('source', 'rows', out.shape[1] * out.element_size())
    launch(rowwise.gather_rows, (out.shape[0], -(-words // _PART)),
           (source.view(torch.int32), rows, out.view(torch.int32), _step(source)),
           {'WORDS': words, 'BLOCK': _PART}, 4, 1)


def _rope(q: torch.Tensor | None, k: torch.Tensor | None, v: torch.Tensor | None,
          cos_sin: torch.Tensor | None, kv: Plane | None, slots: torch.Tensor | None,
          positions: torch.Tensor | None, interleaved: bool, out: torch.Tensor | None) -> None:
    """Launch rope.py; what is None has no part in it."""
    for name, tensor in (('q', q), ('k', k), ('v', v)):
        _check_rows(name, tensor)
    for name, tensor in (('cos_sin', cos_sin), ('out', out)):
        _check(name, tensor)
    if kv is not None:
        check_plane(kv)
    some = k if q is None else q
    assert some is not None
    num_tokens, _, head_dim = some.shape
    q_heads, kv_heads = (0 if each is None else each.shape[1] for each in (q, k))
    block_d = _power_of_two(head_dim)
    block_h = max(1, _HEAD_ELEMENTS // block_d)
    steps = [0 if each is None else _step(each, axis) for each in (q, k, v) for axis in (0, 1)]
    *planes, form = sides(kv)
    launch(rope.rope_append, (num_tokens, -(-q_heads // block_h) + -(-kv_heads // block_h)),
           (q, k, v, cos_sin, positions, slots, out, *planes, *steps),
           {'Q_HEADS': q_heads, 'KV_HEADS': kv_heads, 'HEAD_DIM': head_dim,
            'ROTARY': 0 if cos_sin is None else cos_sin.shape[1], 'INTERLEAVED': interleaved,
            'HAS_POSITIONS': positions is not None, 'BLOCK_H': block_h, 'BLOCK_D': block_d,
            'FORMAT': form}, 2, 1)


def _check(name: str, tensor: torch.Tensor | None) -> None:
    """Whether a kernel can read it, from a start at a multiple of 16 bytes.

    :raises ValueError: where it cannot; its name stands in the message.
    """
    if tensor is None:
        return
    check_reach(tensor.device)
    check_start(name, tensor)


def _check_rows(name: str, tensor: torch.Tensor | None) -> None:
    """As `_check`, for one whose rows lie as its strides say, 16 bytes at a time."""
    _check(name, tensor)
    if tensor is None:
        return
    elements = max(1, ALIGNMENT // tensor.element_size())
    # The stride of an axis of one is never used, and may be anything.
    strides = zip(tensor.shape[:-1], tensor.stride()[:-1])
    if tensor.stride(-1) != 1 or any(size > 1 and stride % elements for size, stride in strides):
        raise ValueError(f'{name}: expected rows that begin at multiples of 16 bytes on a GPU; '
                         f'got strides {tensor.stride()} of {tensor.element_size()} bytes')


def _step(tensor: torch.Tensor, axis: int = 0) -> int:
    """The stride of an axis in units of 16 bytes, which `_check` made sure of."""
    return tensor.stride(axis) * tensor.element_size() // ALIGNMENT


def _words(name: str, what: str, num_bytes: int) -> int:
    """Words of what is copied.

    :raises ValueError: where it is not a multiple of 16 bytes.
    """
    if num_bytes % ALIGNMENT:
        raise ValueError(f'{name}: expected {what} of a multiple of {ALIGNMENT} bytes on a GPU; '
                         f'got {num_bytes}')
    return num_bytes // _WORD


def _power_of_two(number: int) -> int:
    return 1 << max(4, (number - 1).bit_length())
