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

"""What the pages hold of the past is what a real cache finds again after many steps."""

from __future__ import annotations

from dataclasses import replace
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

from robot_infer.budget.history import history
from robot_infer.budget.presets import find_preset
from robot_infer.cache import BlockPool, KVStorage, PagedCache, PrefixIndex
from robot_infer.errors import BudgetError, ConfigError
from robot_infer.types import PageKey

SMOLVLA = find_preset('SmolVLA')
OPENVLA = find_preset('OpenVLA-7B')


def _history(shape=SMOLVLA, **changed):
    values = {'num_blocks': 100, 'page_tokens': 64, 'num_cameras': 2, 'prompt_tokens': 20,
              'suffix_tokens': 50, 'embeddings_per_camera': 4, 'camera_rate_hz': 30.0,
              'inference_rate_hz': 10.0} | changed
    return history(shape, **values)


def test_smolvla_by_hand():
    """2 x 64 + 20 + 1 = 149 tokens in 3 pages; a step takes 3 + 1 + 2 and 1 is being read."""
    found = _history()
    assert found.prefix_pages == 3
    assert found.prefixes == (100 - 6) // 3 == 31
    assert found.seconds == pytest.approx(3.1)  # 10 new prefixes a second
    assert found.instructions == 31  # one new word is a new prefix
    assert found.embedding_seconds == pytest.approx(0.4)
    assert found.words == ('the pages hold 31 sets of frames = 3.1 s (3 pages each), or 31 '
                           'instructions over one set; 4 encoded frames a camera = 0.4 s')


def test_a_slow_camera_makes_the_same_pages_last_longer():
    assert _history(camera_rate_hz=5.0).seconds == pytest.approx(31 / 5)
    assert _history(camera_rate_hz=5.0, instruction_rate_hz=1.0).seconds == pytest.approx(31 / 6)
    assert _history(camera_rate_hz=5.0).embedding_seconds == pytest.approx(4 / 5)


def test_in_a_causal_model_instructions_share_the_pages_of_the_frames():
    """256 image tokens are 4 whole pages; 20 words one more."""
    found = _history(OPENVLA, num_cameras=1, suffix_tokens=7)
    assert found.prefix_pages == 5
    assert found.prefixes == (100 - 8) // 5
    assert found.instructions == 100 - 8


class _Steps:
    """Steps as the engine makes them, on a real cache."""

    def __init__(self, num_blocks: int, page: int, longest: int) -> None:
        pool = BlockPool(num_blocks)
        storage = KVStorage(1, num_blocks, page, 1, 8, torch.float32)
        self.cache = PagedCache(storage, pool, PrefixIndex(pool, page), longest)
        self._read = None

    def keys(self, number: int, prefix: int) -> list[PageKey]:
        page = self.cache.storage.page_tokens
        ends = sorted({*range(page, prefix, page), prefix - 1} - {0})
        return [PageKey(end, b'%d %d' % (number, end)) for end in ends]

    def step(self, number: int, prefix: int, suffix: int) -> None:
        """A new prefix of which the last token, the state, goes behind a published page."""
        sequence = self.cache.open((), 0)
        sequence.append(prefix - 1)
        self.cache.publish(sequence, self.keys(number, prefix))
        sequence.append(1)
        snapshot = sequence.snapshot()
        sequence.append(suffix)
        sequence.restore(snapshot)
        if self._read is not None:
            self._read.release()
        self._read = sequence

    def finds(self, number: int, prefix: int) -> bool:
        match = self.cache.index.match(self.keys(number, prefix), prefix - 1)
        self.cache.pool.release(match.blocks)
        return match.length == prefix - 1


@settings(deadline=None, max_examples=60)
@given(page=st.sampled_from([4, 16, 64]), cameras=st.integers(1, 3), words=st.integers(1, 48),
       suffix=st.integers(1, 50), spare=st.integers(0, 60))
def test_a_real_cache_finds_as_many_prefixes_again(page, cameras, words, suffix, spare):
    shape = replace(SMOLVLA, image_tokens=8)
    prefix = cameras * 8 + words + 1
    pages, behind = math.ceil(prefix / page), math.ceil(suffix / page) + 1
    num_blocks = 2 * (pages + 1) + behind + spare
    said = _history(shape, num_blocks=num_blocks, page_tokens=page, num_cameras=cameras,
                    prompt_tokens=words, suffix_tokens=suffix).prefixes
    steps = _Steps(num_blocks, page, pages + 1 + behind)
    made = said + 20
    for number in range(made):
        steps.step(number, prefix, suffix)
    # Looked for from the oldest on: what is found is then used last, and moves up.
    found = [steps.finds(number, prefix) for number in range(made)]
    count = sum(found)
    assert found[made - count:] == [True] * count, 'the newest are those that are kept'
    # At least what was said; and no more than the pages of one step could hold besides.
    published = math.ceil((prefix - 1) / page)
    assert said <= count <= said + math.ceil((pages + behind + 1) / published)


def test_pages_for_less_than_one_step_are_refused_with_the_arithmetic():
    with pytest.raises(BudgetError, match='at least 7 for one step: 3 of the prefix, 2 of the '
                                          'suffix, 2 copied; got 6'):
        _history(num_blocks=6)
    assert _history(num_blocks=7).prefixes == 1


@pytest.mark.parametrize('changed', [
    {'camera_rate_hz': 0.0}, {'inference_rate_hz': -1.0}, {'inference_rate_hz': float('nan')},
    {'instruction_rate_hz': -0.1}, {'camera_rate_hz': float('inf')}])
def test_an_absurd_rate_is_refused(changed):
    with pytest.raises(ConfigError, match='rate'):
        _history(**changed)


@pytest.mark.parametrize('changed', [{'page_tokens': 0}, {'num_cameras': 0, 'prompt_tokens': -1}])
def test_pages_or_prefixes_of_nothing_are_refused(changed):
    with pytest.raises(ConfigError, match='history'):
        _history(**changed)
