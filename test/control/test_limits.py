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

"""ActionLimits: a chunk is refused whole and by name, never clipped."""

from __future__ import annotations

import numpy as np
import pytest

from robot_infer.config import ControlSettings
from robot_infer.control.chunks import Reason
from robot_infer.control.limits import ActionLimits
from robot_infer.errors import ConfigError


def limits(state_dim: int = 2, **values: object) -> ActionLimits:
    return ActionLimits(ControlSettings(**values), ('slide_x', 'slide_y'), state_dim)


RANGE = {'action_low': (-0.8, -0.5), 'action_high': (0.8, 0.5)}


def chunk(*rows: tuple[float, float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_a_chunk_within_its_limits_passes_and_the_limits_belong_to_them() -> None:
    assert limits(**RANGE).refusal(chunk((-0.8, -0.5), (0.8, 0.5))) is None
    assert limits().refusal(chunk((1e30, -1e30))) is None, 'no limits are configured'


@pytest.mark.parametrize(('values', 'reason', 'words'), [
    (chunk((0, 0), (0, np.nan)), Reason.ACTION_NOT_FINITE,
     'action 1 of a chunk, slide_y: expected a finite number; got nan.'),
    (chunk((np.inf, 0)), Reason.ACTION_NOT_FINITE, 'slide_x: expected a finite number; got inf.'),
    (chunk((0, 0), (0, 0), (0.81, 0)), Reason.ACTION_OUT_OF_RANGE,
     'action 2 of a chunk, slide_x: expected -0.8 to 0.8; got 0.81.'),
    (chunk((0, -3)), Reason.ACTION_OUT_OF_RANGE, 'slide_y: expected -0.5 to 0.5; got -3.'),
    (np.zeros((4, 3), np.float32), Reason.ACTION_MISSHAPEN, 'got an array of shape (4, 3).'),
    (np.zeros((0, 2), np.float32), Reason.ACTION_MISSHAPEN, 'got an array of shape (0, 2).'),
    (np.zeros(2, np.float32), Reason.ACTION_MISSHAPEN, 'got an array of shape (2,).'),
])
def test_anything_else_is_refused_with_the_place_the_limit_and_the_value(
    values: np.ndarray, reason: Reason, words: str,
) -> None:
    refusal = limits(**RANGE).refusal(values)
    assert refusal.reason is reason
    assert refusal.error.name == 'ActionError'
    assert words in str(refusal.error)


def test_a_jump_is_judged_per_joint_against_the_measured_position() -> None:
    some = limits(max_jump=0.1)
    measured = np.array([0.5, -0.5])
    assert some.jump(np.array([0.6, -0.6]), measured) is None
    refusal = some.jump(np.array([0.5, -0.75]), measured)
    assert refusal.reason is Reason.ACTION_JUMP
    assert 'slide_y: expected at most 0.1 from the measured -0.5; got -0.75' in str(refusal.error)


def test_a_jump_cannot_be_ruled_out_without_a_measurement() -> None:
    refusal = limits(max_jump=0.1).jump(np.zeros(2), None)
    assert refusal.reason is Reason.ACTION_JUMP
    assert limits().jump(np.zeros(2), None) is None, 'no limit is configured'


@pytest.mark.parametrize(('values', 'words'), [
    ({'action_low': (0.0,), 'action_high': (1.0,)}, 'control.action_low: expected 2 values'),
    ({'action_low': (0.0,) * 3, 'action_high': (1.0,) * 3}, 'got 3'),
    ({'max_jump': 0.5, 'state_dim': 7}, 'control.max_jump: expected 0'),
])
def test_settings_that_do_not_fit_the_policy_are_refused_by_name(
    values: dict[str, object], words: str,
) -> None:
    with pytest.raises(ConfigError, match=words):
        limits(**values)
