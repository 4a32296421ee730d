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

"""Camera rings: width x height x encoding x depth, and what is no camera."""

from __future__ import annotations

import pytest

from robot_infer.budget.camera_rings import (
    BYTES_PER_PIXEL,
    CameraRing,
    camera_rings,
    parse_ring,
    ring_lines,
)
from robot_infer.camera.encodings import ENCODINGS
from robot_infer.errors import ConfigError


def test_a_full_hd_nv12_camera_by_hand():
    ring = parse_ring('front:1920x1080:nv12:6')
    assert (ring.frame_bytes, ring.depth, ring.assumed) == (1920 * 1080 * 3 // 2, 6, False)
    rings, node, staging = ring_lines([ring], (224, 224))
    assert rings.num_bytes == 6 * 3_110_400 and rings.per_camera == (18_662_400,)
    assert rings.basis == 'bound' and rings.place == 'host'
    assert node.num_bytes == 2 * (3_110_400 + 6_220_800)
    assert staging.num_bytes == 2 * 6_220_800 + 602_112 + 4 * 6_220_800 + 3 * 602_112
    assert '1920 x 1080 nv12 x 6 buffers' in rings.arithmetic


def test_what_nobody_said_is_assumed_and_called_an_estimate():
    rings = camera_rings(('left', 'right'), [parse_ring('right:800x600')])
    assert [ring.assumed for ring in rings] == [True, False]
    assert rings[0].frame_bytes == 640 * 480 * 3 and rings[1].encoding == 'rgb8'
    line = ring_lines(rings, (64, 64))[0]
    assert line.basis == 'estimate' and '(assumed)' in line.arithmetic
    assert sum(line.per_camera) == line.num_bytes


def test_every_encoding_that_is_counted_is_one_that_is_decoded_and_as_large():
    for name, per_pixel in BYTES_PER_PIXEL.items():
        planes = ENCODINGS[name].planes
        num_bytes = sum(plane.row_bytes(640) * plane.rows(480) for plane in planes)
        assert num_bytes == CameraRing('c', encoding=name).frame_bytes == 640 * 480 * per_pixel


def test_no_camera_is_no_line():
    assert ring_lines((), (0, 0)) == ()


@pytest.mark.parametrize('text', [
    'front', 'front:', ':640x480', 'front:640', 'front:0x480', 'front:640x-1', 'front:640x480:',
    'front:640x480:rgb8:0', 'front:640x480:rgb8:9999', 'front:640x480:rgb8:4:5',
    'front:99999x480', 'front:6e2x480', 'front:640x480:h264'])
def test_what_is_no_camera_is_refused(text):
    with pytest.raises(ConfigError, match='--camera'):
        parse_ring(text)


def test_a_camera_that_is_not_configured_or_given_twice_is_refused():
    with pytest.raises(ConfigError, match='each camera once: left, right; got up'):
        camera_rings(('left', 'right'), [parse_ring('up:640x480')])
    with pytest.raises(ConfigError, match='each camera once'):
        camera_rings(('left',), [parse_ring('left:640x480'), parse_ring('left:320x240')])
    with pytest.raises(ConfigError, match='this model has none'):
        camera_rings((), [parse_ring('left:640x480')])
