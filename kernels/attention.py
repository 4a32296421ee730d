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

"""The entry to the kernels: what the arguments mean, their checks, and the choice of backend.

One plane of pages, as `robot_infer.cache.storage.KVStorage.plane` gives it, is token-major:

    kv[0]  keys    (num_blocks, page_tokens, num_kv_heads, head_dim)
    kv[1]  values  (num_blocks, page_tokens, num_kv_heads, head_dim)

    key j of a sequence  =  kv[0, table[j // page_tokens], j % page_tokens]

Checks are plain integer comparisons; on the CPU they cost a few microseconds a call.
"""

from __future__ import annotations

from typing import Literal

import torch

from robot_infer_kernels import cpu, reference

Backend = Literal['auto', 'cpu', 'reference']

HEAD_DIM_LOW, HEAD_DIM_HIGH = 8, 256


def which_backend(device: torch.device | str) -> str:
    """Name the backend that `backend='auto'` means for tensors on `device`.

    :raises ValueError: where there is none.
    """
    device = torch.device(device)
    if device.type == 'cpu':
        return 'cpu'
    raise ValueError(f'no attention backend for device {device}: expected cpu')


def paged_attention(
    q: torch.Tensor, kv: torch.Tensor, table: torch.Tensor, length: int,
    limit: int | torch.Tensor, scale: float, window: int | None = None,
    softcap: float | None = None, backend: Backend = 'auto',
) -> torch.Tensor:
    """Attend from each query to the keys it may see.

    Row i sees the keys j with `limit[i] - window <= j < limit[i]` (without a window: all
    `j < limit[i]`). This is the only mask: causal rows have `limit[i]` = own position + 1, rows of
    a bidirectional block all have the block's end.

    :param q: (num_tokens, num_heads, head_dim); head_dim 8..256.
    :param kv: (2, num_blocks, page_tokens, num_kv_heads, head_dim), dtype of `q`, keys then
        values; num_kv_heads divides num_heads, query head h reads head h // (num_heads /
        num_kv_heads). Nothing outside the valid tokens is read into a product: it may be NaN.
    :param table: (num_pages,) int64, block of each page in order; pages past `length` are ignored.
    :param length: number of valid keys.
    :param limit: int for all rows, or (num_tokens,) int64; 1 <= limit <= length.
    :param scale: factor on q . k, usually head_dim ** -0.5.
    :param window: number of keys a row sees at most, counted back from its limit.
    :param softcap: scores s become softcap * tanh(s / softcap).
    :param backend: 'auto', 'cpu' or 'reference' (float64).
    :returns: like q, contiguous; scores and softmax are computed in float32 or better.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    num_tokens, page_tokens = _check_shapes(q, kv, table)
    num_pages = -(-length // page_tokens)
    if num_pages > table.shape[0]:
        raise ValueError(f'length: expected at most {table.shape[0] * page_tokens} (table has '
                         f'{table.shape[0]} pages of {page_tokens} tokens); got {length}')
    pages = table[:num_pages].tolist() if num_pages < table.shape[0] else table.tolist()
    if pages and not (0 <= min(pages) and max(pages) < kv.shape[1]):
        raise ValueError(f'table: expected blocks from 0 to {kv.shape[1] - 1}; got {pages}')
    low, high = _limit_range(limit, num_tokens, length)
    if window is not None and window < 1:
        raise ValueError(f'window: expected at least 1 or None; got {window}')
    if softcap is not None and not softcap > 0.0:
        raise ValueError(f'softcap: expected a positive number or None; got {softcap}')
    if num_tokens == 0:
        return torch.empty_like(q, memory_format=torch.contiguous_format)
    if backend == 'auto':
        backend = which_backend(q.device)
    if backend == 'cpu':
        return cpu.attend(q, kv, pages, low, high, limit, scale, window, softcap)
    if backend == 'reference':
        return reference.attend(q, kv, pages, length, limit, scale, window, softcap)
    raise ValueError(f"backend: expected 'auto', 'cpu' or 'reference'; got {backend!r}")


def append_kv(k: torch.Tensor, v: torch.Tensor, kv: torch.Tensor, slots: torch.Tensor) -> None:
    """Write the keys and values of n tokens into their slots, in place.

    :param k: (n, num_kv_heads, head_dim), dtype of `kv`.
    :param v: like k.
    :param kv: (2, num_blocks, page_tokens, num_kv_heads, head_dim), one plane.
    :param slots: (n,) int64, block * page_tokens + offset, each at most once.
    :raises ValueError: where an argument does not fit; nothing is written then.
    """
    if kv.dim() != 5 or kv.shape[0] != 2:
        raise ValueError(f'kv: expected (2, num_blocks, page_tokens, num_kv_heads, head_dim); '
                         f'got {tuple(kv.shape)}')
    wanted = (slots.shape[0] if slots.dim() == 1 else -1, kv.shape[3], kv.shape[4])
    for name, tensor in (('k', k), ('v', v)):
        if tensor.shape != wanted or tensor.dtype != kv.dtype:
            raise ValueError(f'{name}: expected (n, num_kv_heads, head_dim) = {wanted} in '
                             f'{kv.dtype}; got {tuple(tensor.shape)} in {tensor.dtype}')
    if slots.dtype != torch.int64:
        raise ValueError(f'slots: expected int64; got {slots.dtype}')
    where = slots.tolist()
    num_slots = kv.shape[1] * kv.shape[2]
    if where and not (0 <= min(where) and max(where) < num_slots):
        raise ValueError(f'slots: expected 0 to {num_slots - 1}; got {min(where)} to {max(where)}')
    if where:
        cpu.append(k, v, kv, slots, where)


def _check_shapes(q: torch.Tensor, kv: torch.Tensor, table: torch.Tensor) -> tuple[int, int]:
    """Check what does not depend on values; return (num_tokens, page_tokens)."""
    if kv.dim() != 5 or kv.shape[0] != 2:
        raise ValueError(f'kv: expected (2, num_blocks, page_tokens, num_kv_heads, head_dim); '
                         f'got {tuple(kv.shape)}')
    if q.dim() != 3:
        raise ValueError(f'q: expected (num_tokens, num_heads, head_dim); got {tuple(q.shape)}')
    num_tokens, num_heads, head_dim = q.shape
    _, _, page_tokens, num_kv_heads, kv_head_dim = kv.shape
    if head_dim != kv_head_dim or not HEAD_DIM_LOW <= head_dim <= HEAD_DIM_HIGH:
        raise ValueError(f'q: expected head_dim {HEAD_DIM_LOW}..{HEAD_DIM_HIGH} as in kv '
                         f'({kv_head_dim}); got {head_dim}')
    if num_heads % num_kv_heads:
        raise ValueError(f'q: expected a number of heads divisible by the {num_kv_heads} heads of '
                         f'kv; got {num_heads}')
    if q.dtype != kv.dtype:
        raise ValueError(f'q: expected {kv.dtype} as in kv; got {q.dtype}')
    if table.dim() != 1 or table.dtype != torch.int64:
        raise ValueError(f'table: expected (num_pages,) int64; got {tuple(table.shape)} '
                         f'{table.dtype}')
    return num_tokens, page_tokens


def _limit_range(limit: int | torch.Tensor, num_tokens: int, length: int) -> tuple[int, int]:
    """Lowest and highest limit; (length, length) where there is no row."""
    if isinstance(limit, int):
        low = high = limit
    else:
        if limit.dtype != torch.int64 or limit.shape != (num_tokens,):
            raise ValueError(f'limit: expected int or ({num_tokens},) int64; got '
                             f'{tuple(limit.shape)} {limit.dtype}')
        limits = limit.tolist()
        low, high = (min(limits), max(limits)) if limits else (length, length)
    if num_tokens and not 1 <= low <= high <= length:
        raise ValueError(f'limit: expected 1 to length = {length}; got {low} to {high}')
    return low, high
