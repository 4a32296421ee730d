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

"""The actions a bag holds beside those of its replay: error per joint over time.

Alignment is by time: each recorded action is compared with the control tick of the replay that is
nearest to it, at most half a control period away. What has no such neighbour is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_infer.replay.errors import TopicError
from robot_infer.replay.messages import Action
from robot_infer.replay.recorder import Tick
from robot_infer.types import Source


@dataclass(frozen=True)
class JointErrors:
    """Replayed less recorded, of one joint, in its own unit. worst_s: when it was largest."""

    joint: str
    rms: float
    max: float
    worst_s: float


@dataclass(frozen=True)
class Comparison:
    """Pairs of recorded and replayed actions.

    times_s: (n,) since the start of the replay. recorded, replayed: (n, joints) float64.
    followed: (n,) whether the replay followed a chunk there. unpaired: recorded actions without a
    tick that sent something. window_s: how far apart the two of a pair may be.
    """

    topic: str
    joints: tuple[str, ...]
    times_s: NDArray[np.float64]
    recorded: NDArray[np.float64]
    replayed: NDArray[np.float64]
    followed: NDArray[np.bool_]
    unpaired: int
    window_s: float

    @property
    def errors(self) -> NDArray[np.float64]:
        """Replayed less recorded, (n, joints)."""
        return self.replayed - self.recorded

    @property
    def same(self) -> int:
        """Pairs that are equal to the last bit."""
        return int((self.replayed == self.recorded).all(axis=1).sum())

    @property
    def alignment(self) -> str:
        """How the pairs were found, in words."""
        return (f'each recorded action beside the nearest control tick of the replay, at most '
                f'{self.window_s * 1e3:.1f} ms away: {len(self.times_s)} pairs, {self.unpaired} '
                'recorded actions without one')

    def by_joint(self) -> list[JointErrors]:
        """The errors of each joint; empty where there is no pair."""
        if not len(self.times_s):
            return []
        size = np.abs(self.errors)
        worst = size.argmax(axis=0)
        return [JointErrors(
            joint, float(np.sqrt(np.mean(size[:, k] ** 2))), float(size[worst[k], k]),
            float(self.times_s[worst[k]])) for k, joint in enumerate(self.joints)]


def compare(
    topic: str, recorded: Sequence[tuple[int, Action]], ticks: Sequence[Tick],
    joints: tuple[str, ...], start_ns: int, period_s: float,
) -> Comparison:
    """Pair the actions of the bag with those of the replay.

    :param joints: names of the action's values, in the policy's order.
    :raises TopicError: where an action is not one of this robot.
    """
    sent = [tick for tick in ticks if tick.values is not None]
    tick_ns = np.array([tick.time_ns for tick in sent], np.int64)
    window_ns = round(period_s * 1e9 / 2)
    times, theirs, ours, followed = [], [], [], []
    for time_ns, action in recorded:
        values = _in_order(topic, action, joints)
        index = nearest(tick_ns, time_ns)
        if index is None or abs(int(tick_ns[index]) - time_ns) > window_ns:
            continue
        times.append((time_ns - start_ns) / 1e9)
        theirs.append(values)
        ours.append(sent[index].values)
        followed.append(sent[index].source is Source.CHUNK)
    shape = (len(times), len(joints))
    return Comparison(
        topic, joints, np.array(times), np.array(theirs, np.float64).reshape(shape),
        np.array(ours, np.float64).reshape(shape), np.array(followed, bool),
        len(recorded) - len(times), window_ns / 1e9)


def nearest(times_ns: NDArray[np.int64], time_ns: int) -> int | None:
    """Index of the nearest time, the earlier of two that are equally near."""
    if not len(times_ns):
        return None
    after = int(np.searchsorted(times_ns, time_ns))
    around = [index for index in (after - 1, after) if 0 <= index < len(times_ns)]
    return min(around, key=lambda index: abs(int(times_ns[index]) - time_ns))


def _in_order(topic: str, action: Action, joints: tuple[str, ...]) -> NDArray[np.float64]:
    """The values in the policy's order: by name where the message has names."""
    names = action.joints or joints
    missing = [joint for joint in joints if joint not in names]
    if missing or len(action.values) != len(names):
        raise TopicError(
            f'topic {topic} to compare with', expected=f'values for {", ".join(joints)}',
            got=f'{len(action.values)} values' + (f' for {", ".join(action.joints)}'
                                                  if action.joints else ''),
            remedy='Name the topic this robot\'s actions were recorded on.')
    if not action.joints:
        return action.values
    return action.values[[names.index(joint) for joint in joints]]
