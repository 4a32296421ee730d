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

"""What keeps a publisher and a subscription apart, by their quality of service."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

from robot_infer.ros import qos

BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
INFINITE = Duration(nanoseconds=2**63 - 1)


@pytest.mark.parametrize(('offered', 'requested', 'policies'), [
    (qos.action(), qos.action(), ()),
    (qos.action(), BEST_EFFORT, ()),
    (BEST_EFFORT, qos.action(), ('RELIABILITY',)),
    (qos.action(), qos.latched(), ('DURABILITY',)),
    (qos.latched(), qos.action(), ()),
    (BEST_EFFORT, qos.latched(), ('RELIABILITY', 'DURABILITY')),
    (qos.action(), QoSProfile(depth=1, deadline=Duration(seconds=1)), ('DEADLINE',)),
    (qos.action(), QoSProfile(depth=1, deadline=INFINITE, liveliness_lease_duration=INFINITE),
     ()),
    (qos.guarded_action(0.02), QoSProfile(depth=1, deadline=Duration(seconds=1)), ()),
    (qos.guarded_action(2.0), QoSProfile(depth=1, deadline=Duration(seconds=1)), ('DEADLINE',)),
    (qos.action(), QoSProfile(depth=1, liveliness_lease_duration=Duration(seconds=9)),
     ('LIVELINESS',)),
    (qos.action(), QoSProfile(depth=1, liveliness=LivelinessPolicy.MANUAL_BY_TOPIC),
     ('LIVELINESS',)),
    (QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL), qos.latched(), ()),
])
def test_the_policies_that_do_not_match_are_named(offered, requested, policies):
    assert qos.mismatches(offered, requested) == policies
