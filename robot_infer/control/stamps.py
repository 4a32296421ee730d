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

"""The stamps' clock (ROS time) beside the steady one: how they differ, and when they part.

ROS time may be the computer's (which may be set), or simulated (which may pause, run at any rate,
or begin again when a bag does). Nothing is decided here about what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
import threading

from robot_infer.control.clock import NS_PER_S
from robot_infer.errors import ClockError

# A step back that is smaller is two threads that noted one clock in turn, or a clock being slewed.
BACK_NS = NS_PER_S // 10
_STANDS_NS = NS_PER_S // 2


@dataclass(frozen=True)
class _Noted:
    """Both clocks at the newest moment noted.

    moved_ns: when the stamps' clock last moved. moved: whether it was ever seen to: where it was
    not, nobody knows for how long it had been standing when it was first noted.
    """

    received_ns: int
    stamp_ns: int
    moved_ns: int
    moved: bool


class StampClock:
    """Turns stamps into times of the steady clock; notices jumps, and a clock that stands still.

    The difference between the two is taken afresh with each message, so it follows a clock that
    is set or jumps. What is noted is one record, swapped by reference; the lock is among those who
    note, so that a jump is told to one of them only.

    :param max_jump_s: a clock that goes forward by more than this, beyond the time that passed
        since it last moved, has jumped.
    """

    def __init__(self, max_jump_s: float) -> None:
        self._max_jump_ns = round(max_jump_s * NS_PER_S)
        self._noted: _Noted | None = None
        self._noting = threading.Lock()

    def note(self, received_ns: int, received_stamp_ns: int) -> int:
        """Take both clocks at one moment; returns by how much the stamps' jumped since the last.

        Whoever looks at both clocks may note them.

        received_stamp_ns 0 is a simulated clock of which nothing was heard yet.
        """
        with self._noting:
            old = self._noted
            self._noted = _renewed(old, received_ns, received_stamp_ns)
            if old is None or not old.stamp_ns or not received_stamp_ns:
                return 0
            moved_ns = received_stamp_ns - old.stamp_ns
            # Whoever hears of simulated time late (a thread that was busy, a /clock that ticks
            # seldom) hears of all the time that passed since it last moved.
            jump_ns = moved_ns - max(0, received_ns - old.moved_ns)
            if moved_ns < -BACK_NS or (old.moved and jump_ns > self._max_jump_ns):
                return jump_ns
            return 0

    def reset(self) -> None:
        """Forget what was noted: a new time begins."""
        self._noted = None

    def steady_ns(self, stamp_ns: int) -> int | None:
        """The steady time of a stamp; None where the stamps' clock is not known."""
        noted = self._noted
        if noted is None or not noted.stamp_ns:
            return None
        return stamp_ns + noted.received_ns - noted.stamp_ns

    def check(self) -> None:
        """See whether the stamps' clock goes on.

        :raises ClockError: where it stood still, or is simulated and nothing was heard of it.
        """
        noted = self._noted
        if noted is None:
            return
        stood_ns = noted.received_ns - noted.moved_ns
        if not noted.stamp_ns:  # without a time nothing has an age: this is said at once
            raise ClockError(
                'ROS clock', expected='a time on /clock, because use_sim_time is true',
                got=f'none for {stood_ns / NS_PER_S:.1f} s', remedy='Start what publishes it (a '
                'simulator, or ros2 bag play --clock), or set use_sim_time to false.')
        if stood_ns > _STANDS_NS:
            raise ClockError(
                'ROS clock', expected='time that passes', got=f'{noted.stamp_ns / NS_PER_S:.3f} '
                f's, unchanged for {stood_ns / NS_PER_S:.1f} s', remedy='See that /clock is '
                'published and not paused, or set use_sim_time to false.')


def _renewed(old: _Noted | None, received_ns: int, stamp_ns: int) -> _Noted:
    """What is noted now, after `old`."""
    if old is None:
        return _Noted(received_ns, stamp_ns, received_ns, moved=False)
    if old.stamp_ns and not stamp_ns:  # says nothing
        return old
    if stamp_ns == old.stamp_ns:
        return _Noted(received_ns, stamp_ns, old.moved_ns, old.moved)
    return _Noted(received_ns, stamp_ns, received_ns, moved=True)


def jump_error(jump_ns: int) -> ClockError:
    """The words for a jump by `jump_ns`; 0 for a switch to another clock."""
    direction = 'back' if jump_ns < 0 else 'forward'
    got = (f'a jump {direction} by {abs(jump_ns) / NS_PER_S:.3f} s' if jump_ns
           else 'another clock (use_sim_time was switched)')
    return ClockError(
        'ROS clock', expected='time that goes on', got=got, remedy='Frames, state and actions of '
        'before are void; nothing needs to be done where this was wanted (a bag that began '
        'again, a clock that was set).')
