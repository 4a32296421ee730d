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

"""The C++ kernel for attention over pages, loaded with ctypes.

What lives here: which build this processor gets, what is refused (no library, one of another
source, of another machine), and the call. What does not: the kernel (attend.cpp), how it is
compiled (build.py), and when torch is used instead (attention.py).

A call keeps no lock of Python's while it computes. Its threads are torch's own: the libraries are
handed `GOMP_parallel` of the OpenMP that torch brought into the process, so no second pool of
threads fights torch's, which stay awake for milliseconds after each operation, for the cores. To
share work with a thread that is awake takes 1.1 us so, 4.5 us through a condition variable of our
own (medians, Zen 4, 2 cores). What is computed does not depend on the number of threads.

ROBOT_INFER_NATIVE=0 keeps the kernel off; =avx2, say, names another build.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
import functools
import os
from pathlib import Path
import re

import torch

from robot_infer_kernels.cpu import build
from robot_infer_kernels.pages import Plane, QuantisedPlane
from robot_infer_kernels.plan import AttentionPlan

_QUERY_FORMATS = {torch.float32: 0, torch.bfloat16: 1}
_PAGE_FORMATS = {**_QUERY_FORMATS, torch.int8: 2}
_FAILURES = {1: 'this build does not take so small a head_dim', 2: 'no memory for its workspace'}
FORMS = {'auto': 0, 'few': 1, 'many': 2}
_int, _long, _float, _pointer = (ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p)


class _Plan(ctypes.Structure):
    """AttendPlan of attend.cpp."""

    _fields_ = [
        *((name, _long) for name in ('num_tokens', 'num_heads', 'num_kv_heads', 'head_dim')),
        ('keys', _pointer), ('values', _pointer),
        *((name, _long) for name in ('page_tokens', 'page_stride', 'token_stride',
                                     'head_stride')),
        ('key_scales', _pointer), ('value_scales', _pointer),
        *((name, _long) for name in ('scale_page_stride', 'scale_token_stride',
                                     'scale_head_stride', 'begin', 'high', 'window')),
        ('pages', _pointer), ('limits', _pointer),
        *((name, _int) for name in ('query_format', 'page_format', 'form'))]


class NativeError(Exception):
    """Why a library is not used."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A plan on one plane as the library reads it, with what its addresses point into."""

    struct: _Plan
    address: int
    held: tuple[object, ...]


class Library:
    """One build, loaded and found to be of these sources.

    :raises NativeError: where it cannot be used; it says why.
    """

    def __init__(self, name: str, folder: Path = build.HERE) -> None:
        path = folder / build.file_name(name)
        if not path.is_file():
            raise NativeError(f'{path.name} was not built')
        try:
            loaded = ctypes.CDLL(str(path))
            version, wanted = loaded.attend_version, build.source_version()
        except (OSError, AttributeError) as error:
            raise NativeError(f'{path.name} is not for this machine: {error}') from error
        version.restype, version.argtypes = ctypes.c_uint64, ()
        if version() != wanted:
            raise NativeError(f'{path.name} is of other sources than those beside it')
        self._attend, self.read = loaded.attend, loaded.read_memory
        self._attend.argtypes = (_pointer, _pointer, _long, _long, _pointer, _float, _float, _int)
        self.read.argtypes, self.read.restype = (_pointer, _long, _int), None
        loaded.attend_use_threads.argtypes, loaded.attend_use_threads.restype = (_pointer,), None
        loaded.attend_use_threads(_parallel_of_torch())
        self.name = name
        self.lanes_of_processor: int = loaded.attend_widest()

    def attend(self, q: torch.Tensor, prepared: Prepared, scale: float,
               softcap: float | None) -> torch.Tensor:
        """Attend by a prepared plan; see `attention.planned_attention`.

        :param q: (num_tokens, num_heads, head_dim) as it was prepared for.
        """
        if q.stride(2) != 1:
            q = q.contiguous()
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        failure = self._attend(prepared.address, q.data_ptr(), q.stride(0), q.stride(1),
                               out.data_ptr(), scale, softcap or 0.0, torch.get_num_threads())
        if failure:
            raise MemoryError(_FAILURES[failure]) if failure == 2 else NativeError(
                _FAILURES[failure])
        return out


def read_memory(tensor: torch.Tensor) -> None:
    """Read a contiguous tensor once on torch's number of threads: the floor of a benchmark.

    :raises NativeError: where there is no library.
    """
    found, why = _search()
    if found is None:
        raise NativeError(why)
    found.read(tensor.data_ptr(), tensor.nbytes, torch.get_num_threads())


def takes(q: torch.Tensor, kv: Plane) -> bool:
    """Whether the kernel knows these types."""
    if isinstance(kv, QuantisedPlane):
        return kv.format == 'int8' and q.dtype in _QUERY_FORMATS
    return kv.dtype in _QUERY_FORMATS and kv.stride(4) == 1


def prepare(q: torch.Tensor, kv: Plane, plan: AttentionPlan, form: str = 'auto') -> Prepared:
    """Lay out a plan on a plane for any number of calls with queries like `q`.

    :param form: 'auto', 'few' or 'many', for tests and measurements.
    """
    quantised = isinstance(kv, QuantisedPlane)
    pages = kv.values if quantised else kv
    keys, values = pages[0], pages[1]
    scales = (kv.scales[0], kv.scales[1]) if quantised else (None, None)
    struct = _Plan(
        q.shape[0], q.shape[1], *kv.shape[3:], keys.data_ptr(), values.data_ptr(), kv.shape[2],
        *pages.stride()[1:4], *(side if side is None else side.data_ptr() for side in scales),
        *(kv.scales.stride()[1:4] if quantised else (0, 0, 0)), plan.begin, plan.high,
        plan.window or 0, plan.seen_index.data_ptr(), plan.limits_there.data_ptr(),
        _QUERY_FORMATS[q.dtype], _PAGE_FORMATS[pages.dtype], FORMS[form])
    return Prepared(struct, ctypes.addressof(struct),
                    (keys, values, scales, plan.seen_index, plan.limits_there))


def for_head_dim(head_dim: int) -> Library | None:
    """The library for heads of a size on this processor; None where torch has to do."""
    found = chosen()
    if found is None or head_dim >= 16 or found.name != 'avx512':
        return found
    return _narrow()  # a head has to fill a vector


@functools.cache
def chosen() -> Library | None:
    """The widest library that this processor runs; None where there is none."""
    return _search()[0]


def describe() -> tuple[bool, str]:
    """Whether the kernel is used on this machine, and which, or why not."""
    found, why = _search()
    if found is None:
        return False, f'torch alone runs attention on the CPU: {why}'
    threads = "torch's threads" if _parallel_of_torch() else 'one thread (torch has no OpenMP)'
    return True, f'C++ kernel, {found.name} build, on {threads}'


@functools.cache
def _search() -> tuple[Library | None, str]:
    """The library for this processor, or why there is none."""
    wanted = os.environ.get('ROBOT_INFER_NATIVE', '1')
    if wanted == '0':
        return None, 'ROBOT_INFER_NATIVE=0'
    names = list(build.builds())
    try:
        plainest = Library(names[-1])
        lanes = {'avx512': 16, 'avx2': 8}
        fitting = [name for name in names if lanes.get(name, 4) <= plainest.lanes_of_processor]
        if wanted != '1' and wanted not in fitting:
            raise NativeError(f'ROBOT_INFER_NATIVE={wanted}: expected 0, 1 or one of '
                              f'{", ".join(fitting)} on this processor')
        return Library(fitting[0] if wanted == '1' else wanted), ''
    except NativeError as error:
        return None, f'{error}; build it with python -m robot_infer_kernels.cpu'


@functools.cache
def _narrow() -> Library | None:
    """The library for heads that do not fill the widest vector."""
    try:
        return Library('avx2')
    except NativeError:
        return None


@functools.cache
def _parallel_of_torch() -> int | None:
    """Address of `GOMP_parallel` in the OpenMP that torch uses; None where it has another."""
    for library in (None, *_openmp_files()):
        try:
            return ctypes.cast(ctypes.CDLL(library).GOMP_parallel, _pointer).value
        except (OSError, AttributeError):
            continue
    return None


def _openmp_files() -> list[str]:
    """OpenMP runtimes that are loaded, where they are not visible to all of the process."""
    maps = Path('/proc/self/maps')
    if not maps.is_file():
        return []
    return sorted(set(re.findall(r'(/\S*/lib(?:g|i)omp[^/\s]*)$', maps.read_text(),
                                 re.MULTILINE)))
