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


"""Quality of service of every topic, in one place.

Inputs keep the newest message only and ask for as little as possible, so that any publisher
matches. History, depth and reliability can be overridden by parameter
(`qos_overrides./topic.subscription.reliability`), as in every ROS 2 node; of the instruction and
the joint states durability too.
"""

from __future__ import annotations

import enum

from rclpy.duration import Duration
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

from robot_infer.errors import ConfigError

_CHOICES = {'history': HistoryPolicy, 'reliability': ReliabilityPolicy,
            'durability': DurabilityPolicy, 'liveliness': LivelinessPolicy}
_INFINITE_NS = 2_147_483_647 * 1_000_000_000
_LEASE_S = 0.5  # after which consumers hold a guard for dead that shows no life


def _keep_last(
    depth: int, reliability: ReliabilityPolicy,
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE,
) -> QoSProfile:
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability,
                      durability=durability)


def image(reliability: str) -> QoSProfile:
    """Newest image only; `reliability` is the setting cameras.reliability."""
    reliable = reliability == 'reliable'
    return _keep_last(
        1, ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT)


def state() -> QoSProfile:
    """Newest joint state only."""
    return _keep_last(1, ReliabilityPolicy.BEST_EFFORT)


def instruction() -> QoSProfile:
    """Newest instruction. Volatile: a latched subscription would not match `ros2 topic pub`."""
    return _keep_last(1, ReliabilityPolicy.RELIABLE)


def action() -> QoSProfile:
    """Newest action, delivered for sure."""
    return _keep_last(1, ReliabilityPolicy.RELIABLE)


def guarded_action(period_s: float) -> QoSProfile:
    """As `action`, with the promise of one every period and of being there."""
    profile = action()
    profile.deadline = Duration(seconds=2.0 * period_s)
    profile.liveliness = LivelinessPolicy.AUTOMATIC
    profile.liveliness_lease_duration = Duration(seconds=max(_LEASE_S, 2.0 * period_s))
    return profile


def latched() -> QoSProfile:
    """Status and the active instruction: whoever comes late still gets the last one."""
    return _keep_last(1, ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)


def diagnostics() -> QoSProfile:
    """What diagnostic_aggregator and the viewers expect."""
    return _keep_last(10, ReliabilityPolicy.RELIABLE)


def steps() -> QoSProfile:
    """Every inference step, for whoever records them."""
    return _keep_last(200, ReliabilityPolicy.RELIABLE)


def overridable() -> QoSOverridingOptions:
    """Let the user override history, depth and reliability by parameter."""
    return QoSOverridingOptions.with_default_policies()


def overridable_input() -> QoSOverridingOptions:
    """As `overridable`, and durability, for a sender that latches its last message."""
    return QoSOverridingOptions((
        QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY,
        QoSPolicyKind.DURABILITY))


def overridable_image() -> QoSOverridingOptions:
    """As `overridable`, less reliability: that is the setting cameras.reliability."""
    return QoSOverridingOptions((QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH))


def check_override(name: str, value: object) -> None:
    """Look whether ROS can take the value of a parameter qos_overrides.<topic>.<end>.<policy>.

    :raises ConfigError: where it cannot; ROS itself would not say of which topic.
    """
    topic, end, policy = ['', '', *name.split('.', 1)[1].rsplit('.', 2)][-3:]
    if policy in _CHOICES:
        choices = _names(_CHOICES[policy])
        good, expected = str(value).lower() in choices, f'one of {", ".join(choices)}'
    elif policy == 'depth':
        good = type(value) is int and 0 <= value < 2**31
        expected = 'a whole number of messages, 0 or more'
    else:
        return  # none that can be overridden here: said when the topics are open
    if not good:
        raise ConfigError(
            f'parameter {name}', expected=f'{expected}, for the {policy} of the {end} of {topic}',
            got=repr(value), remedy='Set it so, or leave it out.')


def _names(policy: type[enum.Enum]) -> tuple[str, ...]:
    """What ROS calls the values of a policy in parameters."""
    return tuple(name.lower() for name in policy.__members__
                 if name != 'UNKNOWN' and not name.startswith('RMW_'))


def mismatches(offered: QoSProfile, requested: QoSProfile) -> tuple[str, ...]:
    """The policies for which a publisher and a subscription do not match."""
    found = []
    if (requested.reliability is ReliabilityPolicy.RELIABLE
            and offered.reliability is ReliabilityPolicy.BEST_EFFORT):
        found.append('RELIABILITY')
    if (requested.durability is DurabilityPolicy.TRANSIENT_LOCAL
            and offered.durability is DurabilityPolicy.VOLATILE):
        found.append('DURABILITY')
    if _limit_ns(offered.deadline) > _limit_ns(requested.deadline):
        found.append('DEADLINE')
    if (_limit_ns(offered.liveliness_lease_duration)
            > _limit_ns(requested.liveliness_lease_duration)
            or requested.liveliness is LivelinessPolicy.MANUAL_BY_TOPIC
            and offered.liveliness is not LivelinessPolicy.MANUAL_BY_TOPIC):
        found.append('LIVELINESS')
    return tuple(found)


def _limit_ns(limit: Duration) -> float:
    """A promised or wanted time; 0, and what DDS has for infinite, stand for none."""
    return limit.nanoseconds if 0 < limit.nanoseconds < _INFINITE_NS else float('inf')
