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

"""What kind of file an image is and how large, told by its bytes and before it is decoded.

Nothing is decompressed here. A small file must not claim a huge image, nor more pixels than its
bytes can hold, nor be cut off. What the two kinds of file say is in jpeg.py and png.py; a file
damaged in the middle is left to the decoder, which does not notice every damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robot_infer.camera import jpeg, png

_DEPTH_HEADER_BYTES = 12


@dataclass(frozen=True)
class FileHeader:
    """Kind and size of an image file; `fault` says what is wrong with it, '' if nothing is."""

    kind: Literal['jpeg', 'png', 'compressedDepth', 'unknown']
    width: int = 0
    height: int = 0
    fault: str = ''


def read_header(data: NDArray[np.uint8]) -> FileHeader:
    """Tell the kind of file by its first bytes and read its size; data: (n,) uint8."""
    head = data[:_DEPTH_HEADER_BYTES + len(png.START)].tobytes()
    if head.startswith(jpeg.START):
        header = jpeg.read_jpeg(data)
        return FileHeader('jpeg', header.width, header.height, header.fault)
    if head.startswith(png.START):
        return FileHeader('png', *png.read_png(data))
    if head[_DEPTH_HEADER_BYTES:] == png.START:
        return FileHeader('compressedDepth')
    return FileHeader('unknown')
