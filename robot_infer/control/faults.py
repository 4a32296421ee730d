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

"""The board of faults: which are there now, how often, since when, and their last words.

The inference worker, the control tick and the middleware's callbacks write on it; the log, the
status and the diagnostics read it. It decides nothing about what the robot does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
import threading
import traceback as tracebacks

from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.errors import RobotInferError

UNEXPECTED = 'UnexpectedError'


@dataclass(frozen=True)
class Fault:
    """One kind of fault, by name.

    :param message: the last words: expected, got, what to do.
    :param count: how often it was reported since the board was wiped.
    :param first_ns: since when it is there, on the steady clock.
    :param active: whether it is there now: until it is cleared, or until `ends_ns`.
    :param traceback: where an unexpected error came from; '' for the named ones.
    """

    name: str
    message: str
    count: int
    first_ns: int
    last_ns: int
    active: bool
    traceback: str = ''
    ends_ns: int | None = None

    @property
    def momentary(self) -> bool:
        """Whether it is told for a while although it was over as soon as it had happened."""
        return self.ends_ns is not None

    def __str__(self) -> str:
        return f'{self.name}: {self.message}'


@dataclass(frozen=True)
class _Note:
    """One thing written on the board; `message` None says that the fault is over."""

    name: str
    message: str | None
    time_ns: int
    traceback: str = ''
    ends_ns: int | None = None


class FaultBoard:
    """Faults by name, so that a flood of one of them takes no memory.

    Writing never waits: a note is put on a queue (an atomic append) and folded into the table by
    whoever finds the table free. So the control tick may report without ever meeting a lock that
    another thread holds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes: deque[_Note] = deque()
        self._table: dict[str, Fault] = {}
        self._folding = threading.Lock()

    def report(self, error: BaseException, lasts_s: float | None = None) -> str:
        """Write down that `error` happened; returns the name it is filed under.

        lasts_s: how long the fault counts as active without being reported again, for a reporter
        that cannot tell when it is over; None leaves that to `clear`.
        """
        now_ns = self._clock.now_ns()
        ends_ns = None if lasts_s is None else now_ns + round(lasts_s * NS_PER_S)
        if isinstance(error, RobotInferError):
            note = _Note(error.name, str(error), now_ns, ends_ns=ends_ns)
        else:
            where = ''.join(
                tracebacks.format_exception(type(error), error, error.__traceback__))
            note = _Note(
                UNEXPECTED, f'{type(error).__name__}: {error}', now_ns, where, ends_ns)
        self._write(note)
        return note.name

    def clear(self, name: str) -> None:
        """Say that the fault `name` is over; its count is kept."""
        self._write(_Note(name, None, self._clock.now_ns()))

    def forget(self) -> None:
        """Wipe the board, counts included."""
        with self._folding:
            self._notes.clear()
            self._table.clear()

    def active(self) -> tuple[Fault, ...]:
        """The faults that are there now, the oldest first."""
        return tuple(fault for fault in self.seen() if fault.active)

    def seen(self) -> tuple[Fault, ...]:
        """Every fault since the board was wiped, those that are over included; oldest first.

        One that was over and came again counts from then on.
        """
        now_ns = self._clock.now_ns()
        with self._folding:
            self._fold()
            for fault in tuple(self._table.values()):
                if fault.active and fault.ends_ns is not None and fault.ends_ns < now_ns:
                    self._table[fault.name] = replace(fault, active=False)
            return tuple(sorted(self._table.values(), key=lambda fault: fault.first_ns))

    def _write(self, note: _Note) -> None:
        self._notes.append(note)
        # Whoever holds the table folds this note too, or the next reader does.
        if self._folding.acquire(blocking=False):
            try:
                self._fold()
            finally:
                self._folding.release()

    def _fold(self) -> None:
        """Bring the table up to date; the caller holds `_folding`."""
        while self._notes:
            note = self._notes.popleft()
            old = self._table.get(note.name)
            if note.message is None:
                if old is not None:
                    self._table[note.name] = replace(old, active=False)
                continue
            self._table[note.name] = Fault(
                note.name, note.message, 1 if old is None else old.count + 1,
                note.time_ns if old is None or not old.active else old.first_ns,
                note.time_ns, True, note.traceback, note.ends_ns)
