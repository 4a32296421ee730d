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
"""How the demo world looks: table, blocks, gripper, light and sensor noise, drawn with OpenCV.

No physics and no rules live here. A picture is a pure function of the gripper's position, the time
and the step number, so that the same step rendered twice gives the same pixels.
"""

from __future__ import annotations

import math
from typing import Protocol

import cv2
import numpy as np

PIXELS_PER_METRE = 1000
OVERHEAD_SIZE = (640, 480)
WRIST_SIZE = (320, 240)
WRIST_VIEW = (0.24, 0.18)  # metres of the table the wrist camera sees
MARGIN_PX = 140  # of floor around the table, for the wrist camera at the table's edge

PAINT = {
    'red': (205, 45, 40),
    'green': (40, 160, 70),
    'blue': (40, 80, 205),
    'yellow': (235, 200, 30),
}
_BLOCK_SIDE = 0.08
_NOISE_SIGMA = 5.0
_NUM_NOISE_TILES = 8
_SHIFT = 4  # fractional bits of OpenCV's fixed-point coordinates


class Drawable(Protocol):
    """What the scene needs to know of a block."""

    @property
    def colour(self) -> str: ...

    @property
    def xy(self) -> tuple[float, float]: ...

    @property
    def yaw(self) -> float: ...


def _noise_tiles() -> list[np.ndarray]:
    """Return int16 tiles of Gaussian noise, larger than a picture so that a crop can wander."""
    rng = np.random.default_rng(20260101)
    shape = (OVERHEAD_SIZE[1] + 64, OVERHEAD_SIZE[0] + 64, 3)
    return [
        np.rint(rng.standard_normal(shape, np.float32) * _NOISE_SIGMA).astype(np.int16)
        for _ in range(_NUM_NOISE_TILES)
    ]


_TILES = _noise_tiles()


class Scene:
    """The painted table of one episode and the light over it."""

    def __init__(self, rng: np.random.Generator, blocks: tuple[Drawable, ...]) -> None:
        """Choose table, light and noise out of `rng` and paint `blocks`."""
        wood = rng.uniform(110, 185) + rng.uniform(-10, 10, 3)
        self._table = _paint_table(rng, wood)
        self._shadow = wood * 0.45
        self._shade = {name: rng.uniform(-14, 14, 3) for name in PAINT}
        self._brightness = rng.uniform(0.72, 1.18)
        self._tint = rng.uniform(0.93, 1.07, 3)
        self._drift = (rng.uniform(0.0, 0.10), rng.uniform(4.0, 12.0), rng.uniform(0.0, 6.28))
        self._noise_key = int(rng.integers(1 << 30))
        self.draw_blocks(blocks)

    def draw_blocks(self, blocks: tuple[Drawable, ...]) -> None:
        """Paint the table anew with the blocks where they lie now."""
        canvas = self._table.copy()
        for block in blocks:
            colour = np.clip(np.array(PAINT[block.colour]) + self._shade[block.colour], 0, 255)
            corners = _square(block.xy, _BLOCK_SIDE, block.yaw)
            shadow = corners + np.array([6.0, 8.0])
            _fill(canvas, shadow, self._shadow)
            _fill(canvas, corners, colour * 0.72)
            _fill(canvas, _square(block.xy, _BLOCK_SIDE * 0.84, block.yaw), colour)
        self._canvas = canvas

    def overhead(self, gripper_xy: tuple[float, float], time_s: float, step: int) -> np.ndarray:
        """Return the fixed camera's picture of the whole table, uint8 RGB (480, 640, 3)."""
        width, height = OVERHEAD_SIZE
        picture = self._canvas[MARGIN_PX : MARGIN_PX + height, MARGIN_PX : MARGIN_PX + width]
        picture = picture.copy()
        centre = _pixel(gripper_xy) - MARGIN_PX
        x, y = (int(round(v)) for v in centre)
        cv2.line(picture, (x, 0), (x, height - 1), (70, 72, 78), 3)
        cv2.circle(picture, (x, y), 24, (245, 245, 245), 7, cv2.LINE_AA)
        cv2.circle(picture, (x, y), 29, (25, 25, 28), 5, cv2.LINE_AA)
        for side in (-1, 1):
            cv2.rectangle(
                picture, (x + side * 20 - 4, y - 10), (x + side * 20 + 4, y + 10), (25, 25, 28), -1
            )
        return self._expose(picture, time_s, step, camera=0)

    def wrist(self, gripper_xy: tuple[float, float], time_s: float, step: int) -> np.ndarray:
        """Return the picture of the camera on the gripper, uint8 RGB (240, 320, 3)."""
        width, height = WRIST_SIZE
        scale = width / (WRIST_VIEW[0] * PIXELS_PER_METRE)
        centre = _pixel(gripper_xy)
        # warpAffine maps picture pixels back to canvas pixels; pixel centres sit at +0.5
        inverse = np.array(
            [
                [1 / scale, 0.0, centre[0] - (width / 2 - 0.5) / scale - 0.5],
                [0.0, 1 / scale, centre[1] - (height / 2 - 0.5) / scale - 0.5],
            ]
        )
        picture = cv2.warpAffine(
            self._canvas,
            inverse,
            (width, height),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        for x in (width // 2 - 46, width // 2 + 46):
            cv2.rectangle(picture, (x - 7, 92), (x + 7, 148), (25, 25, 28), -1)
            cv2.rectangle(picture, (x - 3, 98), (x + 3, 142), (215, 215, 220), -1)
        return self._expose(picture, time_s, step, camera=1)

    def _expose(self, picture: np.ndarray, time_s: float, step: int, camera: int) -> np.ndarray:
        """Apply the light of this moment and the sensor's noise."""
        depth, period_s, phase = self._drift
        wave = math.sin(2 * math.pi * time_s / period_s + phase)
        light = self._brightness * (1.0 + depth * wave)
        ramp = np.arange(256, dtype=np.float32)[:, None] * (light * self._tint)[None, :]
        table = np.clip(np.rint(ramp), 0, 255).astype(np.uint8)[None]
        lit = cv2.LUT(picture, table)
        key = (self._noise_key + step * 2654435761 + camera * 40503) & 0xFFFFFFFF
        tile = _TILES[(key >> 7) % _NUM_NOISE_TILES]
        top, left = (key >> 11) % 64, (key >> 17) % 64
        height, width = picture.shape[:2]
        noise = tile[top : top + height, left : left + width]
        return cv2.add(lit, noise, dtype=cv2.CV_8U)


def _paint_table(rng: np.random.Generator, wood: np.ndarray) -> np.ndarray:
    """Return the canvas: a greyish table with a grain and a lamp's falloff, on a dark floor."""
    width = OVERHEAD_SIZE[0] + 2 * MARGIN_PX
    height = OVERHEAD_SIZE[1] + 2 * MARGIN_PX
    coarse = rng.standard_normal((12, 40)).astype(np.float32)
    fine = rng.standard_normal((height // 4, width // 40)).astype(np.float32)
    grain = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR) * 4.0
    grain += cv2.resize(fine, (width, height), interpolation=cv2.INTER_LINEAR) * 4.0
    slope = rng.uniform(-18, 18, 2)
    grain += np.linspace(-slope[0], slope[0], width, dtype=np.float32)[None, :]
    grain += np.linspace(-slope[1], slope[1], height, dtype=np.float32)[:, None]
    inner = slice(MARGIN_PX, height - MARGIN_PX), slice(MARGIN_PX, width - MARGIN_PX)
    table = [cv2.add(grain[inner], float(value), dtype=cv2.CV_8U) for value in wood]
    canvas = np.full((height, width, 3), int(rng.uniform(35, 60)), np.uint8)
    canvas[inner] = cv2.merge(table)
    return canvas


def _pixel(xy: tuple[float, float]) -> np.ndarray:
    """Return the canvas pixel of a point on the table (x right, y up; pixel rows go down)."""
    return np.array(
        [
            MARGIN_PX + OVERHEAD_SIZE[0] / 2 + xy[0] * PIXELS_PER_METRE,
            MARGIN_PX + OVERHEAD_SIZE[1] / 2 - xy[1] * PIXELS_PER_METRE,
        ]
    )


def _square(xy: tuple[float, float], side: float, yaw: float) -> np.ndarray:
    """Return the four canvas corners of a square, (4, 2) float."""
    half = side * PIXELS_PER_METRE / 2
    corners = np.array([[-half, -half], [half, -half], [half, half], [-half, half]])
    cos, sin = math.cos(yaw), math.sin(yaw)
    return corners @ np.array([[cos, -sin], [sin, cos]]) + _pixel(xy)


def _fill(canvas: np.ndarray, corners: np.ndarray, colour: np.ndarray) -> None:
    points = np.rint(corners * (1 << _SHIFT)).astype(np.int32)
    cv2.fillConvexPoly(canvas, points, tuple(float(c) for c in colour), cv2.LINE_AA, _SHIFT)
