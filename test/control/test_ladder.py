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

"""The ladder: down at once where a step is predicted late, up again in calm, exact rungs first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from robot_infer.config import InferenceSettings
from robot_infer.control.ladder import Ladder, Plan, Rung, StepTimes
from robot_infer.types import ActionChunk, StepBudget, StepReport

MS = 1_000_000
S = 1_000_000_000
PERIOD_NS = 100 * MS


@dataclass
class Costs:
    """What a simulated policy takes, in seconds."""

    vision: float = 0.030
    action: float = 0.002
    each_step: float = 0.002
    fixed: float = 0.005


class Simulation:
    """A policy of known costs that asks the ladder before each of its steps."""

    def __init__(self, costs: Costs, **settings: object) -> None:
        self.costs = costs
        self.horizon, self.denoise_steps = 20, 10
        self.settings = InferenceSettings(**{
            'min_horizon': 5, 'min_denoise_steps': 2, 'ladder_memory_s': 5.0, **settings})
        self.ladder = Ladder(self.settings, self, 30.0)
        self.now_ns = 0

    def step(self, old_frames: bool = True) -> Plan:
        """One step; the time goes on by a period."""
        plan = self.ladder.choose(self.now_ns, old_frames)
        stages = {'denoise': self.cost_of_head(plan.budget)}
        if not plan.old_frames:
            stages['vision'] = self.costs.vision
        report = StepReport(1, stages, 10, 10, 0 if plan.old_frames else 2, 1, 2)
        self.ladder.record(
            plan, report, self.costs.fixed, report.total_s + self.costs.fixed, self.now_ns)
        self.now_ns += PERIOD_NS
        return plan

    def cost_of_head(self, budget: StepBudget) -> float:
        """Seconds of the action head."""
        return (self.costs.action * (budget.horizon or self.horizon)
                + self.costs.each_step * (budget.denoise_steps or self.denoise_steps))

    def rungs(self, number: int, **how: bool) -> list[Rung]:
        """The rungs of that many steps."""
        return [self.step(**how).rung for _ in range(number)]


def test_a_policy_that_is_in_time_does_everything() -> None:
    simulation = Simulation(Costs())
    assert simulation.rungs(50) == [Rung.FULL] * 50
    plan = simulation.step()
    assert (plan.budget, plan.old_frames) == (StepBudget(), False)
    assert plan.predicted_s == pytest.approx(0.095)


@pytest.mark.parametrize(('costs', 'rung', 'budget', 'old_frames'), [
    (Costs(vision=0.060), Rung.SHORTER_CHUNK, StepBudget(5), False),
    (Costs(vision=0.090), Rung.LAST_PREFIX, StepBudget(5), True),
    (Costs(vision=0.090, each_step=0.012), Rung.FEWER_STEPS, StepBudget(5, 2), True),
    (Costs(vision=0.090, fixed=0.120), Rung.FALLBACK, StepBudget(5, 2), True),
])
def test_the_first_rung_that_is_in_time_is_taken(costs, rung, budget, old_frames) -> None:
    simulation = Simulation(costs)
    simulation.rungs(6)
    plan = simulation.step()
    assert (plan.rung, plan.budget, plan.old_frames) == (rung, budget, old_frames)


def test_an_approximation_is_never_made_where_it_is_not_allowed() -> None:
    simulation = Simulation(Costs(each_step=0.05), min_denoise_steps=0)
    for _ in range(60):
        assert simulation.step().budget.denoise_steps is None
    assert simulation.step().rung is Rung.FALLBACK


def test_it_goes_down_with_the_first_slow_step_and_up_rung_by_rung_in_calm() -> None:
    simulation = Simulation(Costs())
    simulation.rungs(3)
    simulation.costs = Costs(vision=0.200, each_step=0.012)
    slow = simulation.rungs(3)
    assert slow[0] is Rung.FULL and slow[1:] != [Rung.FULL] * 2
    simulation.rungs(10)
    simulation.costs = Costs()
    seen = simulation.rungs(120)
    order = [Rung.FULL, Rung.SHORTER_CHUNK, Rung.LAST_PREFIX, Rung.FEWER_STEPS, Rung.FALLBACK]
    climb = [order.index(rung) for rung in seen]
    assert climb == sorted(climb, reverse=True) and climb[0] > 0 and climb[-1] == 0
    changes = [number for number in range(1, 120) if climb[number] != climb[number - 1]]
    assert all(climb[number - 1] - climb[number] == 1 for number in changes)
    assert all(later - earlier >= 5 for earlier, later in zip(changes, changes[1:]))


def test_what_stays_slow_is_tried_again_but_rarely() -> None:
    simulation = Simulation(Costs(vision=0.045))
    seen = simulation.rungs(500)  # 50 s; what was slow is forgotten after 5 s
    tries = seen[10:].count(Rung.FULL)
    assert set(seen[10:]) <= {Rung.FULL, Rung.SHORTER_CHUNK} and 1 <= tries <= 20


def test_one_stall_among_many_steps_is_not_a_slow_stage() -> None:
    simulation = Simulation(Costs())
    simulation.rungs(20)
    simulation.costs = Costs(vision=0.4)
    simulation.rungs(1)
    simulation.costs = Costs()
    assert simulation.rungs(30) == [Rung.FULL] * 30


def test_without_frames_to_use_again_the_step_looks_anew() -> None:
    simulation = Simulation(Costs(vision=0.090))
    simulation.rungs(6)
    plan = simulation.step(old_frames=False)
    assert (plan.rung, plan.old_frames) == (Rung.LAST_PREFIX, False)


def test_switched_off_it_does_everything_however_long_it_takes() -> None:
    simulation = Simulation(Costs(vision=1.0), ladder=False)
    assert simulation.rungs(10) == [Rung.FULL] * 10
    simulation.ladder.apply_live(simulation.settings.model_copy(update={'ladder': True}))
    assert Rung.LAST_PREFIX in simulation.rungs(10)
    simulation.ladder.apply_live(simulation.settings)
    assert simulation.rungs(3) == [Rung.FULL] * 3


def test_the_shortest_chunk_covers_two_deadlines_and_a_period_where_there_is_so_much() -> None:
    def shortest(**settings: float) -> int | None:
        ladder = Ladder(InferenceSettings(**settings), Simulation(Costs()), 30.0)
        return ladder._plan_of(Rung.SHORTER_CHUNK, False).budget.horizon
    assert shortest(deadline_s=0.1, rate_hz=10.0) == 9
    assert shortest(deadline_s=5.0, rate_hz=10.0) == 20
    assert shortest(deadline_s=0.1, min_horizon=3) == 3


def test_times_are_forgotten() -> None:
    times = StepTimes(1.0)
    times.add(('a',), 5.0, 0)
    times.add(('a',), 1.0, S // 2)
    assert times.p99(('a',), S) == 5.0
    assert times.p99(('a',), S + 1) == 1.0
    assert times.p99(('a',), 2 * S) is None and times.p99(('b',), 0) is None


class Slow:
    """Makes the policy of a rig take time on the manual clock, by what it is asked for."""

    def __init__(self, rig) -> None:  # noqa: ANN001
        self.rig, self.seen, self.budgets = rig, set(), []
        self.vision_ms, self.head_ms = 70, 30
        step = rig.policy.step

        def slow(observation, budget) -> ActionChunk:  # noqa: ANN001
            self.budgets.append(budget)
            frames = tuple(frame.stamp_ns for frame in observation.frames.values())
            new = frames not in self.seen
            self.seen.add(frames)
            share = (budget.horizon or 8) / 8
            stages = {'denoise': self.head_ms * share * 1e-3}
            if new:
                stages['vision'] = self.vision_ms * 1e-3
            rig.clock.advance_s(sum(stages.values()))
            chunk = step(observation, budget)
            return ActionChunk(
                chunk.values[:budget.horizon], chunk.period_s, chunk.epoch, chunk.observed_ns,
                chunk.frame_stamps_ns, chunk.state_stamp_ns,
                StepReport(1, stages, 10, 10 if new else 1, 2 if new else 0, 1, 2))
        rig.policy.step = slow


@pytest.fixture
def rig(make_rig):
    return make_rig(inference__deadline_s=0.060, inference__min_horizon=2,
                    cameras__max_age_s=0.25)


def test_the_newest_state_meets_the_frames_of_the_last_step(rig) -> None:
    slow, run = Slow(rig), rig.runtime._inference.run
    rig.feed(overhead=255, x=0.1)
    first = run(laddered=True)
    rig.feed(overhead=0, x=0.2)
    second = run(laddered=True)
    assert slow.budgets == [StepBudget(), StepBudget(2)]
    assert second.frame_stamps_ns == first.frame_stamps_ns, 'its stamps say whose frames it saw'
    assert second.state_stamp_ns > first.state_stamp_ns
    assert rig.policy.observations[1].state.values[0] == np.float32(0.2)
    status = rig.runtime.status().inference
    assert status.rung == 'last_prefix'
    assert (status.rungs['last_prefix'], status.rungs['full']) == (1, 1)
    assert status.predicted_s < 0.060


def test_frames_are_used_again_only_while_they_are_fresh(rig) -> None:
    Slow(rig)
    run, stamps = rig.runtime._inference.run, []
    for _ in range(30):
        rig.feed()
        chunk = run(laddered=True)
        now_ns = rig.stamp_ns()
        stamps.append(chunk.frame_stamps_ns['overhead'])
        assert now_ns - chunk.frame_stamps_ns['overhead'] <= 0.25e9 + 0.1e9
        rig.clock.advance_s(0.02)
    assert 3 < len(set(stamps)) < 30


def test_frames_of_another_instruction_or_another_time_are_never_used_again(rig) -> None:
    Slow(rig)
    run = rig.runtime._inference.run
    rig.feed()
    first = run(laddered=True)
    rig.runtime.put_instruction('away from it')
    rig.feed()
    second = run(laddered=True)
    assert second.frame_stamps_ns['overhead'] > first.frame_stamps_ns['overhead']
    rig.runtime.clock_jumped(1)
    rig.feed()
    assert run(laddered=True).frame_stamps_ns['overhead'] > second.frame_stamps_ns['overhead']


def test_in_lock_step_every_step_is_a_full_one(rig) -> None:
    slow = Slow(rig)
    for _ in range(5):
        rig.feed()
        rig.runtime.infer_once()
    assert slow.budgets == [StepBudget()] * 5
