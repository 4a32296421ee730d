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
import threading

from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.control.faults import FaultBoard
from robot_infer.control.recorder import Recorder
from robot_infer.control.schedule import Period, RateKeeper
from robot_infer.control.stats import DeadlineStatistics
from robot_infer.control.threads import Routine
from robot_infer.control.tick import ControlTick
from robot_infer.types import Command


class ControlLoop:
    """Ticks, sends and takes the time.

    The thread waits for its next time and for nothing else: the tick takes no lock, and what it
    measures goes into rings that are there already. An error in `send` is a fault; the next tick
    comes all the same.
    """

    def __init__(
        self, tick: ControlTick, clock: Clock, period_s: float, deadline_s: float,
        send: Callable[[Command], None], faults: FaultBoard, recorder: Recorder | None = None,
    ) -> None:
        self.deadline_s = deadline_s
        self.statistics = DeadlineStatistics()
        self.last_command: Command | None = None
        self._tick = tick
        self._clock = clock
        self._keeper = RateKeeper(period_s, clock)
        self._send = send
        self._faults = faults
        self._recorder = recorder
        self._send_fault: str | None = None
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

    def once(self) -> Command:
        """One tick now, on the caller's thread and schedule."""
        now_ns = self._clock.now_ns()
        command = self._decide(Period(0, now_ns, now_ns, 0), None)
        assert command is not None
        return command

    def take_warning(self) -> str | None:
        """The words on overruns since the last warning, at most once a second, else None."""
        return self._keeper.take_warning(self._clock.now_ns())

    def _run(self, stop: threading.Event) -> None:
        self._keeper.start()
        while (period := self._keeper.wait(stop)) is not None:
            try:
                self._decide(period, stop)
            except BaseException as error:  # noqa: B036 - not even SystemExit may end the ticks
                self._send_fault = self._faults.report(error)

    def _decide(self, period: Period, stop: threading.Event | None) -> Command | None:
        """Tick, send and record; None where it was stopped before it sent."""
        statistics = self.statistics  # may be replaced while the tick runs
        command = self._tick.tick(period.started_ns)
        if stop is not None and stop.is_set():
            return None
        try:
            if command.values is not None:
                self._send(command)
            self.last_command = command
        finally:
            statistics.record(
                command, self._tick.inputs, scheduled_ns=period.scheduled_ns,
                started_ns=period.started_ns, finished_ns=self._clock.now_ns(),
                skipped=period.skipped, deadline_ns=round(self.deadline_s * NS_PER_S))
            if self._recorder is not None:
                self._recorder.tick(
                    command, scheduled_ns=period.scheduled_ns, started_ns=period.started_ns,
                    skipped=period.skipped, late=period.started_ns - period.scheduled_ns
                    > self.deadline_s * NS_PER_S)
        if self._send_fault is not None:
            self._faults.clear(self._send_fault)
            self._send_fault = None
        return command
