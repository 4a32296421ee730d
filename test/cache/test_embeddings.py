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

"""Image embeddings: found by camera and digest, oldest use replaced, memory taken once."""

from __future__ import annotations

import pytest
import torch

from robot_infer.cache import EmbeddingCache


@pytest.fixture
def cache():
    return EmbeddingCache(('left', 'right'), 3, 4, 8, torch.float32)


def frame(value):
    """An embedding of one value."""
    return torch.full((4, 8), float(value))


def test_what_was_put_is_found_under_its_camera_only(cache):
    assert cache.get('left', b'1') is None
    stored = cache.put('left', b'1', frame(1))
    assert torch.equal(stored, frame(1)) and torch.equal(cache.get('left', b'1'), frame(1))
    assert cache.get('right', b'1') is None
    cache.put('right', b'1', frame(2))
    assert torch.equal(cache.get('left', b'1'), frame(1))
    assert torch.equal(cache.get('right', b'1'), frame(2))


def test_the_least_recently_used_is_replaced(cache):
    for value in (1, 2, 3):
        cache.put('left', bytes([value]), frame(value))
    cache.get('left', b'\x01')
    cache.put('left', b'\x04', frame(4))
    assert cache.get('left', b'\x02') is None
    for value in (1, 3, 4):
        assert torch.equal(cache.get('left', bytes([value])), frame(value))


def test_one_camera_does_not_replace_another_ones(cache):
    cache.put('left', b'1', frame(1))
    for value in range(10):
        cache.put('right', bytes([value]), frame(value))
    assert torch.equal(cache.get('left', b'1'), frame(1))


def test_putting_a_known_frame_again_takes_no_second_entry(cache):
    for _ in range(5):
        cache.put('left', b'1', frame(7))
    cache.put('left', b'2', frame(2))
    cache.put('left', b'3', frame(3))
    assert torch.equal(cache.get('left', b'1'), frame(7))


def test_putting_a_known_frame_again_is_a_use(cache):
    for value in (1, 2, 3, 1, 4):
        cache.put('left', bytes([value]), frame(value))
    assert cache.get('left', b'\x02') is None
    assert torch.equal(cache.get('left', b'\x01'), frame(1))


def test_a_view_stays_good_for_as_many_puts_as_there_are_entries(cache):
    view = cache.put('left', b'1', frame(1))
    cache.put('left', b'2', frame(2))
    cache.put('left', b'3', frame(3))
    assert torch.equal(view, frame(1))


def test_memory_is_one_tensor_taken_once(cache):
    assert cache.nbytes == 2 * 3 * 4 * 8 * 4
    starts = {cache.put(camera, bytes([value]), frame(value)).untyped_storage().data_ptr()
              for camera in ('left', 'right') for value in range(20)}
    assert len(starts) == 1 and cache.nbytes == 2 * 3 * 4 * 8 * 4


def test_what_is_put_is_copied(cache):
    source = frame(1)
    cache.put('left', b'1', source)
    source.fill_(9.0)
    assert torch.equal(cache.get('left', b'1'), frame(1))


def test_clear_forgets_every_frame(cache):
    cache.put('left', b'1', frame(1))
    cache.clear()
    assert cache.get('left', b'1') is None
    for value in range(5):
        cache.put('left', bytes([value]), frame(value))
    assert torch.equal(cache.get('left', b'\x04'), frame(4))


@pytest.mark.parametrize('use,words', [
    (lambda cache: cache.get('front', b'1'), r"camera: expected one of \['left', 'right'\]"),
    (lambda cache: cache.put('front', b'1', frame(1)), 'camera: expected'),
    (lambda cache: cache.put('left', b'1', torch.zeros(4, 9)), r'\(4, 8\) torch.float32; got'),
    (lambda cache: cache.put('left', b'1', frame(1).double()), 'torch.float64'),
    (lambda cache: EmbeddingCache(('a', 'a'), 1, 1, 1, torch.float32), 'different names'),
    (lambda cache: EmbeddingCache((), 1, 1, 1, torch.float32), 'positive sizes'),
    (lambda cache: EmbeddingCache(('a',), 0, 1, 1, torch.float32), 'positive sizes'),
])
def test_a_wrong_argument_of_the_embeddings_is_named(cache, use, words):
    with pytest.raises(ValueError, match=words):
        use(cache)
