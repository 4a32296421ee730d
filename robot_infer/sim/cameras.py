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

"""How the simulated cameras send their pictures: encodings and rows, as real drivers do.

The overhead camera sends bgr8, tightly packed; the wrist camera rgb8 with rows padded to 1024
bytes. What the pictures show is drawn in scene.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robot_infer.camera import RawImage
from robot_infer.sim.scene import OVERHEAD_SIZE, PIXELS_PER_METRE

WRIST_STEP = 1024  # 960 bytes of pixels and 64 of padding, as drivers with aligned rows send
PADDING = 0xA5  # not zero: whoever takes padding for pixels shall see it


@dataclass(frozen=True)
class Rows:
    """One picture as it goes into a message. pixels: (height, step) uint8, contiguous."""

    encoding: str
    width: int
    pixels: NDArray[np.uint8]


def rows(camera: str, rgb: NDArray[np.uint8]) -> Rows:
    """Return the rows that `camera` sends for a picture, (height, width, 3) uint8 RGB."""
    height, width = rgb.shape[:2]
    if camera == 'overhead':
        bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
        return Rows('bgr8', width, bgr.reshape(height, 3 * width))
    padded = np.full((height, WRIST_STEP), PADDING, np.uint8)
    padded[:, :3 * width] = rgb.reshape(height, 3 * width)
    return Rows('rgb8', width, padded)


def raw_image(
    camera: str, rgb: NDArray[np.uint8], *, stamp_ns: int, received_ns: int,
    received_stamp_ns: int,
) -> RawImage:
    """Return the picture as the policy's side receives it, without a ROS message in between."""
    sent = rows(camera, rgb)
    height, step = sent.pixels.shape
    return RawImage(
        encoding=sent.encoding, width=sent.width, height=height, step=step, is_bigendian=False,
        data=sent.pixels.reshape(-1), stamp_ns=stamp_ns, received_ns=received_ns,
        received_stamp_ns=received_stamp_ns)


def picture_point(xy: tuple[float, float]) -> tuple[float, float]:
    """Return the overhead picture's pixel of a point on the table, metres."""
    width, height = OVERHEAD_SIZE
    return width / 2 + xy[0] * PIXELS_PER_METRE, height / 2 - xy[1] * PIXELS_PER_METRE
