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


"""What went out, action by action, against what may: a grammar of phases over the whole list.

    expect_stream(robot.actions, Follow(chunk), Hold(at_least=10), Follow(chunk, first_row=0))

says: actions of this chunk, then the last of them held for ten ticks or more, then the chunk
again from its first row on; and nothing else. The chunks to compare with are made by an Engine in
lock-step (`PolicyOracle`). Nothing here waits or talks to the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sensor_msgs.msg import Image

from robot_infer.camera.decode import decode
from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.ros import messages
from robot_infer.types import Observation, RobotState

Values = tuple[float, ...]
Chunk = tuple[Values, ...]
_ANY_ROW = 10**9  # after a hold a chunk may begin anywhere


class Action(tuple):
    """The values of one action that was heard, equal to a bare tuple of them.

    number: the publisher's count, so that one that got lost on the way shows; 0 where the
    middleware has none. sent_ns: when it was published, by the wall clock.
    """

    number = 0
    sent_ns = 0

    @classmethod
    def heard(cls, values: Sequence[float], info: Mapping[str, int]) -> Action:
        """The values, with what the middleware knows of their message."""
        action = cls(values)
        action.number = info.get('publication_sequence_number') or 0
        action.sent_ns = info['source_timestamp']
        return action


class Follow:
    """Actions of the policy: rows of `chunks`, each in its turn.

    The row after r is r + 1, or an earlier one where a newer chunk took over: never a later one,
    which would have jumped over an action. The last action may be repeated where the machine
    stalled the policy for longer than a chunk lasts. Several chunks: of the frames, states or
    instructions that were there in this phase.

    :param first_row: where it must begin; None anywhere.
    """

    def __init__(self, *chunks: Chunk, at_least: int = 1, first_row: int | None = None) -> None:
        rows = [row for chunk in chunks for row in chunk]
        assert rows and len(set(rows)) == len(rows), 'chunks to be told from each other and a hold'
        self.at_least = at_least
        self._places = {row: place for chunk in chunks for place, row in enumerate(chunk)}
        self._first_row = first_row

    def begins(self, value: Values, before: Values | None, highest_row: int) -> int | None:
        """The row that `value` is at the begin of this phase; None where it may not be."""
        row = self._places.get(value)
        if row is None or row > highest_row or self._first_row not in (None, row):
            return None
        return row

    def goes_on(self, value: Values, before: Values, row: int, lost: int) -> int | None:
        """The row of the next action; None where it may not be one of this phase."""
        if value == before:
            return row
        place = self._places.get(value)
        return place if place is not None and place <= row + 1 + lost else None

    def __str__(self) -> str:
        return f'actions of the policy (known: {len(self._places)})'


class Hold:
    """One value, again and again: the last one sent before, or `at`."""

    def __init__(self, at: Values | None = None, at_least: int = 1) -> None:
        self.at, self.at_least = at, at_least

    def begins(self, value: Values, before: Values | None, highest_row: int) -> int | None:
        """`_ANY_ROW` where `value` is the one to be held."""
        return _ANY_ROW if value == (before if self.at is None else self.at) else None

    def goes_on(self, value: Values, before: Values, row: int, lost: int) -> int | None:
        """`_ANY_ROW` where `value` is held."""
        return _ANY_ROW if value == before else None

    def __str__(self) -> str:
        return f'hold of {"the last action" if self.at is None else self.at}'


Phase = Follow | Hold


@dataclass(frozen=True)
class _Place:
    """Where in the grammar a list of actions may be: the phase, its row, how many of it."""

    phase: int
    row: int
    count: int


def expect_stream(actions: Sequence[Values], *phases: Phase) -> tuple[int, ...]:
    """See that `actions`, all of them, are these phases in this order and nothing else.

    A phase of `at_least` 0 may be missing. Returns the index at which each phase began; it begins
    as early as the rest allows.
    """
    assert actions, 'no action at all'
    before_all = _Place(-1, _ANY_ROW, 0)
    at = dict(_later(before_all, (), None, actions[0], 0, 0, phases))
    assert at, f'action 0 is {tuple(actions[0])}, expected {phases[0]}'
    for index in range(1, len(actions)):
        following = _next(at, actions[index - 1], actions[index], index, phases)
        assert following, _complaint(at, actions, index, phases)
        at = following
    ends = [begun for place, begun in at.items()
            if place.phase == len(phases) - 1 and place.count >= phases[-1].at_least]
    assert ends, (f'after {len(actions)} actions, the last {tuple(actions[-1])}, it is at '
                  + ' or '.join(_words(place, phases) for place in at) + '; more was expected')
    return min(ends)


def _next(
    at: Mapping[_Place, tuple[int, ...]], before: Values, value: Values, index: int,
    phases: Sequence[Phase],
) -> dict[_Place, tuple[int, ...]]:
    """All places that the next action may lead to."""
    numbers = getattr(before, 'number', 0), getattr(value, 'number', 0)
    lost = max(0, numbers[1] - numbers[0] - 1) if all(numbers) else 0
    found: dict[_Place, tuple[int, ...]] = {}

    def add(place: _Place, begun: tuple[int, ...]) -> None:
        found[place] = min(begun, found.get(place, begun))

    for place, begun in at.items():
        phase = phases[place.phase]
        row = phase.goes_on(value, before, place.row, lost)
        if row is not None:
            add(_Place(place.phase, row, min(place.count + 1, phase.at_least)), begun)
        if place.count >= phase.at_least:
            for later, begun_later in _later(place, begun, before, value, index, lost, phases):
                add(later, begun_later)
    return found


def _later(
    place: _Place, begun: tuple[int, ...], before: Values | None, value: Values, index: int,
    lost: int, phases: Sequence[Phase],
) -> Iterator[tuple[_Place, tuple[int, ...]]]:
    """The phases behind `place` that `value` may begin."""
    for number in range(place.phase + 1, len(phases)):
        begun = (*begun, index)
        row = phases[number].begins(value, before, place.row + 1 + lost)
        if row is not None:
            yield _Place(number, row, min(1, phases[number].at_least)), begun
        if phases[number].at_least > 0:
            return


def _complaint(
    at: Mapping[_Place, tuple[int, ...]], actions: Sequence[Values], index: int,
    phases: Sequence[Phase],
) -> str:
    shown = '\n'.join(f'  {number}: {tuple(actions[number])}'
                      for number in range(max(0, index - 10), min(len(actions), index + 5)))
    return (f'action {index} is {tuple(actions[index])}, which may not follow '
            + ' or '.join(_words(place, phases) for place in at) + f'\n{shown}')


def _words(place: _Place, phases: Sequence[Phase]) -> str:
    row = '' if place.row == _ANY_ROW else f'row {place.row} of '
    return f'{row}phase {place.phase}, {phases[place.phase]} ({place.count} of it counted)'


class PolicyOracle:
    """The same policy in this process, in lock-step: which chunk follows from which messages."""

    def __init__(self, config: Config) -> None:
        self._engine = Engine.from_config(config)

    def chunk(self, images: Mapping[str, Image], positions: Values, instruction: str) -> Chunk:
        """The chunk, as it goes out, of these frames, this state and this instruction.

        Made without anything of the chunks before, so that it also judges what the node reuses.
        """
        self._engine.forget()
        frames = {camera: decode(camera, messages.raw_image(image, 0, 0))
                  for camera, image in images.items()}
        state = RobotState(np.asarray(positions, np.float64).astype(np.float32), 0, 0)
        values = self._engine.step(Observation(frames, state, instruction, 0)).values
        return tuple(map(tuple, values.astype(np.float64).tolist()))
