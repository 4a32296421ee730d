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

"""The key rule: an entry is found again only while everything it depends on is unchanged."""

from __future__ import annotations

from dataclasses import replace
import hashlib

from hypothesis import given
from hypothesis import strategies as st
import pytest

from robot_infer.prompt.layout import Layout, Segment

PAGE = 4


def _smolvla(cameras: int = 2, words: tuple[int, ...] = (5, 6, 7), state: bytes = b's') -> Layout:
    images = tuple(Segment(f'camera{n}', 4, 0, bytes([n])) for n in range(cameras))
    return Layout(b'domain', (*images, Segment('words', len(words), 0, ids=words),
                              Segment('state', 1, 1, state)))


def _causal(ids: tuple[int, ...]) -> Layout:
    return Layout(b'domain', (Segment('text', len(ids), 0, ids=ids, causal=True),))


def test_group_ends_and_limits_follow_the_attention_groups():
    layout = _smolvla()
    assert layout.length == 12
    assert layout.group_ends == (11, 12)
    assert [layout.limit(token) for token in (0, 10, 11)] == [11, 11, 12]
    assert list(layout.pieces(0)) == [(0, 11), (11, 12)]
    assert list(layout.pieces(11)) == [(11, 12)]


def test_keys_end_at_page_edges_and_at_inner_group_ends():
    assert [key.end for key in _smolvla().keys(PAGE)] == [4, 8, 11, 12]
    # A prefix that ends inside a page gets no key there: one token is always left to compute.
    assert [key.end for key in _smolvla(words=(5, 6)).keys(PAGE)] == [4, 8, 10]


def test_a_new_state_changes_only_the_keys_behind_it():
    old, new = _smolvla().keys(PAGE), _smolvla(state=b't').keys(PAGE)
    assert [a == b for a, b in zip(old, new)] == [True, True, True, False]


def test_any_change_in_a_bidirectional_group_changes_every_key_of_it():
    old = _smolvla()
    camera = replace(old.segments[1], identity=b'new')
    swapped = (old.segments[1], old.segments[0], *old.segments[2:])
    for segments in ((old.segments[0], camera, *old.segments[2:]), swapped,
                     _smolvla(words=(5, 6, 8)).segments):
        new = Layout(b'domain', segments)
        assert not {k.digest for k in old.keys(PAGE)} & {k.digest for k in new.keys(PAGE)}


def test_another_domain_shares_nothing():
    old, new = _smolvla(), replace(_smolvla(), domain=b'other weights')
    assert not {k.digest for k in old.keys(PAGE)} & {k.digest for k in new.keys(PAGE)}


def test_equal_pixels_under_another_camera_name_are_another_identity():
    old = _smolvla()
    renamed = replace(old.segments[0], name='other')
    new = Layout(b'domain', (renamed, *old.segments[1:]))
    assert old.keys(PAGE)[0] != new.keys(PAGE)[0]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=24),
       st.lists(st.integers(0, 9), min_size=1, max_size=24))
def test_causal_keys_agree_exactly_as_far_as_the_tokens_do(first, second):
    common = next((n for n, (a, b) in enumerate(zip(first, second)) if a != b),
                  min(len(first), len(second)))
    old = {key.end: key.digest for key in _causal(tuple(first)).keys(PAGE)}
    new = {key.end: key.digest for key in _causal(tuple(second)).keys(PAGE)}
    for end in old.keys() & new.keys():
        assert (old[end] == new[end]) == (end <= common)


def test_page_key_of_a_causal_text_is_the_digest_of_domain_tokens_and_end():
    ids = (3, 1, 4, 1)
    digest = hashlib.blake2b(b'domain', digest_size=32)
    digest.update(_causal(ids).segments[0].identify(4))
    digest.update((4).to_bytes(8, 'little'))
    assert _causal(ids).keys(PAGE)[0].digest == digest.digest()


def test_resume_point_is_the_last_whole_group():
    layout = _smolvla()
    assert [layout.resume_point(n) for n in (0, 8, 10, 11, 12)] == [0, 0, 0, 11, 12]


def test_groups_must_not_go_back():
    with pytest.raises(AssertionError, match='attention groups'):
        Layout(b'', (Segment('a', 1, 1, b'a'), Segment('b', 1, 0, b'b')))
