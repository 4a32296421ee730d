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

"""StateStore: joints by name, finite, fresh; the newest message counts."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from robot_infer.config import StateSettings
from robot_infer.control.state import StateStore
from robot_infer.errors import StateError

NOW = 1_000_000_000
STAMP = 1_700_000_000_000_000_000
MAX_AGE_NS = 250_000_000


@pytest.fixture
def store() -> StateStore:
    return StateStore(StateSettings())


def put(store: StateStore, names: list[str], positions: object, stamp_ns: int = STAMP,
        received_stamp_ns: int = STAMP, received_ns: int = NOW) -> None:
    store.put(names, positions, stamp_ns, received_ns, received_stamp_ns)


@pytest.mark.parametrize('as_message', [list, tuple, np.array, lambda p: array('d', p)])
def test_joints_are_found_by_name_and_others_are_ignored(
    store: StateStore, as_message: type,
) -> None:
    put(store, ['gripper', 'slide_y', 'slide_x'], as_message([9.0, 0.25, -0.5]))
    state = store.newest(NOW)
    assert state.values.tolist() == [-0.5, 0.25]
    assert state.values.dtype == np.float32
    assert (state.stamp_ns, state.received_ns) == (STAMP, NOW)
    assert store.measured(NOW).tolist() == [-0.5, 0.25]
    assert store.measured(NOW).dtype == np.float64


def test_the_order_of_the_names_may_change_between_messages(store: StateStore) -> None:
    for names in (['slide_x', 'slide_y'], ['slide_y', 'slide_x'], ['slide_y', 'b', 'slide_x']):
        put(store, names, [{'slide_x': 1.0, 'slide_y': 2.0, 'b': 3.0}[name] for name in names])
        assert store.newest(NOW).values.tolist() == [1.0, 2.0]


def test_a_message_is_copied(store: StateStore) -> None:
    positions = np.array([1.0, 2.0])
    put(store, ['slide_x', 'slide_y'], positions)
    positions[:] = 7.0
    assert store.newest(NOW).values.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match='read-only'):
        store.measured(NOW)[0] = 3.0


@pytest.mark.parametrize(('names', 'positions', 'words'), [
    (['slide_x', 'b'], [1, 2], 'joint slide_y: .*got slide_x, b. Set state.joints'),
    ([], [], 'joint slide_x: .*got no joints'),
    (['slide_x', 'slide_y', 'slide_x'], [1, 2, 3], 'joint slide_x: .*once'),
    (['slide_x', 'slide_y'], [], 'a position for each of 2 names; got 0 positions'),
    (['slide_x', 'slide_y'], [1, 2, 3], 'got 3 positions'),
    (['slide_x', 'slide_y'], [1, float('nan')], 'joint slide_y: expected a finite .*got nan'),
    (['slide_x', 'slide_y'], [float('-inf'), 0], 'joint slide_x: expected a finite .*got -inf'),
    (['slide_x', 'slide_y'], [1e39, 0], 'joint slide_x: expected a finite .*got 1e\\+39'),
])
def test_a_bad_message_is_named_and_ends_the_good_one_before_it(
    store: StateStore, names: list[str], positions: list[float], words: str,
) -> None:
    put(store, ['slide_x', 'slide_y'], [1.0, 2.0])
    put(store, names, positions)
    with pytest.raises(StateError, match=words):
        store.newest(NOW)
    assert store.measured(NOW) is None
    put(store, ['slide_x', 'slide_y'], [3.0, 4.0])
    assert store.newest(NOW).values.tolist() == [3.0, 4.0]


def test_no_message_yet_is_named(store: StateStore) -> None:
    with pytest.raises(StateError, match='expected joints slide_x, slide_y; got no message yet'):
        store.newest(NOW)
    assert store.measured(NOW) is None


@pytest.mark.parametrize('stamp_lag_ns', [0, 100_000_000])
def test_age_is_the_stamps_at_receipt_and_the_steady_time_since(
    store: StateStore, stamp_lag_ns: int,
) -> None:
    put(store, ['slide_x', 'slide_y'], [1.0, 2.0], received_stamp_ns=STAMP + stamp_lag_ns)
    last_ns = NOW + MAX_AGE_NS - stamp_lag_ns
    store.newest(last_ns)
    assert store.measured(last_ns) is not None
    with pytest.raises(StateError, match='not older than 0.25 s; got one of 0.250 s ago'):
        store.newest(last_ns + 1)
    assert store.measured(last_ns + 1) is None


def test_without_a_stamp_the_receipt_stands_in(store: StateStore) -> None:
    put(store, ['slide_x', 'slide_y'], [1.0, 2.0], stamp_ns=0)
    assert store.newest(NOW + MAX_AGE_NS).stamp_ns == STAMP
    with pytest.raises(StateError, match='not older'):
        store.newest(NOW + MAX_AGE_NS + 1)


def test_a_stamp_a_little_ahead_does_not_make_a_message_younger(store: StateStore) -> None:
    put(store, ['slide_x', 'slide_y'], [1.0, 2.0], received_stamp_ns=STAMP - MAX_AGE_NS)
    store.newest(NOW + MAX_AGE_NS)
    with pytest.raises(StateError, match='not older'):
        store.newest(NOW + MAX_AGE_NS + 1)


def test_a_stamp_far_ahead_is_refused(store: StateStore) -> None:
    put(store, ['slide_x', 'slide_y'], [1.0, 2.0], received_stamp_ns=STAMP - MAX_AGE_NS - 1)
    with pytest.raises(StateError, match='at most 0.25 s ahead of the ROS clock; got 0.250 s'):
        store.newest(NOW)


def test_the_age_limit_can_be_changed_and_the_state_forgotten(store: StateStore) -> None:
    put(store, ['slide_x', 'slide_y'], [1.0, 2.0])
    store.max_age_s = 2.0
    store.newest(NOW + 2_000_000_000)
    store.clear()
    with pytest.raises(StateError, match='no message yet'):
        store.newest(NOW)
