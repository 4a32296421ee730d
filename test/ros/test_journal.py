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


"""What reaches the log: what is new, and no flood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.control import DeadlineStatus, Fault, ManualClock, TickCounters
from robot_infer.control.stats import DeadlineStatistics
from robot_infer.ros.journal import REPEAT_NS, Journal
from robot_infer.types import Command, Source

FAULT = Fault('FrameError', 'camera a: expected x; got y. Do z.', 1, 0, 0, True)


@dataclass
class Log:
    lines: list[tuple[str, str]] = field(default_factory=list)

    def info(self, message):
        self.lines.append(('info', message))

    def warning(self, message):
        self.lines.append(('warning', message))

    def error(self, message):
        self.lines.append(('error', message))

    def take(self):
        taken, self.lines = self.lines, []
        return taken


@dataclass
class Status:
    """As much of a RuntimeStatus as the journal reads."""

    fault_history: tuple[Fault, ...] = ()
    running: bool = True
    last_command: Command | None = None
    deadline: DeadlineStatus = DeadlineStatistics().status()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def journal(log, clock):
    return Journal(log, clock)


def test_a_fault_is_told_once_and_its_end_once(journal, log):
    journal.look(Status((FAULT,)))
    assert log.take() == [('error', f'FrameError: {FAULT.message}')]
    journal.look(Status((FAULT,)))
    assert log.take() == []
    over = Status((replace(FAULT, active=False),))
    journal.look(over)
    journal.look(over)
    assert log.take() == [('info', 'FrameError is over (1 in all)')]


def test_a_flood_is_told_every_few_seconds_with_its_count(journal, log, clock):
    for count in range(1, 101):
        journal.look(Status((replace(FAULT, count=count),)))
        clock.advance_ns(REPEAT_NS // 10)
    lines = log.take()
    assert len(lines) == 10 and lines[-1][1].endswith('(91 in all)')


def test_a_fault_that_returns_is_told_at_once(journal, log, clock):
    journal.look(Status((FAULT,)))
    journal.look(Status((replace(FAULT, active=False),)))
    log.take()
    journal.look(Status((replace(FAULT, count=2),)))
    assert log.take() == [('error', f'FrameError: {FAULT.message} (2 in all)')]


def test_one_that_came_and_went_between_two_looks_is_told(journal, log):
    journal.look(Status((replace(FAULT, active=False),)))
    assert [kind for kind, _ in log.take()] == ['error', 'info']


def test_an_unexpected_error_brings_its_traceback_once(journal, log, clock):
    fault = replace(FAULT, name='UnexpectedError', traceback='Traceback ...')
    journal.look(Status((fault,)))
    clock.advance_ns(2 * REPEAT_NS)
    journal.look(Status((replace(fault, count=2),)))
    assert [message for _, message in log.take()].count('Traceback ...') == 1


def test_a_fallback_and_its_end_are_told_but_not_each_flicker(journal, log, clock):
    def command(source, reason=''):
        return Status(last_command=Command(np.zeros(1), source, reason, 0, 0))

    journal.look(command(Source.CHUNK))
    clock.advance_ns(REPEAT_NS)
    journal.look(command(Source.HOLD, 'chunk_exhausted'))
    assert log.take() == [('warning', 'no action to send (chunk_exhausted): fallback hold')]
    journal.look(command(Source.CHUNK))
    assert log.take() == [], 'within a second'
    clock.advance_ns(REPEAT_NS)
    journal.look(command(Source.CHUNK))
    assert log.take() == [('info', 'following the policy again')]


def test_the_first_missed_deadline_is_told_and_that_they_are_kept_again(journal, log, clock):
    def ticks(late):
        deadline = replace(DeadlineStatistics().status(), counters=TickCounters(late=late))
        return Status(deadline=deadline, last_command=Command(
            np.zeros(1), Source.CHUNK, '', 0, 0))
    journal.look(ticks(0))
    assert log.take() == []
    for late in range(2, 30):
        journal.look(ticks(late))
        clock.advance_ns(REPEAT_NS // 5)
    ((kind, words),) = log.take()
    assert kind == 'warning' and words.startswith('2 control deadlines missed')
    journal.look(ticks(29))
    clock.advance_ns(REPEAT_NS)
    journal.look(ticks(29))
    journal.look(ticks(29))
    assert log.take() == [('info', 'control deadlines are kept again (29 missed in all)')]
    journal.look(ticks(0))  # the statistics were cleared
    journal.look(ticks(1))
    assert [kind for kind, _ in log.take()] == ['warning']
