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

"""How long the kernel lets a thread run before another's turn (Linux 6.12, EEVDF scheduler).

A thread with a short slice is put before those with longer ones when it wakes, and gets no more of
the processor for it. It needs no privilege. glibc has no function for it: sched_setattr(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

SHORTEST_S = 0.0001  # what the kernel grants at least
_SET_GET = {'x86_64': (314, 315), 'aarch64': (274, 275)}  # numbers of the system calls
_RESET_ON_FORK = 1  # what the thread starts has the usual slice
_NS_PER_S = 1e9


class _Attributes(ctypes.Structure):
    """struct sched_attr, as of its first version."""

    _fields_ = [
        ('size', ctypes.c_uint32), ('policy', ctypes.c_uint32), ('flags', ctypes.c_uint64),
        ('nice', ctypes.c_int32), ('priority', ctypes.c_uint32), ('runtime_ns', ctypes.c_uint64),
        ('deadline_ns', ctypes.c_uint64), ('period_ns', ctypes.c_uint64)]


def set_time_slice(thread: int, slice_s: float) -> None:
    """Give a thread of the normal scheduler a slice of 0.0001 to 0.1 s; 0 gives the usual one.

    :param thread: as the kernel numbers it.
    :raises OSError: where the system has no such slices, or refuses.
    """
    wanted = _read(thread)
    wanted.flags |= _RESET_ON_FORK
    wanted.runtime_ns = round(slice_s * _NS_PER_S)
    _call(0, thread, ctypes.byref(wanted), 0)
    if slice_s and _read(thread).runtime_ns != wanted.runtime_ns:  # older kernels say nothing
        raise OSError(errno.EOPNOTSUPP, f'Linux {platform.release()} has no time slice to choose')


def get_time_slice(thread: int) -> float:
    """The slice of a thread in seconds; 0.0 where the system has none to choose.

    :raises OSError: where the system refuses.
    """
    return _read(thread).runtime_ns / _NS_PER_S


def _read(thread: int) -> _Attributes:
    found = _Attributes()
    _call(1, thread, ctypes.byref(found), ctypes.sizeof(found), 0)
    found.size = ctypes.sizeof(found)
    return found


def _call(which: int, *arguments: object) -> None:
    numbers = _SET_GET.get(platform.machine())
    if numbers is None:
        raise OSError(errno.ENOSYS, f'no time slices known for {platform.machine()}')
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(numbers[which], *arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
