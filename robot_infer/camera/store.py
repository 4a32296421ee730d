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

"""The newest frame of each camera, and whether it may be used.

Here live the places where images wait, the limits on their age and skew, and the counters.
Decoding is decode.py's; nothing here knows ROS or topics.

Every image received ends in exactly one counter (or is still held):

    received = used + dropped + stale + bad + out_of_order + held
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import threading

from robot_infer.camera.decode import Image, check, decode
from robot_infer.camera.encodings import Refusal, find_encoding
from robot_infer.config import CameraSettings
from robot_infer.errors import (
    ConfigError,
    FrameError,
    FrameSkewError,
    FrameStampError,
    StaleFrameError,
)
from robot_infer.types import Frame

CLOCK_JUMP_NS = 1_000_000_000


@dataclass(frozen=True)
class CameraCounters:
    """What became of the images of one camera since the store was made.

    used: handed out at least once. dropped: replaced by a newer one before that (or cleared).
    stale: too old on arrival or when first looked at. bad: not decodable, or stamped in the
    future. out_of_order: older than one that came before. stamp_missing: came with stamp 0;
    these are counted here besides what became of them.
    """

    received: int = 0
    used: int = 0
    dropped: int = 0
    stale: int = 0
    bad: int = 0
    out_of_order: int = 0
    stamp_missing: int = 0


@dataclass
class _Held:
    """One image on its way: waiting until `frame` is there, then ready."""

    image: Image | None
    received_ns: int
    age_at_receipt_ns: int
    frame: Frame | None = None
    counted: bool = False  # used or stale: its counter has been raised

    def age_ns(self, now_ns: int) -> int:
        """Age of the stamp at receipt by the ROS clock, and the monotonic time since then.

        A step of the ROS clock between receipt and now does not change it.
        """
        return self.age_at_receipt_ns + max(0, now_ns - self.received_ns)


@dataclass
class _Slot:
    """What the store knows of one camera; guarded by the store's lock."""

    override: str
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(CameraCounters.__dataclass_fields__, 0))
    waiting: _Held | None = None
    ready: _Held | None = None
    newest_stamp_ns: int | None = None
    fault: FrameError | None = None
    fault_ns: int = 0
    generation: int = 0  # raised by clear(): what was being decoded then is not kept


class FrameStore:
    """Newest frame per camera, bound by name.

    Two locks: one guards the slots and is held for a few instructions only; the other lets one
    `newest` run at a time and is held while decoding. `put`, `counters`, `fault` and `clear`
    take only the first, so they never wait for a decode.
    """

    def __init__(self, cameras: CameraSettings) -> None:
        """Make a place for each camera.

        :raises ConfigError: where an encoding_override is no encoding of a colour image.
        """
        overrides = cameras.encoding_override or ('',) * len(cameras.names)
        for name, override in zip(cameras.names, overrides):
            refusal = find_encoding(override) if override else None
            if isinstance(refusal, Refusal):
                raise ConfigError(
                    f'parameter cameras.encoding_override, camera {name}',
                    expected='the encoding of a colour image',
                    got=f'{override!r}, which {refusal.reason}', remedy=refusal.remedy)
        self._slots = {
            name: _Slot(override) for name, override in zip(cameras.names, overrides)}
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self.apply_live(cameras)

    def apply_live(self, cameras: CameraSettings) -> None:
        """Take the limits on age and skew from `cameras`; the rest is fixed when made."""
        self._limits_ns = (round(cameras.max_age_s * 1e9), round(cameras.max_skew_s * 1e9))

    def put(self, camera: str, image: Image) -> None:
        """Take an image from a subscription; only a reference to its data is kept.

        The header is checked at once, so that a bad image does not replace a good one that
        waits. A fault is counted and remembered, not raised: `newest` raises it once no good
        frame is left, `fault` shows it before.

        Of two images the one with the later stamp is the newer. One whose stamp lies up to
        CLOCK_JUMP_NS (1 s) before the newest is out of order and dropped. If it lies further
        back and is yet not stale by the ROS clock, that clock was set back (a bag that starts
        again): it is the first of a new time base and becomes the newest. After a smaller step
        back, images are dropped until the clock has caught up, at most 1 s. Images without a
        stamp are taken in the order they come.

        :raises FrameError: for a camera that is not configured.
        """
        slot = self._slot(camera)
        max_age_ns, _ = self._limits_ns
        stamped = image.stamp_ns != 0
        lag_ns = image.received_stamp_ns - image.stamp_ns if stamped else 0
        kind, fault = '', None
        try:
            check(camera, image, slot.override)
            if lag_ns < -max_age_ns:
                raise _stamp_ahead(camera, -lag_ns, max_age_ns)
        except FrameError as error:
            kind, fault = 'bad', error.anew()
        if not fault and lag_ns > max_age_ns:
            kind, fault = 'stale', _stale(camera, lag_ns, lag_ns, max_age_ns)
        held = _Held(image, image.received_ns, max(0, lag_ns))
        with self._lock:
            slot.counts['received'] += 1
            slot.counts['stamp_missing'] += not stamped
            newest = slot.newest_stamp_ns
            if (not fault and stamped and newest is not None
                    and 0 < newest - image.stamp_ns <= CLOCK_JUMP_NS):
                kind = 'out_of_order'
            if kind:
                slot.counts[kind] += 1
                if fault:
                    slot.fault, slot.fault_ns = fault, image.received_ns
                return
            if stamped:
                slot.newest_stamp_ns = image.stamp_ns
            slot.counts['dropped'] += slot.waiting is not None
            slot.waiting = held

    def newest(self, now_ns: int) -> dict[str, Frame]:
        """Return the newest good frame of every camera; each image is decoded at most once.

        :param now_ns: the monotonic clock now.
        :raises StaleFrameError: where a camera has no frame younger than max_age_s.
        :raises FrameError: where that is so because its recent images cannot be used
            (FrameStampError: their stamps lie in the future).
        :raises FrameSkewError: where the stamps lie further apart than max_skew_s; for a
            frame without a stamp the time of receipt stands in.
        """
        with self._reading:
            max_age_ns, max_skew_ns = self._limits_ns
            found: dict[str, _Held] = {}
            first_error: FrameError | None = None
            for camera, slot in self._slots.items():
                self._take_waiting(camera, slot, now_ns, max_age_ns)
                try:
                    found[camera] = self._fresh(camera, slot, now_ns, max_age_ns)
                except FrameError as error:  # look at all cameras, then speak of the first
                    first_error = first_error or error
            if first_error is not None:
                raise first_error
            frames = {camera: held.frame for camera, held in found.items()}
            _check_skew(frames, max_skew_ns)
            with self._lock:
                for camera, held in found.items():
                    self._slots[camera].counts['used'] += not held.counted
                    held.counted = True
            return frames

    def counters(self, camera: str) -> CameraCounters:
        """Return a snapshot of one camera's counters."""
        slot = self._slot(camera)
        with self._lock:
            return CameraCounters(**slot.counts)

    def fault(self, camera: str) -> FrameError | None:
        """Return why this camera's last image was not usable, None if it was."""
        slot = self._slot(camera)
        with self._lock:
            return slot.fault

    def clear(self) -> None:
        """Forget all frames, faults and stamps (the clock jumped, the node was deactivated).

        Counters stay; frames that wait count as dropped.
        """
        with self._lock:
            for slot in self._slots.values():
                slot.counts['dropped'] += slot.waiting is not None
                if slot.ready is not None and not slot.ready.counted:
                    slot.counts['dropped'] += 1
                    slot.ready.counted = True  # `newest` may be about to hand it out
                slot.waiting = slot.ready = slot.newest_stamp_ns = slot.fault = None
                slot.generation += 1

    def _slot(self, camera: str) -> _Slot:
        try:
            return self._slots[camera]
        except KeyError:
            raise FrameError(
                f'camera {camera}', expected=f'one of {", ".join(self._slots)}',
                got='a name that is not configured', remedy='Add it to cameras.names.') from None

    def _take_waiting(self, camera: str, slot: _Slot, now_ns: int, max_age_ns: int) -> None:
        """Decode the waiting image, if there is one and it is not too old already."""
        with self._lock:
            held, slot.waiting, generation = slot.waiting, None, slot.generation
        if held is None:
            return
        outcome, fault = '', None
        if held.age_ns(now_ns) > max_age_ns:
            outcome = 'stale'
        else:
            try:
                held.frame = decode(camera, held.image, slot.override)
            except FrameError as error:
                outcome, fault = 'bad', error.anew()
        held.image = None  # let go of the message
        with self._lock:
            if slot.generation != generation:
                slot.counts[outcome or 'dropped'] += 1
            elif outcome:
                slot.counts[outcome] += 1
                if fault:
                    slot.fault, slot.fault_ns = fault, held.received_ns
            else:
                slot.counts['dropped'] += slot.ready is not None and not slot.ready.counted
                slot.ready = held
                if slot.fault_ns <= held.received_ns:  # a newer bad one may have come meanwhile
                    slot.fault = None

    def _fresh(self, camera: str, slot: _Slot, now_ns: int, max_age_ns: int) -> _Held:
        """Return the ready frame, or raise why there is none to be used."""
        with self._lock:
            ready, fault, fault_ns = slot.ready, slot.fault, slot.fault_ns
            age_ns = ready.age_ns(now_ns) if ready else None
            if ready and age_ns > max_age_ns and not ready.counted:
                slot.counts['stale'] += 1
                ready.counted = True
        if age_ns is not None and age_ns <= max_age_ns:
            return ready
        if fault and now_ns - fault_ns <= max_age_ns:
            raise fault.anew()
        raise _stale(camera, age_ns, ready.age_at_receipt_ns if ready else 0, max_age_ns, fault)


def _ms(duration_ns: int) -> str:
    return f'{duration_ns / 1e6:.1f} ms'


def _stale(
    camera: str, age_ns: int | None, at_receipt_ns: int, max_age_ns: int,
    fault: FrameError | None = None,
) -> StaleFrameError:
    if age_ns is None:
        got = 'no frame yet'
    else:
        got = f'{_ms(age_ns)} (its stamp was {_ms(at_receipt_ns)} old on arrival)'
    return StaleFrameError(
        f'camera {camera}', expected=f'a frame at most {_ms(max_age_ns)} old', got=got,
        remedy=f'Its last image could not be used: {fault}' if fault else
        'Check that the camera publishes, how often, and that its stamps follow the ROS clock.')


def _stamp_ahead(camera: str, ahead_ns: int, max_age_ns: int) -> FrameStampError:
    return FrameStampError(
        f'camera {camera}', expected=f'a stamp at most {_ms(max_age_ns)} ahead of the ROS clock',
        got=f'{_ms(ahead_ns)} ahead',
        remedy='Synchronise the clocks, let the driver stamp in ROS time, or check use_sim_time.')


def _check_skew(frames: Mapping[str, Frame], max_skew_ns: int) -> None:
    oldest = min(frames.values(), key=lambda frame: frame.stamp_ns)
    newest = max(frames.values(), key=lambda frame: frame.stamp_ns)
    skew_ns = newest.stamp_ns - oldest.stamp_ns
    if skew_ns > max_skew_ns:
        raise FrameSkewError(
            f'cameras {newest.camera} and {oldest.camera}',
            expected=f'stamps at most {_ms(max_skew_ns)} apart',
            got=f'{_ms(skew_ns)} ({oldest.camera} is the older)',
            remedy='Check the rates and clocks of these cameras, or raise cameras.max_skew_s.')
