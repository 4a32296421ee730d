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

"""When a run did what: its step records as a plan that a replay can follow.

On a schedule of its own a replay sees other frames than the node did, because the node's steps
take as long as they take. Told when the node observed, when its chunks came and when it ticked, it
can do everything at the same times, and may be compared action by action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
import enum
from typing import NamedTuple

from robot_infer.replay.reenact import Again
from robot_infer.report.record import StepRecord

_EARLIEST_MS, _LATEST_MS = -50, 100


class Deed(enum.IntEnum):
    """What is done at a time, in the order in which it is done at one instant."""

    DELIVER = 0
    OBSERVE = 1
    TICK = 2


class Event(NamedTuple):
    """One deed of a run. epoch, horizon: of the step it belongs to; 0 for the full horizon."""

    time_ns: int
    deed: Deed
    epoch: int
    horizon: int = 0


def as_run(steps: Sequence[StepRecord]) -> tuple[Event, ...]:
    """Everything a run did, in the order of time."""
    found = []
    for step in steps:
        found += [Event(step.started_ns, Deed.OBSERVE, step.epoch, step.horizon),
                  Event(step.ended_ns, Deed.DELIVER, step.epoch),
                  *(Event(tick.time_ns, Deed.TICK, step.epoch) for tick in step.ticks)]
    return tuple(sorted(found))


def in_bag_time(
    told: Sequence[tuple[int, StepRecord]],
) -> tuple[StepRecord, ...]:
    """Step records of a bag with their times on the bag's clock.

    A record is told when its step has ended, and received a moment later: the record that was
    quickest shows how far the two clocks are apart.

    :param told: each record with the time it was received.
    """
    if not told:
        return ()
    shift_ns = min(time_ns - step.ended_ns for time_ns, step in told)
    return tuple(shifted(step, shift_ns) for _, step in told)


def shifted(step: StepRecord, by_ns: int) -> StepRecord:
    """A step record with all its times moved."""
    return replace(
        step, started_ns=step.started_ns + by_ns, ended_ns=step.ended_ns + by_ns,
        ticks=tuple(tick._replace(time_ns=tick.time_ns + by_ns) for tick in step.ticks))


def delay_ns(steps: Sequence[StepRecord], again: Mapping[int, Again]) -> int:
    """How long after its time in the bag a message was known to the node.

    The delay, in whole milliseconds, with which most steps looked at what was the newest then; it
    may be negative where the recorder heard messages later than the node.
    """
    known = [(step.started_ns, again[step.epoch]) for step in steps
             if again[step.epoch].until_ns > 0]

    def explained(delay_ms: int) -> int:
        return sum(one.since_ns <= started_ns - delay_ms * 1_000_000 < one.until_ns
                   for started_ns, one in known)
    counts = {delay_ms: explained(delay_ms) for delay_ms in range(_EARLIEST_MS, _LATEST_MS + 1)}
    best = [delay_ms for delay_ms, count in counts.items() if count == max(counts.values())]
    return best[len(best) // 2] * 1_000_000 if known else 0
