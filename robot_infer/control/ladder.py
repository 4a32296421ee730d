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

"""The ladder: what an inference step may spend so that it is predicted to be in time.

    full            everything
    shorter_chunk   fewer actions: exact where action tokens are causal
    last_prefix     and the frames of the last step with the newest state: exact, on older frames
    fewer_steps     and fewer denoising steps: an approximation, only where it is allowed
    fallback        nothing is predicted to be in time: the cheapest of these is made all the same,
                    so that better times are noticed; the control tick bridges the gap

Steps are predicted from what their stages took lately. What is not known, or is forgotten, counts
as fast, so that it is tried: a rung is left at once and climbed back to in calm.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
import enum
import math
from typing import Protocol

from robot_infer.config import InferenceSettings
from robot_infer.control.clock import NS_PER_S
from robot_infer.types import StepBudget, StepReport

_KEPT = 256
# To climb, a step must be predicted to leave this much of its deadline, so many times in a row.
_MARGIN = 0.15
_CALM_STEPS = 5
_ENOUGH_FOR_A_STALL = 10

Key = tuple[object, ...]


class Rung(enum.Enum):
    """The rungs, from the top."""

    FULL = 'full'
    SHORTER_CHUNK = 'shorter_chunk'
    LAST_PREFIX = 'last_prefix'
    FEWER_STEPS = 'fewer_steps'
    FALLBACK = 'fallback'


@dataclass(frozen=True)
class Plan:
    """One step as it is to be made.

    :param old_frames: use the frames of the last step.
    :param predicted_s: how long it is thought to take.
    """

    rung: Rung
    budget: StepBudget
    old_frames: bool
    predicted_s: float


FULL_STEP = Plan(Rung.FULL, StepBudget(), False, 0.0)


class Capacity(Protocol):
    """What is needed to know of a policy."""

    @property
    def horizon(self) -> int:
        """Actions of a full chunk."""
        ...

    @property
    def denoise_steps(self) -> int:
        """Denoising steps of a full action head."""
        ...


class StepTimes:
    """What each stage took lately; its 99th percentile, of times not older than `memory_s`.

    The longest of ten or more is left out: one stall of the computer is not a stage's own time.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory_ns = round(memory_s * NS_PER_S)
        self._times: dict[Key, deque[tuple[int, float]]] = {}

    def add(self, key: Key, seconds: float, now_ns: int) -> None:
        """Take one time."""
        self._times.setdefault(key, deque(maxlen=_KEPT)).append((now_ns, seconds))

    def p99(self, key: Key, now_ns: int) -> float | None:
        """The 99th percentile (nearest rank); None where nothing is remembered."""
        times = self._times.get(key, ())
        while times and now_ns - times[0][0] > self._memory_ns:
            times.popleft()
        if not times:
            return None
        ordered = sorted(seconds for _, seconds in times)
        if len(ordered) >= _ENOUGH_FOR_A_STALL:
            ordered.pop()
        return ordered[-(-99 * len(ordered) // 100) - 1]

    def keys(self) -> tuple[Key, ...]:
        """Everything that was ever timed."""
        return tuple(self._times)


class Ladder:
    """Chooses the rung of each step; used by the inference worker alone.

    :param control_rate_hz: how fast actions are used up.
    """

    def __init__(
        self, settings: InferenceSettings, capacity: Capacity, control_rate_hz: float,
    ) -> None:
        self._capacity, self._control_rate_hz = capacity, control_rate_hz
        self._times = StepTimes(settings.ladder_memory_s)
        self._at = self._calm = 0
        self.apply_live(settings)

    def apply_live(self, settings: InferenceSettings) -> None:
        """Take over what may change while it is used."""
        self._settings = settings
        covered = (2.0 * settings.deadline_s + 1.0 / settings.rate_hz) * self._control_rate_hz
        self._horizon = min(
            self._capacity.horizon, settings.min_horizon or math.ceil(covered - 1e-9))
        rungs = [Rung.FULL]
        if settings.ladder:
            if self._horizon < self._capacity.horizon:
                rungs.append(Rung.SHORTER_CHUNK)
            rungs.append(Rung.LAST_PREFIX)
            if settings.min_denoise_steps:
                rungs.append(Rung.FEWER_STEPS)
            rungs.append(Rung.FALLBACK)
        self._rungs = tuple(rungs)

    def choose(self, now_ns: int, old_frames: bool) -> Plan:
        """The step to make now.

        :param old_frames: whether the frames of the last step may still be used.
        """
        rungs = self._rungs  # may be swapped meanwhile
        self._at = min(self._at, len(rungs) - 1)
        if len(rungs) == 1:
            return FULL_STEP
        self._move(rungs, now_ns)
        rung = rungs[self._at]
        return replace(self._plan_of(rung, old_frames), predicted_s=self.predict(rung, now_ns))

    def record(
        self, plan: Plan, report: StepReport, observe_s: float, step_s: float, now_ns: int,
    ) -> None:
        """Remember what a step took.

        :param observe_s: to read the inputs. step_s: in all, that included.
        """
        frames = 'new' if report.cameras_encoded else 'old'
        for stage, seconds in report.stages_s.items():
            key = self._action_head(plan.budget) if stage == 'denoise' else (stage, frames)
            self._times.add(key, seconds, now_ns)
        self._times.add(('observe', frames), observe_s, now_ns)
        self._times.add(
            ('between', frames), max(0.0, step_s - observe_s - report.total_s), now_ns)

    def predict(self, rung: Rung, now_ns: int) -> float:
        """Seconds that a step on this rung is thought to take."""
        plan = self._plan_of(rung, True)
        frames = 'old' if plan.old_frames else 'new'
        total = self._predict_head(plan.budget, now_ns)
        for key in self._times.keys():
            if key[1:] == (frames,):
                total += self._times.p99(key, now_ns) or 0.0
        return total

    def _move(self, rungs: tuple[Rung, ...], now_ns: int) -> None:
        """Down as far as need be, at once; up by one rung, in calm."""
        deadline_s, wanted = self._settings.deadline_s, len(rungs) - 1
        for number, rung in enumerate(rungs[:-1]):
            limit_s = deadline_s * (1.0 - _MARGIN) if number < self._at else deadline_s
            if self.predict(rung, now_ns) <= limit_s:
                wanted = number
                break
        if wanted >= self._at:
            self._at, self._calm = wanted, 0
            return
        self._calm += 1
        if self._calm >= _CALM_STEPS:
            self._at, self._calm = self._at - 1, 0

    def _plan_of(self, rung: Rung, old_frames: bool) -> Plan:
        if rung is Rung.FULL:
            return FULL_STEP
        fewest = self._settings.min_denoise_steps or None
        few = rung is Rung.FEWER_STEPS or rung is Rung.FALLBACK
        budget = StepBudget(self._horizon, fewest if few else None)
        return Plan(rung, budget, old_frames and rung is not Rung.SHORTER_CHUNK, 0.0)

    def _action_head(self, budget: StepBudget) -> Key:
        return ('denoise', budget.horizon or self._capacity.horizon,
                budget.denoise_steps or self._capacity.denoise_steps)

    def _predict_head(self, budget: StepBudget, now_ns: int) -> float:
        """The action head's time; where not known, what known ones let hope for."""
        key = self._action_head(budget)
        known = self._times.p99(key, now_ns)
        if known is not None:
            return known
        guesses = [0.0]
        for other in self._times.keys():
            seconds = self._times.p99(other, now_ns) if other[0] == 'denoise' else None
            if seconds is not None:
                guesses.append(
                    seconds * min(1.0, key[1] / other[1]) * min(1.0, key[2] / other[2]))
        return max(guesses)
