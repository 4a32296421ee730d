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


"""Attention in tiles equals the plain form, and its traffic is that of the closed formulas."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from robot_infer_kernels import tiled
from robot_infer_kernels.tiled import (
    Memory,
    Tiles,
    plain_attention,
    plain_bytes,
    tiled_attention,
    tiled_bytes,
)

# Queries, keys, head_dim, bytes of fast memory, keys a tile: tiles that divide and that do not.
SIZES = [(64, 64, 16, 4096, 8), (48, 100, 24, 8192, 16), (1, 1, 8, 2048, 4), (7, 33, 5, 1024, 16),
         (33, 129, 64, 16384, 16), (100, 31, 32, 101_376, 64), (5, 3000, 8, 2048, 16)]


def drawn(num_queries, num_keys, head_dim, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((num_queries, head_dim), np.float32),
            *rng.standard_normal((2, num_keys, head_dim), np.float32))


def defined(q, k, v, scale, limit):
    """Float64, all scores at once."""
    scores = scale * q.astype(np.float64) @ k.T.astype(np.float64)
    scores[np.arange(len(k)) >= limit[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)


@pytest.mark.parametrize('sizes', SIZES)
def test_both_forms_equal_the_definition_to_1e_5(sizes):
    num_queries, num_keys, head_dim, fast_bytes, keys = sizes
    q, k, v = drawn(num_queries, num_keys, head_dim)
    tiles = Tiles.fitting(fast_bytes, head_dim, keys)
    wanted = defined(q, k, v, 0.4, np.full(num_queries, num_keys))
    for attend in (tiled_attention, plain_attention):
        out = attend(q, k, v, 0.4, Memory(fast_bytes), tiles)
        assert np.linalg.norm(out - wanted) <= 1e-5 * np.linalg.norm(wanted)


@pytest.mark.parametrize('sizes', SIZES)
def test_traffic_is_that_of_the_formulas(sizes):
    num_queries, num_keys, head_dim, fast_bytes, keys = sizes
    q, k, v = drawn(num_queries, num_keys, head_dim)
    tiles = Tiles.fitting(fast_bytes, head_dim, keys)
    everything = np.full(num_queries, num_keys)
    in_tiles, plainly = Memory(fast_bytes), Memory(fast_bytes)
    tiled_attention(q, k, v, 0.4, in_tiles, tiles)
    plain_attention(q, k, v, 0.4, plainly, tiles)
    assert in_tiles.moved_bytes == tiled_bytes(everything, head_dim, tiles)
    assert in_tiles.written_bytes == q.nbytes
    assert plainly.moved_bytes == plain_bytes(num_queries, num_keys, head_dim, tiles, fast_bytes)
    assert max(in_tiles.peak_bytes, plainly.peak_bytes) <= fast_bytes


def test_the_formula_by_hand():
    """10 queries in tiles of 4 are 3 tiles: q and out once, keys and values three times."""
    moved = tiled_bytes(np.full(10, 20), 8, Tiles(rows=4, keys=5))
    assert moved == 4 * (10 * 8 + 3 * (20 * 8 + 20 * 8) + 10 * 8)
    # And 10 x 20 scores written, read; weights written, read.
    assert plain_bytes(10, 20, 8, Tiles(4, 5), fast_bytes=80) == moved + 4 * 4 * 10 * 20
    # A row of 20 scores does not fit into 79 bytes: two more reads.
    assert plain_bytes(10, 20, 8, Tiles(4, 5), fast_bytes=79) == moved + 4 * 6 * 10 * 20


def test_scores_that_rise_from_tile_to_tile_lose_nothing():
    """Each tile raises the maximum by far more than exp can hold."""
    num_keys = 12
    q, v = np.ones((1, 1), np.float32), np.arange(num_keys, dtype=np.float32)[:, None]
    k = 100.0 * np.arange(num_keys, dtype=np.float32)[:, None]
    out = tiled_attention(q, k, v, 1.0, Memory(4096), Tiles(rows=1, keys=2))
    np.testing.assert_array_equal(out, [[num_keys - 1.0]])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_limit_and_any_sizes(data):
    num_keys, head_dim = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 12))
    limit = np.sort(data.draw(st.lists(st.integers(1, num_keys), min_size=1, max_size=40)))
    tiles = Tiles(data.draw(st.integers(1, 45)), data.draw(st.integers(1, 80)))
    q, k, v = drawn(len(limit), num_keys, head_dim)
    k[limit[-1]:], v[limit[-1]:] = math.nan, math.nan  # seen by none
    memory = Memory(1 << 20)
    out = tiled_attention(q, k, v, 0.7, memory, tiles, limit)
    wanted = defined(q, np.nan_to_num(k), np.nan_to_num(v), 0.7, limit)
    assert np.linalg.norm(out - wanted) <= 1e-5 * np.linalg.norm(wanted)
    assert memory.moved_bytes == tiled_bytes(limit, head_dim, tiles)


def test_a_causal_limit_moves_about_half():
    tiles = Tiles(16, 16)
    everything = tiled_bytes(np.full(1024, 1024), 64, tiles)
    causal = tiled_bytes(np.arange(1, 1025), 64, tiles)
    assert 0.5 < causal / everything < 0.53


@pytest.mark.parametrize('fast_bytes, head_dim, keys', [(2048, 8, 16), (101_376, 64, 16)])
def test_tiles_fill_fast_memory_and_one_row_more_would_not_fit(fast_bytes, head_dim, keys):
    tiles = Tiles.fitting(fast_bytes, head_dim, keys)
    q, k, v = drawn(tiles.rows, 64, head_dim)
    memory = Memory(fast_bytes)
    tiled_attention(q, k, v, 1.0, memory, tiles)
    row_bytes = 4 * (2 * head_dim + keys + 2)
    assert fast_bytes - row_bytes < memory.peak_bytes <= fast_bytes
    with pytest.raises(AssertionError, match='in a fast memory of'):
        q, k, v = drawn(tiles.rows + 1, 64, head_dim)
        tiled_attention(q, k, v, 1.0, Memory(fast_bytes), Tiles(tiles.rows + 1, keys))


def test_a_fast_memory_too_small_for_one_query_is_refused():
    with pytest.raises(ValueError, match='expected at least 8776 for one query and 16 keys of 64'):
        Tiles.fitting(8775, 64)
    assert Tiles.fitting(8776, 64).rows == 1


def test_the_readme_shows_the_figures_of_the_example():
    readme = (Path(__file__).parents[2] / 'kernels' / 'README.md').read_text()
    assert tiled.table() in readme
