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

"""Each encoding gives the pixels that OpenCV gives, whatever the padding and the byte order.

The messages are laid out here by hand, and what they must become comes from NumPy or from
OpenCV's conversion of a tight buffer, neither of which uses the table under test.
"""

from __future__ import annotations

from dataclasses import replace
import sys

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from robot_infer.camera import ENCODINGS, RawImage, decode
from robot_infer.camera.encodings import Refusal, find_encoding, to_8_bit

LISTED = {
    'rgb8', 'bgr8', 'rgba8', 'bgra8', 'rgb16', 'bgr16', 'rgba16', 'bgra16', 'mono8', 'mono16',
    'bayer_rggb8', 'bayer_bggr8', 'bayer_gbrg8', 'bayer_grbg8', 'bayer_rggb16', 'bayer_bggr16',
    'bayer_gbrg16', 'bayer_grbg16', '8UC1', '8UC3', '8UC4', 'yuv422', 'uyvy', 'yuv422_yuy2',
    'yuyv', 'nv12', 'nv21', 'nv24', 'i420', 'yv12'}

CHANNELS = {'rgb': (0, 1, 2), 'bgr': (2, 1, 0), 'rgba': (0, 1, 2), 'bgra': (2, 1, 0),
            'mono': (0, 0, 0)}
BAYER = {'rggb': cv2.COLOR_BayerBG2RGB, 'bggr': cv2.COLOR_BayerRG2RGB,
         'gbrg': cv2.COLOR_BayerGR2RGB, 'grbg': cv2.COLOR_BayerGB2RGB}
YUV = {'uyvy': cv2.COLOR_YUV2RGB_UYVY, 'yuv422': cv2.COLOR_YUV2RGB_UYVY,
       'yuyv': cv2.COLOR_YUV2RGB_YUY2, 'yuv422_yuy2': cv2.COLOR_YUV2RGB_YUY2,
       'nv12': cv2.COLOR_YUV2RGB_NV12, 'nv21': cv2.COLOR_YUV2RGB_NV21,
       'i420': cv2.COLOR_YUV2RGB_I420, 'yv12': cv2.COLOR_YUV2RGB_YV12}
LIKE = {'8UC1': 'mono8', '8UC3': 'bgr8', '8UC4': 'bgra8'}


def scaled(samples: np.ndarray) -> np.ndarray:
    """round(x / 257) in whole numbers."""
    return ((samples.astype(np.int64) * 2 + 257) // 514).astype(np.uint8)


def lay_out(planes: list[tuple[np.ndarray, int]], rng: np.random.Generator) -> np.ndarray:
    """Write (rows, row_bytes) planes with their steps; padding is noise, the last row has none."""
    parts = []
    for rows, step in planes:
        padded = rng.integers(0, 256, (len(rows), step), dtype=np.uint8)
        padded[:, :rows.shape[1]] = rows
        parts.append(padded.ravel())
    rows, step = planes[-1]
    return np.concatenate(parts)[:sum(map(len, parts)) - (step - rows.shape[1])]


def message(name: str, width: int, height: int, step: int, data: np.ndarray) -> RawImage:
    return RawImage(name, width, height, step, sys.byteorder == 'big', data, stamp_ns=5,
                    received_ns=7, received_stamp_ns=6)


def packed(name, width, height, pad, rng):
    layout, size = LIKE.get(name, name).rstrip('168'), (2 if name.endswith('16') else 1)
    channels = {'mono': 1}.get(layout, len(layout))
    pixels = rng.integers(
        0, 256**size, (height, width, channels), dtype=np.uint16 if size == 2 else np.uint8)
    rgb = pixels[..., CHANNELS[layout]]
    rows = pixels.reshape(height, -1).view(np.uint8)
    step = rows.shape[1] + pad
    return message(name, width, height, step, lay_out([(rows, step)], rng)), (
        scaled(rgb) if size == 2 else rgb)


def bayer(name, width, height, pad, rng):
    width, height = max(3, width), max(3, height)
    pixels = rng.integers(0, 256, (height, width), dtype=np.uint8)
    if name.endswith('16'):
        pixels = rng.integers(0, 65536, (height, width), dtype=np.uint16)
    rgb = cv2.cvtColor(pixels, BAYER[name[6:10]])
    rows = pixels.view(np.uint8)
    step = rows.shape[1] + pad
    return message(name, width, height, step, lay_out([(rows, step)], rng)), (
        scaled(rgb) if name.endswith('16') else rgb)


def yuv_422(name, width, height, pad, rng):
    even = width + width % 2
    pixels = rng.integers(0, 256, (height, even, 2), dtype=np.uint8)
    step = 2 * even + pad
    data = lay_out([(pixels.reshape(height, -1), step)], rng)
    return message(name, width, height, step, data), (
        cv2.cvtColor(pixels, YUV[name])[:, :width])


def yuv_420(name, width, height, pad, rng):
    even = width + width % 2
    luma = rng.integers(0, 256, (height, even), dtype=np.uint8)
    whole = np.concatenate((luma, luma[-1:])) if height % 2 else luma
    chroma = rng.integers(0, 256, (len(whole) // 2, even), dtype=np.uint8)
    expected = cv2.cvtColor(np.concatenate((whole, chroma)), YUV[name])[:height, :width]
    step = even + 2 * pad
    if name in ('nv12', 'nv21'):
        planes = [(luma, step), (chroma, step)]
    else:  # OpenCV reads the two chroma planes one behind the other
        halves = chroma.ravel().reshape(2, len(whole) // 2, even // 2)
        planes = [(luma, step), (halves[0], step // 2), (halves[1], step // 2)]
    return message(name, width, height, step, lay_out(planes, rng)), expected


def nv24(name, width, height, pad, rng):
    luma = rng.integers(0, 256, (height, width), dtype=np.uint8)
    chroma = rng.integers(0, 256, (height, width, 2), dtype=np.uint8)
    twice = [array.repeat(2, axis=0).repeat(2, axis=1) for array in (luma, chroma[..., 0])]
    semi_planar = np.concatenate(  # each pixel as four, with its chroma: an NV12 image
        (twice[0], chroma.reshape(height, 2 * width)))
    expected = cv2.cvtColor(semi_planar, cv2.COLOR_YUV2RGB_NV12)[::2, ::2]
    step = width + pad
    planes = [(luma, step), (chroma.reshape(height, -1), 2 * step)]
    return message(name, width, height, step, lay_out(planes, rng)), expected


def make(name, width, height, pad, rng):
    """Return a message in this encoding and the RGB it must become."""
    if width * height == 1:  # refused: see test_decode
        width = 2
    if name.startswith('bayer'):
        maker = bayer
    elif name == 'nv24':
        maker = nv24
    elif name in ('nv12', 'nv21', 'i420', 'yv12'):
        maker = yuv_420
    else:
        maker = yuv_422 if name in YUV else packed
    return maker(name, width, height, pad, rng)


def test_every_listed_encoding_is_known_and_no_other():
    assert set(ENCODINGS) == LISTED


@pytest.mark.parametrize('name', sorted(LISTED))
@settings(max_examples=40, deadline=None)
@given(width=st.integers(1, 41), height=st.integers(1, 23), pad=st.integers(0, 19),
       seed=st.integers(0, 2**32 - 1))
def test_gives_opencvs_pixels_for_any_size_and_step(name, width, height, pad, seed):
    image, expected = make(name, width, height, pad, np.random.default_rng(seed))
    image.data.flags.writeable = False
    frame = decode('wrist', image)
    np.testing.assert_array_equal(frame.rgb, expected)
    assert frame.rgb.dtype == np.uint8 and frame.rgb.flags.c_contiguous
    assert frame.rgb.flags.writeable and not np.shares_memory(frame.rgb, image.data)
    assert (frame.camera, frame.stamp_ns, frame.received_ns) == ('wrist', 5, 7)


@pytest.mark.parametrize('name', sorted(LISTED))
def test_gives_opencvs_pixels_at_full_size(name):
    image, expected = make(name, 640, 480, 32, np.random.default_rng(1))
    np.testing.assert_array_equal(decode('wrist', image).rgb, expected)


@pytest.mark.parametrize('name', sorted(LISTED))
def test_big_endian_swaps_samples_of_two_bytes_and_only_those(name):
    image, expected = make(name, 7, 6, 4, np.random.default_rng(2))
    data = image.data
    if name.endswith('16'):
        data = data.reshape(-1, 2)[:, ::-1].ravel()
    other = replace(image, data=data, is_bigendian=not image.is_bigendian)
    np.testing.assert_array_equal(decode('wrist', other).rgb, expected)


@pytest.mark.parametrize('name', [name for name in sorted(LISTED) if name.endswith('16')])
def test_16_bit_data_may_lie_at_an_odd_address(name):
    image, expected = make(name, 8, 5, 0, np.random.default_rng(3))
    shifted = np.concatenate((np.zeros(1, np.uint8), image.data))[1:]
    assert shifted.ctypes.data % 2 == 1
    np.testing.assert_array_equal(decode('wrist', replace(image, data=shifted)).rgb, expected)


@pytest.mark.parametrize('pattern', sorted(BAYER))
@pytest.mark.parametrize('size', [8, 16])
def test_bayer_names_say_the_first_two_rows(pattern, size):
    colour = {'r': 200, 'g': 100, 'b': 50}
    tile = np.array([colour[letter] for letter in pattern]).reshape(2, 2)
    mosaic = np.tile(tile, (4, 5)).astype(np.uint8)
    if size == 16:
        mosaic = (mosaic.astype(np.uint16) * 257).view(np.uint8).reshape(8, 20)
    image = message(f'bayer_{pattern}{size}', 10, 8, mosaic.shape[1], mosaic.ravel())
    assert (decode('wrist', image).rgb == (200, 100, 50)).all()


@pytest.mark.parametrize('name', [*YUV, 'nv24'])
def test_yuv_is_bt601_with_limited_range(name):
    y, u, v = 120, 90, 200
    layouts = {
        'uyvy': [u, y, v, y], 'yuv422': [u, y, v, y], 'yuyv': [y, u, y, v],
        'yuv422_yuy2': [y, u, y, v], 'nv12': [y, y, y, y, u, v], 'nv21': [y, y, y, y, v, u],
        'nv24': [y, y, u, v, u, v], 'i420': [y, y, y, y, u, v], 'yv12': [y, y, y, y, v, u]}
    height = 2 if name in ('nv12', 'nv21', 'i420', 'yv12') else 1
    step = 4 if name in ('uyvy', 'yuv422', 'yuyv', 'yuv422_yuy2') else 2
    image = message(name, 2, height, step, np.array(layouts[name], np.uint8))
    luma = 255 / 219 * (y - 16)
    expected = (luma + 1.596 * (v - 128), luma - 0.392 * (u - 128) - 0.813 * (v - 128),
                luma + 2.017 * (u - 128))
    np.testing.assert_allclose(
        decode('wrist', image).rgb, np.broadcast_to(np.clip(expected, 0, 255), (height, 2, 3)),
        atol=1)


def test_16_bits_become_8_by_rounded_division_by_257():
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    np.testing.assert_array_equal(to_8_bit(every), scaled(every))
    widened = np.arange(256, dtype=np.uint16) * 257
    np.testing.assert_array_equal(to_8_bit(widened[None])[0], np.arange(256))


ABSTRACT = [f'{sample}C{channels}' for sample in ('8U', '8S', '16U', '16S', '32S', '32F', '64F')
            for channels in (1, 2, 3, 4)]


@pytest.mark.parametrize('name', [name for name in ABSTRACT if name not in LIKE])
def test_other_abstract_encodings_are_refused_with_what_to_do(name):
    found = find_encoding(name)
    assert isinstance(found, Refusal) and found.reason and found.remedy
    assert ('depth' in found.reason) == (name in ('16UC1', '32FC1'))
    assert ('cameras.encoding_override' in found.remedy) == (
        name in ('8UC2', '16UC1', '16UC3', '16UC4'))


def test_no_number_of_channels_means_one():
    assert find_encoding('8UC').name == '8UC1'
    assert 'depth' in find_encoding('16UC').reason


@pytest.mark.parametrize('name', [
    '', 'RGB8', 'rgb', 'mjpeg', '8UC9999999999', '\u06632FC1',
    pytest.param('x' * 10**6, id='long')])
def test_unknown_encodings_are_refused_with_the_known_ones(name):
    found = find_encoding(name)
    assert isinstance(found, Refusal) and 'bgr8' in found.remedy and len(found.remedy) < 600
    if name == 'RGB8':
        assert 'If the pixels are rgb8, set cameras.encoding_override' in found.remedy
