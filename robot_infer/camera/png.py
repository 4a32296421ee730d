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

"""What a PNG file says about itself, told by its chunks and before it is decoded.

Every chunk is walked, since OpenCV 5.0 takes memory for the length that a chunk claims: one
wrong byte cost 4 GiB. The chunks' contents and checksums are left to the decoder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

START = b'\x89PNG\r\n\x1a\n'
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type
_MAX_CHUNKS = 2**15  # libpng writes 8 KiB a chunk: enough for 256 MiB
_MAX_EXPANSION = 1032  # Deflate: 258 bytes from a length and a distance code of one bit each


def read_png(data: NDArray[np.uint8]) -> tuple[int, int, str]:
    """Width, height and what is wrong with the file, '' if nothing is; data: (n,) uint8."""
    head = data[:33].tobytes()
    if len(head) < 33 or head[8:16] != b'\x00\x00\x00\x0dIHDR':
        return 0, 0, 'no IHDR chunk at the start'
    width, height = int.from_bytes(head[16:20], 'big'), int.from_bytes(head[20:24], 'big')
    depth, channels = head[24], _CHANNELS.get(head[25], 0)
    if depth not in (1, 2, 4, 8, 16) or not channels:
        return width, height, 'its IHDR chunk names no kind of pixel'
    compressed, fault = _walk(memoryview(data))
    claimed = height * ((width * channels * depth + 7) // 8)
    if not fault and claimed > _MAX_EXPANSION * compressed:
        fault = (f'{width} x {height} pixels claimed, which {compressed} compressed bytes '
                 'cannot hold')
    return width, height, fault


def _walk(view: memoryview) -> tuple[int, str]:
    """Bytes of compressed pixels and what is wrong with the chunks behind IHDR."""
    at, compressed = 33, 0
    for _ in range(_MAX_CHUNKS):
        if at + 12 > len(view):
            return compressed, 'cut off: no IEND chunk'
        length = int.from_bytes(view[at:at + 4], 'big')
        kind = bytes(view[at + 4:at + 8])
        if at + 12 + length > len(view):
            return compressed, (f'cut off: a chunk of {length} bytes where '
                                f'{len(view) - at - 12} are left')
        if kind == b'IEND':
            return compressed, '' if compressed else 'no IDAT chunk'
        if kind == b'IHDR':
            return compressed, 'two IHDR chunks'
        if kind == b'acTL':
            return compressed, 'an animation'
        if kind == b'IDAT':
            compressed += length
        at += 12 + length
    return compressed, f'more than {_MAX_CHUNKS} chunks'
