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

"""A camera's message gives a Frame of the right shape or a FrameError with the numbers."""

from __future__ import annotations

from dataclasses import replace
import os
from pathlib import Path
import subprocess
import sys
import textwrap

import cv2
from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from robot_infer.camera import ENCODINGS, EncodedImage, RawImage, decode
from robot_infer.camera.decode import MAX_PIXELS, check
from robot_infer.camera.encodings import Encoding, Plane, _packed
from robot_infer.errors import FrameError
from robot_infer.types import Frame

ROOT = Path(__file__).parents[2]


def raw(encoding='rgb8', width=4, height=3, step=12, data=None, is_bigendian=False, stamp_ns=5):
    if data is None:
        data = np.arange(step * height, dtype=np.uint8)
    return RawImage(encoding, width, height, step, is_bigendian, data, stamp_ns=stamp_ns,
                    received_ns=7, received_stamp_ns=6)


def encoded(data, format='jpeg', stamp_ns=5):
    return EncodedImage(format, np.frombuffer(bytes(data), np.uint8), stamp_ns=stamp_ns,
                        received_ns=7, received_stamp_ns=6)


def file_of(pixels, extension='.jpg'):
    done, data = cv2.imencode(extension, pixels)
    assert done
    return data.tobytes()


def smooth(height=48, width=64, channels=3):
    """A picture that survives JPEG nearly unchanged; its channels differ."""
    y, x = np.mgrid[:height, :width]
    return np.stack([2 * x + 40, 3 * y + 60, 250 - x - y], -1).astype(np.uint8)[..., :channels]


def refused(image, override='') -> FrameError:
    """The error must be the same from `check`, which touches no pixel, and from `decode`."""
    with pytest.raises(FrameError) as by_check:
        check('wrist', image, override)
    with pytest.raises(FrameError) as by_decode:
        decode('wrist', image, override)
    assert str(by_check.value) == str(by_decode.value)
    assert 'camera wrist' in str(by_decode.value)
    return by_decode.value


# Raw images

def test_a_frame_does_not_change_when_the_message_does():
    image = raw()
    frame = decode('wrist', image)
    before = frame.rgb.copy()
    image.data[:] = 0
    np.testing.assert_array_equal(frame.rgb, before)


def test_stamp_0_is_replaced_by_the_time_of_receipt_and_flagged():
    assert (decode('wrist', raw()).stamp_ns, decode('wrist', raw()).stamp_trusted) == (5, True)
    for image in (raw(stamp_ns=0), encoded(file_of(smooth()), stamp_ns=0)):
        frame = decode('wrist', image)
        assert (frame.stamp_ns, frame.stamp_trusted, frame.received_ns) == (6, False, 7)


def test_the_override_replaces_the_claim():
    image = raw('8UC2', width=2, height=3, step=12)
    assert 'cameras.encoding_override' in refused(image).remedy
    np.testing.assert_array_equal(
        decode('wrist', image, 'bgr8').rgb, decode('wrist', replace(image, encoding='bgr8')).rgb)
    error = refused(replace(image, encoding='bgr8'), '32FC1')
    assert 'of cameras.encoding_override' in error.got and 'depth' in error.got


@pytest.mark.parametrize('encoding, words', [
    ('16UC1', 'depth image'), ('32FC1', 'depth image'), ('64FC3', 'no meaning as colour'),
    ('mjpeg', 'unknown'), ('', 'unknown'), pytest.param('x' * 1000, 'unknown', id='long')])
def test_an_encoding_that_is_no_colour_is_refused_by_name(encoding, words):
    error = refused(raw(encoding))
    assert words in error.got and encoding[:40] in error.got and len(str(error)) < 900
    assert error.subject.endswith('4 x 3, step 12, 36 bytes)')


@pytest.mark.parametrize('step', [0, 1, 11, -12])
def test_a_step_shorter_than_a_row_is_refused(step):
    error = refused(raw(data=np.zeros(36, np.uint8), step=step))
    assert 'at least 12 bytes' in error.expected and error.got == f'step {step}'


@pytest.mark.parametrize('encoding', [
    name for name in ENCODINGS if name not in ('nv12', 'nv21', 'nv24', 'i420', 'yv12')])
def test_the_step_of_a_single_row_may_be_anything(encoding):
    row = np.full(40, 77, np.uint8)
    if encoding.startswith('bayer'):
        assert 'at least 3 x 3' in refused(raw(encoding, 4, 1, 2**32 - 1, row)).expected
    else:
        assert decode('wrist', raw(encoding, 4, 1, 2**32 - 1, row)).rgb.shape == (1, 4, 3)


@pytest.mark.parametrize('length', [0, 1, 12, 35])
def test_short_data_is_refused(length):
    error = refused(raw(data=np.zeros(length, np.uint8)))
    assert (error.expected, error.got) == ('at least 36 bytes', str(length))


@pytest.mark.parametrize('width, height', [
    (0, 0), (0, 3), (4, 0), (1, 1), (-1, 3), (4, -2**31)])
def test_an_image_without_two_pixels_is_refused(width, height):
    assert refused(raw(width=width, height=height, data=np.zeros(36, np.uint8))).got == (
        f'{width} x {height}')


@pytest.mark.parametrize('width, height', [
    (2**32 - 1, 2**32 - 1), (40_000, 1), (1, 40_000), (8192, 8192), (8192, 4097)])
def test_an_absurd_size_is_refused_before_anything_is_taken(width, height):
    image = raw('mono8', width, height, step=width, data=np.zeros(36, np.uint8))
    assert str(MAX_PIXELS) in refused(image).expected


@pytest.mark.parametrize('width, height', [(32_767, 1), (1, 32_767)])
@pytest.mark.parametrize('encoding', ['bgr8', 'nv12', 'nv24', 'i420', 'uyvy', 'rgb16'])
def test_the_longest_sides_allowed_are_decoded(encoding, width, height):
    step = (width + width % 2) * 6
    data = np.full(step * (height + 1) * 3, 130, np.uint8)
    assert decode('wrist', raw(encoding, width, height, step, data)).rgb.shape == (
        height, width, 3)


@pytest.mark.parametrize('width, height', [(2, 9), (9, 2), (1, 1)])
def test_bayer_images_too_small_to_interpolate_are_refused(width, height):
    # OpenCV answers them with black
    assert 'at least 3 x 3' in refused(raw('bayer_rggb8', width, height, step=width)).expected


def test_what_opencv_will_not_convert_is_a_frame_error(monkeypatch):
    five = Encoding('five8', (Plane(5),), _packed(5, cv2.COLOR_BGR2RGB))
    monkeypatch.setitem(ENCODINGS, 'five8', five)
    with pytest.raises(FrameError, match=f'camera wrist.*OpenCV {cv2.__version__}'):
        decode('wrist', raw('five8', step=20))


@pytest.mark.parametrize('encoding, needed', [
    ('uyvy', 12), ('yuyv', 12), ('nv12', 6), ('nv21', 6), ('i420', 6), ('yv12', 6)])
def test_an_odd_width_needs_the_room_of_the_even_one_above(encoding, needed):
    data = np.zeros(200, np.uint8)
    error = refused(raw(encoding, 5, 4, step=needed - 1, data=data))
    assert f'at least {needed} bytes' in error.expected and 'rounded up' in error.expected
    assert decode('wrist', raw(encoding, 5, 4, step=needed, data=data)).rgb.shape == (4, 5, 3)


@pytest.mark.parametrize('encoding', ['i420', 'yv12'])
def test_half_width_chroma_needs_an_even_step(encoding):
    image = raw(encoding, 4, 4, step=7, data=np.zeros(99, np.uint8))
    assert 'even step' in refused(image).expected


@pytest.mark.parametrize('data', [
    np.zeros((6, 6), np.uint8), np.zeros(18, np.uint16), np.zeros(72, np.uint8)[::2]])
def test_data_that_is_not_a_row_of_bytes_is_refused(data):
    assert 'contiguous row of uint8' in refused(raw(data=data)).expected


ANY_INT = st.one_of(st.integers(0, 70), st.sampled_from([2**15, 2**16, 2**31, 2**32 - 1]))
ANY_NAME = st.one_of(st.sampled_from(sorted(ENCODINGS)), st.text(max_size=12), st.from_regex(
    r'(8U|8S|16U|16S|32S|32F|64F)C[0-9]{0,12}', fullmatch=True))


@settings(max_examples=600, deadline=None)
@given(encoding=ANY_NAME, override=st.one_of(st.just(''), ANY_NAME), width=ANY_INT,
       height=ANY_INT, step=st.one_of(ANY_INT, st.integers(0, 600)), length=st.integers(0, 9000),
       is_bigendian=st.booleans(), shift=st.integers(0, 1))
@example('nv12', '', 1, 1, 2, 4, False, 0)
def test_any_raw_image_gives_a_frame_or_a_frame_error(
    encoding, override, width, height, step, length, is_bigendian, shift,
):
    data = np.full(length + shift, 77, np.uint8)[shift:]
    image = raw(encoding, width, height, step, data, is_bigendian)
    try:
        check('wrist', image, override)
    except FrameError as error:
        assert str(error) == str(refused(image, override))
        return
    rgb = decode('wrist', image, override).rgb  # what passed the check is decoded
    assert rgb.shape == (height, width, 3) and rgb.dtype == np.uint8 and rgb.flags.c_contiguous


GUARDED = textwrap.dedent('''
    import ctypes, mmap, sys
    import numpy as np
    from robot_infer.camera import decode, ENCODINGS, RawImage
    from robot_infer.errors import FrameError
    PAGE, SIZE = mmap.PAGESIZE, 16 * mmap.PAGESIZE
    region = mmap.mmap(-1, SIZE + 2 * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    libc = ctypes.CDLL(None, use_errno=True)
    for wall in (start, start + PAGE + SIZE):
        assert libc.mprotect(ctypes.c_void_p(wall), PAGE, 0) == 0, ctypes.get_errno()
    rng = np.random.default_rng(4)
    decoded = {name: 0 for name in ENCODINGS}
    if sys.argv[1:] == ['--read-outside']:
        (ctypes.c_uint8 * 1).from_address(start + PAGE + SIZE)[0]
    for turn in range(200):
        for name in ENCODINGS:
            width, height = (int(n) for n in rng.integers(3, 40, 2))
            step = int(rng.integers(1, 80)) if turn % 2 else int(rng.integers(320, 340))

            def attempt(length, at):
                data = np.frombuffer((ctypes.c_uint8 * length).from_address(at), np.uint8)
                return decode('c', RawImage(name, width, height, step, True, data, 1, 1, 1))

            try:
                attempt(0, start + PAGE)
            except FrameError as error:
                if not error.expected.endswith(' bytes') or 'step' in error.expected:
                    continue
                needed = int(error.expected.split()[2])  # and not one byte more
            for at in (start + PAGE, start + PAGE + SIZE - needed):  # a wall before, one behind
                assert attempt(needed, at).rgb.shape == (height, width, 3)
                decoded[name] += 1
    print('fewest decoded:', min(decoded.values()))
''')


def run_guarded(*arguments):
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    return subprocess.run([sys.executable, '-c', GUARDED, *arguments], capture_output=True,
                          text=True, env=environment, timeout=300)


@pytest.mark.skipif(sys.platform != 'linux', reason='walls of memory need mprotect')
def test_no_byte_outside_the_data_is_read():
    """The data lies between two pages that may not be touched, in a process that may die."""
    assert run_guarded('--read-outside').returncode < 0, 'the walls do not hold'
    done = run_guarded()
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split(':')[1]) > 100


# JPEG and PNG files

def test_a_jpeg_is_told_by_its_bytes_whatever_the_format_says():
    data = file_of(smooth()[..., ::-1])
    for format in ('', 'jpeg', 'jpg', 'png', 'rgb8; jpeg compressed bgr8', 'bgr8', 'nonsense'):
        frame = decode('wrist', encoded(data, format))
        np.testing.assert_allclose(frame.rgb.astype(int), smooth(), atol=12)
        assert frame.rgb.flags.c_contiguous and frame.rgb.dtype == np.uint8


def test_a_png_is_decoded_exactly():
    frame = decode('wrist', encoded(file_of(smooth()[..., ::-1], '.png'), 'bgr8; png compressed'))
    np.testing.assert_array_equal(frame.rgb, smooth())


@pytest.mark.parametrize('extension, atol', [('.jpg', 6), ('.png', 0)])
def test_grey_files_become_three_equal_channels(extension, atol):
    grey = np.ascontiguousarray(smooth()[..., 0])
    rgb = decode('wrist', encoded(file_of(grey, extension))).rgb
    np.testing.assert_allclose(rgb.astype(int), grey[..., None].repeat(3, 2), atol=atol)
    assert (rgb[..., :1] == rgb).all()


@pytest.mark.parametrize('channels', [1, 3, 4])
def test_16_bit_png_is_scaled_as_16_bit_images_are(channels):
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 65536, (9, 11, channels), dtype=np.uint16)
    name = {1: 'mono16', 3: 'bgr16', 4: 'bgra16'}[channels]
    like = decode('wrist', raw(name, 11, 9, 22 * channels, pixels.ravel().view(np.uint8)))
    np.testing.assert_array_equal(
        decode('wrist', encoded(file_of(pixels, '.png'))).rgb, like.rgb)


def test_alpha_is_dropped_and_not_blended():
    rng = np.random.default_rng(6)
    pixels = rng.integers(0, 256, (9, 11, 4), dtype=np.uint8)
    rgb = decode('wrist', encoded(file_of(pixels, '.png'))).rgb
    np.testing.assert_array_equal(rgb, pixels[..., 2::-1])


def test_exif_orientation_is_ignored():
    data = file_of(smooth()[..., ::-1])
    tiff = (b'II*\0\x08\0\0\0' b'\x01\0' b'\x12\x01\x03\0\x01\0\0\0\x06\0\0\0' b'\0\0\0\0')
    body = b'Exif\0\0' + tiff
    turned = data[:2] + b'\xff\xe1' + (len(body) + 2).to_bytes(2, 'big') + body + data[2:]
    assert cv2.imdecode(np.frombuffer(turned, np.uint8), cv2.IMREAD_COLOR).shape == (64, 48, 3)
    np.testing.assert_array_equal(
        decode('wrist', encoded(turned)).rgb, decode('wrist', encoded(data)).rgb)


def test_the_override_rgb8_undoes_a_publisher_that_swapped_red_and_blue():
    swapped = encoded(file_of(smooth(), '.png'), 'rgb8; png compressed')
    np.testing.assert_array_equal(decode('wrist', swapped, 'rgb8').rgb, smooth())
    np.testing.assert_array_equal(decode('wrist', swapped, 'bgr8').rgb, smooth()[..., ::-1])
    assert 'mono8' in refused(swapped, 'mono8').got


@pytest.mark.parametrize('extension', ['.jpg', '.png'])
def test_a_file_cut_off_anywhere_is_refused(extension):
    data = file_of(smooth(), extension)
    for length in range(len(data)):
        refused(encoded(data[:length]))
    for padding in (b'\0', b'\0' * 1000, b'\xff' * 7, bytes(range(256))):
        assert decode('wrist', encoded(data + padding)).rgb.shape == (48, 64, 3)


def test_depth_is_refused_by_name():
    grey = file_of(np.full((4, 4), 900, np.uint16), '.png')
    for format, data in (('16UC1; compressedDepth png', bytes(12) + grey),
                         ('', bytes(12) + grey), ('16UC1; compressedDepth rvl', bytes(40)),
                         ('32FC1; compressedDepth', b''), ('16UC1; png compressed ', grey)):
        assert 'depth (REP-118)' in refused(encoded(data, format)).got
    assert decode('wrist', encoded(grey, 'mono16; png compressed ')).rgb.shape == (4, 4, 3)
    assert decode('wrist', encoded(grey, '16UC1; png compressed '), 'bgr8').rgb[0, 0, 0] == 4


@pytest.mark.parametrize('data', [
    b'', b'\xff', b'\xff\xd8', b'GIF89a', b'II*\0 a tiff', b'\0\0\0\1 h264', bytes(500)])
def test_other_data_is_refused_with_its_first_bytes(data):
    error = refused(encoded(data, 'h264'))
    assert error.got == (data[:8].hex(' ') or 'no data')
    assert "format 'h264'" in error.subject and f'{len(data)} bytes' in error.subject


def test_a_small_file_cannot_claim_a_huge_image():
    png = bytearray(file_of(smooth(), '.png'))
    png[16:24] = (60_000).to_bytes(4, 'big') * 2
    jpeg = bytearray(file_of(smooth()))
    frame = jpeg.index(b'\xff\xc0')
    jpeg[frame + 5:frame + 9] = b'\xff\xff' * 2
    for data in (png, jpeg):
        assert 'pixels a side' in refused(encoded(data)).expected


def test_a_file_damaged_inside_is_refused_where_the_decoder_notices():
    png = bytearray(file_of(np.random.default_rng(7).integers(0, 256, (48, 64, 3), np.uint8),
                            '.png'))
    png[len(png) // 2] ^= 0xFF  # the checksum of its chunk no longer fits
    with pytest.raises(FrameError, match='a readable PNG file of 64 x 48 pixels'):
        decode('wrist', encoded(png))
    jpeg = bytearray(file_of(smooth()))
    table = jpeg.index(b'\xff\xc4')
    jpeg[table + 5:table + 21] = b'\xff' * 16  # a Huffman table that cannot be
    with pytest.raises(FrameError, match='a readable JPEG file of 64 x 48 pixels'):
        decode('wrist', encoded(jpeg))


FILES = [file_of(smooth(), extension) for extension in ('.jpg', '.png')]


@settings(max_examples=600, deadline=None)
@given(data=st.sampled_from(FILES), changes=st.lists(
    st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6),
    keep=st.floats(0.5, 1), tail=st.binary(max_size=20), format=st.text(max_size=20))
def test_any_damaged_file_gives_a_frame_or_a_frame_error(data, changes, keep, tail, format):
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    damaged = damaged[:round(keep * len(damaged))] + tail
    try:
        rgb = decode('wrist', encoded(damaged, format)).rgb
    except FrameError as error:
        assert 'camera wrist' in str(error)
    else:
        assert rgb.ndim == 3 and rgb.shape[2] == 3 and rgb.dtype == np.uint8


@settings(max_examples=300, deadline=None)
@given(start=st.sampled_from([b'\xff\xd8\xff', b'\x89PNG\r\n\x1a\n', b'']),
       data=st.binary(max_size=200))
def test_any_bytes_give_a_frame_or_a_frame_error(start, data):
    try:
        assert isinstance(decode('wrist', encoded(start + data)), Frame)
    except FrameError as error:
        assert len(str(error)) < 900
