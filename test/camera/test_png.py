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

"""The chunks of a PNG are walked, and its claim is measured against its bytes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from robot_infer.camera import EncodedImage
from robot_infer.camera.decode import check
from robot_infer.camera.png import read_png
from robot_infer.errors import FrameError


def encoded(data) -> EncodedImage:
    return EncodedImage('', np.frombuffer(bytes(data), np.uint8), stamp_ns=5, received_ns=7,
                        received_stamp_ns=6)


def fault_of(data) -> str:
    return read_png(np.frombuffer(bytes(data), np.uint8))[2]


def file_of(height, width) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return cv2.imencode('.png', pixels)[1].tobytes()


@pytest.mark.parametrize('place', [0, 1, 2, 3])
@pytest.mark.parametrize('kind', [b'IHDR', b'IDAT', b'IEND'])
def test_no_chunk_of_a_png_may_be_longer_than_the_file(place, kind):
    """OpenCV 5.0 took 4 GiB for one wrong byte of a length."""
    data = bytearray(file_of(20, 30))
    data[data.index(kind) - 4 + place] = 0xFF
    assert fault_of(data)


def chunk(kind: bytes, content: bytes = b'') -> bytes:
    return len(content).to_bytes(4, 'big') + kind + content + bytes(4)


@pytest.mark.parametrize('chunks, fault', [
    (chunk(b'IEND'), 'no IDAT'),
    (chunk(b'IDAT') + chunk(b'IEND'), 'no IDAT'),
    (chunk(b'IDAT', bytes(50)), 'no IEND'),
    (chunk(b'IDAT', bytes(50)) + chunk(b'IEND')[:-1], 'no IEND'),
    (chunk(b'IDAT', bytes(50))[:-1], 'a chunk of 50 bytes where 49 are left'),
    (chunk(b'IHDR', bytes(13)), 'two IHDR'),
    (chunk(b'acTL', bytes(8)), 'an animation'),
    (chunk(b'tEXt') * 2**15, 'more than 32768 chunks'),
    (chunk(b'tEXt') * 9 + chunk(b'IDAT', b'1') + chunk(b'IEND') + b'pad', '')])
def test_the_chunks_of_a_png_are_walked(chunks, fault):
    start = file_of(4, 4)[:33]
    found = fault_of(start + chunks)
    assert fault in found and bool(fault) == bool(found)


def test_the_claim_of_a_png_is_bounded_by_what_deflate_can_expand():
    start = bytearray(file_of(4, 4)[:33])
    start[16:24] = (688).to_bytes(4, 'big') + (1000).to_bytes(4, 'big')  # 3 x 688 = 2 x 1032
    for length, fault in ((2000, ''), (1999, '688 x 1000 pixels claimed, which 1999')):
        found = fault_of(bytes(start) + chunk(b'IDAT', bytes(length)) + chunk(b'IEND'))
        assert found.startswith(fault) and bool(fault) == bool(found)


@pytest.mark.parametrize('depth, colour', [(3, 2), (8, 1), (8, 7), (0, 0)])
def test_a_png_of_no_kind_of_pixel_is_named(depth, colour):
    data = bytearray(file_of(4, 4))
    data[24:26] = bytes((depth, colour))
    assert 'no kind of pixel' in fault_of(data)


@pytest.mark.parametrize('width, height', [(8192, 4096), (640, 4800)])
def test_a_small_file_cannot_claim_many_pixels(width, height):
    data = bytearray(file_of(20, 30))
    data[16:24] = width.to_bytes(4, 'big') + height.to_bytes(4, 'big')
    with pytest.raises(FrameError, match=f'{width} x {height} pixels claimed'):
        check('wrist', encoded(data))


@pytest.mark.parametrize('value', [0, 255])
@pytest.mark.parametrize('channels', [1, 3, 4])
def test_the_emptiest_pictures_hold_the_pixels_they_claim(value, channels):
    for height, width in ((480, 640), (1080, 1920)):
        pixels = np.full((height, width, channels), value, np.uint8)
        for options in ((), (cv2.IMWRITE_PNG_COMPRESSION, 9)):
            check('wrist', encoded(cv2.imencode('.png', pixels, list(options))[1]))
