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

"""Storage by pages wastes less than a page for each sequence; a range of the longest, nearly all.

The worked example: 80 layers x 8 KV heads x 128, K and V in fp8: 160 KiB a token. 8 GPUs of
80 GB, of which 90 % are used, less 70 GB of weights, leave 506 GB for keys and values. The longest
length is 32,768 tokens, requests are of about 2,048: where they end in their last page of 16 is as
good as random, so the lengths are the 16 around 2,048, each as often.
"""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
import pytest

from robot_infer.budget.fragmentation import (
    BLOCKS,
    check_pool,
    draw_lengths,
    lengths_of,
    read_lengths,
    sequences_that_fit,
    simulate,
)
from robot_infer.errors import BudgetError, ConfigError

MIB, GIB = 2**20, 2**30
TOKEN = 80 * 2 * 8 * 128 * 1  # bytes: layers, K and V, heads, head size, fp8
BUDGET = 8 * 80 * 10**9 * 9 // 10 - 70 * 10**9
LONGEST = 32_768
AROUND_2048 = range(2041, 2057)

a_length = st.integers(1, LONGEST)


def test_the_budget_is_506_gb_or_471_gib_and_a_token_160_kib():
    assert BUDGET == 506 * 10**9
    assert round(BUDGET / GIB, 1) == 471.2
    assert TOKEN == 160 * 2**10


def test_94_contiguous_against_about_1500_paged_requests():
    assert sequences_that_fit(BUDGET, TOKEN, simulate([2048], None, LONGEST)) == 94
    # Of exactly 2,048 tokens, which fill their last page, 1,507; where the last page is as good as
    # random, 1,502.
    assert sequences_that_fit(BUDGET, TOKEN, simulate([2048], 16, LONGEST)) == 1507
    assert sequences_that_fit(BUDGET, TOKEN, simulate(AROUND_2048, 16, LONGEST)) == 1502


def test_6_percent_against_99_6_percent_are_used():
    assert f'{simulate(AROUND_2048, None, LONGEST).utilisation:.0%}' == '6%'
    assert f'{simulate(AROUND_2048, 16, LONGEST).utilisation:.1%}' == '99.6%'


def test_a_block_of_16_tokens_is_two_and_a_half_mib():
    assert 16 * TOKEN == 2.5 * MIB


def test_in_bf16_half_as_many_fit():
    assert sequences_that_fit(BUDGET, 2 * TOKEN, simulate([2048], None, LONGEST)) == 47
    assert sequences_that_fit(BUDGET, 2 * TOKEN, simulate(AROUND_2048, 16, LONGEST)) == 751


@given(st.lists(a_length, min_size=1, max_size=60), st.integers(1, 2048))
def test_waste_per_sequence_is_never_above_block_minus_one(lengths, block):
    stored = simulate(lengths, block, LONGEST)
    assert 0 <= stored.worst <= block - 1
    assert 0 <= stored.waste <= (block - 1) * len(lengths)
    one_by_one = [simulate([length], block, LONGEST) for length in lengths]
    assert stored.waste == sum(one.waste for one in one_by_one)
    assert stored.worst == max(one.waste for one in one_by_one)
    assert all(one.taken % block == 0 for one in one_by_one)


@given(st.integers(1, 5000), st.integers(1, 512))
def test_the_mean_waste_over_a_whole_page_of_lengths_is_half_of_block_minus_one(first, block):
    stored = simulate(range(first, first + block), block, LONGEST)
    assert Fraction(stored.waste, stored.num_sequences) == Fraction(block - 1, 2)


@given(st.lists(a_length, min_size=1, max_size=60))
def test_a_smaller_block_that_divides_the_larger_never_wastes_more(lengths):
    wastes = [simulate(lengths, block, LONGEST).waste for block in BLOCKS]
    assert wastes == sorted(wastes) and wastes[0] == 0
    assert simulate(lengths, None, LONGEST).waste >= wastes[-1]  # 256 divides the longest


@given(st.lists(a_length, min_size=1, max_size=60))
def test_contiguous_is_a_page_of_the_longest_length(lengths):
    contiguous, one_page = (simulate(lengths, block, LONGEST) for block in (None, LONGEST))
    assert contiguous.taken == one_page.taken == LONGEST * len(lengths)


def test_lengths_are_log_normal_and_the_same_for_the_same_seed():
    lengths = draw_lengths(20_000, 500.0, 0.8, 32_768, seed=3)
    assert lengths == draw_lengths(20_000, 500.0, 0.8, 32_768, seed=3)
    assert lengths != draw_lengths(20_000, 500.0, 0.8, 32_768, seed=4)
    lengths.sort()
    median, upper = lengths[10_000], lengths[16_827]  # 84.13 %: one standard deviation up
    assert median == pytest.approx(500.0, rel=0.03)
    assert upper / median == pytest.approx(2.2255, rel=0.04)  # exp(0.8)


@given(st.lists(st.floats(-40.0, 40.0), max_size=20), st.floats(1.0, 1000.0), st.floats(0.0, 3.0))
def test_no_length_is_below_one_or_above_the_longest(normals, median, sigma):
    assert all(1 <= one <= 1000 for one in lengths_of(normals, median, sigma, 1000))


def test_lengths_are_read_with_any_separators_and_comments(tmp_path):
    path = tmp_path / 'lengths.txt'
    path.write_text('# of a run\n12, 7\n\n2048  # the long one\n 1\n')
    assert read_lengths(path) == [12, 7, 2048, 1]


@pytest.mark.parametrize(('text', 'words'), [
    ('12\nseven\n', "line 2.*'seven'"), ('12\n0\n', 'line 2'), ('-3\n', "'-3'"),
    ('1.5\n', "'1.5'"), ('5000\n', '1 to 4096'), ('# none\n', '0'), ('9' * 400, 'line 1'),
    ('١٢\n', 'line 1'),
])
def test_what_is_no_length_is_named_with_its_line(tmp_path, text, words):
    path = tmp_path / 'lengths.txt'
    path.write_text(text, encoding='utf-8')
    with pytest.raises(ConfigError, match=words):
        read_lengths(path, max_len=4096)


@pytest.mark.parametrize('content', [None, b'\xff\xfe\x00'])
def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path, content):
    path = tmp_path / 'lengths.bin'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match='lengths.bin'):
        read_lengths(path)


@pytest.mark.parametrize('arguments', [
    (0, 10.0, 1.0, 100), (5, 0.0, 1.0, 100), (5, 101.0, 1.0, 100), (5, 10.0, -1.0, 100),
    (5, float('nan'), 1.0, 100), (5, 10.0, float('nan'), 100), (5, 10.0, 1.0, 0),
    (10**9, 10.0, 1.0, 100),
])
def test_absurd_lengths_are_refused(arguments):
    with pytest.raises(ConfigError):
        draw_lengths(*arguments)


@pytest.mark.parametrize(('lengths', 'block'), [
    ([], 16), ([0], 16), ([101], 16), ([5], 0), ([5], -1)])
def test_absurd_storage_is_refused(lengths, block):
    with pytest.raises(ConfigError):
        simulate(lengths, block, 100)


def test_a_pool_that_holds_not_even_one_sequence_is_refused():
    check_pool(112, 100, 16)
    with pytest.raises(BudgetError, match='at least 112 tokens.*111 tokens'):
        check_pool(111, 100, 16)
