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

"""Sequences of observations in which exactly one thing changes at a time."""

import numpy as np

from robot_infer.sim.changes import Change, demo_changes
from robot_infer.types import Observation


def differences(before: Observation, after: Observation) -> tuple[bool, bool, bool, bool]:
    """Whether overhead, wrist, state and instruction differ."""
    return (
        not np.array_equal(before.frames['overhead'].rgb, after.frames['overhead'].rgb),
        not np.array_equal(before.frames['wrist'].rgb, after.frames['wrist'].rgb),
        not np.array_equal(before.state.values, after.state.values),
        before.instruction != after.instruction)


def test_exactly_what_is_said_changes():
    sequence = list(demo_changes(seed=4, steps=121))
    assert sequence[0][0] is Change.EVERYTHING
    for (_, before), (change, after) in zip(sequence, sequence[1:]):
        found = differences(before, after)
        expected = {
            Change.FRAMES: [(True, True, True, False)],
            Change.ONE_CAMERA: [(True, False, False, False), (False, True, False, False)],
            Change.STATE: [(False, False, True, False)],
            Change.INSTRUCTION: [(False, False, False, True)],
            Change.SWAPPED: [(True, True, False, False)],
            Change.NOTHING: [(False, False, False, False)]}[change]
        assert found in expected, change
        assert after.observed_ns > before.observed_ns


def test_swapped_frames_are_those_of_the_other_camera():
    sequence = list(demo_changes(seed=1, steps=40))
    swaps = [(before, after) for (_, before), (change, after) in zip(sequence, sequence[1:])
             if change is Change.SWAPPED]
    for before, after in swaps:
        assert after.frames['overhead'].rgb is before.frames['wrist'].rgb
        assert after.frames['wrist'].rgb is before.frames['overhead'].rgb
        assert all(frame.camera == name for name, frame in after.frames.items())
    assert len(swaps) >= 6


def test_every_kind_comes_once_in_each_round_after_the_first_observation():
    kinds = [change for change, _ in demo_changes(seed=2, steps=1 + 3 * 6)]
    for start in (1, 7, 13):
        assert len(set(kinds[start:start + 6])) == 6
    assert len({tuple(kinds[start:start + 6]) for start in (1, 7, 13)}) > 1


def test_the_same_seed_gives_the_same_sequence():
    for (one, first), (two, second) in zip(demo_changes(7, 30), demo_changes(7, 30)):
        assert one is two
        assert differences(first, second) == (False, False, False, False)
