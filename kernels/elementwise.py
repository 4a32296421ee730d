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

"""What stands beside attention, one entry an operation: what arguments mean, and who computes.

    rotate, rope_append        rotary embedding; with k and v into their pages, fused on a GPU
    rms_norm                   with and without a residual, with weight or 1 + weight
    gated_silu, gated_gelu     the gate of an MLP (SwiGLU, GeGLU)
    copy_blocks, gather_rows   pages for copy-on-write; rows of embeddings by number

Backends are those of attention: 'triton' (gpu/elementwise.py), 'cpu' (cpu/elementwise.py) and
'reference' (reference_elementwise.py, float64). All compute in float32 or better and round once,
at the end. Given `out`, nothing is allocated on a GPU. What does not live here: frequencies of
the rotary embedding (rotary.py).

Values of indices are checked on a CPU, and on a GPU, where that waits for it, in debug mode only.
"""

from __future__ import annotations

from types import ModuleType

import torch

from robot_infer_kernels import reference_elementwise as reference
from robot_infer_kernels.attention import append_kv
from robot_infer_kernels.backends import Backend, chosen, gpu, may_look
from robot_infer_kernels.cpu import elementwise as cpu
from robot_infer_kernels.pages import Plane, QuantisedPlane

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def rotate(q: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None = None,
           interleaved: bool = False, out: torch.Tensor | None = None,
           backend: Backend = 'auto') -> torch.Tensor:
    """Turn each head of each token by the angles of its position.

    :param q: (num_tokens, num_heads, head_dim), any strides; on a GPU rows begin at multiples of
        16 bytes.
    :param cos_sin: (num_positions, rotary_dim) float32, cosines then sines, as
        `rotary.Frequencies.table` makes it; elements from rotary_dim on are passed through.
    :param positions: (num_tokens,) int64, row of cos_sin for each token; None: row i for token i.
    :param interleaved: a pair is elements 2 i and 2 i + 1 (GPT-J, Cohere); else elements i and
        rotary_dim / 2 + i (Llama).
    :param out: like q, contiguous, not q itself.
    :returns: out, or a new tensor.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    runs = chosen(backend, q.device)
    out = _check_rotation(q, cos_sin, positions, out, runs)
    if q.shape[0]:
        _module(runs).rotate(q, cos_sin, positions, interleaved, out)
    return out


def rope_append(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cos_sin: torch.Tensor,
                kv: Plane, slots: torch.Tensor, positions: torch.Tensor | None = None,
                interleaved: bool = False, out: torch.Tensor | None = None,
                backend: Backend = 'auto') -> torch.Tensor:
    """Turn q and k by their positions, and write k and v into their slots: one launch on a GPU.

    The same as `rotate` of q and of k, and `append_kv` of what that gives; the other arguments as
    there.

    :param k: (num_tokens, num_kv_heads, head_dim), dtype of q. v: like k.
    :param kv: (2, num_blocks, page_tokens, num_kv_heads, head_dim), dtype of q, in place; or a
        QuantisedPlane, which gets what k is after its rotation in the dtype of q, and v.
    :param slots: (num_tokens,) int64, block * page_tokens + offset, each at most once.
    :returns: q turned.
    :raises ValueError: where an argument does not fit; nothing is written then.
    """
    runs = chosen(backend, q.device)
    out = _check_rotation(q, cos_sin, positions, out, runs)
    _check_append(q, k, v, kv, slots)
    if not q.shape[0]:
        return out
    module = _module(runs)
    if runs == 'triton':
        module.rope_append(q, k, v, cos_sin, kv, slots, positions, interleaved, out)
        return out
    turned = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    module.rotate(k, cos_sin, positions, interleaved, turned)
    module.rotate(q, cos_sin, positions, interleaved, out)
    append_kv(turned, v, kv, slots)
    return out


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float,
             residual: torch.Tensor | None = None, plus_one: bool = False,
             out: torch.Tensor | None = None, backend: Backend = 'auto') -> torch.Tensor:
    """x / sqrt(mean(x ** 2) + eps) * weight for each row (Zhang & Sennrich 2019).

    :param x: (n, width), rows contiguous; width up to 16384.
    :param weight: (width,) contiguous, of any dtype that x may have.
    :param residual: (n, width), rows contiguous, of any such dtype: becomes residual + x, in
        place, and it is this sum, as stored, that is normed.
    :param plus_one: by 1 + weight instead of weight (Gemma).
    :param out: (n, width) contiguous, of any such dtype; may be x itself.
    :returns: out, or a new tensor in the dtype of x.
    :raises ValueError: where an argument does not fit; nothing is written then.
    """
    runs = chosen(backend, x.device)
    _check_rows('x', x, runs)
    width = x.shape[1]
    if not 1 <= width <= 16384:
        raise ValueError(f'x: expected 1 to 16384 columns; got {width}')
    _check_dtype('weight', weight, runs)
    if weight.shape != (width,) or not weight.is_contiguous():
        raise ValueError(f'weight: expected ({width},), contiguous; got {tuple(weight.shape)}, '
                         f'stride {weight.stride()}')
    _check_device('weight', weight, 'x', x)
    if not eps >= 0.0:
        raise ValueError(f'eps: expected a number from 0 on; got {eps}')
    if residual is not None:
        _check_rows('residual', residual, runs)
        if residual.shape != x.shape:
            raise ValueError(f'residual: expected {tuple(x.shape)}, as x; got '
                             f'{tuple(residual.shape)}')
        _check_device('residual', residual, 'x', x)
        _check_apart('residual', residual, 'x', x)
    out = _output(out, x.shape, x, None, 'residual', residual)
    _check_dtype('out', out, runs)
    if x.shape[0]:
        _module(runs).rms_norm(x, weight, eps, residual, plus_one, out)
    return out


def gated_silu(gate_up: torch.Tensor, out: torch.Tensor | None = None,
               backend: Backend = 'auto') -> torch.Tensor:
    """silu(gate) * up (Shazeer 2020, SwiGLU).

    :param gate_up: (n, 2 hidden), the gate's columns first; rows contiguous.
    :param out: (n, hidden) contiguous, dtype of gate_up.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    return _gated('silu', gate_up, out, backend)


def gated_gelu(gate_up: torch.Tensor, out: torch.Tensor | None = None,
               backend: Backend = 'auto') -> torch.Tensor:
    """gelu(gate) * up with the tanh form of gelu (Gemma); arguments as `gated_silu`."""
    return _gated('gelu', gate_up, out, backend)


def copy_blocks(pages: Plane, pairs: torch.Tensor, num_tokens: int | None = None,
                backend: Backend = 'auto') -> None:
    """Copy blocks to other blocks in all planes, keys and values: copy-on-write.

    :param pages: (num_planes, 2, num_blocks, page_tokens, ...) contiguous, of any dtype; or a
        QuantisedPlane of all planes.
    :param pairs: (n, 2) int64, source and target; every target once, and no source among them.
    :param num_tokens: the first tokens of each block only; None: all.
    :raises ValueError: where an argument does not fit; nothing is written then.
    """
    if isinstance(pages, QuantisedPlane):
        for each in (pages.raw(), pages.scales):
            copy_blocks(each, pairs, num_tokens, backend)
        return
    runs = chosen(backend, pages.device)
    if pages.dim() < 4 or pages.shape[1] != 2 or not pages.is_contiguous():
        raise ValueError('pages: expected (num_planes, 2, num_blocks, page_tokens, ...), '
                         f'contiguous; got {tuple(pages.shape)}, strides {pages.stride()}')
    if pairs.dim() != 2 or pairs.shape[1] != 2:
        raise ValueError(f'pairs: expected (n, 2); got {tuple(pairs.shape)}')
    _check_index('pairs', pairs, pages, pages.shape[2])
    if may_look(pages.device):
        sources, targets = set(pairs[:, 0].tolist()), set(pairs[:, 1].tolist())
        if len(targets) < pairs.shape[0] or sources & targets:
            raise ValueError('pairs: expected every target once, and no source among them; got '
                             f'{pairs.tolist()}')
    page_tokens = pages.shape[3]
    if num_tokens is not None and not 0 <= num_tokens <= page_tokens:
        raise ValueError(f'num_tokens: expected 0 to {page_tokens} or None; got {num_tokens}')
    count = page_tokens if num_tokens is None else num_tokens
    if pairs.shape[0] and count:
        _module(runs).copy_blocks(pages, pairs, count)


def gather_rows(source: torch.Tensor, rows: torch.Tensor, out: torch.Tensor | None = None,
                backend: Backend = 'auto') -> torch.Tensor:
    """Rows of a table by number, such as embeddings of images: out[i] = source[rows[i]].

    :param source: (num_rows, width), rows contiguous, of any dtype.
    :param rows: (n,) int64.
    :param out: (n, width) contiguous, dtype of source.
    :raises ValueError: where an argument does not fit; its name stands in the message.
    """
    runs = chosen(backend, source.device)
    if source.dim() != 2 or source.stride(1) != 1:
        raise ValueError(f'source: expected (num_rows, width) with contiguous rows; got '
                         f'{tuple(source.shape)}, strides {source.stride()}')
    if rows.dim() != 1:
        raise ValueError(f'rows: expected (n,); got {tuple(rows.shape)}')
    _check_index('rows', rows, source, source.shape[0])
    out = _output(out, (rows.shape[0], source.shape[1]), source, source.dtype, 'source', source)
    if out.numel():
        _module(runs).gather_rows(source, rows, out)
    return out


def _gated(form: str, gate_up: torch.Tensor, out: torch.Tensor | None,
           backend: Backend) -> torch.Tensor:
    runs = chosen(backend, gate_up.device)
    _check_rows('gate_up', gate_up, runs)
    num_rows, width = gate_up.shape
    if width < 2 or width % 2:
        raise ValueError(f'gate_up: expected an even number of columns; got {width}')
    out = _output(out, (num_rows, width // 2), gate_up, gate_up.dtype, 'gate_up', gate_up)
    if num_rows:
        _module(runs).gated(form, gate_up, out)
    return out


def _module(runs: str) -> ModuleType:
    """Modules of one interface: the same functions, called with checked arguments and `out`."""
    return {'cpu': cpu, 'reference': reference}.get(runs) or gpu('elementwise')


def _check_rotation(q: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor | None,
                    out: torch.Tensor | None, runs: str) -> torch.Tensor:
    """Check what `rotate` takes; returns where it writes."""
    if q.dim() != 3:
        raise ValueError(f'q: expected (num_tokens, num_heads, head_dim); got {tuple(q.shape)}')
    _check_dtype('q', q, runs)
    if (cos_sin.dim() != 2 or cos_sin.shape[1] % 2 or not 2 <= cos_sin.shape[1] <= q.shape[2]
            or cos_sin.dtype != torch.float32 or not cos_sin.is_contiguous()):
        raise ValueError(f'cos_sin: expected (num_positions, an even rotary_dim up to '
                         f'{q.shape[2]}) float32, contiguous; got {tuple(cos_sin.shape)} '
                         f'{cos_sin.dtype}, strides {cos_sin.stride()}')
    _check_device('cos_sin', cos_sin, 'q', q)
    if positions is None:
        if cos_sin.shape[0] < q.shape[0]:
            raise ValueError(f'cos_sin: expected a row for each of {q.shape[0]} tokens, or '
                             f'positions; got {cos_sin.shape[0]} rows')
    else:
        if positions.shape != (q.shape[0],):
            raise ValueError(f'positions: expected ({q.shape[0]},); got '
                             f'{tuple(positions.shape)}')
        _check_index('positions', positions, q, cos_sin.shape[0])
    return _output(out, q.shape, q, q.dtype, 'q', q)


def _check_append(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kv: Plane,
                  slots: torch.Tensor) -> None:
    """Check what `rope_append` takes beside `rotate`."""
    dtype = q.dtype if isinstance(kv, QuantisedPlane) else kv.dtype
    if kv.dim() != 5 or kv.shape[0] != 2 or kv.shape[4] != q.shape[2] or dtype != q.dtype:
        raise ValueError(f'kv: expected (2, num_blocks, page_tokens, num_kv_heads, {q.shape[2]}) '
                         f'in {q.dtype}, as q; got {tuple(kv.shape)} in {dtype}')
    wanted = (q.shape[0], kv.shape[3], kv.shape[4])
    for name, tensor in (('k', k), ('v', v)):
        if tensor.shape != wanted or tensor.dtype != q.dtype:
            raise ValueError(f'{name}: expected (num_tokens, num_kv_heads, head_dim) = {wanted} '
                             f'in {q.dtype}; got {tuple(tensor.shape)} in {tensor.dtype}')
    for name, tensor in (('k', k), ('v', v), ('kv', kv)):
        _check_device(name, tensor, 'q', q)
    if slots.shape != (q.shape[0],):
        raise ValueError(f'slots: expected ({q.shape[0]},); got {tuple(slots.shape)}')
    _check_index('slots', slots, kv, kv.shape[1] * kv.shape[2])


def _check_rows(name: str, tensor: torch.Tensor, runs: str) -> None:
    _check_dtype(name, tensor, runs)
    if tensor.dim() != 2 or (tensor.stride(1) != 1 and tensor.shape[1] > 1):
        raise ValueError(f'{name}: expected (n, width) with contiguous rows; got '
                         f'{tuple(tensor.shape)}, strides {tensor.stride()}')


def _check_dtype(name: str, tensor: torch.Tensor, runs: str) -> None:
    if tensor.dtype not in _DTYPES and not (runs == 'reference'
                                            and tensor.dtype == torch.float64):
        raise ValueError(f'{name}: expected float32, bfloat16 or float16 (float64 for the '
                         f'reference); got {tensor.dtype}')


def _check_device(name: str, tensor: torch.Tensor, beside: str, other: torch.Tensor) -> None:
    if tensor.device != other.device:
        raise ValueError(f'{name}: expected it on {other.device}, as {beside}; got '
                         f'{tensor.device}')


def _check_index(name: str, index: torch.Tensor, beside: torch.Tensor, count: int) -> None:
    """Check numbers of rows, blocks or slots, of which there are `count`."""
    if index.dtype != torch.int64 or not index.is_contiguous():
        raise ValueError(f'{name}: expected int64, contiguous; got {index.dtype}, stride '
                         f'{index.stride()}')
    if index.device != beside.device:
        raise ValueError(f'{name}: expected it on {beside.device}; got {index.device}')
    if index.numel() and may_look(index.device):
        low, high = (int(value) for value in index.aminmax())
        if low < 0 or high >= count:
            raise ValueError(f'{name}: expected 0 to {count - 1}; got {low} to {high}')


def _check_apart(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """Refuse two tensors whose memory may overlap."""
    low, high = _span(tensor)
    other_low, other_high = _span(other)
    if low < other_high and other_low < high:
        raise ValueError(f'{name}: expected memory of its own; got some of {other_name}')


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First address and the one behind the last; nothing where it is empty."""
    if not tensor.numel():
        return 0, 0
    elements = 1 + sum((size - 1) * stride
                       for size, stride in zip(tensor.shape, tensor.stride()))
    start = tensor.data_ptr()
    return start, start + elements * tensor.element_size()


def _output(out: torch.Tensor | None, shape: tuple[int, ...], like: torch.Tensor,
            dtype: torch.dtype | None, apart_name: str, apart: torch.Tensor | None
            ) -> torch.Tensor:
    """`out` if it fits, or a new tensor.

    :param dtype: None: any, and that of `like` for a new one. apart: what it may not overlap.
    """
    if out is None:
        return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    if out.shape != tuple(shape) or (dtype is not None and out.dtype != dtype) or (
            out.device != like.device) or not out.is_contiguous():
        raise ValueError(f'out: expected {tuple(shape)}{f" {dtype}" if dtype else ""} on '
                         f'{like.device}, contiguous; got {tuple(out.shape)} {out.dtype} on '
                         f'{out.device}, strides {out.stride()}')
    if apart is not None:
        _check_apart('out', out, apart_name, apart)
    return out
