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

"""What the process itself costs the ticks: garbage collections and resident memory."""

from __future__ import annotations

import ctypes
import gc
import os
import time

from robot_infer.control.window import Window

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_LARGEST_BLOCK, _KEPT_AT_MOST, _RESERVE = 32 * 2**20, 128 * 2**20, 32 * 2**20


class CollectorWatch:
    """Measures the pauses of the garbage collector, which stop every thread of the process."""

    def __init__(self) -> None:
        self.pauses_s = Window(256)
        self._began_ns = 0
        self._watching = False

    def start(self) -> None:
        """Begin to listen; nothing happens where it does."""
        if not self._watching:
            gc.callbacks.append(self._on_collection)
            self._watching = True

    def stop(self) -> None:
        """Listen no more."""
        if self._watching:
            gc.callbacks.remove(self._on_collection)
            self._watching = False

    def clear(self) -> None:
        """Begin the figures anew."""
        self.pauses_s = Window(256)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        # The collector holds the interpreter from `start` to `stop`: these never interleave.
        if phase == 'start':
            self._began_ns = time.monotonic_ns()
        elif self._began_ns:
            self.pauses_s.add((time.monotonic_ns() - self._began_ns) * 1e-9)


def keep_freed_memory() -> bool:
    """Let the C library keep what messages free, for the next ones; whether it can.

    By default it gives back to the system what a large message took, and each page of the next
    one is then a page fault, under the interpreter's lock: 451 for one 640x480 rgb8 image, 1.21 ms
    of it in all; 0.35 ms with this. A reserve is touched now, so that a backlog of images later
    does not make the process grow; it serves all threads behind ros/start.py.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, 'mallopt'):  # musl
        return False
    kept = bool(libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
                & libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST))
    libc.malloc.restype = ctypes.c_void_p
    pieces = [libc.malloc(ctypes.c_size_t(_RESERVE // 4)) for _ in range(4)]
    for piece in filter(None, pieces):
        ctypes.memset(piece, 1, _RESERVE // 4)
        libc.free(ctypes.c_void_p(piece))
    return kept


def give_back_memory() -> None:
    """Give back what nobody holds any more, of a policy that was closed above all.

    Objects that refer to each other in a ring are freed by the collector only, and with the many
    objects of torch about it comes by too seldom: a closed policy stayed for a dozen more. What
    the C library kept for the next messages goes too.
    """
    gc.collect()
    trim_memory()


def trim_memory() -> None:
    """Give back to the system what the C library kept of what was freed."""
    trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)  # glibc's
    if trim is not None:
        trim(0)


def held_bytes(kind: str, pid: int | None = None) -> int:
    """One kind of memory that a process holds (this one where `pid` is None).

    :param kind: as /proc/PID/status names it: RssAnon is backed by no file, RssShmem is shared.
    :raises OSError: where the process is gone, or the system does not tell.
    """
    path = f'/proc/{"self" if pid is None else pid}/status'
    with open(path) as file:
        for line in file:
            if line.startswith(f'{kind}:'):
                return 1024 * int(line.split()[1])
    raise OSError(f'no {kind} in {path}')


def resident_bytes(pid: int | None = None) -> int:
    """Memory that a process holds (this one where `pid` is None); 0 where it is gone."""
    try:
        with open(f'/proc/{"self" if pid is None else pid}/statm', 'rb') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    except (OSError, IndexError):
        return 0
