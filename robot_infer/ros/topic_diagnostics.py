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

"""What /diagnostics says of topics: who is at the other end, what passes, what became of it.

Pure functions and one small memory for rates. The levels are those of diagnostics.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticStatus

from robot_infer import transport
from robot_infer.camera import CameraCounters
from robot_infer.control import Fault
from robot_infer.errors import ClockError, FrameError
from robot_infer.ros.diagnostics import (
    ERROR,
    NS_PER_S,
    OK,
    WARN,
    NodeStatus,
    fault_level,
    make,
)
from robot_infer.ros.inputs import LinkStatus, several_senders
from robot_infer.ros.outputs import OutputStatus
from robot_infer.ros.ros_time import TimeStatus

_STAMPLESS = ('messages come without a stamp (0): the time of their receipt stands in, so their '
              'age on arrival is not known. Let their driver stamp them.')
_CAMERA_RELIABILITY = 'cameras.reliability: best_effort'
_LEAST = {'RELIABILITY': 'best_effort', 'DURABILITY': 'volatile'}  # what any publisher offers

Verdict = tuple[bytes, str]


@dataclass(frozen=True)
class LinkRate:
    """A link, with what happened in the period before now.

    :param refused: images too old or not to be used.
    """

    link: LinkStatus
    rate_hz: float
    lost: int
    age_s: float | None
    refused: int = 0


class Rates:
    """Remembers the counters of the period before, to tell rates from counts."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int, int, int]] = {}

    def measure(self, link: LinkStatus, now_ns: int, refused: int = 0) -> LinkRate:
        """Rate and losses since the last call for this topic; refused: in all."""
        now = (now_ns, link.received, link.lost, refused)
        time_ns, received, lost, refused_before = self._before.get(link.topic, now)
        self._before[link.topic] = now
        elapsed_s = (now_ns - time_ns) / NS_PER_S
        rate_hz = (link.received - received) / elapsed_s if elapsed_s > 0 else 0.0
        age_s = (now_ns - link.last_ns) / NS_PER_S if link.last_ns else None
        return LinkRate(link, rate_hz, link.lost - lost, age_s, refused - refused_before)


def camera(
    status: NodeStatus, name: str, rate: LinkRate, counters: CameraCounters,
    fault: FrameError | None, wanted: bool, max_age_s: float, profile: transport.Profile | None,
    hardware_id: str,
) -> DiagnosticStatus:
    """One camera: who publishes, what arrives, what became of it, and the cure for losses.

    :param fault: why its last image could not be used; None where it could.
    :param wanted: the node is active, so frames must come.
    :param profile: the Fast DDS profile in force; None where another middleware is used.
    """
    level, message = _link_verdict(rate, wanted, max_age_s, _CAMERA_RELIABILITY)
    link, lossy = rate.link, profile is not None and not profile.carries_large_frames
    if level == OK:
        level, message = (
            _unusable(rate, fault, wanted) or _with_loss(rate, profile if lossy else None)
            or (OK, message))
    elif profile is not None and link.publishers and not link.received and not link.incompatible:
        message = f'{message}.{f" {profile.fault}." if lossy else ""} {transport.CURE}'
    return make(f'{status.name}: camera {name}', level, message, hardware_id, {
        **_link_values(rate), **vars(counters)})


def link(
    status: NodeStatus, name: str, rate: LinkRate, fault: str, wanted: bool, max_age_s: float,
    hardware_id: str,
) -> DiagnosticStatus:
    """Another input: joint states.

    :param fault: the words of a fault of what it said; '' where there is none.
    """
    level, message = _link_verdict(rate, wanted, max_age_s)
    if level == OK and fault:
        level, message = ERROR if wanted else WARN, fault
    elif level == OK and rate.link.stampless:
        level, message = WARN, _STAMPLESS
    return make(f'{status.name}: {name}', level, message, hardware_id, _link_values(rate))


def clock(
    status: NodeStatus, time: TimeStatus, faults: Sequence[Fault], jumps: int, hardware_id: str,
) -> DiagnosticStatus:
    """ROS time: whose it is, and whether it goes on."""
    name = 'simulated time (/clock)' if time.simulated else 'system time'
    told = [fault for fault in faults if fault.name == ClockError.__name__]
    level, message = fault_level(told), told[0].message if told else name
    if time.simulated and not time.publishers:
        level, message = ERROR, (
            'no publisher on /clock, and use_sim_time is true. Start what publishes it (a '
            'simulator, or ros2 bag play --clock), or set use_sim_time to false.')
    return make(f'{status.name}: clock', level, message, hardware_id, {
        'use_sim_time': time.simulated, 'time_s': f'{time.time_ns / NS_PER_S:.3f}',
        'clock_publishers': time.publishers, 'clock_jumps': jumps})


def instruction(
    status: NodeStatus, rate: LinkRate, text: str, wanted: bool, hardware_id: str,
) -> DiagnosticStatus:
    """The instruction: it comes once, or as a parameter, so silence is no fault.

    :param text: the one in force, '' for none.
    """
    level, message = _mismatch(rate, wanted) or (OK, f'in force: {text or "none"}')
    return make(f'{status.name}: instruction', level, message, hardware_id, _link_values(rate))


def action(
    status: NodeStatus, output: OutputStatus, wanted: bool, hardware_id: str,
) -> DiagnosticStatus:
    """The actions: who listens to them, and who would but cannot.

    :param wanted: the node is active, so somebody should.
    """
    level = WARN if output.listeners or not wanted else ERROR
    if output.other_types:
        message = (f'{output.topic} is listened to as {", ".join(output.other_types)}, but is '
                   f'{output.type_name}. Change the listener, or set control.output.')
    elif output.incompatible:
        remedy = 'Change it.'
        if output.incompatible == 'RELIABILITY':  # of these, the one that can be overridden
            remedy = (f'Change it, or set qos_overrides.{output.topic}.publisher.reliability: '
                      'reliable.')
        message = (f'a listener on {output.topic} ({", ".join(output.deaf)}) requests QoS that is '
                   f'not offered ({output.incompatible}); it receives nothing. {remedy}')
    elif wanted and not output.listeners:
        level, message = WARN, (f'nobody listens to {output.topic}. Start the controller, or '
                                'remap the topic.')
    else:
        level, message = OK, f'{len(output.listeners)} listener(s) on {output.topic}'
    return make(f'{status.name}: action', level, message, hardware_id, {
        'topic': output.topic, 'type': output.type_name,
        'listeners': ', '.join(output.listeners), 'other_types': ', '.join(output.other_types),
        'incompatible_qos': output.incompatible})


def _link_verdict(
    rate: LinkRate, wanted: bool, max_age_s: float, reliability: str = '',
) -> Verdict:
    """Level and message; reliability: the setting of that name, where there is one."""
    link, level = rate.link, ERROR if wanted else WARN
    mismatch = _mismatch(rate, wanted, reliability)
    if mismatch is not None:
        return mismatch
    if not link.publishers:
        return level, f'no publisher on {link.topic}. Start it, or remap the topic.'
    if not rate.rate_hz:
        return level, f'{link.publishers} publisher(s) on {link.topic}, but nothing arrives'
    if rate.age_s is not None and rate.age_s > max_age_s:
        return level, (f'nothing arrived on {link.topic} for {rate.age_s:.2f} s; after '
                       f'{max_age_s:g} s what is there is too old to be used')
    return OK, f'{rate.rate_hz:.1f} Hz'


def _mismatch(rate: LinkRate, wanted: bool, reliability: str = '') -> Verdict | None:
    """What keeps a publisher and us apart: its type, or its quality of service."""
    link, level = rate.link, ERROR if wanted else WARN
    if link.other_types and not link.publishers:
        return level, (f'{link.topic} is published as {", ".join(link.other_types)}; expected '
                       f'{link.type_name}. Remap the topic, or change the publisher.')
    if not link.incompatible:
        return None
    if rate.rate_hz:
        level = WARN  # of another one
    remedies = [
        reliability if reliability and policy == 'RELIABILITY' else
        f'qos_overrides.{link.topic}.subscription.{policy.lower()}: {_LEAST[policy]}'
        for policy in link.incompatible.split(', ')]
    return level, (f'a publisher on {link.topic} ({", ".join(link.incompatible_nodes)}) offers '
                   f'incompatible QoS ({link.incompatible}); nothing is received from it. '
                   f'Set {" and ".join(remedies)}, or change the publisher.')


def _unusable(rate: LinkRate, fault: FrameError | None, wanted: bool) -> Verdict | None:
    """Images arrive, but are of no use: an encoding, a stamp, an age that is refused."""
    if fault is not None and (wanted or rate.refused):  # nobody decodes while none are wanted
        return ERROR if wanted else WARN, str(fault)
    if rate.refused:
        return WARN, f'{rate.refused} images were refused lately (see stale and bad)'
    return None


def _with_loss(rate: LinkRate, lossy: transport.Profile | None) -> Verdict | None:
    """Images arrive and can be used, but not all, or not of one camera alone."""
    link = rate.link
    if len(link.senders) > 1:
        return WARN, several_senders(link.topic, link.senders)
    if rate.lost:
        return WARN, f'{rate.lost} frames lost on the way. {transport.CURE}'
    if link.stampless:
        return WARN, _STAMPLESS
    if lossy is not None and link.size_bytes > transport.SAFE_MESSAGE_BYTES:
        return WARN, (f'frames of {link.size_bytes} bytes, and {lossy.fault}: most are lost. '
                      f'{transport.CURE}')
    return None


def _link_values(rate: LinkRate) -> dict[str, object]:
    link = rate.link
    return {
        'topic': link.topic, 'type': link.type_name, 'publishers': link.publishers,
        'other_types': ', '.join(link.other_types), 'rate_hz': rate.rate_hz,
        'age_s': '' if rate.age_s is None else rate.age_s, 'messages': link.received,
        'message_bytes': link.size_bytes, 'lost': link.lost,
        'incompatible_qos': link.incompatible}


