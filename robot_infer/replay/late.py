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

"""Why inference steps were late, from their records alone.

A step is held against the medians of its own run: what took longer than it usually does is what
made it late. The words name the cause, never more than the records can bear out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import enum
import statistics

from robot_infer.report.record import StepRecord

# A stage counts as slowed with the rest where it took this many times its median ...
_SLOWED = 1.5
# ... and only stages that usually take this long say anything about it.
_MEASURABLE_S = 0.5e-3


class Cause(enum.Enum):
    """What kept a step, most telling first."""

    STALL = 'the process stood still'
    OUTSIDE = 'time outside of every stage'
    MACHINE = 'every stage was slow'
    STAGE = 'one stage'


@dataclass(frozen=True)
class LateStep:
    """One late step. excess_s: over the median step. words: what is known of it."""

    step: StepRecord
    cause: Cause
    stage: str
    excess_s: float
    words: str


def explain(steps: Sequence[StepRecord]) -> list[LateStep]:
    """Return every late step of a run with what made it late."""
    late = [step for step in steps if step.late]
    if not late:
        return []
    usual = _Usual(steps)
    return [_explain(step, usual) for step in late]


class _Usual:
    """The medians of a run."""

    def __init__(self, steps: Sequence[StepRecord]) -> None:
        names = dict.fromkeys(name for step in steps for name in step.stages_s)
        self.stages_s = {name: statistics.median(step.stages_s.get(name, 0.0) for step in steps)
                         for name in names}
        self.step_s = statistics.median(step.duration_s for step in steps)
        self.outside_s = statistics.median(_outside_s(step) for step in steps)
        self.computed = statistics.median(step.tokens_computed for step in steps)
        ages = [_age_s(step) for step in steps if step.frame_age_s is not None]
        self.age_s = statistics.median(ages) if ages else None


def _explain(step: StepRecord, usual: _Usual) -> LateStep:
    excess_s = step.duration_s - usual.step_s
    over = {name: taken_s - usual.stages_s.get(name, 0.0)
            for name, taken_s in step.stages_s.items()}
    stage = max(over, key=lambda name: over[name], default='')
    outside_s = _outside_s(step) - usual.outside_s
    tick_s = max((tick.lateness_s for tick in step.ticks
                  if step.started_ns <= tick.time_ns <= step.ended_ns), default=0.0)
    if tick_s > 0.5 * excess_s > 0.0:
        cause, words = Cause.STALL, (
            f'control ticks came up to {_ms(tick_s)} late at the same time: the process as a '
            'whole was not run')
    elif outside_s > 0.5 * excess_s > 0.0:
        cause, words = Cause.OUTSIDE, (
            f'{_ms(outside_s)} passed between its stages: the thread was not run')
    elif _all_slow(step, usual):
        cause, words = Cause.MACHINE, (
            f'every stage took {_SLOWED} times its median or more: the processor was shared or '
            'slowed down')
    else:
        cause, words = Cause.STAGE, _stage_words(step, stage, usual)
    return LateStep(step, cause, stage, excess_s, words + _age_words(step, usual))


def _stage_words(step: StepRecord, stage: str, usual: _Usual) -> str:
    if not stage:
        return 'no stage was timed'
    words = (f'{stage} took {_ms(step.stages_s[stage])}, its median is '
             f'{_ms(usual.stages_s.get(stage, 0.0))}')
    if step.late_kernels:
        words += f'; {step.late_kernels} GPU kernels were compiled in this step'
    if stage == 'vision' and step.cameras_encoded:
        words += f'; {step.cameras_encoded} cameras had new frames'
    if stage == 'prefill' and step.tokens_computed > usual.computed:
        words += (f'; {step.tokens_computed} of {step.tokens_total} tokens had to be computed, '
                  f'usually {usual.computed:g}')
    return words


def _age_words(step: StepRecord, usual: _Usual) -> str:
    """Frames that were old when the step began: not why it took long, but why its chunk is old."""
    if usual.age_s is None or step.frame_age_s is None:
        return ''
    older_s = _age_s(step) - usual.age_s
    if older_s < 0.5 * step.deadline_s:
        return ''
    return f'; its frames were {_ms(_age_s(step))} old when it began, usually {_ms(usual.age_s)}'


def _all_slow(step: StepRecord, usual: _Usual) -> bool:
    told = [name for name, usual_s in usual.stages_s.items() if usual_s >= _MEASURABLE_S]
    return len(told) > 1 and all(
        step.stages_s.get(name, 0.0) >= _SLOWED * usual.stages_s[name] for name in told)


def _outside_s(step: StepRecord) -> float:
    return step.duration_s - sum(step.stages_s.values())


def _age_s(step: StepRecord) -> float:
    """Age of the oldest frame when the step began."""
    return step.frame_age_s - step.duration_s


def _ms(seconds: float) -> str:
    return f'{seconds * 1e3:.1f} ms'
