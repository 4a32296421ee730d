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

"""A JPEG that claims more than it holds is refused; no picture that OpenCV encodes is."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from robot_infer.camera import EncodedImage, decode
from robot_infer.camera.decode import check
from robot_infer.camera.jpeg import read_jpeg
from robot_infer.errors import FrameError


def encoded(data) -> EncodedImage:
    return EncodedImage('', np.frombuffer(bytes(data), np.uint8), stamp_ns=5, received_ns=7,
                        received_stamp_ns=6)


def fault_of(data) -> str:
    return read_jpeg(np.frombuffer(bytes(data), np.uint8)).fault


def noise(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def file_of(pixels, *options) -> bytes:
    return cv2.imencode('.jpg', pixels, list(options))[1].tobytes()


def resized(jpeg, width, height):
    """The same JPEG with another size in its header."""
    at = jpeg.index(b'\xff\xc0') + 5
    return jpeg[:at] + height.to_bytes(2, 'big') + width.to_bytes(2, 'big') + jpeg[at + 4:]


@pytest.mark.parametrize('marker', [0xC3, 0xC9, 0xCA, 0xCB, 0xCD])
def test_a_jpeg_that_no_camera_sends_is_named(marker):
    data = file_of(noise(64, 48)).replace(b'\xff\xc0', bytes((0xFF, marker)))
    assert 'no camera sends' in fault_of(data)


@pytest.mark.parametrize('progressive, least', [(0, 450), (1, 225)])
def test_the_claim_of_a_jpeg_is_bounded_by_two_bits_a_block_or_one(progressive, least):
    """240 x 320 pixels with half the chroma each way are 1200 + 2 x 300 blocks."""
    data = file_of(noise(320, 240), cv2.IMWRITE_JPEG_PROGRESSIVE, progressive)
    scan = data.index(b'\xff\xda')
    start = data[:scan + 2 + int.from_bytes(data[scan + 2:scan + 4], 'big')]
    for length, fault in ((least, ''), (least - 1, f'at least {least} bytes and not')):
        found = fault_of(start + bytes(length - 2) + b'\xff\xd9')
        assert fault in found and bool(fault) == bool(found)


@pytest.mark.parametrize('width, height', [(8192, 4096), (640, 4800)])
def test_a_small_file_cannot_claim_many_pixels(width, height):
    with pytest.raises(FrameError, match=f'{width} x {height} pixels claimed'):
        check('wrist', encoded(resized(file_of(noise(48, 64)), width, height)))


@pytest.mark.parametrize('value', [0, 255])
def test_the_emptiest_pictures_hold_the_pixels_they_claim(value):
    for height, width in ((480, 640), (1080, 1920), (4096, 8192)):
        data = file_of(np.full((height, width, 3), value, np.uint8),
                       cv2.IMWRITE_JPEG_QUALITY, 10, cv2.IMWRITE_JPEG_OPTIMIZE, 1)
        check('wrist', encoded(data))


@pytest.mark.parametrize('quality', [10, 50, 95])
@pytest.mark.parametrize('sampling', [None, 0x111111, 0x211111, 0x411111])
@pytest.mark.parametrize('options', [
    (), (cv2.IMWRITE_JPEG_OPTIMIZE, 1), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    (cv2.IMWRITE_JPEG_RST_INTERVAL, 3)])
def test_every_even_dark_or_half_grey_picture_is_taken(quality, sampling, options):
    if sampling is not None:
        if not hasattr(cv2, 'IMWRITE_JPEG_SAMPLING_FACTOR'):
            pytest.skip(f'OpenCV {cv2.__version__} writes 4:2:0 only')
        options = (*options, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling)
    rng = np.random.default_rng(8)
    full, half, near = noise(120, 200), noise(120, 200), noise(120, 200)
    half[50:] = 128
    near[50:] = np.where(rng.random((70, 200, 1)) < .02, 129, 128)
    for pixels in (full, half, near, full // 64,
                   *(np.full((120, 200, 3), value, np.uint8) for value in (0, 127, 128, 255))):
        data = file_of(pixels, cv2.IMWRITE_JPEG_QUALITY, quality, *options)
        assert decode('wrist', encoded(data)).rgb.shape == (120, 200, 3)


def test_coefficients_too_small_to_be_seen_are_no_missing_pixels():
    """At quality 100 a picture may be all grey and its bits not those of grey."""
    pixels = np.full((64, 64, 3), 128, np.uint8)
    for y, x in ((3, 5), (4, 0)):
        pixels[y::8, x::8] = 129
    data = file_of(pixels, cv2.IMWRITE_JPEG_QUALITY, 100)
    assert (decode('wrist', encoded(data)).rgb == 128).all()
    assert data != file_of(np.full_like(pixels, 128), cv2.IMWRITE_JPEG_QUALITY, 100)


@pytest.mark.parametrize('options', [
    (), (cv2.IMWRITE_JPEG_OPTIMIZE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 3)])
@pytest.mark.parametrize('channels', [1, 3])
@pytest.mark.parametrize('share', [0.1, 1 / 3, 0.8])
def test_a_jpeg_cut_off_with_an_end_marker_glued_on_is_refused(options, channels, share):
    data = file_of(cv2.resize(noise(30, 40, channels), (640, 480)), *options)
    scan = data.index(b'\xff\xda')
    cut = data[:scan + int(share * (len(data) - scan))]
    with pytest.raises(FrameError, match='pixels end before the picture does'):
        decode('wrist', encoded(cut + b'\xff\xd9'))
    with pytest.raises(FrameError, match='pixels end before the picture does'):
        decode('wrist', encoded(cut + b'\xff\xfe\0\4hi\xff\xd9'))  # a comment in between
    assert decode('wrist', encoded(data)).rgb.shape == (480, 640, 3)


def test_a_jpeg_whose_header_claims_a_larger_picture_is_refused():
    with pytest.raises(FrameError, match='pixels end before the picture does'):
        decode('wrist', encoded(resized(file_of(noise(48, 64)), 640, 480)))


def with_wide_tables(jpeg: bytes) -> bytes:
    """The same JPEG with quantisation tables of 16 bits an entry."""
    parts = jpeg.split(b'\xff\xdb\0\x43')
    return parts[0] + b''.join(
        b'\xff\xdb\0\x83' + bytes((0x10 | part[0],))
        + b''.join(bytes((0, entry)) for entry in part[1:65]) + part[65:] for part in parts[1:])


def test_tables_of_16_bits_are_made_coarse_too():
    pixels = np.full((64, 64, 3), 128, np.uint8)
    for y, x in ((3, 5), (4, 0)):
        pixels[y::8, x::8] = 129
    data = with_wide_tables(file_of(pixels, cv2.IMWRITE_JPEG_QUALITY, 100))
    assert (decode('wrist', encoded(data)).rgb == 128).all()


def one_scan_each(luma, blue, red, restart) -> bytes:
    """A JPEG whose components follow each other, the colours of half the size each way."""
    files = [file_of(plane, cv2.IMWRITE_JPEG_RST_INTERVAL, restart)
             for plane in (luma, blue, red)]
    frame, scan = files[0].index(b'\xff\xc0'), files[0].index(b'\xff\xda')
    head, tables = files[0][:frame], files[0][frame + 13:scan]
    size = files[0][frame + 4:frame + 9]
    scans = (b'\xff\xda\0\x08\1' + bytes((name, 0, 0, 63, 0))
             + data[data.index(b'\xff\xda') + 10:-2] for name, data in enumerate(files, 1))
    return (head + b'\xff\xc0\0\x11' + size + b'\3\1\x22\0\2\x11\0\3\x11\0'
            + tables + b''.join(scans) + b'\xff\xd9')


@pytest.mark.parametrize('restart', [0, 5, 7])
def test_a_jpeg_with_a_scan_for_each_component_is_checked_by_its_first(restart):
    luma, blue, red = noise(64, 64, 1), noise(32, 32, 1, seed=1), noise(32, 32, 1, seed=2)
    for plane in (luma, blue, red):
        plane[len(plane) // 2:] = 128
    data = one_scan_each(luma, blue, red, restart)
    rgb = decode('wrist', encoded(data)).rgb
    assert (rgb[-16:] == 128).all() and (rgb[:16] != 128).any()
    cut = data[:data.index(b'\xff\xda') + 500] + b'\xff\xd9'
    with pytest.raises(FrameError, match='pixels end before the picture does'):
        decode('wrist', encoded(cut))


def test_grey_whose_bits_make_stuffed_bytes_is_grey():
    """Grey is seldom in a noisy picture and so of long codes, all ones but the last bit."""
    pixels = np.concatenate([noise(480, 640), np.full((32, 640, 3), 128, np.uint8)])
    data = file_of(pixels, cv2.IMWRITE_JPEG_QUALITY, 100, cv2.IMWRITE_JPEG_OPTIMIZE, 1)
    assert b'\xff\0' in data[-200:]
    assert (decode('wrist', encoded(data)).rgb[-16:] == 128).all()
