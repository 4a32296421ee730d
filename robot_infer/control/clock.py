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

"""The steady clock that both loops run on, and one that a test or a replay turns by hand.

Nothing here knows ROS time: stamps of senders are never compared with these times directly.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

NS_PER_S = 1_000_000_000

# How often a wait on the manual clock looks at its event, in real seconds. It bounds only how
# soon a waiting thread notices; what it decides depends on the manual time alone.
_POLL_S = 0.001


class Clock(Protocol):
    """Nanoseconds that never jump, and a way to wait for them."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed instant; never goes back."""
        ...

    def wait_until_ns(self, time_ns: int, event: threading.Event | None = None) -> bool:
        """Wait until `time_ns`, or until `event` is set; True says that the event is set."""
        ...


class MonotonicClock:
    """This process's monotonic clock (CLOCK_MONOTONIC)."""

    def now_ns(self) -> int:
        """Nanoseconds since boot or another fixed instant."""
        return time.monotonic_ns()

    def wait_until_ns(self, time_ns: int, event: threading.Event | None = None) -> bool:
        """Sleep until `time_ns` or until `event` is set; True says that the event is set."""
        while True:
            left_s = (time_ns - time.monotonic_ns()) / NS_PER_S
            if left_s <= 0.0:
                return event is not None and event.is_set()
            if event is None:
                time.sleep(left_s)
            elif event.wait(left_s):
                return True


class ManualClock:
    """A clock that stands still until it is told to go on.

    For lock-step runs (replay, evaluation) and for tests. Threads may wait on it; whoever turns
    it can wait, in real time, until they do (`await_waiters`).
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._condition = threading.Condition()
        self._waiting: list[int] = []

    def now_ns(self) -> int:
        """The time it was last turned to."""
        return self._now_ns

    def advance_ns(self, step_ns: int) -> int:
        """Go on by `step_ns` (not negative); returns the new time."""
        if step_ns < 0:
            raise ValueError(f'a steady clock cannot go back by {-step_ns} ns')
        with self._condition:
            self._now_ns += step_ns
            self._condition.notify_all()
            return self._now_ns

    def advance_s(self, step_s: float) -> int:
        """Go on by `step_s` seconds; returns the new time in nanoseconds."""
        return self.advance_ns(round(step_s * NS_PER_S))

    def wait_until_ns(self, time_ns: int, event: threading.Event | None = None) -> bool:
        """Block until somebody turns the clock to `time_ns` or sets `event`."""
        with self._condition:
            self._waiting.append(time_ns)
            self._condition.notify_all()
            try:
                while self._now_ns < time_ns:
                    if event is not None and event.is_set():
                        return True
                    self._condition.wait(_POLL_S if event is not None else None)
            finally:
                self._waiting.remove(time_ns)
        return event is not None and event.is_set()

    def await_waiters(self, number: int = 1, timeout_s: float = 10.0) -> bool:
        """Wait, in real time, until `number` threads sleep on a time still to come."""
        with self._condition:
            return self._condition.wait_for(
                lambda: sum(time_ns > self._now_ns for time_ns in self._waiting) >= number,
                timeout_s)
