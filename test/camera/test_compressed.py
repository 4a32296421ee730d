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

"""The header of a JPEG or PNG is read without decoding, whatever the bytes are."""

from __future__ import annotations

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from robot_infer.camera.compressed import FileHeader, read_header


def header_of(data: bytes) -> FileHeader:
    return read_header(np.frombuffer(data, np.uint8))


def file_of(height, width, extension='.jpg', *options):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return cv2.imencode(extension, pixels, list(options))[1].tobytes()


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, 'big') + body


@settings(max_examples=60, deadline=None)
@given(height=st.integers(1, 300), width=st.integers(1, 300), progressive=st.booleans())
def test_reads_the_size_that_the_decoder_finds(height, width, progressive):
    jpeg = file_of(height, width, '.jpg', cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive))
    assert header_of(jpeg) == FileHeader('jpeg', width, height)
    assert header_of(file_of(height, width, '.png')) == FileHeader('png', width, height)


def test_a_thumbnail_does_not_hide_that_the_picture_is_cut_off():
    thumbnail, data = file_of(8, 8), file_of(64, 48)
    whole = data[:2] + segment(0xE1, thumbnail) + data[2:]
    assert header_of(whole) == FileHeader('jpeg', 48, 64)
    assert header_of(whole[:-2]) == FileHeader('jpeg', 48, 64, 'cut off: no end marker')


def test_an_end_marker_close_before_the_scan_does_not_count():
    data = file_of(64, 48)
    scan = data.index(b'\xff\xda')
    cut = data[:scan] + segment(0xFE, b'\xff\xd9') + data[scan:scan + 20]
    assert header_of(cut) == FileHeader('jpeg', 48, 64, 'cut off: no end marker')


def test_fill_bytes_and_lone_markers_between_segments_are_allowed():
    data = file_of(64, 48)
    assert header_of(data[:2] + b'\xff\xff\xff' + data[3:]) == FileHeader('jpeg', 48, 64)
    assert header_of(data[:2] + b'\xff\x01' + data[2:]) == FileHeader('jpeg', 48, 64)


@pytest.mark.parametrize('data, fault', [
    (b'\xff\xd8\xff', 'in its header'),
    (b'\xff\xd8\xff\xd9\0\0', 'no picture in it'),
    (b'\xff\xd8\xff\xe0\0\1\0\0\0\0', 'no picture in it'),
    (b'\xff\xd8' + segment(0xE0, b'') * 5 + b'JUNK', 'in its header'),
    (b'\x89PNG\r\n\x1a\n', 'no IHDR'),
    (b'\x89PNG\r\n\x1a\n' + bytes(40), 'no IHDR')])
def test_broken_headers_are_named(data, fault):
    assert fault in header_of(data).fault


def test_endless_segments_are_given_up():
    data = file_of(64, 48)
    for number, found in ((500, FileHeader('jpeg', 48, 64)),
                          (2000, FileHeader('jpeg', fault='broken header: no picture in it'))):
        assert header_of(data[:2] + segment(0xE0, b'') * number + data[2:]) == found


def test_a_depth_header_before_the_png_is_recognised():
    assert header_of(bytes(12) + file_of(4, 4, '.png')).kind == 'compressedDepth'


@settings(max_examples=500)
@given(st.sampled_from([b'\xff\xd8\xff', b'\x89PNG\r\n\x1a\n', bytes(12), b'']),
       st.binary(max_size=300))
def test_any_bytes_have_a_header_of_some_kind(start, data):
    header = header_of(start + data)
    assert header.kind in ('jpeg', 'png', 'compressedDepth', 'unknown')
    if header.kind in ('jpeg', 'png') and not header.fault:
        assert 0 <= header.width < 2**32 and 0 <= header.height < 2**32
