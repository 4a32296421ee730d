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

"""What a JPEG or PNG file says about itself, told by its bytes and before it is decoded.

Nothing is decompressed here. The size is read so that a small file cannot claim a huge image,
and the end is looked for because OpenCV may answer a cut-off JPEG with a partly grey image.
A file damaged in the middle is left to the decoder, which does not notice every damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_JPEG = b'\xff\xd8\xff'
_PNG = b'\x89PNG\r\n\x1a\n'
_PNG_END = b'\x00\x00\x00\x00IEND\xaeB`\x82'
_DEPTH_HEADER_BYTES = 12
_MAX_SEGMENTS = 1024  # real files have a dozen; a profile may take up to 255
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}
_END_OF_IMAGE, _START_OF_SCAN = 0xD9, 0xDA


@dataclass(frozen=True)
class FileHeader:
    """Kind and size of an image file; `fault` says what is wrong with it, '' if nothing is."""

    kind: Literal['jpeg', 'png', 'compressedDepth', 'unknown']
    width: int = 0
    height: int = 0
    fault: str = ''


def read_header(data: NDArray[np.uint8]) -> FileHeader:
    """Tell the kind of file by its first bytes and read its size; data: (n,) uint8."""
    head = data[:_DEPTH_HEADER_BYTES + len(_PNG)].tobytes()
    if head.startswith(_JPEG):
        return _read_jpeg(data)
    if head.startswith(_PNG):
        return _read_png(data)
    if head[_DEPTH_HEADER_BYTES:] == _PNG:
        return FileHeader('compressedDepth')
    return FileHeader('unknown')


def _read_png(data: NDArray[np.uint8]) -> FileHeader:
    head = data[:24].tobytes()
    if len(head) < 24 or head[12:16] != b'IHDR':
        return FileHeader('png', fault='no IHDR chunk at the start')
    width, height = int.from_bytes(head[16:20], 'big'), int.from_bytes(head[20:24], 'big')
    fault = '' if _ends_with(data, _PNG_END, 24) else 'cut off: no IEND chunk'
    return FileHeader('png', width, height, fault)


def _read_jpeg(data: NDArray[np.uint8]) -> FileHeader:
    """Walk the segments up to the first scan; the end marker must come after that one.

    Inside a scan no FF D9 can occur but the end marker; before it one can, in a thumbnail.
    """
    view, size, at = memoryview(data), (0, 0), 2
    for _ in range(_MAX_SEGMENTS):
        while at + 1 < len(view) and view[at] == view[at + 1] == 0xFF:
            at += 1  # fill bytes
        if at + 4 > len(view) or view[at] != 0xFF:
            return FileHeader('jpeg', *size, fault='broken or cut off in its header')
        marker = view[at + 1]
        if marker in _ALONE:
            at += 2
            continue
        length = view[at + 2] << 8 | view[at + 3]
        if marker == _END_OF_IMAGE or length < 2:
            break
        if marker in _START_OF_FRAME and at + 9 <= len(view):
            size = (view[at + 7] << 8 | view[at + 8], view[at + 5] << 8 | view[at + 6])
        at += 2 + length
        if marker == _START_OF_SCAN:
            ended = _ends_with(data, b'\xff\xd9', at)
            return FileHeader('jpeg', *size, fault='' if ended else 'cut off: no end marker')
    return FileHeader('jpeg', *size, fault='broken header: no picture in it')


def _ends_with(data: NDArray[np.uint8], mark: bytes, start: int) -> bool:
    """Whether `mark` lies at or behind `start`; most files have it last, some are padded."""
    tail_start = max(start, len(data) - 64)
    if data[tail_start:].tobytes().rfind(mark) >= 0:
        return True
    return data[start:].tobytes().rfind(mark) >= 0
