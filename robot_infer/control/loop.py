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

"""The control loop: one tick per period on the steady clock, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import threading

from robot_infer.config import Config
from robot_infer.control.chunks import Reason
from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.control.faults import FaultBoard
from robot_infer.control.recorder import Recorder
from robot_infer.control.schedule import Period, RateKeeper
from robot_infer.control.stats import DeadlineStatistics
from robot_infer.control.threads import Routine
from robot_infer.control.tick import ControlTick
from robot_infer.errors import DeadlineError
from robot_infer.types import Command


@dataclass(frozen=True)
class LoopLimits:
    """What counts as what, in nanoseconds and periods; may be swapped while the loop runs.

    :param deadline_ns: a tick that starts later is a missed deadline.
    :param stale_ns: a tick whose frames are older is a stale one.
    :param max_consecutive_misses: periods in a row that were late, skipped or without an action
        (waiting for a first one is none of these, unless the policy hangs or fails) after which
        the robot is stopped; 0 for never.
    """

    deadline_ns: int
    stale_ns: int
    max_consecutive_misses: int = 0

    @classmethod
    def of(cls, config: Config) -> LoopLimits:
        """Those of the settings."""
        return cls(
            round(config.control.deadline_s * NS_PER_S),
            round(config.diagnostics.input_age_warn_s * NS_PER_S),
            config.control.max_consecutive_misses)


@dataclass(frozen=True)
class _Stages:
    """Where the time of one tick went."""

    late_ns: int
    decide_ns: int
    publish_ns: int

    def __str__(self) -> str:
        late, decide, publish = (
            f'{ns * 1e-6:.1f} ms' for ns in (self.late_ns, self.decide_ns, self.publish_ns))
        return f': woke {late} late, decide {decide}, publish {publish}'


class ControlLoop:
    """Ticks, sends and takes the time.

    The thread waits for its next time and for nothing else: the tick takes no lock, and what it
    measures goes into rings that are there already. An error in `send` is a fault; the next tick
    comes all the same.

    :param prepare: called once by each new thread before its first tick: real-time settings.
    """

    def __init__(
        self, tick: ControlTick, clock: Clock, period_s: float, limits: LoopLimits,
        send: Callable[[Command], None], faults: FaultBoard, recorder: Recorder | None = None,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits
        self.statistics = DeadlineStatistics()
        self.last_command: Command | None = None
        self._tick = tick
        self._clock = clock
        self._keeper = RateKeeper(period_s, clock)
        self._send = send
        self._faults = faults
        self._recorder = recorder
        self._prepare = prepare
        self._send_fault: str | None = None
        self._misses = 0  # in a row
        self._starting_over = False
        self._stages = self._overrun_stages = _Stages(0, 0, 0)
        self._routine = Routine('robot_infer control', self._run)

    @property
    def running(self) -> bool:
        """Whether the thread was started and not stopped since."""
        return self._routine.running

    @property
    def alive(self) -> bool:
        """Whether the thread is at work, be it in a `send` that hangs after `stop`."""
        return self._routine.alive

    def start(self) -> None:
        """Start the thread; the first tick comes at once."""
        self._routine.start()

    def stop(self, timeout_s: float) -> bool:
        """Stop; no command is sent after this returned True."""
        return self._routine.stop(timeout_s)

    def start_over(self) -> None:
        """Forget a latched stop and the misses in a row, with the next tick; from any thread."""
        self._starting_over = True

    def once(self) -> Command:
        """One tick now, on the caller's thread and schedule."""
        now_ns = self._clock.now_ns()
        command = self._decide(Period(0, now_ns, now_ns, 0), None)
        assert command is not None
        return command

    def take_warning(self) -> str | None:
        """The words on overruns since the last warning, at most once a second, else None."""
        return self._keeper.take_warning(self._clock.now_ns(), str(self._overrun_stages))

    def _run(self, stop: threading.Event) -> None:
        self._prepare()
        self._misses = 0
        self._keeper.start()
        while (period := self._keeper.wait(stop)) is not None:
            try:
                self._decide(period, stop)
            except BaseException as error:  # noqa: B036 - not even SystemExit may end the ticks
                self._send_fault = self._faults.report(error)
            if self._clock.now_ns() > self._keeper.next_ns:
                self._overrun_stages = self._stages

    def _decide(self, period: Period, stop: threading.Event | None) -> Command | None:
        """Tick, send and record; None where it was stopped before it sent."""
        if self._starting_over:
            self._misses = 0
            self._tick.release()
            self._starting_over = False
        command = self._tick.tick(period.started_ns)
        decided_ns = self._clock.now_ns()
        if stop is not None and stop.is_set():
            return None
        try:
            if command.values is not None:
                self._send(command)
            self.last_command = command
        finally:
            self._record(command, period, decided_ns)
        if self._send_fault is not None:
            self._faults.clear(self._send_fault)
            self._send_fault = None
        return command

    def _record(self, command: Command, period: Period, decided_ns: int) -> None:
        """Take the times of a tick, and stop the robot where too many were missed in a row."""
        limits, finished_ns = self.limits, self._clock.now_ns()
        late = period.lateness_ns > limits.deadline_ns
        self._stages = _Stages(
            period.lateness_ns, decided_ns - period.started_ns, finished_ns - decided_ns)
        self.statistics.record(
            command, self._tick.inputs, scheduled_ns=period.scheduled_ns,
            started_ns=period.started_ns, decided_ns=decided_ns, finished_ns=finished_ns,
            skipped=period.skipped, deadline_ns=limits.deadline_ns, stale_ns=limits.stale_ns)
        if self._recorder is not None:
            self._recorder.tick(
                command, scheduled_ns=period.scheduled_ns, started_ns=period.started_ns,
                skipped=period.skipped, late=late)
        missed = late or self._tick.wanting
        self._misses = self._misses + period.skipped + 1 if missed else 0
        if (0 < limits.max_consecutive_misses <= self._misses and self._tick.latched is None
                and not self._starting_over):
            self._give_up(limits.max_consecutive_misses)

    def _give_up(self, allowed: int) -> None:
        self._tick.stop(Reason.DEADLINES_MISSED)
        self._faults.report(DeadlineError(
            'control ticks', expected=f'fewer than {allowed} missed in a row',
            got=f'{self._misses} that were late, skipped or without an action',
            remedy='The robot is stopped. Find the cause, then call ~/reset or activate the node '
            'again.'))
