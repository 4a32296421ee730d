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

"""The engine as its user meets it: what it refuses, what it reports, what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
import json
from pathlib import Path
import shutil

import numpy as np
import pytest

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import (
    BudgetError,
    CheckpointError,
    ConfigError,
    InstructionError,
    StateError,
)
from robot_infer.types import Frame, Observation, RobotState, StepBudget

CHECKPOINT = Path(__file__).parents[1] / 'golden' / 'data' / 'special_tokens' / 'checkpoint'
JOINTS = [f'joint_{n}' for n in range(6)]


def _config(**values) -> Config:
    return Config.from_flat({
        'policy.checkpoint': str(CHECKPOINT), 'policy.threads': 1, 'cache.page_tokens': 16,
        'cameras.names': ['top', 'side'], 'state.joints': JOINTS, **values})


def _observation(seed: int = 0, cameras=('top', 'side'), state=None,
                 instruction='move to the red cube') -> Observation:
    rng = np.random.default_rng(seed)
    frames = {name: Frame(name, rng.integers(0, 256, (48, 64, 3), np.uint8), 10 + number, 0)
              for number, name in enumerate(cameras)}
    values = rng.normal(size=6).astype(np.float32) if state is None else state
    return Observation(frames, RobotState(values, 7, 0), instruction, 5)


@pytest.fixture(scope='module')
def engine() -> Engine:
    return Engine.from_config(_config())


def test_a_chunk_carries_epoch_stamps_and_a_report(engine):
    first, second = engine.step(_observation()), engine.step(_observation(1))
    assert second.epoch == first.epoch + 1
    assert first.values.shape == (engine.info.horizon, 6)
    assert first.values.dtype == np.float32
    assert first.frame_stamps_ns == {'top': 10, 'side': 11}
    assert (first.state_stamp_ns, first.observed_ns, first.period_s) == (7, 5, 1 / 30)
    assert list(first.report.stages_s) == ['preprocess', 'vision', 'prefill', 'denoise',
                                           'postprocess']
    assert 0 < first.report.pages_used <= first.report.pages_total


def test_a_shorter_horizon_is_the_head_of_the_chunk(engine):
    full = engine.step(_observation(3))
    short = engine.step(_observation(3), StepBudget(horizon=4))
    np.testing.assert_allclose(short.values, full.values[:4], atol=1e-5)


def test_equal_observations_give_equal_actions_and_another_seed_others(engine):
    again = Engine.from_config(_config())
    np.testing.assert_array_equal(engine.step(_observation(4)).values,
                                  again.step(_observation(4)).values)
    other = Engine.from_config(_config(**{'policy.seed': 1}))
    assert not np.array_equal(engine.step(_observation(4)).values,
                              other.step(_observation(4)).values)


def test_cameras_are_bound_by_name_not_by_order(engine):
    names = _config(**{'cameras.names': ['hand', 'top'],
                       'cameras.policy_inputs': ['side', 'top']})
    renamed = Engine.from_config(names)
    frames = _observation(5).frames
    observation = Observation({'top': frames['top'], 'hand': frames['side']},
                              _observation(5).state, 'move to the red cube', 0)
    np.testing.assert_array_equal(renamed.step(observation).values,
                                  engine.step(_observation(5)).values)


def test_frames_words_and_state_all_matter(engine):
    base = engine.step(_observation(6)).values
    changed = [
        Observation({**_observation(6).frames, 'side': _observation(9).frames['side']},
                    _observation(6).state, 'move to the red cube', 0),
        _observation(6, instruction='move to the blue cube'),
        _observation(6, state=np.zeros(6, np.float32))]
    for observation in changed:
        assert not np.allclose(engine.step(observation).values, base, atol=1e-4)


def test_bad_input_is_named_and_the_next_step_is_unharmed(engine):
    good = engine.step(_observation(8)).values
    with pytest.raises(StateError, match='expected 6 joint positions'):
        engine.step(_observation(8, state=np.zeros(5, np.float32)))
    with pytest.raises(InstructionError, match='at most 48 tokens'):
        engine.step(_observation(8, instruction='move ' * 2000))
    engine.invariants()
    np.testing.assert_array_equal(engine.step(_observation(8)).values, good)


@pytest.mark.parametrize(('values', 'error', 'words'), [
    ({'policy.checkpoint': '/nowhere'}, CheckpointError, 'no such folder'),
    ({'policy.device': 'quantum'}, ConfigError, 'policy.device'),
    ({'policy.device': 'cuda:7'}, ConfigError, 'policy.device'),
    ({'state.joints': ['a', 'b']}, StateError, 'expected 6 joint names'),
    ({'cameras.names': ['top', 'hand']}, ConfigError, 'top, side'),
    ({'cameras.names': ['top']}, ConfigError, 'one camera for each policy input'),
    ({'cache.budget_bytes': 1000}, BudgetError, 'at least'),
    ({'cache.budget_bytes': 10 ** 15}, BudgetError, 'at most [0-9]+ bytes, all that'),
    ({'policy.horizon': 999}, CheckpointError, 'policy.horizon'),
])
def test_a_configuration_that_does_not_fit_is_refused_by_name(values, error, words):
    with pytest.raises(error, match=words):
        Engine.from_config(_config(**values))


@pytest.fixture
def narrow(tmp_path) -> Callable[[int], Engine]:
    """An engine of a checkpoint whose tokenizer_max_length is the one given."""
    folder = Path(shutil.copytree(CHECKPOINT, tmp_path / 'checkpoint'))
    content = json.loads((folder / 'config.json').read_text())

    def load(tokens: int) -> Engine:
        changed = {**content, 'tokenizer_max_length': tokens}
        (folder / 'config.json').write_text(json.dumps(changed))
        return Engine.from_config(_config(**{'policy.checkpoint': str(folder)}))
    return load


def test_a_policy_that_takes_few_words_warms_up_and_refuses_only_what_it_is_told(narrow):
    few = narrow(2)
    assert few.step(_observation(instruction='a')).values.shape == (few.info.horizon, 6)
    with pytest.raises(InstructionError, match='at most 2 tokens'):
        few.step(_observation())


def test_a_policy_that_no_instruction_fits_is_a_fault_of_its_checkpoint(narrow):
    with pytest.raises(CheckpointError, match='tokenizer_max_length.*2 tokens.*at most 1 tokens'):
        narrow(1)


def test_a_joint_that_never_moved_in_training_and_stands_elsewhere_than_0_is_no_hindrance():
    checkpoint = CHECKPOINT.parents[1] / 'two_cameras' / 'checkpoint'
    assert Engine.from_config(_config(**{
        'policy.checkpoint': str(checkpoint), 'cameras.names': ['overhead', 'wrist']})).info


@pytest.mark.parametrize('position', [1e5, 1e30])
def test_a_state_unlike_any_in_training_is_refused_by_its_joint(engine, position):
    state = _observation(2).state.values.copy()
    state[3] = position
    with pytest.raises(StateError, match='joint joint_3: .*100 standard deviations'):
        engine.step(_observation(2, state=state))
    unlimited = Engine.from_config(_config(**{'state.max_normalised': 0.0}))
    assert np.isfinite(unlimited.step(_observation(2, state=state)).values).all()


def test_memory_lines_add_up_to_no_more_than_the_budget(engine):
    assert 0 < sum(line.num_bytes for line in engine.info.memory) <= 67_108_864


def test_bf16_runs_and_its_pages_take_half(engine):
    half = Engine.from_config(_config(**{'policy.dtype': 'bf16'}))
    np.testing.assert_allclose(half.step(_observation(2)).values,
                               engine.step(_observation(2)).values, atol=0.2)
    assert half.cache_stats().pages_total >= 2 * engine.cache_stats().pages_total - 2


def test_close_gives_everything_back():
    engine = Engine.from_config(_config())
    engine.step(_observation())
    engine.close()
    with pytest.raises(AttributeError):
        engine.step(_observation())


def test_fewer_denoising_steps_are_those_of_a_policy_of_that_many() -> None:
    both = Engine.from_config(_config(**{'inference.min_denoise_steps': 2}))
    two = Engine.from_config(_config(**{'policy.denoise_steps': 2}))
    full = Engine.from_config(_config())
    observation = _observation()
    few = both.step(observation, StepBudget(denoise_steps=2)).values
    assert np.array_equal(few, two.step(observation).values)
    whole = both.step(observation).values
    assert np.array_equal(whole, full.step(observation).values)
    assert not np.array_equal(few, whole)


def test_a_last_rung_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match='inference.min_denoise_steps: expected fewer than'):
        Engine.from_config(_config(**{'inference.min_denoise_steps': 500}))
