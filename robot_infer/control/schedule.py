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

"""The absolute schedule of a loop, and what is done when the loop comes late.

The arithmetic is that of ros2_control's sleeping policy (controller_manager,
sleeping_policies.cpp): where the next time is already past, the schedule moves on by whole
periods, so the phase is kept and no burst follows. Nothing here sends or logs anything.
"""

from __future__ import annotations

from dataclasses import dataclass
import threading

from robot_infer.control.clock import NS_PER_S, Clock

_WARN_EVERY_NS = NS_PER_S


@dataclass(frozen=True)
class Period:
    """One period of the schedule that has come.

    :param index: periods since the start, skipped ones included; the first is 0.
    :param scheduled_ns: when it was to begin.
    :param started_ns: when the thread really woke.
    :param skipped: periods that were left out just before this one, because the loop overran.
    """

    index: int
    scheduled_ns: int
    started_ns: int
    skipped: int

    @property
    def lateness_ns(self) -> int:
        """How much later than scheduled it began."""
        return max(0, self.started_ns - self.scheduled_ns)


@dataclass(frozen=True)
class Overrun:
    """One loop that ended after its next time: `loop_ns` since its own scheduled time."""

    loop_ns: int
    missed: int


class RateKeeper:
    """Wakes its thread once per period, on times that depend on the start and nothing else.

    :param period_s: length of a period; times are start + index * period, so that rounding never
        adds up.
    :param run_late: what an overrun does. False (a control loop): the period that has begun is
        missed too and the next whole one is waited for; missed = ceil(late / period). True (the
        inference worker): the period that has begun is used, late; missed = floor(late / period).
    """

    def __init__(self, period_s: float, clock: Clock, *, run_late: bool = False) -> None:
        assert period_s > 0.0, period_s
        self._clock = clock
        self._run_late = run_late
        self._period_ns = period_s * NS_PER_S
        self._start_ns = clock.now_ns()
        self._index = -1
        self.overruns = 0
        self.skipped = 0
        self._last_overrun: Overrun | None = None
        self._warned_overruns = 0
        self._warned_ns: int | None = None

    @property
    def period_s(self) -> float:
        """Length of a period in seconds."""
        return self._period_ns / NS_PER_S

    @property
    def next_ns(self) -> int:
        """When the next period begins."""
        return self._time_ns(self._index + 1)

    def start(self) -> None:
        """Begin anew: the first period is now."""
        self._start_ns = self._clock.now_ns()
        self._index = -1

    def change_period(self, period_s: float) -> None:
        """Go on with another period, counted from the period that runs now.

        Where the next one would have begun by that already, it begins now; none was missed.
        """
        assert period_s > 0.0, period_s
        self._start_ns = self._time_ns(max(self._index, 0))
        self._period_ns = period_s * NS_PER_S
        if self._index >= 0:
            self._index = 0
            self._start_ns += max(0, self._clock.now_ns() - self.next_ns)

    def wait(self, stop: threading.Event | None = None) -> Period | None:
        """Wait for the next period; None where `stop` was set first."""
        skipped = self._skip_missed(self._clock.now_ns())
        scheduled_ns = self.next_ns
        if self._clock.wait_until_ns(scheduled_ns, stop):
            return None
        self._index += 1
        return Period(self._index, scheduled_ns, self._clock.now_ns(), skipped)

    def take_warning(self, now_ns: int, stages: str = '') -> str | None:
        """The words on the overruns since the last warning, at most once a second, else None.

        stages: how the time of the newest overrun was spent, in words. May be called from any
        thread; the loop itself never makes the text.
        """
        overrun, overruns = self._last_overrun, self.overruns
        if overrun is None or overruns == self._warned_overruns:
            return None
        if self._warned_ns is not None and now_ns - self._warned_ns < _WARN_EVERY_NS:
            return None
        number = overruns - self._warned_overruns
        self._warned_overruns, self._warned_ns = overruns, now_ns
        more = f' {number} overruns since the last warning.' if number > 1 else ''
        return (f'Overrun: wanted {1.0 / self.period_s:.1f} Hz, but the loop took '
                f'{overrun.loop_ns * 1e-6:.1f} ms (missed cycles: {overrun.missed}){stages}.'
                f'{more}')

    def _skip_missed(self, now_ns: int) -> int:
        """Move past the periods that are missed; returns how many."""
        late_ns = now_ns - self.next_ns
        if late_ns <= 0 or self._index < 0:  # the first period is what the phase begins with
            return 0
        if self._run_late:
            missed = int(late_ns // self._period_ns)
        else:
            missed = int(-(-late_ns // self._period_ns))
        if missed:
            self._last_overrun = Overrun(now_ns - self._time_ns(self._index), missed)
            self._index += missed
            self.skipped += missed
            self.overruns += 1
        return missed

    def _time_ns(self, index: int) -> int:
        return self._start_ns + round(index * self._period_ns)
