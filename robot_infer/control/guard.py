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

"""The guard: passes actions through while they come in time, and sends a safe one while not.

Paced, it also evens them out: an action waits for the guard's own next period, half a period
after it was due here, so that what delays the node's ticks by less than that is not felt.

It runs in a process of its own, judges by its own steady clock, and needs nothing of the node it
guards: not its process, not its word. What a message is, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import enum
import threading
from typing import Generic, TypeVar

from robot_infer.config import ControlSettings, GuardSettings
from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.control.threads import Routine
from robot_infer.control.window import Summary, Window

Action = TypeVar('Action')
TIMEOUT_PERIODS = 1.5
# Actions that come again after that long are those of another schedule.
_NEW_PHASE_PERIODS = 5


class GuardState(enum.Enum):
    """What the guard does now."""

    WAITING = 'waiting'  # nothing is expected: no action came yet, or the node was deactivated
    PASSING = 'passing'
    GUARDING = 'guarding'
    SILENT = 'silent'  # it has sent its substitute for guard.max_s


@dataclass(frozen=True)
class GuardStatus:
    """The guard at one moment.

    :param interventions: how often it took over. substitutes: actions it sent itself.
    :param withheld: actions that came while it was stopped for good.
    :param skipped: actions that were overtaken by a newer one before their period (paced only).
    :param lateness_s: of the guard's own periods (paced only).
    :param gap_s: from action to action as they came. since_s: how long it has guarded; 0 if not.
    """

    state: GuardState
    stopped: bool
    passed: int
    interventions: int
    substitutes: int
    withheld: int
    skipped: int
    lateness_s: Summary
    since_s: float
    gap_s: Summary


class Substitutes(Generic[Action]):
    """Makes the safe action; the middleware's side of it.

    :param zeros: an action like the given one (None: of the robot as configured), all zeros.
    :param measured: an action that holds the measured position; None where it is not known.
    """

    def __init__(
        self, zeros: Callable[[Action | None], Action], measured: Callable[[], Action | None],
    ) -> None:
        self.zeros, self.measured = zeros, measured


class Guard(Generic[Action]):
    """Decides and sends; `take` comes from the middleware's thread, `check` from the guard's.

    One lock orders the two, so that a substitute can never follow the action it was to replace.

    :param send: publishes an action.
    :param prepare: called by the watching thread before it begins: real-time settings.
    """

    def __init__(
        self, settings: GuardSettings, control: ControlSettings, clock: Clock,
        send: Callable[[Action], None], substitutes: Substitutes[Action],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.period_ns = round(NS_PER_S / control.rate_hz)
        # Paced, a period without an action is one already, half a period after it was due.
        periods = 1.0 if settings.paced else TIMEOUT_PERIODS
        self.timeout_ns = round(settings.timeout_s * NS_PER_S) or round(periods * self.period_ns)
        self._max_ns = round(settings.max_s * NS_PER_S)
        self._fallback, self._paced = settings.fallback, settings.paced
        self._clock, self._send, self._substitutes = clock, send, substitutes
        self._prepare = prepare
        self._turn = threading.Lock()
        self._gaps, self._lateness = Window(), Window()
        self._pending: Action | None = None
        self._state = GuardState.WAITING
        self._last: Action | None = None
        self._last_ns: int | None = None
        self._due_ns = self._since_ns = 0
        self._stopped = self._excused = self._phased = False
        self._passed = self._interventions = self._sent = self._withheld = self._skipped = 0
        self._routine = Routine('robot_infer guard', self._run)

    def take(self, action: Action) -> None:
        """An action came: pass it on, unless the robot was stopped for good."""
        with self._turn:
            now_ns = self._clock.now_ns()
            if self._last_ns is not None:
                self._gaps.add((now_ns - self._last_ns) / NS_PER_S)
            self._last_ns = now_ns
            if self._stopped:
                self._withheld += 1
                return
            if self._paced:
                self._hand_over(action, now_ns)
                return
            self._state, self._excused = GuardState.PASSING, False
            self._due_ns = now_ns + self.timeout_ns
            self._pass(action)

    def activated(self) -> None:
        """The node says that it begins: actions are expected, and a stop is over."""
        with self._turn:
            self._begin()

    def reset(self) -> None:
        """The node says that it starts over: a stop is over, and nothing else changes."""
        with self._turn:
            if self._stopped and self._state is not GuardState.WAITING:
                self._begin()
            self._stopped = False

    def deactivated(self) -> None:
        """The node says that it ends, in order: nothing is expected any more."""
        with self._turn:
            self._state, self._phased = GuardState.WAITING, False
            self._last = self._last_ns = self._pending = None

    def check(self) -> bool:
        """Send the safe action where one is due; whether it did."""
        with self._turn:
            now_ns = self._clock.now_ns()
            if self._state in (GuardState.WAITING, GuardState.SILENT) or now_ns < self._due_ns:
                return False
            if self._paced and self._pending is not None:
                self._begin_period(now_ns)
                self._state, self._excused = GuardState.PASSING, False
                action, self._pending = self._pending, None
                self._pass(action)
                return True
            if self._state is GuardState.PASSING:
                late_ns = now_ns - self._due_ns
                if late_ns > self.period_ns // 2 and not self._excused:
                    # This process was held up itself: what came meanwhile waits to be taken.
                    self._excused = True
                    self._due_ns = now_ns + self.period_ns // 2
                    return False
                if self._paced and self._phased and now_ns - self._last_ns < self.timeout_ns:
                    self._begin_period(now_ns)
                    return False
                self._state, self._since_ns = GuardState.GUARDING, now_ns
                if not self._paced:
                    self._due_ns = now_ns
                self._interventions += 1
                self._stopped = self._fallback == 'stop'
            elif self._max_ns and now_ns - self._since_ns >= self._max_ns:
                self._state = GuardState.SILENT
                return False
            self._begin_period(now_ns)
            action = self._safe()
            if action is None:
                return False
            self._sent += 1
            self._send(action)
            return True

    def next_ns(self) -> int:
        """When to check again, if nothing comes before."""
        if self._state in (GuardState.WAITING, GuardState.SILENT):
            return self._clock.now_ns() + self.period_ns
        return self._due_ns

    def start(self) -> None:
        """Begin to watch, in a thread of its own."""
        self._routine.start()

    def stop(self, timeout_s: float) -> bool:
        """Watch no more; False where the thread hangs in `send`."""
        return self._routine.stop(timeout_s)

    def status(self) -> GuardStatus:
        """The figures now."""
        with self._turn:
            guarding = self._state in (GuardState.GUARDING, GuardState.SILENT)
            since_s = (self._clock.now_ns() - self._since_ns) / NS_PER_S if guarding else 0.0
            return GuardStatus(
                self._state, self._stopped, self._passed, self._interventions, self._sent,
                self._withheld, self._skipped, self._lateness.summary(), since_s,
                self._gaps.summary())

    def _begin(self) -> None:
        """Expect actions from now on."""
        self._stopped = self._phased = False
        self._last_ns = None
        if self._state is not GuardState.PASSING:
            self._state = GuardState.PASSING
            self._due_ns = self._clock.now_ns() + self.timeout_ns

    def _pass(self, action: Action) -> None:
        self._last = action
        self._passed += 1
        self._send(action)

    def _hand_over(self, action: Action, now_ns: int) -> None:
        """Let an action wait for its period; the schedule begins with the first one.

        One that meets another still waiting shows that the schedule lies behind the node's by
        more than half a period: it begins anew.
        """
        overtaken = self._pending is not None
        self._skipped += overtaken
        self._pending = action
        guarded = self._state is GuardState.GUARDING and (
            now_ns - self._since_ns > _NEW_PHASE_PERIODS * self.period_ns)
        if not self._phased or overtaken or guarded or self._state is GuardState.SILENT:
            self._phased = True
            self._due_ns = now_ns + self.period_ns // 2
        if self._state in (GuardState.WAITING, GuardState.SILENT):
            self._state = GuardState.PASSING

    def _begin_period(self, now_ns: int) -> None:
        """Go on to the next period; whole ones are skipped: the phase is kept, without burst."""
        self._lateness.add((now_ns - self._due_ns) / NS_PER_S)
        periods = 1 + (now_ns - self._due_ns) // self.period_ns
        self._due_ns += periods * self.period_ns

    def _safe(self) -> Action | None:
        if self._fallback == 'zero':
            return self._substitutes.zeros(self._last)
        if self._last is None:
            self._last = self._substitutes.measured()
        return self._last

    def _run(self, stop: threading.Event) -> None:
        self._prepare()
        while not self._clock.wait_until_ns(self.next_ns(), stop):
            self.check()
