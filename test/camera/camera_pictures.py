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

"""Images as cameras send them, for the tests of the frame store.

Times are in milliseconds here: `at` is the monotonic clock, `ros` the ROS clock, `stamp` the
sender's. A picture is known again by its first pixel.
"""

from __future__ import annotations

from dataclasses import asdict

import cv2
import numpy as np

from robot_infer.camera import CameraCounters, EncodedImage, FrameStore, RawImage
from robot_infer.config import CameraSettings

MS = 1_000_000
ROS0 = 1_000_000  # ROS time when the monotonic clock reads 0, ms


def make_store(*names, **settings):
    return FrameStore(CameraSettings(
        names=names or ('front',), **{'max_age_s': 0.25, 'max_skew_s': 0.15, **settings}))


def picture(at, *, stamp=None, ros=None, mark=1, encoding='rgb8', size=2, data=None):
    """A raw image received at `at`; stamped 20 ms before by the same clock if not said."""
    ros = ROS0 + at if ros is None else ros
    stamp = ros - 20 if stamp is None else stamp
    data = np.full(3 * size * size, mark, np.uint8) if data is None else data
    return RawImage(encoding, size, size, 3 * size, False, data, stamp_ns=stamp * MS,
                    received_ns=at * MS, received_stamp_ns=ros * MS)


def damaged_jpeg(at):
    """Its header is sound: that it cannot be decoded shows only when it is."""
    data = bytearray(cv2.imencode('.jpg', np.zeros((16, 16, 3), np.uint8))[1].tobytes())
    table = data.index(b'\xff\xc4')
    data[table + 5:table + 21] = b'\xff' * 16
    return EncodedImage('jpeg', np.frombuffer(bytes(data), np.uint8), stamp_ns=(ROS0 + at) * MS,
                        received_ns=at * MS, received_stamp_ns=(ROS0 + at) * MS)


def mark_of(frames, camera='front'):
    return int(frames[camera].rgb[0, 0, 0])


def nonzero(counters: CameraCounters):
    return {name: value for name, value in asdict(counters).items() if value}
