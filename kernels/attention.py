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

"""The entry to the kernels: what the arguments mean, and the choice of backend.

One plane of pages, as `robot_infer.cache.storage.KVStorage.plane` gives it, is token-major:

    kv[0]  keys    (num_blocks, page_tokens, num_kv_heads, head_dim)
    kv[1]  values  (num_blocks, page_tokens, num_kv_heads, head_dim)

    key j of a sequence  =  kv[0, table[j // page_tokens], j % page_tokens]

Pages may be quantised: a `QuantisedPlane` (pages.py) stands where a plane does.

Checks are plain integer comparisons. Those that look at values are made once a plan on a CPU, and
on a GPU, where each would wait for the device, at each call in debug mode only (`set_debug`).
"""

from __future__ import annotations

import math

import torch

from robot_infer_kernels import reference
from robot_infer_kernels.backends import Backend, chosen, gpu, may_look
from robot_infer_kernels.cpu import attention as cpu
from robot_infer_kernels.pages import Plane, QuantisedPlane, refusal
from robot_infer_kernels.plan import AttentionPlan, plan_attention

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def paged_attention(
    q: torch.Tensor, kv: Plane, table: torch.Tensor, length: int | torch.Tensor,
    limit: int | torch.Tensor, scale: float, window: int | None = None,
    softcap: float | None = None, backend: Backend = 'auto',
) -> torch.Tensor:
    """Attend from each query to the keys it may see.

    Row i sees the keys j with `limit[i] - window <= j < limit[i]` (without a window: all
    `j < limit[i]`). This is the only mask: causal rows have `limit[i]` = own position + 1, rows of
    a bidirectional block all have the block's end.

    :param q: (num_tokens, num_heads, head_dim); head_dim 8..256. On a GPU head_dim is a multiple
        of 8 and rows begin at multiples of 16 bytes; any strides will do otherwise.
    :param kv: (2, num_blocks, page_tokens, num_kv_heads, head_dim), dtype of `q`, keys then
        values, or a QuantisedPlane that stands for one; num_kv_heads divides num_heads, query
        head h reads head h // (num_heads / num_kv_heads). Nothing outside the valid tokens is read
        into a product: it may be NaN. On a GPU contiguous.
    :param table: (num_pages,) int64, block of each page in order; pages past `length` are ignored.
    :param length: number of valid keys; an int, or (1,) int32 on the device of `kv`, which the
        kernel reads at each launch, so that one captured graph serves every length.
    :param limit: int for all rows, or (num_tokens,) int64 that never decreases; 1 <= limit <=
        length.
    :param scale: factor on q . k, usually head_dim ** -0.5.
    :param window: number of keys a row sees at most, counted back from its limit.
    :param softcap: scores s become softcap * tanh(s / softcap).
    :param backend: 'auto', 'triton', 'cpu' or 'reference' (float64).
    :returns: like q, contiguous; scores and softmax are computed in float32 or better.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    if q.dim() != 3:
        raise ValueError(f'q: expected (num_tokens, num_heads, head_dim); got {tuple(q.shape)}')
    plan = plan_attention(kv, table, length, limit, q.shape[0], window)
    return planned_attention(q, kv, plan, scale, softcap, backend)


def planned_attention(
    q: torch.Tensor, kv: Plane, plan: AttentionPlan, scale: float,
    softcap: float | None = None, backend: Backend = 'auto',
) -> torch.Tensor:
    """`paged_attention` by a plan made before, for calls that differ only in `q` and `kv`."""
    _check_planned(q, kv, plan)
    if not math.isfinite(scale):
        raise ValueError(f'scale: expected a finite number; got {scale}')
    if softcap is not None and not 0.0 < softcap < math.inf:
        raise ValueError(f'softcap: expected a positive number or None; got {softcap}')
    if q.shape[0] == 0:
        return torch.empty_like(q, memory_format=torch.contiguous_format)
    runs = chosen(backend, q.device)
    if runs == 'triton':
        return gpu('attention').attend(q, kv, plan, scale, softcap)
    attend = cpu.attend if runs == 'cpu' else reference.attend
    return attend(q, kv, plan.settled(), scale, softcap)


def append_kv(k: torch.Tensor, v: torch.Tensor, kv: Plane, slots: torch.Tensor) -> None:
    """Write the keys and values of n tokens into their slots, in place.

    :param k: (n, num_kv_heads, head_dim), dtype of `kv`; of any float dtype into quantised pages,
        which are then exactly what `pages.quantise` makes of it.
    :param v: like k.
    :param kv: (2, num_blocks, page_tokens, num_kv_heads, head_dim), one plane, or a
        QuantisedPlane.
    :param slots: (n,) int64, block * page_tokens + offset, each at most once; on a GPU their
        values are checked in debug mode only.
    :raises ValueError: where an argument does not fit; nothing is written then.
    """
    if kv.dim() != 5 or kv.shape[0] != 2:
        raise ValueError(f'kv: expected (2, num_blocks, page_tokens, num_kv_heads, head_dim); '
                         f'got {tuple(kv.shape)}')
    _check_floats(kv)
    wanted = (slots.shape[0] if slots.dim() == 1 else -1, kv.shape[3], kv.shape[4])
    dtypes = _FLOATS if isinstance(kv, QuantisedPlane) else (kv.dtype,)
    for name, tensor in (('k', k), ('v', v)):
        if tensor.shape != wanted or tensor.dtype not in dtypes or tensor.dtype != k.dtype:
            raise ValueError(f'{name}: expected (n, num_kv_heads, head_dim) = {wanted} in '
                             f'{" or ".join(map(str, dtypes))}; got {tuple(tensor.shape)} in '
                             f'{tensor.dtype}')
    if slots.dtype != torch.int64:
        raise ValueError(f'slots: expected int64; got {slots.dtype}')
    for name, tensor in (('k', k), ('v', v), ('slots', slots)):
        if tensor.device != kv.device:
            raise ValueError(f'{name}: expected it on {kv.device}, as kv; got {tensor.device}')
    check_offered(kv)
    where = None
    if may_look(kv.device):
        where, num_slots = slots.tolist(), kv.shape[1] * kv.shape[2]
        if where and not (0 <= min(where) and max(where) < num_slots):
            raise ValueError(f'slots: expected 0 to {num_slots - 1}; got {min(where)} to '
                             f'{max(where)}')
    if not slots.shape[0]:
        return
    if where is not None and kv.device.type == 'cpu':
        cpu.append(k, v, kv, slots, where)
    elif isinstance(kv, QuantisedPlane):
        gpu('elementwise').append(k, v, kv, slots)
    else:
        cpu.scatter(k, v, kv, slots)  # it asks nothing of the host


def check_offered(kv: Plane) -> None:
    """Check that a chip has instructions for the format of a plane on it.

    :raises ValueError: where it has not; it says which format is the one there.
    """
    words = refusal(kv.format, kv.device) if isinstance(kv, QuantisedPlane) else ''
    if words:
        raise ValueError(f'kv: {words}')


def _check_floats(kv: Plane) -> None:
    """Check that a plain plane holds numbers that are computed with; float64 by the reference."""
    if not isinstance(kv, QuantisedPlane) and kv.dtype not in (*_FLOATS, torch.float64):
        raise ValueError(f'kv: expected {" or ".join(map(str, _FLOATS))}; got {kv.dtype}')


def _check_planned(q: torch.Tensor, kv: Plane, plan: AttentionPlan) -> None:
    """Check that queries and plane are of the kind the plan was made for."""
    if kv.shape != plan.kv_shape:
        raise ValueError(f'kv: expected {tuple(plan.kv_shape)}, as planned; '
                         f'got {tuple(kv.shape)}')
    if q.dim() != 3 or q.shape[0] != plan.num_tokens:
        raise ValueError(f'q: expected ({plan.num_tokens}, num_heads, head_dim), as planned; '
                         f'got {tuple(q.shape)}')
    num_kv_heads, head_dim = kv.shape[3:]
    if q.shape[2] != head_dim:
        raise ValueError(f'q: expected head_dim {head_dim} as in kv; got {q.shape[2]}')
    if q.shape[1] < 1 or q.shape[1] % num_kv_heads:
        raise ValueError(f'q: expected a number of heads divisible by the {num_kv_heads} heads of '
                         f'kv; got {q.shape[1]}')
    _check_floats(kv)
    if isinstance(kv, QuantisedPlane):
        if q.dtype not in (*_FLOATS, torch.float64):
            raise ValueError(f'q: expected {" or ".join(map(str, _FLOATS))}; got {q.dtype}')
    elif q.dtype != kv.dtype:
        raise ValueError(f'q: expected {kv.dtype} as in kv; got {q.dtype}')
    if q.device != kv.device:
        raise ValueError(f'q: expected it on {kv.device}, as kv; got {q.device}')
    if plan.table.device != kv.device:
        raise ValueError(f'kv: expected it on {plan.table.device}, as planned; got {kv.device}')
