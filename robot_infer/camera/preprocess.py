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

"""From a decoded frame to the pixels a policy sees, and the digest that names them.

SmolVLA's way (LeRobot `resize_with_pad`): bilinear without antialias, aspect ratio kept, padding
on the left and on top, then [0, 1] -> [-1, 1]. The digest is taken of the result, so that frames
which look the same to the policy are the same to the cache, however they were encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
import hashlib

import numpy as np
from numpy.typing import NDArray
import torch
from torch import Tensor
import torch.nn.functional as F

from robot_infer.errors import FrameError
from robot_infer.types import Frame


@dataclass(frozen=True)
class PreprocessedFrame:
    """pixels: (1, 3, height, width) float32 in [-1, 1]; digest: 32 bytes, of the pixels."""

    pixels: Tensor
    digest: bytes


class Preprocessor:
    """Preprocesses the frames of each camera, and the same frame only once.

    Several inference steps may see one frame (only the state is new). A frame is the same while
    it is the same object: the camera room decodes each message once and hands out that Frame.
    """

    def __init__(self, size: tuple[int, int] | None) -> None:
        self._size = size
        self._last: dict[str, tuple[Frame, PreprocessedFrame]] = {}

    def __call__(self, name: str, frame: Frame) -> PreprocessedFrame:
        """Pixels and digest of the frame that feeds the policy input `name`.

        :raises FrameError: where the frame is so thin that nothing of it would be left.
        """
        last = self._last.get(name)
        if last is None or last[0] is not frame:
            self._check_fits(frame)
            last = self._last[name] = (frame, preprocess(frame.rgb, self._size))
        return last[1]

    def _check_fits(self, frame: Frame) -> None:
        height, width = frame.rgb.shape[:2]
        if self._size is None or min(_fit(height, width, self._size)) > 0:
            return
        wide, high = self._size
        raise FrameError(
            f'camera {frame.camera}: frame of {width} x {height} pixels',
            expected=f'a frame of which something is left when it is fitted into {wide} x {high}',
            got=f'a width or height of 0 pixels after shrinking by '
                f'{max(height / high, width / wide):.1f}',
            remedy='Let the driver send the whole image; the policy expects frames about as wide '
            'as they are high.')


def preprocess(rgb: NDArray[np.uint8], size: tuple[int, int] | None) -> PreprocessedFrame:
    """Resize, pad and scale one frame.

    :param rgb: (height, width, 3) uint8.
    :param size: (width, height) to fit into; None keeps the frame's own size.
    """
    image = torch.from_numpy(rgb).permute(2, 0, 1)[None].to(torch.float32).div_(255.0)
    if size is not None:
        image = resize_with_pad(image, width=size[0], height=size[1])
    pixels = (image * 2.0 - 1.0).contiguous()
    digest = hashlib.sha256(str(tuple(pixels.shape)).encode())
    digest.update(memoryview(pixels.numpy()).cast('B'))
    return PreprocessedFrame(pixels, digest.digest())


def resize_with_pad(image: Tensor, *, width: int, height: int) -> Tensor:
    """Fit (1, 3, h, w) float32 into (1, 3, height, width); what is left over on top/left is 0."""
    from_height, from_width = image.shape[2:]
    if (from_height, from_width) == (height, width):
        return image
    fit = _fit(from_height, from_width, (width, height))
    resized = F.interpolate(image, size=fit, mode='bilinear', align_corners=False)
    return F.pad(resized, (max(0, width - fit[1]), 0, max(0, height - fit[0]), 0), value=0.0)


def _fit(height: int, width: int, size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the frame when it has been shrunk or grown into size, (width, height)."""
    ratio = max(width / size[0], height / size[1])
    return int(height / ratio), int(width / ratio)
