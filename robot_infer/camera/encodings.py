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

"""Every image encoding, once: how its bytes lie in memory and how they become RGB.

Here live the names of sensor_msgs/image_encodings (and the few that drivers send beside them),
the planes each one has, and the conversion to RGB; OpenCV does the arithmetic. What is not here:
checking a message against these facts (decode.py), JPEG and PNG (compressed.py).

16-bit samples become 8-bit ones as cv_bridge does it: round(x * 255 / 65535) = round(x / 257).
So a camera that fills only the low 12 of 16 bits looks dark here as it does there.
YUV is BT.601 with limited range (16..235), as OpenCV and cv_bridge take it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import difflib
import re

import cv2
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Unpack = Callable[[Sequence[Bytes], int, int, bool], Bytes]


@dataclass(frozen=True)
class Plane:
    """One plane of an image: blocks of `across` x `down` pixels with `block_bytes` bytes each."""

    block_bytes: int
    across: int = 1
    down: int = 1

    def row_bytes(self, width: int) -> int:
        """Bytes of one row that hold pixels; an incomplete block at the end counts whole."""
        return -(-width // self.across) * self.block_bytes

    def rows(self, height: int) -> int:
        """Rows of this plane for an image of `height` pixels."""
        return -(-height // self.down)


@dataclass(frozen=True)
class Encoding:
    """One encoding.

    planes: in memory one behind the other; the message's step is the row length of the first.
    unpack: (planes as (rows, row_bytes) uint8 views, width, height, swap) -> (height, width, 3)
        uint8 RGB in memory of its own; `swap` says that multi-byte samples have the other byte
        order than this machine.
    min_side: smaller images cannot be converted.
    """

    name: str
    planes: tuple[Plane, ...]
    unpack: Unpack
    min_side: int = 1


@dataclass(frozen=True)
class Refusal:
    """Why an encoding is not taken as a colour image, and what to do about it."""

    reason: str
    remedy: str


def to_8_bit(samples: NDArray[np.uint16]) -> Bytes:
    """Scale 16-bit samples to 8 bits: round(x / 257), which maps 0 to 0 and 65535 to 255."""
    return cv2.convertScaleAbs(samples, alpha=1 / 257)


def _samples_16(rows: Bytes, swap: bool) -> NDArray[np.uint16]:
    """Rows of bytes as rows of native 16-bit samples, aligned and without padding."""
    samples = np.require(rows, requirements='C').view(np.uint16)
    return samples.byteswap() if swap else np.require(samples, requirements='CA')


def _packed(channels: int, code: int | None, sample_bytes: int = 1) -> Unpack:
    """Interleaved channels; `code` is OpenCV's conversion to RGB, None where it is RGB."""
    def unpack(planes: Sequence[Bytes], width: int, height: int, swap: bool) -> Bytes:
        if sample_bytes == 1:
            pixels = planes[0].reshape(height, width, channels)
            return pixels.copy() if code is None else cv2.cvtColor(pixels, code)
        pixels = to_8_bit(_samples_16(planes[0], swap).reshape(height, width, channels))
        return pixels if code is None else cv2.cvtColor(pixels, code)
    return unpack


def _bayer(code: int, sample_bytes: int) -> Unpack:
    """A colour filter mosaic, interpolated bilinearly."""
    def unpack(planes: Sequence[Bytes], width: int, height: int, swap: bool) -> Bytes:
        del width, height
        if sample_bytes == 1:
            return cv2.cvtColor(planes[0], code)
        return to_8_bit(cv2.cvtColor(_samples_16(planes[0], swap), code))
    return unpack


def _yuv_422(code: int) -> Unpack:
    """Two pixels share one U and one V, interleaved with their Y."""
    def unpack(planes: Sequence[Bytes], width: int, height: int, swap: bool) -> Bytes:
        del swap
        rgb = cv2.cvtColor(planes[0].reshape(height, -1, 2), code)
        return np.ascontiguousarray(rgb[:, :width])
    return unpack


def _even_rows(luma: Bytes) -> Bytes:
    """OpenCV's 4:2:0 conversions want an even number of rows: repeat the last one."""
    return np.concatenate((luma, luma[-1:])) if len(luma) % 2 else luma


def _yuv_semi_planar(code: int) -> Unpack:
    """A plane of Y, then a half-size plane of interleaved chroma."""
    def unpack(planes: Sequence[Bytes], width: int, height: int, swap: bool) -> Bytes:
        del swap
        luma, chroma = planes
        rgb = cv2.cvtColorTwoPlane(
            _even_rows(luma), chroma.reshape(len(chroma), -1, 2), code)
        return np.ascontiguousarray(rgb[:height, :width])
    return unpack


def _yuv_planar(code: int) -> Unpack:
    """A plane of Y, then two half-size planes of chroma."""
    def unpack(planes: Sequence[Bytes], width: int, height: int, swap: bool) -> Bytes:
        del swap
        parts = [_even_rows(planes[0]), planes[1], planes[2]]
        packed = np.concatenate([part.ravel() for part in parts])
        rgb = cv2.cvtColor(packed.reshape(-1, planes[0].shape[1]), code)
        return np.ascontiguousarray(rgb[:height, :width])
    return unpack


def _nv24(planes: Sequence[Bytes], width: int, height: int, swap: bool) -> Bytes:
    """A plane of Y, then a full-size plane of interleaved U and V.

    OpenCV has no code for it: each pixel is written as a pair of equal YUYV pixels, and every
    other one is taken back, so that the arithmetic is the same as for the other YUV formats.
    """
    del swap
    luma, chroma = planes
    pairs = np.empty((height, width, 4), np.uint8)
    cv2.mixChannels([luma, chroma.reshape(height, width, 2)], [pairs], [0, 0, 1, 1, 0, 2, 2, 3])
    twice = cv2.cvtColor(pairs.reshape(height, 2 * width, 2), cv2.COLOR_YUV2RGB_YUY2)
    rgb = np.empty((height, width, 3), np.uint8)
    cv2.mixChannels([twice.reshape(height, width, 6)], [rgb], [0, 0, 1, 1, 2, 2])
    return rgb


def _table() -> dict[str, Encoding]:
    encodings: list[Encoding] = []
    for layout, channels, code in (
            ('rgb', 3, None), ('bgr', 3, cv2.COLOR_BGR2RGB), ('rgba', 4, cv2.COLOR_RGBA2RGB),
            ('bgra', 4, cv2.COLOR_BGRA2RGB), ('mono', 1, cv2.COLOR_GRAY2RGB)):
        for size in (1, 2):
            encodings.append(Encoding(
                f'{layout}{8 * size}', (Plane(channels * size),), _packed(channels, code, size)))
    # sensor_msgs names the first two pixels of the first row, OpenCV those of the second row
    # from the second column on: rggb is OpenCV's BG.
    for pattern, code in (
            ('rggb', cv2.COLOR_BayerBG2RGB), ('bggr', cv2.COLOR_BayerRG2RGB),
            ('gbrg', cv2.COLOR_BayerGR2RGB), ('grbg', cv2.COLOR_BayerGB2RGB)):
        for size in (1, 2):
            encodings.append(Encoding(
                f'bayer_{pattern}{8 * size}', (Plane(size),), _bayer(code, size), min_side=3))
    # cv_bridge takes the abstract types for OpenCV's own order of channels.
    for name, alike in (('8UC1', 'mono8'), ('8UC3', 'bgr8'), ('8UC4', 'bgra8')):
        like = next(encoding for encoding in encodings if encoding.name == alike)
        encodings.append(Encoding(name, like.planes, like.unpack))
    for names, code in ((('uyvy', 'yuv422'), cv2.COLOR_YUV2RGB_UYVY),
                        (('yuyv', 'yuv422_yuy2'), cv2.COLOR_YUV2RGB_YUY2)):
        encodings += [Encoding(name, (Plane(4, across=2),), _yuv_422(code)) for name in names]
    # An odd width is rounded up, as the chroma needs it; the first plane must have the room.
    luma, interleaved, half = Plane(2, across=2), Plane(2, 2, 2), Plane(1, 2, 2)
    encodings += [
        Encoding('nv12', (luma, interleaved), _yuv_semi_planar(cv2.COLOR_YUV2RGB_NV12)),
        Encoding('nv21', (luma, interleaved), _yuv_semi_planar(cv2.COLOR_YUV2RGB_NV21)),
        Encoding('nv24', (Plane(1), Plane(2)), _nv24),
        Encoding('i420', (luma, half, half), _yuv_planar(cv2.COLOR_YUV2RGB_IYUV)),
        Encoding('yv12', (luma, half, half), _yuv_planar(cv2.COLOR_YUV2RGB_YV12)),
    ]
    return {encoding.name: encoding for encoding in encodings}


ENCODINGS: Mapping[str, Encoding] = _table()

DEPTH_ENCODINGS = ('16UC1', '32FC1')  # REP-118
_ABSTRACT = re.compile(r'(8U|8S|16U|16S|32S|32F|64F)C([0-9]{0,3})')
_OVERRIDE = 'set cameras.encoding_override of this camera to'


def find_encoding(name: str) -> Encoding | Refusal:
    """Look an encoding up by its name in sensor_msgs/Image."""
    known = ENCODINGS.get(name)
    if known is not None:
        return known
    abstract = _ABSTRACT.fullmatch(name)
    if abstract is None:
        close = difflib.get_close_matches(name[:40].lower(), ENCODINGS, n=1)
        hint = f'If the pixels are {close[0]}, {_OVERRIDE} {close[0]}. ' if close else ''
        return Refusal('is unknown', f'{hint}Known: {", ".join(ENCODINGS)}.')
    sample, channels = abstract[1], int(abstract[2] or 1)
    if f'{sample}C{channels}' in ENCODINGS:
        return ENCODINGS[f'{sample}C{channels}']
    if f'{sample}C{channels}' in DEPTH_ENCODINGS:
        grey = f' If the pixels are grey values, {_OVERRIDE} mono16.' if sample == '16U' else ''
        return Refusal('is a depth image (REP-118), not colour',
                       f'Read the colour topic of this camera.{grey}')
    likely = {('8U', 2): 'uyvy or yuyv', ('16U', 3): 'bgr16 or rgb16',
              ('16U', 4): 'bgra16 or rgba16'}.get((sample, channels))
    if likely:
        return Refusal('does not say which colours its channels are',
                       f'If the pixels are {likely}, {_OVERRIDE} that name.')
    return Refusal(f'({channels} channels of {sample}) has no meaning as colour',
                   'Let the driver publish rgb8 or bgr8, or read another topic.')
