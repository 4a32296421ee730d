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

"""The evaluation in lock-step: the demo policy in its world, on a clock that stands still."""

from collections.abc import Iterator

import pytest
from rich.console import Console

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.shared_files import shared_file
from robot_infer.sim import evaluate
from robot_infer.sim.episodes import plan_episode
from robot_infer.sim.lockstep import LockStep
from robot_infer.sim.world import EPISODE_STEPS


@pytest.fixture(scope='module')
def config() -> Config:
    """The demo's own settings, with an inference step every third control tick."""
    flat = Config.from_yaml(shared_file('config/demo.yaml')).flat()
    return Config.from_flat({**flat, 'control.rate_hz': 30.0, 'inference.rate_hz': 10.0})


@pytest.fixture(scope='module')
def engine(config: Config) -> Iterator[Engine]:
    """The demo policy."""
    loaded = Engine.from_config(config)
    yield loaded
    loaded.close()


def test_the_policy_moves_the_robot_and_no_input_is_refused(config: Config, engine: Engine):
    plan = plan_episode(0, 0, moved=False)
    robot = LockStep(config, engine, plan, latency_ticks=2)
    before = robot.world.distance_to(plan.colour)
    for _ in range(45):
        robot.step()
    assert robot.runtime.status().fault_history == ()
    assert robot.world.distance_to(plan.colour) < before - 0.05
    assert robot.fallback_ticks == 2  # until the first chunk is there, and never after
    assert len(robot.inference_s) == 15


@pytest.mark.parametrize(('latency', 'steps'), [(0, 10), (2, 10), (3, 10), (5, 6)])
def test_a_slow_policy_infers_less_often_and_its_first_chunk_comes_later(
        config: Config, engine: Engine, latency: int, steps: int):
    robot = LockStep(config, engine, plan_episode(0, 1, moved=False), latency)
    for _ in range(30):
        robot.step()
    assert robot.fallback_ticks == latency
    assert len(robot.inference_s) == steps


def test_the_same_episode_twice_is_the_same_to_the_last_bit(config: Config, engine: Engine):
    plan = plan_episode(0, 2, moved=True)
    runs = []
    for _ in range(2):
        engine.reset()
        runs.append(evaluate.run_episode(config, engine, plan, latency_ticks=2))
    first, second = runs
    assert (first.success, first.steps, first.distance_m) == (
        second.success, second.steps, second.distance_m)
    assert first.ticks <= EPISODE_STEPS


def test_the_command_prints_both_series_and_its_status_tells_whether_they_passed(
        capsys: pytest.CaptureFixture[str]):
    status = evaluate.main(['--episodes', '2'])
    told = capsys.readouterr().out
    assert status in (0, 1)
    for words in ('plain', 'block moved', '95 % interval (Wilson)', '90%', '80%', 'seed 0',
                  'ticks (67 ms)'):
        assert words in told
    assert ('is below' in told) == (status == 1)


def test_the_verdict_follows_the_thresholds(config: Config, engine: Engine):
    result = evaluate.run_episode(config, engine, plan_episode(0, 3, False), latency_ticks=2)

    def series(moved: bool, successes: int) -> evaluate.SeriesResult:
        from dataclasses import replace
        return evaluate.SeriesResult(moved, tuple(
            replace(result, success=number < successes) for number in range(10)), 1.0)

    assert [series(False, n).passed for n in (8, 9)] == [False, True]
    assert [series(True, n).passed for n in (7, 8)] == [False, True]
    console = Console(record=True, width=100)
    console.print(evaluate.results_table([series(False, 9), series(True, 0)]))
    assert '9 = 90.0%' in console.export_text()


def test_a_checkpoint_that_is_not_there_is_status_2_and_one_sentence(
        capsys: pytest.CaptureFixture[str]):
    assert evaluate.main(['--episodes', '1', '--checkpoint', '/nowhere']) == 2
    told = capsys.readouterr().err
    assert 'CheckpointError' in told
    assert '/nowhere' in told


def test_an_unknown_option_is_status_2(capsys: pytest.CaptureFixture[str]):
    assert evaluate.main(['--bogus']) == 2
    assert '--bogus' in capsys.readouterr().err
