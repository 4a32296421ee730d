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


"""Whether the Fast DDS profile in force carries large frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_infer import transport

SHIPPED = Path(__file__).parents[1] / 'config' / 'fastdds.xml'


def test_the_shipped_profile_carries_them_under_either_name():
    for name in ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE'):
        profile = transport.find_profile({name: str(SHIPPED)})
        assert profile.carries_large_frames and profile.segment_bytes == 32 * 2**20


@pytest.mark.parametrize('content, words', [
    (None, 'does not exist'),
    ('<dds><profiles>', 'not valid XML'),
    ('<dds><profiles/></dds>', 'segment_size'),
    ('<dds><segment_size>524288</segment_size></dds>', 'segment_size'),
])
def test_a_profile_that_does_not_carry_them_says_why(tmp_path, content, words):
    path = tmp_path / 'profile.xml'
    if content is not None:
        path.write_text(content)
    profile = transport.find_profile({'FASTDDS_DEFAULT_PROFILES_FILE': str(path)})
    assert not profile.carries_large_frames and words in profile.fault


def test_no_profile_is_said_in_words():
    assert '512 KiB' in transport.find_profile({}).fault


def test_only_fast_dds_needs_one():
    assert transport.needs_profile('rmw_fastrtps_cpp')
    assert not transport.needs_profile('rmw_cyclonedds_cpp')
