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


"""Loops that do nothing but sleep, one bound to each core: where even they were late, so was all.

A machine with other work stalls whole processes. Times of the node are judged beside these:
`stalled_ns` says how long the machine itself held up whoever wanted to run.
"""

from __future__ import annotations

from collections.abc import Sequence
import os
from pathlib import Path
import subprocess
import sys
import time

_LOOP = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
period_ns, due_ns = 5_000_000, time.time_ns()
while True:
    due_ns += period_ns
    time.sleep(max(0, due_ns - time.time_ns()) / 1e9)
    now_ns = time.time_ns()
    print(due_ns, now_ns, flush=True)
    due_ns = max(due_ns, now_ns - period_ns)
"""
_MOST_CORES = 8
_ON_TIME_NS = 500_000


class BareLoops:
    """The loops, at work until `close`. Times are those of the wall clock, as DDS stamps have."""

    def __init__(self, folder: Path) -> None:
        cores = sorted(os.sched_getaffinity(0))[:_MOST_CORES]
        self._files = [folder / f'core_{core}' for core in cores]
        self._loops = []
        for core, path in zip(cores, self._files):
            with path.open('w') as file:
                self._loops.append(subprocess.Popen(
                    [sys.executable, '-S', '-c', _LOOP, str(core)], stdout=file,
                    stdin=subprocess.DEVNULL))
        self.await_ns(time.time_ns())

    def await_ns(self, time_ns: int) -> list[list[tuple[int, int]]]:
        """The notes of each loop, (due, woke), once all have got to `time_ns`."""
        while True:
            notes = [_read(path) for path in self._files]
            if all(note and note[-1][1] >= time_ns for note in notes):
                return notes
            assert all(loop.poll() is None for loop in self._loops), 'a bare loop has ended'
            time.sleep(0.005)

    def worst_ns(self, begin_ns: int, end_ns: int) -> int:
        """The longest that any loop was held up for, in part or whole within this time."""
        return max((woke - due for notes in self.await_ns(end_ns) for due, woke in notes
                    if woke >= begin_ns and due <= end_ns), default=0)

    def share_without(self, times_ns: Sequence[int], period_s: float) -> float:
        """Share of the time from first to last in which something was due and did not come.

        It is due one period after the last one, and half a period later it is late; while the
        machine itself stalls, nothing is due.
        """
        period_ns = period_s * 1e9
        stalls = [[(due, woke) for due, woke in notes if woke - due > _ON_TIME_NS]
                  for notes in self.await_ns(times_ns[-1])]
        lost = 0.0
        for begin, end in zip(times_ns, times_ns[1:]):
            late = end - begin - 1.5 * period_ns
            if late > 0:
                lost += max(0.0, late - max(
                    sum(max(0, min(woke, end) - max(due, begin)) for due, woke in notes)
                    for notes in stalls))
        return lost / (times_ns[-1] - times_ns[0])

    def close(self) -> None:
        """End them."""
        for loop in self._loops:
            loop.kill()
            loop.wait()


def _read(path: Path) -> list[tuple[int, int]]:
    lines = path.read_text().split('\n')[:-1]  # the last one may be half written
    return [(int(due), int(woke)) for due, woke in map(str.split, lines)]
