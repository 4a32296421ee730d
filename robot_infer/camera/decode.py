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

"""From a camera's message to a Frame: checked first, then converted to RGB once.

Here live the two kinds of image a camera may send and `decode`. A message is hostile until
checked: every fault is a FrameError that names the camera and the numbers, and no byte outside
the message's data is read. `check` alone touches no pixel and is cheap. What each encoding means
is in encodings.py; which frame is the newest, and whether it is too old, in store.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import sys
from typing import Union

import cv2
import numpy as np
from numpy.typing import NDArray

from robot_infer.camera import jpeg
from robot_infer.camera.compressed import FileHeader, read_header
from robot_infer.camera.encodings import (
    DEPTH_ENCODINGS,
    Encoding,
    Refusal,
    find_encoding,
    to_8_bit,
)
from robot_infer.errors import FrameError
from robot_infer.types import Frame

MAX_SIDE = 32_767
MAX_PIXELS = 2**25  # 33.5 million, 8K video; a message that claims more is a broken one

_HOST_IS_BIG_ENDIAN = sys.byteorder == 'big'
# Depth is kept so that 16-bit files are scaled as 16-bit images are; alpha is dropped; grey
# becomes three equal channels. EXIF orientation is ignored: a policy has learned the sensor's
# rows as they come, and a raw image from the same camera would not be turned either.
_IMREAD = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION


@dataclass(frozen=True, eq=False)
class RawImage:
    """What a sensor_msgs/Image carries.

    data: (n,) uint8, contiguous; a view of the message's buffer, which it keeps alive.
    step: bytes from one row to the next (of the first plane). stamp_ns: the sender's stamp,
    0 where it sent none. received_ns: monotonic clock at receipt. received_stamp_ns: ROS clock
    at receipt.
    """

    encoding: str
    width: int
    height: int
    step: int
    is_bigendian: bool
    data: NDArray[np.uint8]
    stamp_ns: int
    received_ns: int
    received_stamp_ns: int


@dataclass(frozen=True, eq=False)
class EncodedImage:
    """What a sensor_msgs/CompressedImage carries: a whole JPEG or PNG file.

    format: the message's claim, such as 'rgb8; jpeg compressed bgr8'; only a claim of depth is
    believed, the rest is told by the bytes. The other fields are those of RawImage.
    """

    format: str
    data: NDArray[np.uint8]
    stamp_ns: int
    received_ns: int
    received_stamp_ns: int


Image = Union[RawImage, EncodedImage]


def decode(camera: str, image: Image, encoding_override: str = '') -> Frame:
    """Decode one image to RGB.

    :param camera: the camera's name, for the Frame and for errors.
    :param encoding_override: what the pixels really are where the message is wrong; '' trusts
        it. For a JPEG or PNG only rgb8 means something: its publisher wrote red where blue
        belongs.
    :returns: a Frame whose rgb is (height, width, 3) uint8, C-contiguous, in its own memory.
    :raises FrameError: where the image cannot be decoded.
    """
    if isinstance(image, RawImage):
        encoding, planes = _check_raw(camera, image, encoding_override)
        swap = bool(image.is_bigendian) != _HOST_IS_BIG_ENDIAN
        try:
            rgb = encoding.unpack(planes, image.width, image.height, swap)
        except cv2.error as error:
            raise _refused(
                camera, image, f'an image that OpenCV {cv2.__version__} converts',
                str(error)[:200], 'Install another OpenCV, or choose another encoding.') from None
    else:
        header = _check_encoded(camera, image, encoding_override)
        rgb = _decode_file(camera, image, header, swapped=encoding_override == 'rgb8')
    return Frame(
        camera, rgb, stamp_ns=image.stamp_ns or image.received_stamp_ns,
        received_ns=image.received_ns, stamp_trusted=image.stamp_ns != 0)


def check(camera: str, image: Image, encoding_override: str = '') -> None:
    """Raise the FrameError that `decode` would raise, as far as the header and the size tell.

    No pixel is read or copied. A raw image that passes can be decoded; a JPEG or PNG may still
    turn out to be damaged inside.
    """
    if isinstance(image, RawImage):
        _check_raw(camera, image, encoding_override)
    else:
        _check_encoded(camera, image, encoding_override)


def _check_raw(
    camera: str, image: RawImage, override: str,
) -> tuple[Encoding, list[NDArray[np.uint8]]]:
    """Check all that the header claims and return the image's planes as views of its data."""
    name = override or image.encoding
    encoding = find_encoding(name)
    if isinstance(encoding, Refusal):
        source = ' of cameras.encoding_override' if override else ''
        raise _refused(camera, image, 'the encoding of a colour image',
                       f'{_short(name)}{source}, which {encoding.reason}', encoding.remedy)
    _check_size(camera, image, image.width, image.height, encoding.min_side)
    _check_buffer(camera, image)
    _check_step(camera, image, encoding)
    layout = list(_layout(encoding, image))
    offset, stride, rows, row_bytes = layout[-1]
    needed = offset + stride * (rows - 1) + row_bytes
    if len(image.data) < needed:
        raise _refused(
            camera, image, f'at least {needed} bytes', f'{len(image.data)}',
            'The message is cut off, or its step or encoding is wrong: correct the encoding with '
            'cameras.encoding_override, or mend the driver.')
    return encoding, [
        np.ndarray((rows, row_bytes), np.uint8, image.data, offset, (stride, 1))
        for offset, stride, rows, row_bytes in layout]


def _check_step(camera: str, image: RawImage, encoding: Encoding) -> None:
    first = encoding.planes[0]
    row_bytes = first.row_bytes(image.width)
    if image.step < row_bytes:
        odd = ' (an odd width is rounded up)' if image.width % first.across else ''
        raise _refused(
            camera, image, f'a step of at least {row_bytes} bytes for {image.width} pixels of '
            f'{encoding.name}{odd}', f'step {image.step}',
            'Let the driver set step to its row length in bytes, or correct the encoding with '
            'cameras.encoding_override.')
    if any((image.step * plane.block_bytes * first.across) % (first.block_bytes * plane.across)
           for plane in encoding.planes):
        raise _refused(camera, image, f'an even step for {encoding.name}', f'step {image.step}',
                       'Let the driver align its rows to 2 bytes.')


def _layout(encoding: Encoding, image: RawImage) -> Iterator[tuple[int, int, int, int]]:
    """Yield (offset, stride, rows, row_bytes) of each plane, in bytes.

    The planes' strides are in proportion to their bytes per pixel: NV12's chroma has the step of
    its luma, NV24's twice, I420's half.
    """
    first, offset = encoding.planes[0], 0
    for plane in encoding.planes:
        stride = (image.step * plane.block_bytes * first.across
                  // (first.block_bytes * plane.across))
        rows = plane.rows(image.height)
        yield offset, stride, rows, plane.row_bytes(image.width)
        offset += stride * rows


def _check_encoded(camera: str, image: EncodedImage, override: str) -> FileHeader:
    """Check what the file says about itself."""
    if override not in ('', 'rgb8', 'bgr8'):
        raise _refused(
            camera, image, 'rgb8 or bgr8 as encoding_override of a compressed image',
            _short(override), 'Clear cameras.encoding_override of this camera.')
    _check_buffer(camera, image)
    header = read_header(image.data)
    origin = image.format.split(';', 1)[0].strip()
    depth = ''
    if 'compressedDepth' in image.format or header.kind == 'compressedDepth':
        depth = 'compressedDepth'
    elif origin in DEPTH_ENCODINGS and not override:
        depth = origin
    if depth:
        raise _refused(camera, image, 'a colour image', f'{depth}, which is depth (REP-118)',
                       'Read the compressed topic of the camera\'s colour image.')
    if header.kind == 'unknown':
        head = image.data[:8].tobytes().hex(' ') or 'no data'
        raise _refused(camera, image, 'a JPEG or PNG file (FF D8 FF or 89 50 4E 47)', head,
                       'Let the publisher compress as jpeg or png.')
    if header.width and header.height:
        _check_size(camera, image, header.width, header.height, 1)
    if header.fault:
        raise _refused(camera, image, f'a whole {header.kind.upper()} file', header.fault,
                       'Look for lost packets or a publisher that limits the size of messages.')
    _check_size(camera, image, header.width, header.height, 1)
    return header


def _decode_file(
    camera: str, image: EncodedImage, header: FileHeader, swapped: bool,
) -> NDArray[np.uint8]:
    pixels, complaint = None, 'a damaged one'
    try:
        pixels = _imdecode(image.data)
    except cv2.error as error:
        complaint = str(error)[:200]
    if (pixels is not None and pixels.shape == (header.height, header.width, 3)
            and header.kind == 'jpeg' and jpeg.is_cut_off(image.data, pixels, _imdecode)):
        pixels, complaint = None, 'one whose pixels end before the picture does'
    if pixels is None or pixels.shape != (header.height, header.width, 3):
        raise _refused(
            camera, image, f'a readable {header.kind.upper()} file of {header.width} x '
            f'{header.height} pixels', complaint, 'Look for a broken publisher or transport.')
    if pixels.dtype == np.uint16:
        pixels = to_8_bit(pixels)
    assert pixels.dtype == np.uint8, pixels.dtype
    return pixels if swapped else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def _imdecode(data: NDArray[np.uint8]) -> NDArray[np.uint8] | NDArray[np.uint16] | None:
    return cv2.imdecode(data, _IMREAD)


def _check_buffer(camera: str, image: Image) -> None:
    data = image.data
    if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
        raise _refused(
            camera, image, 'data as one contiguous row of uint8',
            f'{data.dtype} of shape {data.shape}',
            'Pass np.frombuffer(message.data, np.uint8).')


def _check_size(camera: str, image: Image, width: int, height: int, min_side: int) -> None:
    # A single pixel is no picture, and OpenCV 4.5 cannot take it.
    if min(width, height) < min_side or width * height < 2:
        raise _refused(
            camera, image, f'at least {max(2, min_side)} x {min_side} pixels',
            f'{width} x {height}',
            'Cameras may send empty images while they start; if it goes on, look at the driver.')
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise _refused(
            camera, image, f'at most {MAX_SIDE} pixels a side and {MAX_PIXELS} in all',
            f'{width} x {height}', 'Let the driver send smaller images; policies see a few '
            'hundred pixels a side.')


def _refused(camera: str, image: Image, expected: str, got: str, remedy: str) -> FrameError:
    if isinstance(image, RawImage):
        described = (f'encoding {_short(image.encoding)}, {image.width} x {image.height}, '
                     f'step {image.step}, {len(image.data)} bytes')
    else:
        described = f'format {_short(image.format)}, {len(image.data)} bytes'
    return FrameError(f'camera {camera}: image ({described})', expected=expected, got=got,
                      remedy=remedy)


def _short(text: str) -> str:
    """A name from outside, fit for one line."""
    return repr(text[:40] + '…' if len(text) > 40 else text)
