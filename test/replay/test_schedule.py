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

"""The deeds of a run as a plan, and its clocks laid on that of the bag."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import sys

import pytest

from robot_infer.replay.bag import Bag
from robot_infer.replay.reenact import Again, Reenactment
from robot_infer.replay.run import Options, Replay
from robot_infer.replay.schedule import Deed, as_run, delay_ns, in_bag_time, shifted
from robot_infer.replay.sources import Wishes, choose
from robot_infer.report.record import StepRecord, TickRecord
from robot_infer.types import Source

sys.path.insert(0, str(Path(__file__).parent))

MS = 1_000_000


def step(epoch: int, started_ns: int, *tick_ns: int) -> StepRecord:
    """A step of 20 ms with ticks."""
    return StepRecord(
        epoch=epoch, started_ns=started_ns, ended_ns=started_ns + 20 * MS, stages_s={},
        deadline_s=1.0, tokens_total=1, tokens_computed=1, cameras_encoded=1, pages_used=1,
        pages_total=1, ticks=tuple(TickRecord(one, 0.0, Source.CHUNK) for one in tick_ns))


def test_everything_a_run_did_comes_in_the_order_of_time():
    found = as_run([step(1, 0, 5 * MS), step(2, 20 * MS, 20 * MS, 39 * MS)])
    assert [(one.time_ns // MS, one.deed, one.epoch) for one in found] == [
        (0, Deed.OBSERVE, 1), (5, Deed.TICK, 1), (20, Deed.DELIVER, 1), (20, Deed.OBSERVE, 2),
        (20, Deed.TICK, 2), (39, Deed.TICK, 2), (40, Deed.DELIVER, 2)]


def test_the_quickest_record_tells_how_far_the_clocks_are_apart():
    steps = [step(number, number * 100 * MS, number * 100 * MS) for number in range(4)]
    ahead = 10**18
    told = [(one.ended_ns + ahead + late, one) for one, late in zip(
        steps, (5 * MS, 1 * MS, 90 * MS, 2 * MS))]
    found = in_bag_time(told)
    assert [one.started_ns - ahead - MS for one in found] == [one.started_ns for one in steps]
    assert found[3].ticks[0].time_ns == steps[3].ticks[0].time_ns + ahead + MS
    assert in_bag_time([]) == ()


@pytest.mark.parametrize('delay', [-20, 0, 7, 60])
def test_the_delay_is_what_explains_most_steps(delay):
    steps = [step(number, number * 70 * MS) for number in range(30)]
    again = {one.epoch: Again((), one.started_ns - (delay + 1) * MS - one.epoch % 5 * MS,
                              one.started_ns - (delay - 1) * MS + one.epoch % 7 * MS)
             for one in steps}
    again[3] = Again((), 10**15, 10**15 + 1)  # one that nothing explains
    again[4] = Again()  # one that the bag does not hold
    assert abs(delay_ns(steps, again) - delay * MS) <= MS


def test_no_step_at_all_has_no_delay():
    assert delay_ns([], {}) == 0


def test_a_replay_that_follows_its_own_records_does_the_same_again(demo_bag, config, engine):
    with Bag(demo_bag) as bag:
        sources = choose(bag, config, Wishes())
        engine.reset()
        first = Replay(bag, sources, Wishes(), config, engine, Options(latency_ticks=3)).run()
        # Its steps end where the machine was done; let them end where their chunk was used.
        uses = {tick.epoch: tick.time_ns for tick in reversed(first.ticks)}
        steps = [replace(one, ended_ns=uses.get(one.epoch, one.ended_ns)) for one in first.steps]
        engine.reset()
        again = Replay(bag, sources, Wishes(), config, engine,
                       Options(plan=as_run(steps))).run()
        known = Reenactment(bag, sources, Wishes(), config, engine).compute(steps, chunks=False)
    assert len(again.steps) == len(first.steps) == 20
    followed = [(tick.time_ns, tick.row, tick.values.tobytes()) for tick in first.ticks
                if tick.source is Source.CHUNK]
    assert followed == [(tick.time_ns, tick.row, tick.values.tobytes()) for tick in again.ticks
                        if tick.source is Source.CHUNK]
    assert abs(delay_ns(steps, known)) <= 33 * MS and not any(
        one.values for one in known.values())
    assert shifted(steps[0], 5).ended_ns == steps[0].ended_ns + 5


def test_chunks_are_as_long_as_those_of_the_run_that_is_followed(demo_bag, config, engine):
    with Bag(demo_bag) as bag:
        sources = choose(bag, config, Wishes())
        engine.reset()
        first = Replay(bag, sources, Wishes(), config, engine, Options(duration_s=1.0)).run()
        assert {one.horizon for one in first.steps} == {engine.info.horizon}
        plan = as_run([replace(one, horizon=6) for one in first.steps])
        engine.reset()
        short = Replay(bag, sources, Wishes(), config, engine,
                       Options(duration_s=1.0, plan=plan)).run()
        again = Reenactment(bag, sources, Wishes(), config, engine).compute(short.steps)
    assert {one.horizon for one in short.steps} == {6}
    for tick in short.ticks:
        if tick.source is Source.CHUNK:
            (values,) = again[tick.epoch].values
            assert values.shape == (6, 2) and (values[tick.row] == tick.values).all()
