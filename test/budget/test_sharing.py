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

"""Sequences in one pool: nothing is counted twice or lost, and pages leave little unused."""

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from robot_infer.budget.fragmentation import draw_lengths
from robot_infer.budget.sharing import Scheme, Shares, _Pool, share
from robot_infer.errors import BudgetError, ConfigError

KINDS = ('used', 'reserved', 'internal', 'external')
LONGEST = 4096
LENGTHS = draw_lengths(400, 200.0, 1.0, LONGEST, seed=1)
cases = st.tuples(
    st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 20),
    st.integers(0, 200)).map(lambda one: (one[0], one[1], 60 + one[1] + one[2]))


def run(scheme: Scheme, block: int = 16, lengths: list[int] = LENGTHS) -> Shares:
    return share(lengths, scheme, block, 8 * LONGEST, LONGEST)


@pytest.mark.parametrize('scheme', Scheme)
@settings(deadline=None, max_examples=60)
@given(case=cases)
def test_the_four_shares_are_the_whole_pool(scheme, case):
    lengths, block, pool = case
    shares = share(lengths, scheme, block, pool, 60)
    assert sum(getattr(shares, kind) for kind in KINDS) == pool * shares.steps
    assert min(getattr(shares, kind) for kind in KINDS) >= 0
    assert shares.ended > 0  # whoever waits gets in at some time


@pytest.mark.parametrize('scheme', Scheme)
@settings(deadline=None, max_examples=60)
@given(case=cases)
def test_no_two_sequences_have_the_same_token_and_the_line_is_kept(scheme, case):
    lengths, block, pool_tokens = case
    pool = _Pool(lengths, scheme, block, pool_tokens, 60)
    for _ in range(80):
        pool.admit()
        assert pool.live
        assert all(one.written <= one.size for one in pool.live)
        total = pool_tokens // block * block if scheme is Scheme.PAGES else pool_tokens
        assert pool.free + sum(one.size for one in pool.live) == total
        if scheme is not Scheme.PAGES:
            assert sorted((one.start, one.start + one.size) for one in pool.live) == pool.ranges
            ends = [0] + [last for _, last in pool.ranges]
            assert all(end <= first for end, (first, _) in zip(ends, pool.ranges))
            assert ends[-1] <= pool_tokens
        pool.grow()


def test_by_the_longest_length_eight_fit_and_most_is_held_for_nothing():
    shares = run(Scheme.LONGEST)
    assert shares.mean_live == 8 and shares.external == 0
    assert shares.share_of('internal') > 0.8
    assert shares.share_of('used') < 0.2


def test_knowing_the_lengths_leaves_holes_that_nobody_fits_in():
    shares = run(Scheme.KNOWN)
    assert shares.internal == 0
    assert shares.share_of('external') > 0.05
    assert shares.share_of('reserved') > 0.1


@pytest.mark.parametrize('block', [1, 16, 64])
def test_pages_use_nine_tenths_of_the_pool_and_serve_six_times_as_many(block):
    shares = run(Scheme.PAGES, block)
    # Half of a page each is what is neither written nor spare; of a last page.
    assert shares.reserved + shares.internal <= (block - 1) * shares.live
    assert shares.share_of('used') > 0.9
    assert shares.ended > 6 * run(Scheme.LONGEST).ended


def test_a_sequence_that_is_sent_back_begins_anew_and_ends():
    # Three fit with their prompts, not with all that they write.
    shares = share([60], Scheme.PAGES, 1, 100, 60)
    assert shares.restarted > 0 and shares.ended > 0


def test_sequences_of_one_step_are_nothing_but_their_prompts():
    shares = share([1], Scheme.PAGES, 1, 96, 60)
    assert shares.reserved == shares.internal == shares.restarted == 0


def test_the_same_lengths_give_the_same_numbers():
    assert run(Scheme.PAGES) == run(Scheme.PAGES)


def test_bad_input_is_named():
    with pytest.raises(BudgetError, match='4095 tokens'):
        share([1], Scheme.LONGEST, 1, LONGEST - 1, LONGEST)
    with pytest.raises(ConfigError):
        share([1], Scheme.PAGES, 0, LONGEST, LONGEST)
    with pytest.raises(ConfigError):
        share([LONGEST + 1], Scheme.PAGES, 1, LONGEST, LONGEST)
