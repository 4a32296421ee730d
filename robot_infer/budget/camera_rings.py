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

"""What cameras take: the buffers of their drivers, and their frames on the way to the policy.

What a driver allocates is its own business; what it takes from the memory that is shared follows
from the size of its images and the number of its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math

from robot_infer.budget.lines import Basis, MemoryLine
from robot_infer.errors import ConfigError

# Bytes of a pixel, by the names of sensor_msgs; nv12 and nv21 have a half-size colour plane.
BYTES_PER_PIXEL = {
    'rgb8': 3.0, 'bgr8': 3.0, 'rgba8': 4.0, 'bgra8': 4.0, 'mono8': 1.0, 'mono16': 2.0,
    'rgb16': 6.0, 'bgr16': 6.0, 'rgba16': 8.0, 'bgra16': 8.0, 'yuv422': 2.0, 'yuv422_yuy2': 2.0,
    'nv12': 1.5, 'nv21': 1.5, 'nv24': 3.0,
    **{f'bayer_{order}{bits}': bits / 8 for order in ('rggb', 'bggr', 'gbrg', 'grbg')
       for bits in (8, 16)}}
DEPTH = 4  # buffers that V4L2 drivers usually ask for
_MOST_SIDE, _MOST_DEPTH = 32_767, 1024


@dataclass(frozen=True)
class CameraRing:
    """One camera: the size of its images, and how many of them its driver keeps.

    :param assumed: nobody said so.
    """

    name: str
    width: int = 640
    height: int = 480
    encoding: str = 'rgb8'
    depth: int = DEPTH
    assumed: bool = True

    @property
    def frame_bytes(self) -> int:
        """Of one image as the driver has it."""
        return math.ceil(self.width * self.height * BYTES_PER_PIXEL[self.encoding])

    @property
    def rgb_bytes(self) -> int:
        """Of one image as the policy has it."""
        return self.width * self.height * 3

    @property
    def words(self) -> str:
        """In numbers."""
        return (f'{self.name} {self.width} x {self.height} {self.encoding} x {self.depth} '
                'buffers' + (' (assumed)' if self.assumed else ''))


def parse_ring(text: str) -> CameraRing:
    """Read NAME:WIDTHxHEIGHT[:ENCODING[:DEPTH]].

    :raises ConfigError: where it is not of that form, or a number is absurd.
    """
    name, _, rest = text.partition(':')
    size, *more = rest.split(':')
    width, _, height = size.partition('x')
    encoding, depth = (more + ['rgb8'])[0], (more[1:] or [str(DEPTH)])[0]
    if (len(more) > 2 or not name or not _whole(width, 1, _MOST_SIDE)
            or not _whole(height, 1, _MOST_SIDE) or not _whole(depth, 1, _MOST_DEPTH)):
        raise ConfigError(
            f'--camera {text}', expected='NAME:WIDTHxHEIGHT[:ENCODING[:DEPTH]], sides up to '
            f'{_MOST_SIDE} pixels and up to {_MOST_DEPTH} buffers', got=repr(text),
            remedy='For instance overhead:1920x1080:nv12:4.')
    if encoding not in BYTES_PER_PIXEL:
        raise ConfigError(
            f'--camera {text}', expected=f'an encoding: {", ".join(BYTES_PER_PIXEL)}',
            got=encoding, remedy='Name the encoding that the driver publishes.')
    return CameraRing(name, int(width), int(height), encoding, int(depth), assumed=False)


def camera_rings(names: Sequence[str], given: Sequence[CameraRing]) -> tuple[CameraRing, ...]:
    """The ring of each configured camera; what nobody said is 640 x 480 rgb8.

    :raises ConfigError: where a given one is of no configured camera, or of one twice.
    """
    known = {ring.name: ring for ring in given}
    for ring in given:
        if ring.name not in names or known[ring.name] is not ring:
            raise ConfigError(
                f'--camera {ring.name}', expected='each camera once: '
                + (', '.join(names) or 'this model has none'), got=ring.name,
                remedy='cameras.names lists the configured cameras.')
    return tuple(known.get(name, CameraRing(name)) for name in names)


def ring_lines(rings: Sequence[CameraRing], image_size: tuple[int, int],
               ) -> tuple[MemoryLine, ...]:
    """Lines of the drivers' rings, of frames in the node, and of frames in the policy's process.

    In the node a camera has the newest message, one that comes, the frame decoded last and the
    one being decoded. In the policy's process: the frame of the last step, that of this one, and
    its pixels; and, one camera at a time, float32 copies on the way to the pixels.
    """
    if not rings:
        return ()
    basis: Basis = 'estimate' if any(ring.assumed for ring in rings) else 'bound'
    pixels = 3 * 4 * image_size[0] * image_size[1]
    buffers = tuple(ring.frame_bytes * ring.depth for ring in rings)
    node = tuple(2 * (ring.frame_bytes + ring.rgb_bytes) for ring in rings)
    policy = tuple(2 * ring.rgb_bytes + pixels for ring in rings)
    widest = max(4 * ring.rgb_bytes for ring in rings) + 3 * pixels
    sizes = ', '.join(f'{ring.name} 2 x ({ring.frame_bytes} + {ring.rgb_bytes})'
                      for ring in rings)
    frames = ', '.join(f'{ring.name} 2 x {ring.rgb_bytes} + {pixels}' for ring in rings)
    return (
        MemoryLine('camera rings', sum(buffers), '; '.join(ring.words for ring in rings), basis,
                   'host', 'rings', buffers),
        MemoryLine('frames in the node', sum(node), f'messages and decoded frames: {sizes}',
                   basis, 'host', 'node', node),
        MemoryLine('frame staging', sum(policy) + widest,
                   f'two frames and the pixels of one: {frames}; {widest} on the way', basis,
                   'host', 'staging', policy))


def _whole(text: str, low: int, high: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 9 and low <= int(text) <= high
