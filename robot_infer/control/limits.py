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

"""What an action must be before it may reach the robot: its shape, finite, in range, no jump.

A chunk is checked whole when it arrives. It is refused, never clipped: an action outside its
limits says that something is wrong (un-normalised values, another robot's statistics), and half
of a wrong motion is a wrong motion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_infer.config import ControlSettings
from robot_infer.control.chunks import Reason
from robot_infer.errors import ActionError, ConfigError


@dataclass(frozen=True)
class Refusal:
    """Why an action is not sent: the reason for the tick, the words for people."""

    reason: Reason
    error: ActionError


class ActionLimits:
    """The limits of one robot.

    :param settings: action_low, action_high, max_jump.
    :param action_names: a name for each action, for the words.
    :param state_dim: number of measured joints; a jump can only be judged where each action is
        the position of the joint of the same index.
    :raises ConfigError: where the settings do not fit the number of actions.
    """

    def __init__(
        self, settings: ControlSettings, action_names: tuple[str, ...], state_dim: int,
    ) -> None:
        self.action_dim = len(action_names)
        self._names = action_names
        self._low = self._limit('control.action_low', settings.action_low)
        self._high = self._limit('control.action_high', settings.action_high)
        self._max_jump = settings.max_jump
        if self._max_jump > 0.0 and state_dim != self.action_dim:
            raise ConfigError(
                'parameter control.max_jump',
                expected='0, because this policy\'s actions are not positions of its joints',
                got=f'{self._max_jump} with {self.action_dim} actions and {state_dim} joints',
                remedy='Set control.max_jump to 0.')

    def refusal(self, values: NDArray[np.floating]) -> Refusal | None:
        """Check a whole chunk, values: (horizon, action_dim); None where it may be sent."""
        if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] != self.action_dim:
            return self._refuse(
                Reason.ACTION_MISSHAPEN, 'the action chunk', f'(1 or more, {self.action_dim})',
                f'an array of shape {values.shape}',
                'The checkpoint does not fit the configured robot.')
        finite = np.isfinite(values)
        if not finite.all():
            step, joint = np.argwhere(~finite)[0]
            return self._refuse(
                Reason.ACTION_NOT_FINITE, self._where(step, joint), 'a finite number',
                str(values[step, joint]),
                'The chunk is not sent. Check the checkpoint and its statistics, or use fp32.')
        if self._low is None or self._high is None:
            return None
        # In the precision of the policy, so that an action of exactly the limit is within it.
        low, high = self._low.astype(values.dtype), self._high.astype(values.dtype)
        outside = (values < low) | (values > high)
        if not outside.any():
            return None
        step, joint = np.argwhere(outside)[0]
        return self._refuse(
            Reason.ACTION_OUT_OF_RANGE, self._where(step, joint),
            f'{self._low[joint]:g} to {self._high[joint]:g}', f'{values[step, joint]:g}',
            'The chunk is not sent. Check the checkpoint\'s action statistics and units, or '
            'control.action_low and control.action_high.')

    def allows(self, action: NDArray[np.float64]) -> bool:
        """Whether one action, (action_dim,), lies within the limits."""
        if self._low is None or self._high is None:
            return True
        return bool(((action >= self._low) & (action <= self._high)).all())

    def jump(
        self, action: NDArray[np.float64], measured: NDArray[np.float64] | None,
    ) -> Refusal | None:
        """Check a chunk's first action to be sent against the measured position.

        measured: (action_dim,) or None where no measurement is fresh enough to judge by.
        """
        if self._max_jump <= 0.0:
            return None
        if measured is None:
            return self._refuse(
                Reason.ACTION_JUMP, 'the first action of a chunk',
                'a fresh measured position to compare it with', 'none',
                'See that the joint states are published.')
        distance = np.abs(action - measured)
        joint = int(distance.argmax())
        if distance[joint] <= self._max_jump:
            return None
        return self._refuse(
            Reason.ACTION_JUMP, f'the first action of a chunk, {self._names[joint]}',
            f'at most {self._max_jump:g} from the measured {measured[joint]:g}',
            f'{action[joint]:g}', 'The chunk is not sent. Check units and joint order, or raise '
            'control.max_jump.')

    def _where(self, step: int, joint: int) -> str:
        return f'action {step} of a chunk, {self._names[joint]}'

    @staticmethod
    def _refuse(reason: Reason, subject: str, expected: str, got: str, remedy: str) -> Refusal:
        return Refusal(
            reason, ActionError(subject, expected=expected, got=got, remedy=remedy))

    def _limit(self, name: str, values: tuple[float, ...]) -> NDArray[np.float64] | None:
        if not values:
            return None
        if len(values) != self.action_dim:
            raise ConfigError(
                f'parameter {name}', expected=f'{self.action_dim} values, one for each action',
                got=f'{len(values)}', remedy='Give one limit per action, or none.')
        return np.asarray(values, dtype=np.float64)
