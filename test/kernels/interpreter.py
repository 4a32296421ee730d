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

"""Makes Triton's CPU interpreter a fair witness for the kernels: right numbers, checked addresses.

The interpreter of Triton 3.6 to 3.9 multiplies the raw bits of bfloat16 in `tl.dot`, cuts casts to
bfloat16 and fp8 short where a GPU rounds to nearest even, wraps an fp8 that overflows where a GPU
saturates, and reads and writes any address it is given. `install` puts this right:

- dots and casts of bfloat16 and fp8 as on the GPU; a float32 dot that asks for tf32 gets tf32;
- `tl` is put in place of the compiler's once a launch, not at each call of a function (twice as
  fast);
- arithmetic in bfloat16 or fp8, of which the interpreter makes nonsense, is refused
  (`NarrowArithmetic`): our kernels compute in float32, and load, dot and store what is narrow;
- each unmasked address of a load, store or atomic must lie in the storage of an argument, and no
  two programs of a launch may store to one byte (atomics may): `BadAccess` names the kernel, the
  program and the byte.

What does not live here: any kernel, and anything that runs outside the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
from dataclasses import dataclass, field
import operator
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as tri

Handle = tri.TensorHandle

# How the interpreter stores the narrow types, and what torch calls them.
_NARROW = {
    tl.bfloat16: (torch.bfloat16, torch.int16, np.uint16),
    tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8, np.uint8),
    tl.float8e5: (torch.float8_e5m2, torch.uint8, np.uint8),
}
_ARITHMETIC = (
    'create_fadd', 'create_fsub', 'create_fmul', 'create_fdiv', 'create_frem', 'create_fma',
    'create_precise_divf', 'create_minimumf', 'create_minnumf', 'create_maximumf',
    'create_maxnumf', 'create_clampf', 'create_fcmpOLT', 'create_fcmpOGT', 'create_fcmpOLE',
    'create_fcmpOGE', 'create_fcmpOEQ', 'create_fcmpONE', 'create_fcmpULT', 'create_fcmpUGT',
    'create_fcmpULE', 'create_fcmpUGE', 'create_fcmpUEQ', 'create_fcmpUNE', 'create_exp',
    'create_exp2', 'create_log', 'create_log2', 'create_sin', 'create_cos', 'create_sqrt',
    'create_precise_sqrt', 'create_rsqrt', 'create_floor', 'create_ceil', 'create_erf',
)
_OWNER_BYTES = 4096


class BadAccess(RuntimeError):
    """A kernel reads or writes where it must not; the message says which, who and where."""


class NarrowArithmetic(RuntimeError):
    """A kernel computes in bfloat16 or fp8 instead of float32."""


def widen(handle: Handle) -> np.ndarray:
    """Values of a handle of any float or integer type as float32."""
    kind = handle.dtype.scalar
    if kind not in _NARROW:
        return np.asarray(handle.data).astype(np.float32)
    torch_type, raw, _ = _NARROW[kind]
    bits = torch.from_numpy(np.array(handle.data, order='C', copy=True).view(
        np.int16 if raw is torch.int16 else np.uint8))
    return bits.view(torch_type).float().numpy()


def narrow(values: np.ndarray, kind: tl.dtype) -> np.ndarray:
    """Round float32 to nearest even, as the interpreter stores `kind`; fp8 saturates (PTX cvt)."""
    torch_type, raw, stored = _NARROW[kind]
    wide = torch.from_numpy(np.array(values, dtype=np.float32, order='C', copy=True))
    if kind is not tl.bfloat16:
        top = torch.finfo(torch_type).max
        wide = wide.clamp(-top, top)
    return wide.to(torch_type).view(raw).numpy().view(stored).reshape(np.shape(values))


def _dot(original: Callable) -> Callable:
    def create_dot(self, a, b, d, input_precision, *rest):
        if not a.dtype.scalar.is_floating() or a.dtype.scalar is tl.float64:
            return original(self, a, b, d, input_precision, *rest)
        left, right = widen(a), widen(b)
        if a.dtype.scalar is tl.float32 and 'TF32' == getattr(input_precision, 'name', ''):
            left, right = _tf32(left), _tf32(right)
        return Handle(np.matmul(left, right).astype(d.data.dtype) + d.data, d.dtype.scalar)
    return create_dot


def _tf32(values: np.ndarray) -> np.ndarray:
    """What the matrix unit reads of a float32: 10 bits of mantissa."""
    return (values.view(np.uint32) & np.uint32(0xffffe000)).view(np.float32)


def _cast(original: Callable) -> Callable:
    def cast_impl(self, src, dst_type):
        source, target = src.dtype.scalar, dst_type.scalar
        if target in _NARROW:
            return src if source is target else Handle(narrow(widen(src), target), target)
        if source in _NARROW:
            wide = widen(src)
            if not target.is_floating():
                wide = np.trunc(wide)
            return Handle(wide.astype(tri._get_np_dtype(target)), target)
        return original(self, src, dst_type)
    return cast_impl


def _fp_to_fp(original: Callable) -> Callable:
    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        if rounding_mode == tri._ir.ROUNDING_MODE.RTZ:
            return original(self, src, dst_type, rounding_mode)
        return self.cast_impl(src, dst_type)
    return create_fp_to_fp


def _refuse_narrow(name: str) -> Callable[[Callable], Callable]:
    def wrap(original: Callable) -> Callable:
        def create(self, *args):
            for arg in args:
                if isinstance(arg, Handle) and arg.dtype.scalar in _NARROW:
                    raise NarrowArithmetic(
                        f'kernel {MEMORY.kernel}: {name[len("create_"):]} in {arg.dtype.scalar}: '
                        f'expected arithmetic in float32 and {arg.dtype.scalar} in load, dot and '
                        f'store only; add .to(tl.float32)')
            return original(self, *args)
        return create
    return wrap


def _refuse_narrow_reduction(original: Callable) -> Callable:
    def check_tensor(self, tensors):
        original(self, tensors)
        for tensor in tensors:
            if tensor.dtype.scalar in _NARROW:
                raise NarrowArithmetic(f'kernel {MEMORY.kernel}: reduction or scan in '
                                       f'{tensor.dtype.scalar}: expected float32')
    return check_tensor


@dataclass
class Memory:
    """What the launch that is running may touch, and which program stored where.

    names, low, high: argument and address range of each storage, ascending and disjoint.
    owners: page of addresses -> for each byte 1 + the number of the program that stored it.
    """

    kernel: str = ''
    names: list[str] = field(default_factory=list)
    low: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    high: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    owners: dict[int, np.ndarray] = field(default_factory=dict)

    def begin(self, kernel: str, arguments: dict[str, Any]) -> None:
        """Learn the storages of a launch's arguments."""
        ranges: list[tuple[int, int, str]] = []
        for name, value in arguments.items():
            for tensor in _tensors(value):
                storage = tensor.untyped_storage()
                if storage.nbytes():
                    start = storage.data_ptr()
                    ranges.append((start, start + storage.nbytes(), name))
        merged: list[tuple[int, int, str]] = []
        for start, end, name in sorted(ranges):
            if merged and start < merged[-1][1]:
                first = merged[-1]
                merged[-1] = (first[0], max(first[1], end), first[2])
            else:
                merged.append((start, end, name))
        self.kernel, self.owners = kernel, {}
        self.names = [name for _, _, name in merged]
        self.low = np.array([start for start, _, _ in merged], np.int64)
        self.high = np.array([end for _, end, _ in merged], np.int64)

    def check(self, what: str, pointers: Handle, mask: Any, program: tuple[int, ...]
              ) -> tuple[np.ndarray, int]:
        """Addresses that are touched, and bytes at each. :raises BadAccess: where one is outside.
        """
        data = np.asarray(pointers.data)
        on = np.ones(data.shape, bool) if mask is None else np.broadcast_to(
            np.asarray(getattr(mask, 'data', mask)).astype(bool), data.shape)
        addresses = data[on].astype(np.int64)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        if not addresses.size:
            return addresses, size
        if not self.names:
            raise BadAccess(f'kernel {self.kernel}, program {program}: {what} of {size} bytes, '
                            f'but no argument has memory')
        index = np.searchsorted(self.low, addresses, side='right') - 1
        near = np.maximum(index, 0)
        outside = (index < 0) | (addresses + size > self.high[near])
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            region = int(near[first])
            raise BadAccess(
                f'kernel {self.kernel}, program {program}: {what} of {size} bytes at byte offset '
                f'{int(addresses[first] - self.low[region])} of {self.names[region]!r}, whose '
                f'storage has {int(self.high[region] - self.low[region])} bytes '
                f'({int(outside.sum())} of {addresses.size} addresses lie outside every argument)')
        return addresses, size

    def claim(self, addresses: np.ndarray, size: int, program: tuple[int, ...],
              grid: tuple[int, ...]) -> None:
        """Note who stores. :raises BadAccess: where another program has stored already."""
        me = 1 + (program[0] * grid[1] + program[1]) * grid[2] + program[2]
        touched = (addresses[:, None] + np.arange(size)).ravel()
        pages = touched // _OWNER_BYTES
        for page in np.unique(pages).tolist():
            owners = self.owners.setdefault(page, np.zeros(_OWNER_BYTES, np.int32))
            at = touched[pages == page] - page * _OWNER_BYTES
            others = (owners[at] != 0) & (owners[at] != me)
            if others.any():
                first = int(at[others][0])
                other = int(owners[first]) - 1
                where = np.searchsorted(self.low, page * _OWNER_BYTES + first, side='right') - 1
                before = (other // (grid[1] * grid[2]), other // grid[2] % grid[1],
                          other % grid[2])
                raise BadAccess(
                    f'kernel {self.kernel}: write race: programs {before} and {program} both '
                    f'store to byte offset {page * _OWNER_BYTES + first - int(self.low[where])} '
                    f'of {self.names[where]!r}')
            owners[at] = me


MEMORY = Memory()
# Modules whose functions interpret, in the launch that is running.
_PATCHED: set[tuple[int, ...]] = set()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, 'base') and not isinstance(value, torch.Tensor):
        yield from _tensors(value.base)  # a tensor descriptor, or a tensor seen as another type
    elif isinstance(value, torch.Tensor):
        yield value


def _begin_launch(original: Callable) -> Callable:
    def init_args(self, args_dev, kwargs):
        args, kwargs_host = original(self, args_dev, kwargs)
        MEMORY.begin(self.fn.__name__, {**dict(zip(self.arg_names, args)), **kwargs_host})
        return args, kwargs_host
    return init_args


def _patch_once(original: Callable) -> Callable:
    def patch_lang(fn):
        known = tuple(id(value) for value in fn.__globals__.values()
                      if value is tl or value is tl.core)
        if known in _PATCHED:
            return getattr(tri, '_LangPatchScope', lambda: None)()
        scope = original(fn)
        _PATCHED.add(known)
        return scope
    return patch_lang


def _launch(original: Callable) -> Callable:
    def call(self, *args, **kwargs):
        _PATCHED.clear()
        try:
            return original(self, *args, **kwargs)
        except tri.InterpreterError as error:
            cause: BaseException | None = error  # wrapped once for each function on the way up
            while cause is not None:
                if isinstance(cause, (BadAccess, NarrowArithmetic)):
                    raise cause from None
                cause = cause.__cause__
            raise
        finally:
            _PATCHED.clear()
    return call


def _load(original: Callable) -> Callable:
    def create_masked_load(self, ptrs, mask, *rest, **kwargs):
        MEMORY.check('load', ptrs, mask, self.grid_idx)
        return original(self, ptrs, mask, *rest, **kwargs)
    return create_masked_load


def _store(original: Callable) -> Callable:
    def create_masked_store(self, ptrs, value, mask, *rest, **kwargs):
        addresses, size = MEMORY.check('store', ptrs, mask, self.grid_idx)
        MEMORY.claim(addresses, size, self.grid_idx, self.grid_dim)
        return original(self, ptrs, value, mask, *rest, **kwargs)
    return create_masked_store


def _atomic_rmw(original: Callable) -> Callable:
    def create_atomic_rmw(self, rmw_op, ptr, val, mask, *rest):
        MEMORY.check('atomic', ptr, mask, self.grid_idx)
        return original(self, rmw_op, ptr, val, mask, *rest)
    return create_atomic_rmw


def _atomic_cas(original: Callable) -> Callable:
    def create_atomic_cas(self, ptr, *rest):
        MEMORY.check('atomic', ptr, None, self.grid_idx)
        return original(self, ptr, *rest)
    return create_atomic_cas


def _constant(kind: tl.dtype) -> Callable:
    return lambda self, value: Handle(narrow(np.array([value], np.float32), kind), kind)


_CHANGES: tuple[tuple[Any, str, Callable[[Callable], Callable]], ...] = (
    (tri.InterpreterBuilder, 'create_dot', _dot),
    (tri.InterpreterBuilder, 'cast_impl', _cast),
    (tri.InterpreterBuilder, 'create_fp_to_fp', _fp_to_fp),
    *((tri.InterpreterBuilder, name, _refuse_narrow(name)) for name in _ARITHMETIC),
    (tri.InterpreterBuilder, 'create_masked_load', _load),
    (tri.InterpreterBuilder, 'create_masked_store', _store),
    (tri.InterpreterBuilder, 'create_atomic_rmw', _atomic_rmw),
    (tri.InterpreterBuilder, 'create_atomic_cas', _atomic_cas),
    (tri.ReduceScanOpInterface, 'check_tensor', _refuse_narrow_reduction),
    (tri.GridExecutor, '_init_args_hst', _begin_launch),
    (tri.GridExecutor, '__call__', _launch),
    (tri, '_patch_lang', _patch_once),
)
_originals: dict[tuple[Any, str], Callable] = {}


def install() -> None:
    """Correct and watch the interpreter from now on. More than once is once."""
    if _originals:
        return
    for owner, name, wrap in _CHANGES:
        _originals[owner, name] = operator.getitem(vars(owner), name)
        setattr(owner, name, wrap(_originals[owner, name]))
    if not hasattr(tri.InterpreterBuilder, 'get_bf16'):  # constants in bfloat16: none up to 3.8
        tri.InterpreterBuilder.get_bf16 = _constant(tl.bfloat16)


def uninstall() -> None:
    """Give the interpreter back as it came."""
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


@contextlib.contextmanager
def as_it_came() -> Iterator[None]:
    """Run the interpreter uncorrected, to see whether the corrections are still needed."""
    installed = bool(_originals)
    uninstall()
    try:
        yield
    finally:
        if installed:
            install()


def interpreting() -> bool:
    """Whether kernels run in the interpreter, not on a GPU."""
    return bool(triton.knobs.runtime.interpret)
