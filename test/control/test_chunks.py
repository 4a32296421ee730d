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

"""ChunkBuffer: one action per tick, chunks merged by actions really consumed."""

from __future__ import annotations

from hypothesis import given, settings, strategies
import numpy as np
import pytest

from robot_infer.control.chunks import (
    ChunkAction,
    ChunkBuffer,
    ChunkCounters,
    Delivery,
    InputTimes,
    Reason,
    Ticket,
)
from robot_infer.types import ActionChunk

VALIDITY_NS = 600_000_000


def chunk(epoch: int, horizon: int = 4, observed_ns: int = 0) -> ActionChunk:
    """A chunk whose actions tell where they come from: (epoch, row)."""
    values = np.array([[epoch, row] for row in range(horizon)], dtype=np.float32)
    return ActionChunk(values, 0.02, epoch, observed_ns, {'a': 40, 'b': 60}, 50)


def taken(buffer: ChunkBuffer, ticks: int, now_ns: int = 0) -> list[tuple[int, int] | Reason]:
    """What `ticks` control ticks get: (epoch, row) or the reason."""
    actions = [buffer.next(now_ns) for _ in range(ticks)]
    return [tuple(map(int, action.values)) if isinstance(action, ChunkAction) else action
            for action in actions]


@pytest.fixture
def buffer() -> ChunkBuffer:
    return ChunkBuffer(VALIDITY_NS / 1e9)


def test_before_the_first_chunk_there_is_a_reason_and_no_action(buffer: ChunkBuffer) -> None:
    assert taken(buffer, 2) == [Reason.NO_CHUNK_YET] * 2
    assert buffer.counters().underruns == 0


def test_the_first_chunk_begins_at_its_first_action_however_long_it_took(
    buffer: ChunkBuffer,
) -> None:
    ticket = buffer.ticket()
    taken(buffer, 25)  # hold ticks: nothing is consumed
    assert buffer.put(chunk(1), ticket) is Delivery.ACCEPTED
    assert taken(buffer, 5) == [(1, 0), (1, 1), (1, 2), (1, 3), Reason.CHUNK_EXHAUSTED]


@pytest.mark.parametrize('consumed', [0, 1, 3])
def test_a_new_chunk_takes_over_behind_the_actions_consumed_since_its_observation(
    buffer: ChunkBuffer, consumed: int,
) -> None:
    buffer.put(chunk(1), buffer.ticket())
    taken(buffer, 1)
    ticket = buffer.ticket()
    assert taken(buffer, consumed) == [(1, 1 + row) for row in range(consumed)]
    assert buffer.put(chunk(2), ticket) is Delivery.ACCEPTED
    assert taken(buffer, 4 - consumed) == [(2, row) for row in range(consumed, 4)]
    assert taken(buffer, 1) == [Reason.CHUNK_EXHAUSTED]


def test_hold_ticks_while_a_slow_chunk_is_under_way_are_not_consumption(
    buffer: ChunkBuffer,
) -> None:
    buffer.put(chunk(1), buffer.ticket())
    taken(buffer, 3)
    ticket = buffer.ticket()
    assert taken(buffer, 10) == [(1, 3)] + [Reason.CHUNK_EXHAUSTED] * 9
    buffer.put(chunk(2), ticket)
    assert taken(buffer, 1) == [(2, 1)]


def test_a_chunk_that_is_consumed_whole_on_arrival_is_counted_as_late(
    buffer: ChunkBuffer,
) -> None:
    buffer.put(chunk(1, horizon=9), buffer.ticket())
    ticket = buffer.ticket()
    taken(buffer, 4)
    assert buffer.put(chunk(2, horizon=4), ticket) is Delivery.LATE
    assert taken(buffer, 1) == [(1, 4)], 'the chunk in use goes on'
    counters = buffer.counters()
    assert (counters.chunks, counters.late) == (1, 1)


def test_an_older_observation_never_replaces_a_newer_one(buffer: ChunkBuffer) -> None:
    old_ticket = buffer.ticket()
    buffer.put(chunk(2, observed_ns=20), buffer.ticket())
    assert buffer.put(chunk(1, observed_ns=10), old_ticket) is Delivery.DISCARDED
    assert taken(buffer, 1) == [(2, 0)]


def test_a_chunk_expires_by_the_age_of_its_observation(buffer: ChunkBuffer) -> None:
    buffer.put(chunk(1, observed_ns=100), buffer.ticket())
    assert taken(buffer, 1, now_ns=100 + VALIDITY_NS) == [(1, 0)]
    assert taken(buffer, 2, now_ns=101 + VALIDITY_NS) == [Reason.CHUNK_EXPIRED] * 2
    assert buffer.counters().underruns == 1, 'one underrun, however long it lasts'
    buffer.put(chunk(2, observed_ns=VALIDITY_NS), buffer.ticket())
    assert taken(buffer, 1, now_ns=101 + VALIDITY_NS) == [(2, 0)]


def test_validity_can_be_changed_while_a_chunk_is_in_use(buffer: ChunkBuffer) -> None:
    buffer.put(chunk(1), buffer.ticket())
    assert taken(buffer, 1, now_ns=VALIDITY_NS) == [(1, 0)]
    buffer.validity_s = 0.1
    assert taken(buffer, 1, now_ns=VALIDITY_NS) == [Reason.CHUNK_EXPIRED]
    assert buffer.validity_s == pytest.approx(0.1)


def test_reset_voids_the_chunk_in_use_and_those_under_way(buffer: ChunkBuffer) -> None:
    buffer.put(chunk(1), buffer.ticket())
    ticket = buffer.ticket()
    taken(buffer, 1)
    buffer.reset(Reason.INSTRUCTION_CHANGED)
    assert taken(buffer, 1) == [Reason.INSTRUCTION_CHANGED]
    assert buffer.put(chunk(2), ticket) is Delivery.DISCARDED
    assert taken(buffer, 1) == [Reason.INSTRUCTION_CHANGED]
    assert buffer.put(chunk(3), buffer.ticket()) is Delivery.ACCEPTED
    assert taken(buffer, 1) == [(3, 0)]
    counters = buffer.counters()
    assert (counters.chunks, counters.discarded, counters.replaced) == (2, 1, 0)


def test_withheld_chunks_stay_withheld_whatever_comes_until_they_are_released(
    buffer: ChunkBuffer,
) -> None:
    buffer.put(chunk(1), buffer.ticket())
    before = buffer.ticket()
    taken(buffer, 1)
    buffer.withhold(Reason.DISABLED)
    meanwhile = buffer.ticket()
    assert buffer.put(chunk(2), before) is Delivery.DISCARDED
    assert buffer.put(chunk(3), meanwhile) is Delivery.DISCARDED
    buffer.refuse(meanwhile, Reason.ACTION_NOT_FINITE)
    buffer.reset(Reason.INSTRUCTION_CHANGED)
    assert taken(buffer, 2) == [Reason.DISABLED] * 2 and buffer.withheld is Reason.DISABLED
    buffer.release(Reason.NO_INSTRUCTION)
    assert buffer.put(chunk(4), meanwhile) is Delivery.DISCARDED
    assert taken(buffer, 1) == [Reason.NO_INSTRUCTION] and buffer.withheld is None
    assert buffer.put(chunk(5), buffer.ticket()) is Delivery.ACCEPTED
    assert taken(buffer, 1) == [(5, 0)] and buffer.counters().underruns == 0


def test_cleared_counters_count_from_zero_and_rows_go_on(buffer: ChunkBuffer) -> None:
    buffer.put(chunk(1), buffer.ticket())
    taken(buffer, 2)
    buffer.clear_counters()
    assert buffer.counters() == ChunkCounters(0, 0, 0, 0, 0, 0, 0)
    assert taken(buffer, 2) == [(1, 2), (1, 3)]
    assert buffer.counters().consumed == 2


def test_waiting_after_a_reset_is_no_underrun(buffer: ChunkBuffer) -> None:
    buffer.put(chunk(1), buffer.ticket())
    taken(buffer, 1)
    buffer.reset()
    taken(buffer, 3)
    assert buffer.counters().underruns == 0


def test_the_reason_of_a_refused_chunk_shows_once_the_actions_run_out(
    buffer: ChunkBuffer,
) -> None:
    buffer.put(chunk(1, horizon=2), buffer.ticket())
    buffer.refuse(buffer.ticket(), Reason.ACTION_OUT_OF_RANGE)
    assert taken(buffer, 3) == [(1, 0), (1, 1), Reason.ACTION_OUT_OF_RANGE]
    buffer.put(chunk(2, horizon=1), buffer.ticket())
    assert taken(buffer, 2) == [(2, 0), Reason.CHUNK_EXHAUSTED]
    assert buffer.counters().refused == 1


def test_a_refusal_from_before_a_reset_does_not_speak_for_what_follows(
    buffer: ChunkBuffer,
) -> None:
    ticket = buffer.ticket()
    buffer.reset()
    buffer.refuse(ticket, Reason.ACTION_OUT_OF_RANGE)
    assert taken(buffer, 1) == [Reason.NO_CHUNK_YET]


def test_a_rejected_action_is_not_consumed_and_ends_its_chunk(buffer: ChunkBuffer) -> None:
    buffer.put(chunk(1), buffer.ticket())
    assert isinstance(buffer.peek(0), ChunkAction)
    buffer.reject(Reason.ACTION_JUMP)
    assert taken(buffer, 2) == [Reason.ACTION_JUMP] * 2
    assert buffer.counters().consumed == 0
    buffer.put(chunk(2), buffer.ticket())
    assert taken(buffer, 1) == [(2, 0)]


def test_a_chunk_put_between_peek_and_reject_is_not_rejected_with_the_old_one(
    buffer: ChunkBuffer,
) -> None:
    buffer.put(chunk(1), buffer.ticket())
    buffer.peek(0)
    buffer.put(chunk(2), buffer.ticket())
    buffer.reject(Reason.ACTION_JUMP)
    assert taken(buffer, 1) == [(2, 0)]


def test_an_action_tells_its_origin(buffer: ChunkBuffer) -> None:
    times = InputTimes(received_ns=3, captured_ns=2)
    buffer.put(chunk(7), buffer.ticket(times))
    first, second = buffer.next(0), buffer.next(0)
    assert (first.epoch, first.row, first.first, first.stamp_ns, first.inputs) == (
        7, 0, True, 60, times)
    assert (second.row, second.first) == (1, False)
    assert first.values.dtype == np.float64
    with pytest.raises(ValueError, match='read-only'):
        first.values[0] = 1.0


def test_remaining_counts_down_and_is_nothing_after_a_reset(buffer: ChunkBuffer) -> None:
    assert buffer.remaining() == 0
    buffer.put(chunk(1), buffer.ticket())
    taken(buffer, 1)
    assert buffer.remaining() == 3
    taken(buffer, 5)
    assert buffer.remaining() == 0
    buffer.put(chunk(2), buffer.ticket())
    buffer.reset()
    assert buffer.remaining() == 0


class Queue:
    """The same, told as plainly as can be: a list of the actions still to come."""

    def __init__(self) -> None:
        self.actions: list[tuple[int, int]] = []
        self.sent = 0
        self.newest = -1

    def deliver(self, epoch: int, horizon: int, sent_at_observation: int) -> None:
        rows = [(epoch, row) for row in range(horizon)][self.sent - sent_at_observation:]
        if rows and epoch > self.newest:
            self.actions, self.newest = rows, epoch

    def tick(self) -> tuple[int, int] | None:
        if not self.actions:
            return None
        self.sent += 1
        return self.actions.pop(0)


@settings(max_examples=300, deadline=None)
@given(strategies.lists(strategies.tuples(
    strategies.sampled_from(['tick', 'tick', 'tick', 'observe', 'deliver', 'reset']),
    strategies.integers(1, 6)), max_size=80))
def test_any_order_of_events_gives_the_actions_of_a_plain_queue(
    events: list[tuple[str, int]],
) -> None:
    buffer, queue = ChunkBuffer(1e3), Queue()
    under_way: list[tuple[int, Ticket, int]] = []
    epoch = 0
    for event, number in events:
        if event == 'observe':
            epoch += 1
            under_way.append((epoch, buffer.ticket(), queue.sent))
        elif event == 'deliver' and under_way:
            # Not always in order: a lock-step caller may deliver what it likes.
            name, ticket, sent = under_way.pop(number % len(under_way))
            buffer.put(chunk(name, horizon=number, observed_ns=name), ticket)
            if sent >= 0:
                queue.deliver(name, number, sent)
        elif event == 'reset':
            buffer.reset()
            queue.actions, queue.newest = [], -1
            under_way = [(name, ticket, -1) for name, ticket, _ in under_way]
        elif event == 'tick':
            (got,) = taken(buffer, 1)
            assert (None if isinstance(got, Reason) else got) == queue.tick()
        assert buffer.remaining() == len(queue.actions)
