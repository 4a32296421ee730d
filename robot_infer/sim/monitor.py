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

"""What a person sees while the demo runs: the live line; and the watch over the processes."""

from __future__ import annotations

from collections.abc import Sequence
import re
import time
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.live import Live
from rich.text import Text

from robot_infer.control.chunks import Reason
from robot_infer.report.record import MemorySample, StepRecord
from robot_infer.report.summary import Distribution, rate_hz
from robot_infer.report.words import milliseconds, rate
from robot_infer.sim.children import Child, DemoError
from robot_infer.sim.episode_log import EpisodeLog

if TYPE_CHECKING:
    from robot_infer.sim.driver import Driver

_LINE_PERIOD_S = 0.2
_SAMPLE_PERIOD_S = 0.5
_RECENT_STEPS = 50
_MAX_LOGGED = 8
# Between two episodes the robot has no instruction, and for a moment no chunk for a new one.
_EXPECTED = ('InstructionError', *(f'({reason.value})' for reason in Reason if reason.waiting))
_ERROR = b'\x02'  # diagnostic_msgs/DiagnosticStatus.ERROR


class Monitor:
    """Called while the demo waits: shows, samples memory, and notices when a process died."""

    def __init__(self, console: Console, children: Sequence[Child]) -> None:
        self.origin_ns = time.monotonic_ns()
        self.memory: list[MemorySample] = []
        self._console, self._children = console, children
        self._processes = {child.name: psutil.Process(child.pid) for child in children}
        self._live = Live(console=console, refresh_per_second=5, transient=True,
                          auto_refresh=False) if console.is_terminal else None
        self._driver: Driver | None = None
        self._log: EpisodeLog | None = None
        self._episodes = 0
        self._line_due = self._sample_due = 0.0
        self._logged_before: set[str] = set()
        self._faults: dict[str, None] = {}  # a set that keeps its order

    def now_s(self) -> float:
        """Seconds since the run began."""
        return (time.monotonic_ns() - self.origin_ns) / 1e9

    def say(self, words: str) -> None:
        """Say what is being waited for before the run begins."""
        self._console.print(f'[dim]{words} …[/]')

    def begin(self, driver: Driver) -> None:
        """The run begins now."""
        self._driver = driver
        self.origin_ns = time.monotonic_ns()
        if self._live is not None:
            self._live.start()

    def end(self) -> None:
        """Take the live line away."""
        if self._live is not None:
            self._live.stop()

    def follow(self, log: EpisodeLog, episodes: int) -> None:
        """Show this episode from now on."""
        if self._log is None:  # inputs that were not there yet at the very start are no news
            self._logged_before = set(self._logged())
        self._log, self._episodes = log, episodes

    def finish(self, log: EpisodeLog) -> None:
        """Leave one line that stays about an episode that is over."""
        mark = '[green]reached    [/]' if log.success else '[red]not reached[/]'
        moved = ', block moved' if log.moved else ''
        self._console.print(
            f'{log.plan.number + 1:3d}/{self._episodes}  {mark}  {log.seconds:4.1f} s  '
            f'{log.distance_m * 1e3:3.0f} mm  {log.plan.instruction}{moved}')

    def watch(self) -> None:
        """Look after everything.

        :raises DemoError: where a process has ended.
        """
        for child in self._children:
            if child.exit_status is not None:
                lines = '\n    '.join(('', *child.last_lines()))
                raise DemoError(
                    child.name, expected='a process that runs',
                    got=f'its end with status {child.exit_status}',
                    remedy=f'Its last lines:{lines}')
        if self._driver is None:
            return
        now_s = self.now_s()
        if now_s >= self._sample_due:
            self._sample_due = now_s + _SAMPLE_PERIOD_S
            self._sample(now_s)
        if self._live is not None and now_s >= self._line_due:
            self._line_due = now_s + _LINE_PERIOD_S
            self._live.update(self._line(), refresh=True)

    def notes(self) -> list[str]:
        """Return the faults seen in the status, and what the processes logged as warnings."""
        logged = self._logged()
        new = [line for kind, line in logged.items() if kind not in self._logged_before]
        return [*self._faults, *new[-_MAX_LOGGED:]]

    def _logged(self) -> dict[str, str]:
        """The last warning of each kind; kinds differ in more than their numbers."""
        lines = [f'{child.name}: {line}' for child in self._children
                 for line in child.lines_with('[WARN]', '[ERROR]', '[FATAL]')
                 if not any(word in line for word in _EXPECTED)]
        return {re.sub(r'[0-9.]+', '#', line): line for line in lines}

    def _sample(self, now_s: float) -> None:
        """Take the memory of each process with those it started, and look at the status."""
        for name, process in self._processes.items():
            try:
                family = (process, *process.children(recursive=True))
                self.memory.append(MemorySample(
                    now_s, name, sum(one.memory_info().rss for one in family)))
            except psutil.NoSuchProcess:
                return  # the next look at the children says so in words
        status = self._driver.status
        expected = status is None or status.message.startswith('instruction:')
        if not expected and status.level == _ERROR:
            self._faults[f'Fault of the policy node: {status.message}'] = None

    def _line(self) -> Text:
        """The live line."""
        if self._log is None or not self._log.seconds:
            return Text('waiting for the first sight of the table')
        recent = self._driver.steps[-_RECENT_STEPS:]
        return Text.assemble(
            (f'{self._log.plan.number + 1}/{self._episodes} ', 'bold'),
            (self._log.plan.instruction, 'cyan'), f'  {self._log.distance_m * 1e3:4.0f} mm  '
            f'{self._log.seconds:4.1f} s', ('  block moved' if self._log.moved else '', 'yellow'),
            *_step_words(recent), overflow='ellipsis', no_wrap=True)


def _step_words(recent: Sequence[StepRecord]) -> list[str | tuple[str, str]]:
    if len(recent) < 2:
        return ['  |  no inference step yet']
    ticks = [tick for step in recent for tick in step.ticks]
    missed = sum(tick.missed for tick in ticks)
    total = sum(step.tokens_total for step in recent)
    reused = sum(step.tokens_reused for step in recent) / total if total else 0.0
    steps = Distribution.of([step.duration_s for step in recent])
    hertz = rate(rate_hz([step.started_ns for step in recent]))
    words: list[str | tuple[str, str]] = [
        f'  |  steps {hertz}, p50 {milliseconds(steps.p50)}, p99 {milliseconds(steps.p99)}']
    if len(ticks) > 1:
        words.append(f'  |  ticks {rate(rate_hz([tick.time_ns for tick in ticks]))}, ')
        words.append((f'{missed} missed', 'red' if missed else 'green'))
    words.append(f'  |  reused {reused:.0%}')
    return words
