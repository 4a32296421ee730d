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

"""A run over DDS beside a replay: what is the same, what differs and why, and what must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from robot_infer.replay.match import LiveRun, Matching, Place, match
from robot_infer.replay.messages import Action
from robot_infer.replay.recorder import Tick
from robot_infer.replay.reenact import Again
from robot_infer.report.record import StepRecord, TickRecord
from robot_infer.types import Source

PERIOD_NS = 20_000_000
HORIZON = 6
VALUES = {epoch: np.random.default_rng(epoch).normal(size=(HORIZON, 2)).astype(np.float32)
          for epoch in range(1, 6)}


def step(epoch: int, ticks: tuple[TickRecord, ...] = (), **fields: object) -> StepRecord:
    """Step `epoch` of a run: it observes at tick 3 (epoch - 1), its chunk is there one later."""
    started_ns = 3 * (epoch - 1) * PERIOD_NS - PERIOD_NS // 4
    given = {'frame_stamps_ns': {'front': epoch * 1000}, 'state_stamp_ns': epoch * 1000 + 1}
    return StepRecord(
        epoch=epoch, started_ns=started_ns, ended_ns=started_ns + PERIOD_NS, stages_s={},
        deadline_s=1.0, tokens_total=1, tokens_computed=1, cameras_encoded=1, pages_used=1,
        pages_total=1, ticks=ticks, **{**given, **fields})


def run() -> tuple[LiveRun, list[Tick]]:
    """Five steps and fifteen ticks of a node, and a replay that did the very same."""
    ticks, mine, actions = [], [], []
    for index in range(15):
        # A chunk is used from the tick behind the one it was observed at: its row 1 comes first.
        epoch, row = (index - 1) // 3 + 1, (index - 1) % 3 + 1
        time_ns = index * PERIOD_NS
        if index == 0:
            ticks.append(TickRecord(time_ns, 0.0, Source.HOLD, reason='no_chunk_yet'))
            mine.append(Tick(time_ns, Source.HOLD, 'no_chunk_yet', -1, -1, None))
            continue
        row -= epoch == 1  # nothing was consumed before the first
        values = VALUES[epoch][row].astype(np.float64)
        ticks.append(TickRecord(time_ns, 0.0, Source.CHUNK, epoch=epoch))
        mine.append(Tick(time_ns, Source.CHUNK, '', epoch, row, values))
        actions.append((time_ns + 1_000_000, Action((), values)))
    steps = tuple(step(epoch, tuple(ticks[3 * (epoch - 1):3 * epoch])) for epoch in VALUES)
    return LiveRun(steps, tuple(actions)), mine


def matched(live: LiveRun, mine: list[Tick], steps: tuple[StepRecord, ...] | None = None,
            again: dict[int, Again] | None = None) -> Matching:
    """Match, with all chunks computed again."""
    computed = again or {epoch: Again((values,)) for epoch, values in VALUES.items()}
    return match(live, mine, live.steps if steps is None else steps, computed, PERIOD_NS / 1e9)


def test_two_runs_that_did_the_same_are_the_same_everywhere():
    live, mine = run()
    found = matched(live, mine)
    assert found.places == {Place.SAME: 14, Place.BOTH_FALLBACK: 1}
    assert len(found.at_same_place) == len(found.computed_again) == 14
    assert all(one.equal and one.follows for one in found.at_same_place)
    assert found.contradictions == [] and found.lost == found.unplaced == 0


def test_one_bit_of_one_action_is_a_contradiction():
    live, mine = run()
    time_ns, action = live.actions[7]
    wrong = action.values.copy()
    wrong[1] = np.nextafter(wrong[1], 10)
    actions = (*live.actions[:7], (time_ns, Action((), wrong)), *live.actions[8:])
    found = matched(replace(live, actions=actions), mine)
    (bad,) = found.contradictions
    assert bad.time_ns == 8 * PERIOD_NS and bad.follows is False and bad.equal is False
    assert sum(one.follows is True for one in found.computed_again) == 13


def test_a_replay_that_sent_something_else_is_a_contradiction():
    live, mine = run()
    mine[5] = mine[5]._replace(values=mine[5].values + 1)
    found = matched(live, mine)
    assert [one.time_ns for one in found.contradictions] == [5 * PERIOD_NS]
    assert found.contradictions[0].follows is True


@pytest.mark.parametrize('lost', [0, 6, 13])
def test_an_action_that_was_lost_moves_no_other(lost):
    live, mine = run()
    found = matched(replace(live, actions=live.actions[:lost] + live.actions[lost + 1:]), mine)
    assert found.lost == 1 and found.contradictions == []
    assert len(found.computed_again) == 13


def test_actions_without_a_record_are_counted():
    live, mine = run()
    before = (-PERIOD_NS, Action((), np.array([9.0, 9.0])))
    found = matched(replace(live, actions=(before, *live.actions)), mine)
    assert found.unplaced == 1 and found.contradictions == []


def test_what_differs_is_told_in_words():
    live, mine = run()
    others = list(live.steps)
    others[1] = replace(others[1], frame_stamps_ns={'front': 2000 - 33_300_000})
    others[2] = replace(others[2], state_stamp_ns=3001 + 16_600_000)
    mine[0] = mine[0]._replace(source=Source.CHUNK, epoch=1, row=0)
    mine[13] = mine[13]._replace(row=3)
    mine[14] = mine[14]._replace(source=Source.HOLD, reason='chunk_exhausted', epoch=-1)
    found = matched(live, mine, tuple(others))
    assert found.places == {
        Place.SAME: 6, Place.OTHER_FRAMES: 3, Place.OTHER_STATE: 3, Place.OTHER_TICK: 1,
        Place.REPLAY_FALLBACK: 1, Place.NODE_FALLBACK: 1}
    words = {one.place: one.words for one in found.meetings}
    assert words[Place.OTHER_FRAMES] == 'the node\'s frame of front 33.3 ms newer'
    assert words[Place.OTHER_STATE] == 'the node\'s state 16.6 ms older'
    assert words[Place.OTHER_TICK] == 'row 1 of the chunk, in the replay row 3'
    assert words[Place.REPLAY_FALLBACK] == 'chunk_exhausted'
    assert words[Place.NODE_FALLBACK] == 'no_chunk_yet'
    assert len(found.computed_again) == 14 and found.contradictions == []


def test_a_tick_the_replay_did_not_make_is_told():
    live, mine = run()
    del mine[4]
    assert matched(live, mine).places[Place.NO_TICK] == 1


def test_a_tick_at_the_instant_of_the_observation_may_count_either_way():
    live, mine = run()
    early = [replace(one, started_ns=one.started_ns + PERIOD_NS // 2) for one in live.steps]
    late = [replace(one, started_ns=one.started_ns - PERIOD_NS) for one in live.steps]
    for steps in (early, late):
        found = matched(replace(live, steps=tuple(steps)), mine)
        assert all(one.follows for one in found.computed_again), 'the row is found all the same'


def test_of_two_possible_instructions_the_one_that_was_heard_counts():
    live, mine = run()
    other = np.zeros((HORIZON, 2), np.float32)
    again = {epoch: Again((other, values)) for epoch, values in VALUES.items()}
    assert all(one.follows for one in matched(live, mine, again=again).computed_again)


def test_a_step_whose_frames_the_bag_does_not_hold_is_not_judged():
    live, mine = run()
    again = {epoch: Again((values,) if epoch != 2 else ()) for epoch, values in VALUES.items()}
    found = matched(live, mine, again=again)
    assert len(found.computed_again) == 11 and found.contradictions == []
