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

"""What the policy sees of a frame: checked against torch's own interpolation, and its digest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from robot_infer.camera.preprocess import Preprocessor, preprocess
from robot_infer.errors import FrameError
from robot_infer.types import Frame

RNG = np.random.default_rng(0)


def _image(height, width):
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize(('height', 'width', 'fit'), [
    (480, 640, (48, 64)), (640, 480, (64, 48)), (33, 71, (29, 64)), (20, 64, (20, 64))])
def test_resized_without_antialias_and_padded_left_and_top(height, width, fit):
    rgb = _image(height, width)
    pixels = preprocess(rgb, (64, 64)).pixels[0]
    image = torch.from_numpy(rgb).permute(2, 0, 1)[None].float() / 255
    expected = F.interpolate(image, fit, mode='bilinear', align_corners=False, antialias=False)
    torch.testing.assert_close(pixels[:, 64 - fit[0]:, 64 - fit[1]:], expected[0] * 2 - 1,
                               rtol=0, atol=1e-6)
    assert (pixels[:, :64 - fit[0]] == -1).all()
    assert (pixels[:, :, :64 - fit[1]] == -1).all()


def test_a_frame_of_the_right_size_is_only_scaled():
    rgb = _image(64, 64)
    pixels = preprocess(rgb, (64, 64)).pixels[0].permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(pixels, rgb.astype(np.float32) / 255 * 2 - 1)


def test_equal_pixels_have_equal_digests_and_one_changed_pixel_another():
    rgb = _image(64, 64)
    changed = rgb.copy()
    changed[10, 20, 1] ^= 1
    assert preprocess(rgb, (64, 64)).digest == preprocess(rgb.copy(), (64, 64)).digest
    assert preprocess(rgb, (64, 64)).digest != preprocess(changed, (64, 64)).digest


def test_the_digest_is_of_what_the_policy_sees_not_of_the_camera():
    rgb = _image(64, 64)
    larger = np.zeros((64, 128, 3), np.uint8)  # another frame that shrinks to other pixels
    assert preprocess(rgb, (64, 64)).digest != preprocess(larger, (64, 64)).digest
    blank, blank_larger = np.zeros((64, 64, 3), np.uint8), np.zeros((128, 128, 3), np.uint8)
    assert preprocess(blank, (64, 64)).digest == preprocess(blank_larger, (64, 64)).digest


def test_one_frame_is_preprocessed_once_and_a_new_one_afresh():
    preprocessor, rgb = Preprocessor((64, 64)), _image(48, 64)
    frame = Frame('top', rgb, 1, 1)
    first = preprocessor('top', frame)
    assert preprocessor('top', frame) is first
    other = preprocessor('top', Frame('top', _image(48, 64), 2, 2))
    assert other.digest != first.digest
    again = preprocessor('top', Frame('top', rgb, 3, 3))
    assert again.digest == first.digest


@pytest.mark.parametrize(('height', 'width'), [(200, 2), (2, 200), (1, 65), (32_767, 500)])
def test_a_frame_that_shrinks_to_nothing_is_refused_by_its_camera_and_size(height, width):
    frame = Frame('wrist', np.zeros((height, width, 3), np.uint8), 1, 1)
    with pytest.raises(FrameError, match=f'camera wrist: frame of {width} x {height} pixels'):
        Preprocessor((64, 64))('top', frame)


@pytest.mark.parametrize(('height', 'width'), [(64, 1), (1, 64), (128, 2), (1, 1), (2, 127)])
def test_a_thin_frame_of_which_something_is_left_passes(height, width):
    frame = Frame('wrist', _image(height, width), 1, 1)
    assert Preprocessor((64, 64))('top', frame).pixels.shape == (1, 3, 64, 64)


def test_a_policy_without_a_size_takes_the_thinnest_frame():
    assert Preprocessor(None)('top', Frame('wrist', _image(200, 2), 1, 1)).pixels.shape == (
        1, 3, 200, 2)
