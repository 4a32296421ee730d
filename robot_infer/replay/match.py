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

"""A run over DDS beside the replay of the same bag: where did the same frames meet the same tick?

Three questions are kept apart. Which tick sent which action that was received? Is it the action
that follows from the frames its step used (`reenact.py`)? And did the replay, on its own
schedule, use the same frames at that tick, and send the same?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import difflib
import enum

import numpy as np
from numpy.typing import NDArray

from robot_infer.replay.compare import nearest
from robot_infer.replay.messages import Action
from robot_infer.replay.recorder import Tick
from robot_infer.replay.reenact import Again
from robot_infer.report.record import StepRecord, TickRecord
from robot_infer.types import Source

Chunks = Mapping[int, Again]
_SHIFTS = (0, -1, 1)  # a tick at the instant of the observation may count as before or after it


@dataclass(frozen=True)
class LiveRun:
    """What the node did, in bag time: its step records, and the actions as they were received."""

    steps: tuple[StepRecord, ...]
    actions: tuple[tuple[int, Action], ...]


class Place(enum.Enum):
    """How a tick of the node stands to the tick of the replay at the same time."""

    SAME = 'same frames, same tick'
    OTHER_TICK = 'same frames, another tick'
    OTHER_STATE = 'same frames, another state'
    OTHER_FRAMES = 'other frames'
    BOTH_FALLBACK = 'both were on a fallback'
    NODE_FALLBACK = 'the node was on a fallback'
    REPLAY_FALLBACK = 'the replay was on a fallback'
    NO_TICK = 'the replay has no tick there'


@dataclass(frozen=True)
class Meeting:
    """One tick of the node.

    received: the action that came over DDS, None where it was lost. follows: whether it is what
    its frames give when computed again, None where that is not known. equal: whether the replay
    sent the same at its tick. words: what differs.
    """

    time_ns: int
    place: Place
    received: NDArray[np.float64] | None
    follows: bool | None
    equal: bool | None
    words: str


@dataclass(frozen=True)
class Matching:
    """All ticks of a run over DDS.

    unplaced: actions received from before the first step or behind the last, of whose ticks there
    is no record.
    """

    meetings: tuple[Meeting, ...]
    unplaced: int

    @property
    def places(self) -> Counter[Place]:
        """How many ticks there are of each kind."""
        return Counter(meeting.place for meeting in self.meetings)

    @property
    def at_same_place(self) -> list[Meeting]:
        """Where the same frames met the same tick and the action arrived."""
        return [one for one in self.meetings
                if one.place is Place.SAME and one.received is not None]

    @property
    def computed_again(self) -> list[Meeting]:
        """Where the action arrived and could be computed again from the frames it followed."""
        return [one for one in self.meetings if one.follows is not None]

    @property
    def lost(self) -> int:
        """Actions of a chunk that did not arrive."""
        return sum(one.received is None
                   and one.place not in (Place.BOTH_FALLBACK, Place.NODE_FALLBACK)
                   for one in self.meetings)

    @property
    def contradictions(self) -> list[Meeting]:
        """Where the same frames gave another action: there must be none."""
        return [one for one in self.meetings
                if one.follows is False or (one.place is Place.SAME and one.equal is False)]


def match(
    live: LiveRun, ticks: Sequence[Tick], steps: Sequence[StepRecord], chunks: Chunks,
    period_s: float,
) -> Matching:
    """Match a run over DDS with a replay.

    :param ticks, steps: of the replay, on its own schedule.
    :param chunks: of the node's steps, computed again, by epoch.
    """
    sent = [tick for step in live.steps for tick in step.ticks]
    heard = [_key(action.values) for _, action in live.actions]
    rows = _rows(live.steps, sent, chunks, set(heard))
    expected = _expected(sent, rows, chunks, set(heard))
    received, unplaced = _align(expected, [tick.time_ns for tick in sent], live.actions)
    theirs = {step.epoch: step for step in live.steps}
    ours = {step.epoch: step for step in steps}
    times_ns = np.array([tick.time_ns for tick in ticks], np.int64)
    window_ns = round(period_s * 1e9 / 2)
    meetings = []
    for index, tick in enumerate(sent):
        found = nearest(times_ns, tick.time_ns)
        near = None if found is None or abs(
            int(times_ns[found]) - tick.time_ns) > window_ns else ticks[found]
        place, words = _place(tick, rows[index], near, theirs, ours)
        value = received[index]
        follows = None
        if value is not None and rows[index] is not None and chunks[tick.epoch].values:
            follows = _key(value) == expected[index]
        equal = None
        if value is not None and near is not None and near.values is not None:
            equal = _key(value) == _key(near.values)
        meetings.append(Meeting(tick.time_ns, place, value, follows, equal, words))
    return Matching(tuple(meetings), unplaced)


def _rows(
    steps: Sequence[StepRecord], sent: Sequence[TickRecord], chunks: Chunks, heard: set[bytes],
) -> list[int | None]:
    """The row of its chunk that each tick sent; None for a fallback.

    A chunk begins at the number of actions consumed since its observation. Whether a tick at that
    very instant counts is not recorded, so the neighbours are tried against what was received.
    """
    consumed_ns = [tick.time_ns for tick in sent if tick.source is Source.CHUNK]
    started_ns = {step.epoch: step.started_ns for step in steps}
    uses: dict[int, list[int]] = {}
    for index, tick in enumerate(sent):
        if tick.source is Source.CHUNK:
            uses.setdefault(tick.epoch, []).append(index)
    rows: list[int | None] = [None] * len(sent)
    for epoch, indices in uses.items():
        if epoch not in started_ns:
            continue
        first_ns = sent[indices[0]].time_ns
        base = sum(started_ns[epoch] <= time_ns < first_ns for time_ns in consumed_ns)
        shift = max(_SHIFTS, key=lambda shift, base=base, indices=indices, epoch=epoch: sum(
            _row_key(chunks, epoch, base + shift + k, heard) in heard
            for k in range(len(indices))))
        for k, index in enumerate(indices):
            rows[index] = base + shift + k
    return rows


def _row_key(chunks: Chunks, epoch: int, row: int, heard: set[bytes]) -> bytes:
    """The bytes of a row of a chunk: of the one that was heard, where two are possible."""
    keys = [_key(values[row]) for values in chunks[epoch].values
            if 0 <= row < len(values)] if epoch in chunks else []
    return next((key for key in keys if key in heard), keys[0] if keys else b'')


def _expected(
    sent: Sequence[TickRecord], rows: Sequence[int | None], chunks: Chunks, heard: set[bytes],
) -> list[bytes]:
    """What each tick should have sent, as bytes; a hold repeats; unique where it is not known."""
    keys: list[bytes] = []
    for index, tick in enumerate(sent):
        key = b''
        if tick.source is Source.CHUNK and rows[index] is not None:
            key = _row_key(chunks, tick.epoch, rows[index], heard)
        elif tick.source in (Source.HOLD, Source.STOP) and keys:
            key = keys[-1]
        keys.append(key or b'unknown %d' % index)
    return keys


def _align(
    expected: Sequence[bytes], times_ns: Sequence[int], actions: Sequence[tuple[int, Action]],
) -> tuple[list[NDArray[np.float64] | None], int]:
    """The received action of each tick, both in their order; and how many belong to none.

    Those that are what a tick should have sent are found by their bytes; what is left between
    them goes to the last tick before it that has none.
    """
    heard = [_key(action.values) for _, action in actions]
    received: list[NDArray[np.float64] | None] = [None] * len(expected)
    unplaced = 0
    matcher = difflib.SequenceMatcher(None, expected, heard, autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        if kind == 'equal':
            received[a:a_end] = [action.values for _, action in actions[b:b_end]]
            continue
        for time_ns, action in actions[b:b_end]:
            before = [k for k in range(a, a_end) if times_ns[k] <= time_ns]
            if before:
                received[before[-1]] = action.values
                a = before[-1] + 1
            else:
                unplaced += 1
    return received, unplaced


def _place(
    tick: TickRecord, row: int | None, near: Tick | None, theirs: Mapping[int, StepRecord],
    ours: Mapping[int, StepRecord],
) -> tuple[Place, str]:
    """How the node's tick stands to the replay's, and what differs in words."""
    if tick.source is not Source.CHUNK:
        both = near is not None and near.source is not Source.CHUNK
        return (Place.BOTH_FALLBACK if both else Place.NODE_FALLBACK), tick.reason
    if near is None:
        return Place.NO_TICK, ''
    if near.source is not Source.CHUNK:
        return Place.REPLAY_FALLBACK, near.reason
    node, replay = theirs.get(tick.epoch), ours.get(near.epoch)
    if node is None or replay is None:
        return Place.OTHER_FRAMES, 'of a step without a record'
    other = [f'{camera} {_newer(stamp_ns - replay.frame_stamps_ns.get(camera, 0))}'
             for camera, stamp_ns in node.frame_stamps_ns.items()
             if stamp_ns != replay.frame_stamps_ns.get(camera, 0)]
    if other:
        return Place.OTHER_FRAMES, 'the node\'s frame of ' + ', '.join(other)
    if node.state_stamp_ns != replay.state_stamp_ns:
        return Place.OTHER_STATE, (
            f'the node\'s state {_newer(node.state_stamp_ns - replay.state_stamp_ns)}')
    if row != near.row:
        return Place.OTHER_TICK, f'row {row} of the chunk, in the replay row {near.row}'
    return Place.SAME, ''


def _newer(ahead_ns: int) -> str:
    return f'{abs(ahead_ns) / 1e6:.1f} ms {"newer" if ahead_ns > 0 else "older"}'


def _key(values: NDArray[np.floating]) -> bytes:
    return np.ascontiguousarray(values, np.float64).tobytes()
