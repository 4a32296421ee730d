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

"""Figures on the two loops: distributions of their times, and counters since the reset.

Each object has one writer, the thread it speaks of. Readers in other threads get what was
complete when they asked; the writer never waits for them. To start over, a new object takes the
place of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robot_infer.control.chunks import InputTimes
from robot_infer.control.clock import NS_PER_S
from robot_infer.control.ladder import FULL_STEP, Plan, Rung
from robot_infer.control.window import SIZE, Summary, Tail, Window
from robot_infer.types import Command, Source, StepReport


@dataclass(frozen=True)
class TickCounters:
    """Counts of control ticks; one consistent set.

    :param late: ticks that began later than control.deadline_s after their time.
    :param skipped: periods that had no tick at all, because the one before overran.
    :param consecutive: missed deadlines (late or skipped) up to now without one kept.
    :param stale: ticks whose frames were older than diagnostics.input_age_warn_s.
    :param fallbacks: ticks by (source, reason), without those that sent a chunk's action.
    """

    ticks: int = 0
    late: int = 0
    overruns: int = 0
    skipped: int = 0
    consecutive: int = 0
    max_consecutive: int = 0
    chunk_ticks: int = 0
    stale: int = 0
    fallbacks: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def missed(self) -> int:
        """Missed deadlines: ticks too late and ticks that never were."""
        return self.late + self.skipped

    @property
    def fallback_ticks(self) -> int:
        """Ticks that had no action of a chunk."""
        return sum(self.fallbacks.values())


@dataclass(frozen=True)
class DeadlineStatus:
    """How the control ticks keep their time, in seconds.

    lateness_s: start after the scheduled time. period_s: from start to start. execution_s: from
    start to sent, of which decide_s to have the command and publish_s to send it. input_age_s:
    from the receipt of the oldest frame to the tick that uses it. end_to_end_s: from the stamp of
    the oldest frame to sent, where stamps are trusted.

    started_ns: start of the newest tick; None before the first. missed_in_window: deadlines missed
    by the ticks that the windows hold, or before one of them.
    """

    counters: TickCounters
    lateness_s: Summary
    period_s: Summary
    execution_s: Summary
    decide_s: Summary
    publish_s: Summary
    input_age_s: Summary
    end_to_end_s: Summary
    started_ns: int | None = None
    missed_in_window: int = 0


class DeadlineStatistics:
    """Kept by the control tick's thread."""

    def __init__(self, size: int = SIZE) -> None:
        self._counters = TickCounters()
        self._started_ns: int | None = None
        self._lateness = Window(size)
        self._period = Window(size)
        self._execution = Window(size)
        self._decide = Window(size)
        self._publish = Window(size)
        self._input_age = Window(size)
        self._end_to_end = Window(size)
        self._missed = Window(size)

    def record(
        self, command: Command, inputs: InputTimes | None, *, scheduled_ns: int, started_ns: int,
        decided_ns: int, finished_ns: int, skipped: int, deadline_ns: int, stale_ns: int,
    ) -> None:
        """Take one tick: its times, the periods skipped before it, what it sent.

        :param stale_ns: the age of frames from which on the tick is a stale one.
        """
        lateness_ns = max(0, started_ns - scheduled_ns)
        self._lateness.add(lateness_ns / NS_PER_S)
        if self._started_ns is not None:
            self._period.add((started_ns - self._started_ns) / NS_PER_S)
        self._started_ns = started_ns
        self._execution.add((finished_ns - started_ns) / NS_PER_S)
        self._decide.add((decided_ns - started_ns) / NS_PER_S)
        self._publish.add((finished_ns - decided_ns) / NS_PER_S)
        stale = False
        if inputs is not None:
            age_ns = started_ns - inputs.received_ns
            stale = age_ns > stale_ns
            self._input_age.add(age_ns / NS_PER_S)
            if inputs.captured_ns is not None:
                self._end_to_end.add((finished_ns - inputs.captured_ns) / NS_PER_S)
        late = lateness_ns > deadline_ns
        self._missed.add(skipped + late)
        self._count(command, skipped, late, stale)

    def status(self) -> DeadlineStatus:
        """The figures now."""
        return DeadlineStatus(
            self._counters, self._lateness.summary(), self._period.summary(),
            self._execution.summary(), self._decide.summary(), self._publish.summary(),
            self._input_age.summary(), self._end_to_end.summary(), self._started_ns,
            int(self._missed.values().sum()))

    @property
    def lateness(self) -> Window:
        """Seconds that each tick began late."""
        return self._lateness

    @property
    def execution(self) -> Window:
        """Seconds from the start of each tick to its action sent."""
        return self._execution

    def _count(self, command: Command, skipped: int, late: bool, stale: bool) -> None:
        old = self._counters
        run = old.consecutive + skipped
        longest = max(old.max_consecutive, run + late)
        fallbacks = old.fallbacks
        chunk = command.source is Source.CHUNK
        if not chunk:
            key = (command.source.value, command.reason)
            fallbacks = {**fallbacks, key: fallbacks.get(key, 0) + 1}
        self._counters = TickCounters(
            old.ticks + 1, old.late + late, old.overruns + (skipped > 0), old.skipped + skipped,
            run + 1 if late else 0, longest, old.chunk_ticks + chunk, old.stale + stale, fallbacks)


@dataclass(frozen=True)
class InferenceCounters:
    """Counts of inference steps; one consistent set.

    :param steps: steps that gave a chunk. blocked: no step, because an input was missing or bad.
    :param failed: steps that raised. late: steps longer than inference.deadline_s.
    :param tokens_total: prefix tokens of all steps. tokens_computed: those not found in pages.
    :param late_kernels: GPU kernels compiled in a step, and not before the first.
    """

    steps: int = 0
    blocked: int = 0
    failed: int = 0
    late: int = 0
    tokens_total: int = 0
    tokens_computed: int = 0
    late_kernels: int = 0


@dataclass(frozen=True)
class InferenceStatus:
    """How the inference steps go.

    stages_s: seconds per stage: `wait` (for something new; not part of the step), `observe`
    (frames decoded, state and instruction read), then the engine's own in the order they run.
    step_s: from observation begun to chunk made. period_s: from start to start of steps.
    report: of the newest step. rung: of the ladder, where the newest step was made, and
    predicted_s: what it was thought to take. rungs: steps by rung.
    """

    counters: InferenceCounters
    stages_s: Mapping[str, Summary]
    step_s: Summary
    period_s: Summary
    report: StepReport | None
    rung: str
    predicted_s: float
    rungs: Mapping[str, int]


class StageStatistics:
    """Kept by the inference worker."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._counters = InferenceCounters()
        self._stages: dict[str, Window] = {}
        self._step = Window(size)
        self._period = Window(size)
        self._began_ns: int | None = None
        self._report: StepReport | None = None
        self._plan = FULL_STEP
        self._rungs = {rung.value: 0 for rung in Rung}

    def blocked(self) -> None:
        """No step: an input is missing or bad."""
        self._count(blocked=1)

    def failed(self) -> None:
        """A step raised."""
        self._count(failed=1)

    def record(
        self, report: StepReport | None, plan: Plan = FULL_STEP, *, wait_s: float | None,
        began_ns: int, observed_ns: int, finished_ns: int, late: bool,
    ) -> None:
        """Take one step that gave a chunk: when it began, had its observation, had its chunk."""
        if wait_s is not None:
            self._add('wait', wait_s)
        self._add('observe', (observed_ns - began_ns) / NS_PER_S)
        if report is not None:
            for stage, seconds in report.stages_s.items():
                self._add(stage, seconds)
        self._step.add((finished_ns - began_ns) / NS_PER_S)
        if self._began_ns is not None:
            self._period.add((began_ns - self._began_ns) / NS_PER_S)
        self._began_ns = began_ns
        self._report, self._plan = report, plan
        self._rungs[plan.rung.value] += 1
        self._count(
            steps=1, late=int(late), tokens_total=report.tokens_total if report else 0,
            tokens_computed=report.tokens_computed if report else 0,
            late_kernels=report.late_kernels if report else 0)

    @property
    def step(self) -> Window:
        """Seconds of each step."""
        return self._step

    def status(self) -> InferenceStatus:
        """The figures now."""
        stages = list(self._stages.items())  # one atomic copy: the worker may add a stage
        return InferenceStatus(
            self._counters, {name: window.summary() for name, window in stages},
            self._step.summary(), self._period.summary(), self._report,
            self._plan.rung.value, self._plan.predicted_s, dict(self._rungs))

    def _add(self, stage: str, seconds: float) -> None:
        window = self._stages.get(stage)
        if window is None:
            window = self._stages[stage] = Window(self._size)
        window.add(seconds)

    def _count(self, **more: int) -> None:
        old = self._counters
        self._counters = InferenceCounters(
            **{name: getattr(old, name) + more.get(name, 0)
               for name in InferenceCounters.__dataclass_fields__})


@dataclass(frozen=True)
class Times:
    """The times of every tick and step since they were taken last, in seconds, the oldest first.

    lateness_s, execution_s: of the ticks. step_s: of the steps that gave a chunk.
    """

    lateness_s: NDArray[np.float64]
    execution_s: NDArray[np.float64]
    step_s: NDArray[np.float64]


class TimesReader:
    """Reads each time once, for plots; the loops take no notice of it."""

    def __init__(self) -> None:
        self._lateness, self._execution, self._step = Tail(), Tail(), Tail()

    def take(self, ticks: DeadlineStatistics, steps: StageStatistics) -> Times:
        """What is new, also where other statistics have taken the place of those before."""
        return Times(self._lateness.take(ticks.lateness), self._execution.take(ticks.execution),
                     self._step.take(steps.step))
