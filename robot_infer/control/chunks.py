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

"""The chunk buffer: one action per control tick, chunks merged by actions really consumed.

It meets the two clocks: the worker puts chunks in, the tick takes actions out. No lock is
between them. What the tick reads is one immutable slot, swapped by reference, and each counter has
one writer:

    consumed     the tick      actions sent so far; hold ticks do not count
    slot         the worker    chunk, with the count its row 0 belongs to (base)
    generation   reset()       a slot or a ticket of another generation is void
    withheld     withhold()    why no chunk is followed, whatever is in the slot; None: they are

The row of the next action is always consumed - base. So a chunk that arrives n consumed actions
after its observation begins at row n by itself, whatever the time in between, and a chunk swapped
in between two ticks can neither repeat nor drop an action.
"""

from __future__ import annotations

from dataclasses import dataclass
import enum
import itertools
import threading

import numpy as np
from numpy.typing import NDArray

from robot_infer.control.clock import NS_PER_S
from robot_infer.types import ActionChunk


class Reason(enum.Enum):
    """Why there is no action for a control tick; the values are what status and log show."""

    NO_CHUNK_YET = 'no_chunk_yet'
    NO_INSTRUCTION = 'no_instruction'
    INSTRUCTION_CHANGED = 'instruction_changed'
    CLOCK_JUMPED = 'clock_jumped'
    CHUNK_EXHAUSTED = 'chunk_exhausted'
    CHUNK_EXPIRED = 'chunk_expired'
    ACTION_MISSHAPEN = 'action_misshapen'
    ACTION_NOT_FINITE = 'action_not_finite'
    ACTION_OUT_OF_RANGE = 'action_out_of_range'
    ACTION_JUMP = 'action_jump'
    DEADLINES_MISSED = 'deadlines_missed'
    DISABLED = 'disabled'
    STEP_HANGS = 'step_hangs'
    STEP_FAILED = 'step_failed'

    @property
    def waiting(self) -> bool:
        """Whether this is waiting, for a first chunk or for an operator, rather than a fault."""
        return self in _WAITING

    @property
    def awaits_policy(self) -> bool:
        """Whether this is waiting for a chunk, which a policy that hangs or fails never makes."""
        return self in _AWAITS_POLICY


_WAITING = frozenset({
    Reason.NO_CHUNK_YET, Reason.NO_INSTRUCTION, Reason.INSTRUCTION_CHANGED, Reason.CLOCK_JUMPED,
    Reason.DISABLED})
_AWAITS_POLICY = frozenset({
    Reason.NO_CHUNK_YET, Reason.INSTRUCTION_CHANGED, Reason.CLOCK_JUMPED})
_VOID = -1  # a generation that never is


class Delivery(enum.Enum):
    """What became of a chunk that was put into the buffer."""

    ACCEPTED = 'accepted'
    LATE = 'late'  # all its actions had been consumed already
    DISCARDED = 'discarded'  # from before a reset, or older than the chunk in use


@dataclass(frozen=True)
class InputTimes:
    """When the oldest frame of an observation came to be, on the steady clock.

    captured_ns: by the sender's stamp; None where a stamp cannot be trusted.
    """

    received_ns: int
    captured_ns: int | None


@dataclass(frozen=True)
class Ticket:
    """Taken with an observation, handed in with its chunk: where row 0 belongs."""

    consumed: int
    generation: int
    inputs: InputTimes | None = None


@dataclass(frozen=True)
class ChunkAction:
    """The action of one control tick.

    values: (action_dim,) float64, read-only. `row` is its place in the chunk; `first` says that
    no action of this chunk was sent before. stamp_ns: stamp of the newest frame it follows from.
    """

    values: NDArray[np.float64]
    row: int
    first: bool
    epoch: int
    stamp_ns: int
    inputs: InputTimes | None


@dataclass(frozen=True)
class ChunkCounters:
    """What happened to chunks since the start, or since `clear_counters`.

    chunks: accepted. replaced: of those, how many took over while the one before still had
    actions. underruns: how often the actions ran out. refused: misshapen or outside the limits.
    """

    chunks: int
    replaced: int
    late: int
    discarded: int
    refused: int
    underruns: int
    consumed: int


@dataclass(frozen=True)
class _Slot:
    """One accepted chunk; row k is the action that follows `base + k` consumed ones."""

    values: NDArray[np.float64]
    base: int
    generation: int
    epoch: int
    observed_ns: int
    stamp_ns: int
    inputs: InputTimes | None


class ChunkBuffer:
    """Holds the chunk in use.

    Threads: `ticket`, `put` and `refuse` belong to the inference worker; `peek`, `consume`,
    `reject` and `next` to the control tick; `reset`, `withhold`, `release` and `clear_counters`
    to anyone.

    :param validity_s: age of a chunk, counted from its observation, from which on it is not used.
    """

    def __init__(self, validity_s: float) -> None:
        self.validity_s = validity_s
        self._resetting = threading.Lock()
        self._generations = itertools.count(1)
        # Written by reset():
        self._generation = 0
        self._reset_reason = Reason.NO_CHUNK_YET
        self._withheld: Reason | None = None
        # Written by the worker:
        self._slot: _Slot | None = None
        self._refusal: tuple[int, Reason] | None = None
        self._chunks = self._replaced = self._late = self._discarded = self._refused = 0
        # Written by the tick:
        self._consumed = 0
        self._peeked: _Slot | None = None
        self._following: _Slot | None = None
        self._rejected: tuple[_Slot, Reason] | None = None
        self._running = False
        self._underruns = 0
        # Written by clear_counters():
        self._cleared = self._totals()

    @property
    def validity_s(self) -> float:
        """How old a chunk may be, counted from its observation."""
        return self._validity_ns / NS_PER_S

    @validity_s.setter
    def validity_s(self, validity_s: float) -> None:
        self._validity_ns = round(validity_s * NS_PER_S)

    def reset(self, reason: Reason = Reason.NO_CHUNK_YET) -> None:
        """Void the chunk in use and all tickets; `reason` stands until a new chunk comes."""
        with self._resetting:  # among those who reset; neither worker nor tick takes it
            self._reset_reason = reason
            self._generation = next(self._generations)

    @property
    def generation(self) -> int:
        """Which reset was the last; what came before it is void."""
        return self._generation

    @property
    def withheld(self) -> Reason | None:
        """Why chunks are withheld from the robot; None where they are not."""
        return self._withheld

    def withhold(self, reason: Reason) -> None:
        """Follow no chunk, for `reason`, until `release`; what anyone resets changes nothing."""
        self._withheld = reason
        self.reset(reason)

    def release(self, reason: Reason = Reason.NO_CHUNK_YET) -> None:
        """Follow chunks again, those of observations from now on; until one comes, `reason`."""
        # In this order: a ticket taken in between is of the old generation, and void.
        self._withheld = None
        self.reset(reason)

    def ticket(self, inputs: InputTimes | None = None) -> Ticket:
        """Note where the robot is in its actions, at the time of an observation."""
        # The generation is read first: a reset in between makes the ticket void, never wrong.
        generation = self._generation if self._withheld is None else _VOID
        return Ticket(self._consumed, generation, inputs)

    def put(self, chunk: ActionChunk, ticket: Ticket) -> Delivery:
        """Let `chunk` take over at the action that follows those consumed since `ticket`."""
        old = self._slot if self._is_current(self._slot) else None
        if ticket.generation != self._generation or (
                old is not None and chunk.observed_ns < old.observed_ns):
            self._discarded += 1
            return Delivery.DISCARDED
        consumed = self._consumed
        if consumed - ticket.consumed >= len(chunk.values):
            self._late += 1
            return Delivery.LATE
        values = np.array(chunk.values, dtype=np.float64)
        values.flags.writeable = False
        self._chunks += 1
        if old is not None and consumed - old.base < len(old.values):
            self._replaced += 1
        self._refusal = None
        self._slot = _Slot(
            values, ticket.consumed, ticket.generation, chunk.epoch, chunk.observed_ns,
            max(chunk.frame_stamps_ns.values(), default=0), ticket.inputs)
        return Delivery.ACCEPTED

    def refuse(self, ticket: Ticket, reason: Reason) -> None:
        """Note that the chunk of `ticket` was refused: the reason shown once actions run out."""
        self._refused += 1
        self._refusal = (ticket.generation, reason)

    def next(self, now_ns: int) -> ChunkAction | Reason:
        """The action of the tick at `now_ns`, now consumed; or the reason why there is none."""
        action = self.peek(now_ns)
        if isinstance(action, ChunkAction):
            self.consume()
        return action

    def peek(self, now_ns: int) -> ChunkAction | Reason:
        """As `next`, but the action is not consumed before `consume` or `reject` says so."""
        slot = self._slot
        self._peeked = slot
        gap = self._gap(slot, now_ns)
        if gap is None:
            row = self._consumed - slot.base
            return ChunkAction(slot.values[row], row, slot is not self._following, slot.epoch,
                               slot.stamp_ns, slot.inputs)
        if self._running and not gap.waiting:
            self._underruns += 1
        self._running = False
        refusal = self._refusal
        if refusal is not None and refusal[0] == self._generation:
            return refusal[1]
        return gap

    def consume(self) -> None:
        """The action that was peeked at is sent."""
        self._consumed += 1
        self._following = self._peeked
        self._running = True

    def reject(self, reason: Reason) -> None:
        """The action that was peeked at is not sent, nor is the rest of its chunk."""
        self._rejected = (self._peeked, reason)

    def remaining(self) -> int:
        """Actions left in the chunk in use, expired or not."""
        slot = self._slot
        if not self._is_current(slot):
            return 0
        return max(0, len(slot.values) - (self._consumed - slot.base))

    def counters(self) -> ChunkCounters:
        """What happened so far."""
        return ChunkCounters(*(
            total - before for total, before in zip(self._totals(), self._cleared)))

    def clear_counters(self) -> None:
        """Count from zero."""
        self._cleared = self._totals()  # the counts themselves have other writers

    def _totals(self) -> tuple[int, ...]:
        """In the order of ChunkCounters."""
        return (self._chunks, self._replaced, self._late, self._discarded, self._refused,
                self._underruns, self._consumed)

    def _is_current(self, slot: _Slot | None) -> bool:
        return slot is not None and slot.generation == self._generation

    def _gap(self, slot: _Slot | None, now_ns: int) -> Reason | None:
        """Why `slot` has no action for this tick; None where it has one."""
        withheld = self._withheld
        if withheld is not None:
            return withheld
        if not self._is_current(slot):
            return self._reset_reason
        rejected = self._rejected
        if rejected is not None and rejected[0] is slot:
            return rejected[1]
        if self._consumed - slot.base >= len(slot.values):
            return Reason.CHUNK_EXHAUSTED
        if now_ns - slot.observed_ns > self._validity_ns:
            return Reason.CHUNK_EXPIRED
        return None
