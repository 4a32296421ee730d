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


"""What goes to the log, from the records of the runtime: faults, fallbacks, missed deadlines.

A flood of one fault gives one line every few seconds with a count, never one line each.
"""

from __future__ import annotations

from typing import Protocol

from robot_infer.control import Clock, Fault, RuntimeStatus
from robot_infer.types import Source

REPEAT_NS = 5_000_000_000


class Logger(Protocol):
    """What is needed of rclpy's logger."""

    def info(self, message: str) -> object: ...  # noqa: D102

    def warning(self, message: str) -> object: ...  # noqa: D102

    def error(self, message: str) -> object: ...  # noqa: D102


class Journal:
    """Tells the log what changed between two looks at the runtime."""

    def __init__(self, logger: Logger, clock: Clock) -> None:
        self._logger, self._clock = logger, clock
        self.forget()

    def forget(self) -> None:
        """Begin anew: the runtime was started again and counts from zero."""
        self._told: dict[str, Fault] = {}  # as each fault was when last written
        self._told_ns: dict[str, int] = {}
        self._source: tuple[Source, str] | None = None
        self._source_ns = -REPEAT_NS
        self._missed = 0
        self._missed_ns: int | None = None  # when the newest was seen; None while all are kept

    def look(self, status: RuntimeStatus) -> None:
        """Write what is new."""
        now_ns = self._clock.now_ns()
        for fault in status.fault_history:
            self._tell_fault(fault, now_ns)
        command = status.last_command
        if status.running and command is not None:
            self._tell_source((command.source, command.reason), now_ns)
            self._tell_deadlines(status.deadline.counters.missed, now_ns)

    def _tell_fault(self, fault: Fault, now_ns: int) -> None:
        told = self._told.get(fault.name)
        if told is not None and fault.count == told.count:
            if told.active and not fault.active:
                self._logger.info(f'{fault.name} is over ({fault.count} in all)')
                self._told[fault.name] = fault
            return
        # Other words (another camera, say) are news; the same ones with other figures are not.
        news = told is None or (not told.active and fault.active)
        if not news and now_ns - self._told_ns[fault.name] < REPEAT_NS:
            return
        again = '' if told is None else f' ({fault.count} in all)'
        self._logger.error(f'{fault.name}: {fault.message}{again}')
        if fault.traceback and told is None:
            self._logger.error(fault.traceback)
        self._told[fault.name], self._told_ns[fault.name] = fault, now_ns
        if not fault.active:
            self._logger.info(f'{fault.name} is over ({fault.count} in all)')

    def _tell_source(self, source: tuple[Source, str], now_ns: int) -> None:
        if source == self._source or now_ns - self._source_ns < REPEAT_NS // 5:
            return
        if source[0] is not Source.CHUNK:
            self._logger.warning(f'no action to send ({source[1]}): fallback {source[0].value}')
        elif self._source is not None:
            self._logger.info('following the policy again')
        self._source, self._source_ns = source, now_ns

    def _tell_deadlines(self, missed: int, now_ns: int) -> None:
        """The first one that is missed, and that they are kept again."""
        if missed > self._missed:
            if self._missed_ns is None:
                self._logger.warning(
                    f'{missed - self._missed} control deadlines missed: ticks began late, or were '
                    'skipped')
            self._missed_ns = now_ns
        elif self._missed_ns is not None and now_ns - self._missed_ns >= REPEAT_NS:
            self._logger.info(f'control deadlines are kept again ({missed} missed in all)')
            self._missed_ns = None
        self._missed = missed
