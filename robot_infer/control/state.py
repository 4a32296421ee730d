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

"""The robot's state as the policy wants it: joints by name, finite, fresh.

The newest message counts, also where it is bad: a NaN after a good state means that the state is
not known now, not that the old one still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_infer.config import StateSettings
from robot_infer.control.clock import NS_PER_S
from robot_infer.errors import StateError
from robot_infer.types import RobotState


@dataclass(frozen=True)
class _Received:
    """The newest message: a state, or what is wrong with it.

    positions: (state_dim,) float64, read-only. delay_ns: age at receipt, by the sender's stamp.
    """

    state: RobotState | None
    positions: NDArray[np.float64] | None
    delay_ns: int
    error: StateError | None


class StateStore:
    """Holds the newest state.

    `put` comes from the middleware's thread, `newest` from the worker, `measured` from the control
    tick; what passes between them is one immutable record, swapped by reference.
    """

    def __init__(self, settings: StateSettings) -> None:
        self.max_age_s = settings.max_age_s
        self._joints = settings.joints
        self._joints_of = frozenset(settings.joints)
        self._received: _Received | None = None
        self._names: tuple[str, ...] | None = None
        self._order: NDArray[np.intp] | None = None

    def put(
        self, names: Sequence[str], positions: Sequence[float], stamp_ns: int, received_ns: int,
        received_stamp_ns: int,
    ) -> None:
        """Take the newest message; what is wrong with it is told by `newest`.

        A message with none of the configured joints is another device's (a gripper's driver on
        the same topic) and changes nothing, unless it is all that ever came.

        :param names: joint names of the message; joints that are not configured are ignored.
        :param positions: one for each name, SI units.
        :param stamp_ns: the message's stamp; 0 means none, then the receive time stands in.
        :param received_ns: steady clock at receipt.
        :param received_stamp_ns: the stamps' clock (ROS time) at receipt.
        """
        if self._received is not None and names and self._joints_of.isdisjoint(names):
            return
        try:
            values = self._select(tuple(names), positions)
        except StateError as error:
            self._received = _Received(None, None, 0, error)
            return
        with np.errstate(over='ignore'):  # what float32 cannot hold is found to be infinite
            single = values.astype(np.float32)
        delay_ns = received_stamp_ns - stamp_ns if stamp_ns else 0
        error = None
        if not np.isfinite(single).all():
            error = self._not_finite(values, single)
        elif -delay_ns > self.max_age_s * NS_PER_S:
            error = self._ahead(-delay_ns)
        values.flags.writeable = single.flags.writeable = False
        state = RobotState(single, stamp_ns or received_stamp_ns, received_ns)
        # A stamp slightly ahead (clocks that differ) makes a message no younger than its receipt.
        self._received = _Received(
            None if error else state, None if error else values, max(0, delay_ns), error)

    def newest(self, now_ns: int) -> RobotState:
        """The state at `now_ns`.

        :raises StateError: where none came yet, the newest is too old, or it is bad.
        """
        received = self._received
        if received is None:
            raise StateError(
                'joint states', expected=f'joints {", ".join(self._joints)}', got='no message yet',
                remedy='See that the robot publishes them and that the topic name matches.')
        if received.error is not None:
            raise received.error.anew()
        age_s = self._age_ns(received, now_ns) / NS_PER_S
        if age_s > self.max_age_s:
            raise StateError(
                'joint states', expected=f'one not older than {self.max_age_s:g} s',
                got=f'one of {age_s:.3f} s ago',
                remedy='See whether their publisher still runs, or raise state.max_age_s.')
        return received.state

    def measured(self, now_ns: int) -> NDArray[np.float64] | None:
        """The measured positions, (state_dim,) float64; None where they are not known now."""
        received = self._received
        if received is None or received.positions is None:
            return None
        if self._age_ns(received, now_ns) > self.max_age_s * NS_PER_S:
            return None
        return received.positions

    def clear(self) -> None:
        """Forget the state."""
        self._received = None

    @staticmethod
    def _age_ns(received: _Received, now_ns: int) -> int:
        return now_ns - received.state.received_ns + received.delay_ns

    def _select(
        self, names: tuple[str, ...], positions: Sequence[float],
    ) -> NDArray[np.float64]:
        """Positions of the configured joints, in their order."""
        if len(names) != len(positions):
            raise StateError(
                'joint states', expected=f'a position for each of {len(names)} names',
                got=f'{len(positions)} positions', remedy='Mend the publisher.')
        if names != self._names:
            self._order = self._find(names)
            self._names = names
        return np.asarray(positions, dtype=np.float64)[self._order]

    def _find(self, names: tuple[str, ...]) -> NDArray[np.intp]:
        """Where each configured joint stands in a message."""
        for joint in self._joints:
            if names.count(joint) != 1:
                raise StateError(
                    f'joint {joint}', expected='a joint of this name, once, in the joint states',
                    got=', '.join(names) or 'no joints',
                    remedy='Set state.joints to the names that the robot publishes.')
        return np.array([names.index(joint) for joint in self._joints], dtype=np.intp)

    def _not_finite(
        self, values: NDArray[np.float64], single: NDArray[np.float32],
    ) -> StateError:
        index = int(np.argmin(np.isfinite(single)))
        return StateError(
            f'joint {self._joints[index]}', expected='a finite position',
            got=str(values[index]), remedy='See what is wrong with the joint\'s sensor.')

    def _ahead(self, ahead_ns: int) -> StateError:
        return StateError(
            'joint states',
            expected=f'a stamp at most {self.max_age_s:g} s ahead of the ROS clock',
            got=f'{ahead_ns / NS_PER_S:.3f} s ahead',
            remedy='Synchronise the clocks, or check use_sim_time.')
