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

"""KV arithmetic: worked examples to the digit, and what must hold for any model."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from robot_infer.budget.kv import (
    FORMATS,
    KVFormat,
    bytes_per_token,
    find_format,
    gpus_needed,
    heads_per_gpu,
    kv_bytes,
    num_pages,
    tokens_that_fit,
)
from robot_infer.budget.model_shape import KVGroup
from robot_infer.budget.presets import PRESETS
from robot_infer.cache.storage import KVStorage
from robot_infer.errors import ConfigError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LARGE = KVGroup('80 layers, 8 KV heads of 128', 80, 8, 128)
# Without scales of their own: one for a whole tensor, as the worked examples and vLLM have it.
FP8, INT4 = FORMATS['fp8'].values_only, FORMATS['int4'].values_only


# --- worked examples -----------------------------------------------------------------------------


def test_bytes_of_a_token():
    assert bytes_per_token(LARGE, 'bf16') == 320 * KIB
    assert bytes_per_token(LARGE, FP8) == 160 * KIB


def test_a_context_of_32768_tokens_and_100_users():
    context = kv_bytes([LARGE], 32_768, 'bf16', 16)
    assert context == 10 * GIB
    assert 100 * context == 1000 * GIB and round(100 * context / 1e9, 1) == 1073.7
    mha = replace(LARGE, num_kv_heads=64)  # query heads counted as if they were KV heads
    assert 100 * kv_bytes([mha], 32_768, 'bf16', 16) == 8000 * GIB


@pytest.mark.parametrize('form,of_80_gb,of_141_gb', [('bf16', 16, 10), (FP8, 9, 5), (INT4, 5, 3)])
def test_gpus_for_100_users_beside_70_gb_of_weights(form, of_80_gb, of_141_gb):
    needed = 100 * kv_bytes([LARGE], 32_768, form, 16) + 70 * 10 ** 9
    assert gpus_needed(needed, 80 * 10 ** 9, 0.9) == of_80_gb
    assert gpus_needed(needed, 141 * 10 ** 9, 0.9) == of_141_gb


def test_more_gpus_than_kv_heads_save_nothing():
    assert bytes_per_token(LARGE, FP8, tp=8) == 20 * KIB
    assert bytes_per_token(LARGE, FP8, tp=16) == 20 * KIB
    assert [heads_per_gpu(8, tp) for tp in (1, 2, 4, 8, 16, 32)] == [8, 4, 2, 1, 1, 1]


def test_a_budget_of_506_gb():
    budget = 506 * 10 ** 9
    assert round(budget / GIB) == 471
    assert budget // kv_bytes([LARGE], 32_768, FP8, 16) == 94  # each the longest length
    assert budget // kv_bytes([LARGE], 2048, FP8, 16) == 1507  # "about 1,500", by pages
    assert kv_bytes([LARGE], 1, FP8, 16) == 2.5 * MIB  # one block


def test_mha_of_width_4096_and_64_users():
    mha = KVGroup('32 layers of width 4096', 32, 32, 128)
    assert round(64 * kv_bytes([mha], 4096, 'fp16', 16) / 1e9, 1) == 137.4


@pytest.mark.parametrize('heads,kib', [(32, 512), (8, 128), (1, 16)])
def test_mha_gqa_and_mqa(heads, kib):
    assert bytes_per_token(KVGroup('32 layers', 32, heads, 128), 'bf16') == kib * KIB


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize('name,of_64,of_128', [
    ('fp32', 256, 512), ('bf16', 128, 256), ('fp16', 128, 256), ('fp8', 64 + 4, 128 + 4),
    ('int8', 64 + 4, 128 + 4), ('int4', 32 + 2 * 2, 64 + 4 * 2)])
def test_bytes_of_a_head_with_its_scales(name, of_64, of_128):
    assert (FORMATS[name].head_bytes(64), FORMATS[name].head_bytes(128)) == (of_64, of_128)
    assert FORMATS[name].values_only.head_bytes(128) == 128 * FORMATS[name].bits // 8


@pytest.mark.parametrize('name', ['int8', 'fp8', 'int4'])
@pytest.mark.parametrize('preset', ['SmolVLA', 'pi0', 'Llama-3-8B', 'demo'])
def test_a_page_has_the_bytes_that_the_cache_allocates(name, preset):
    group = PRESETS[preset].kv[0]
    assert kv_bytes([group], 64, name, 64) == KVStorage.bytes_per_block(
        group.num_layers, 64, group.num_kv_heads, group.head_dim, torch.bfloat16, name)


@pytest.mark.parametrize('name,dtype', [('fp32', torch.float32), ('bf16', torch.bfloat16)])
def test_a_plain_page_has_the_bytes_that_the_cache_allocates(name, dtype):
    groups = PRESETS['SmolVLA'].kv
    assert kv_bytes(groups, 64, name, 64) == KVStorage.bytes_per_block(24, 64, 5, 64, dtype)


def test_cross_attention_of_the_action_expert_is_counted():
    language, cross = PRESETS['SmolVLA'].kv
    assert (language.num_layers, cross.num_layers) == (16, 8)
    assert kv_bytes([language, cross], 241, 'bf16', 64) == 1.5 * kv_bytes(
        [language], 241, 'bf16', 64)


@pytest.mark.parametrize('name', ['', 'fp64', 'FP8', 'auto', 'bf 16'])
def test_a_format_nobody_has_is_refused(name):
    with pytest.raises(ConfigError, match='one of fp32, bf16, fp16, fp8, int8, int4'):
        find_format(name)


def test_heads_that_do_not_divide_into_scales_are_refused():
    with pytest.raises(ConfigError, match='a multiple of 32 values.*got 80 values.*int8'):
        bytes_per_token(KVGroup('odd', 2, 2, 80), 'int4')
    with pytest.raises(ConfigError, match='a multiple of 2 values.*whole bytes'):
        INT4.head_bytes(7)


# --- windows, tensor parallelism, what fits ------------------------------------------------------


def test_a_sliding_window_holds_its_tokens_and_at_most_one_page_more():
    assert [num_pages(tokens, 16, 64) for tokens in (0, 1, 16, 17, 64, 65, 80, 10_000)] == [
        0, 1, 1, 2, 4, 5, 5, 5]
    assert [num_pages(10_000, page, 64) for page in (1, 16, 64, 256)] == [64, 5, 2, 2]
    group = replace(LARGE, window=1024)
    assert kv_bytes([group], 100_000, 'bf16', 16) == (1024 + 16) * 320 * KIB


@given(tokens=st.integers(1, 2000), page=st.integers(1, 300), window=st.integers(1, 500),
       at=st.integers(0, 2000))
def test_no_place_of_a_window_touches_more_pages_than_counted(tokens, page, window, at):
    newest = min(at, tokens - 1)
    oldest = max(0, newest - window + 1)
    touched = newest // page - oldest // page + 1
    assert touched <= num_pages(tokens, page, window) <= num_pages(tokens, page)


@pytest.mark.parametrize('heads,tp', [(8, 3), (5, 2), (5, 7), (8, 12)])
def test_heads_that_do_not_divide_among_gpus_are_refused(heads, tp):
    with pytest.raises(ConfigError, match=f'a divisor or a multiple of {heads} KV heads'):
        bytes_per_token(replace(LARGE, num_kv_heads=heads), 'bf16', tp)


GROUPS = st.lists(st.builds(
    KVGroup, st.just('g'), st.integers(1, 90), st.sampled_from([1, 2, 4, 8, 64]),
    st.sampled_from([32, 64, 128, 256]), st.one_of(st.none(), st.integers(1, 5000))),
    min_size=1, max_size=3)


@given(groups=GROUPS, num_bytes=st.integers(0, 1 << 40), form=st.sampled_from(sorted(FORMATS)),
       page=st.sampled_from([1, 16, 64, 256]), tp=st.sampled_from([1, 2, 16]))
def test_what_fits_fits_and_one_page_more_does_not(groups, num_bytes, form, page, tp):
    tokens = tokens_that_fit(num_bytes, groups, form, page, tp)
    if tokens is None:
        assert all(group.window for group in groups)
        assert kv_bytes(groups, 1 << 40, form, page, tp) <= num_bytes
        return
    assert tokens % page == 0
    assert kv_bytes(groups, tokens, form, page, tp) <= num_bytes
    assert kv_bytes(groups, tokens + 1, form, page, tp) > num_bytes


@given(groups=GROUPS, tokens=st.integers(0, 10 ** 6), page=st.integers(1, 512))
def test_rounding_to_pages_never_costs_a_whole_page(groups, tokens, page):
    for group in groups:
        one = replace(group, window=None)
        exact = tokens * bytes_per_token(one, 'bf16')
        taken = kv_bytes([one], tokens, 'bf16', page)
        assert exact <= taken < exact + page * bytes_per_token(one, 'bf16')


@given(st.integers(0, 10 ** 15), st.integers(1, 10 ** 12), st.sampled_from([0.1, 0.9, 1.0]))
def test_gpus_are_enough_and_one_less_is_not(num_bytes, of_each, share):
    count = gpus_needed(num_bytes, of_each, share)
    tenths = round(10 * share)
    assert 10 * num_bytes <= count * tenths * of_each
    assert count == 0 or 10 * num_bytes > (count - 1) * tenths * of_each


@pytest.mark.parametrize('call', [
    lambda: kv_bytes([LARGE], -1, 'bf16', 16), lambda: kv_bytes([LARGE], 10, 'bf16', 0),
    lambda: kv_bytes([LARGE], 1 << 60, 'bf16', 16), lambda: kv_bytes([LARGE], 1.5, 'bf16', 16),
    lambda: bytes_per_token(replace(LARGE, num_layers=0), 'bf16'),
    lambda: bytes_per_token(replace(LARGE, num_kv_heads=-8), 'bf16'),
    lambda: bytes_per_token(replace(LARGE, head_dim=0), 'bf16'),
    lambda: bytes_per_token(LARGE, 'bf16', tp=0), lambda: num_pages(10, 16, 0),
    lambda: tokens_that_fit(-1, [LARGE], 'bf16', 16), lambda: gpus_needed(1, 0),
    lambda: gpus_needed(1, 1, 0.0), lambda: gpus_needed(1, 1, 1.1),
    lambda: gpus_needed(1, 1, float('nan')), lambda: gpus_needed(True, 1)])
def test_absurd_values_are_refused(call):
    with pytest.raises(ConfigError, match='expected .*got'):
        call()


def test_a_format_of_ones_own():
    assert bytes_per_token(LARGE, KVFormat('6 bits', 6)) == 2 * 80 * 8 * 96
