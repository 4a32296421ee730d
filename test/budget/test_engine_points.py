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

"""Our arithmetic against public logs of other engines; `pytest -s` shows the table."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from robot_infer.budget.engine_points import EnginePoint, predict, read_points, table
from robot_infer.errors import ConfigError

DATA = Path(__file__).parents[1] / 'data'
TABLES = sorted(DATA.glob('engine_points*.csv'))
POINTS = [point for path in TABLES for point in read_points(path)]
ROWS = {row['id']: row for path in TABLES
        for row in csv.DictReader(path.read_text('utf-8').splitlines())}
ALL = pytest.mark.parametrize('point', POINTS, ids=lambda point: point.id)
DENSE, PARALLEL, WEIGHTS = 0.002, 0.015, 0.01
GIB = 1 << 30


def test_predicted_against_logged():
    predictions = [predict(point) for point in POINTS]
    print(f'\n{table(predictions)}')
    compared = [one for one in predictions if one.error is not None]
    assert sum(one.point.tp == 1 for one in compared) >= 3
    assert sum(one.point.tp > 1 for one in compared) >= 2
    for one in compared:
        assert abs(one.error) <= (DENSE if one.point.tp == 1 else PARALLEL), table([one])


@ALL
def test_a_dense_pool_on_one_gpu_lies_where_the_rounding_of_the_log_puts_it(point):
    one = predict(point)
    if one.error is None or point.tp > 1:
        return  # nothing to hold it against; or the least of several ranks
    assert one.fewest <= point.logged_tokens <= one.most


@ALL
def test_one_rank_of_several_has_at_least_the_tokens_of_the_least(point):
    one = predict(point)
    if one.error is not None and point.tp > 1:
        assert one.most >= point.logged_tokens


@ALL
def test_bytes_of_a_token_are_those_of_the_table(point):
    row = ROWS[point.id]
    if row['kv_bytes_per_token_per_gpu']:
        assert point.bytes_per_token == int(row['kv_bytes_per_token_per_gpu'])
    if row['kv_gib_from_tokens']:
        assert point.kv_of_tokens == pytest.approx(float(row['kv_gib_from_tokens']), abs=0.0006)


@ALL
def test_terms_of_a_log_add_up(point):
    one = predict(point)
    if one.residual is not None:  # five terms, each rounded to 0.01 GiB
        assert abs(one.residual) <= 5 * 0.005


@ALL
def test_weights_are_those_of_the_shape(point):
    one = predict(point)
    if one.weights is not None and point.weights is not None:
        assert one.weights == pytest.approx(point.weights, rel=WEIGHTS)


@ALL
def test_a_log_that_is_not_predicted_says_why(point):
    one = predict(point)
    assert (one.tokens is None) == bool(one.reason)


def test_hybrid_windowed_and_latent_models_are_not_predicted():
    reasons = {point.id: predict(point).reason for point in POINTS}
    assert all(reasons[name].startswith('hybrid') for name in ('P26', 'P27', 'P28', 'P29'))
    assert all('sliding-window' in reasons[name] for name in ('P30', 'P31'))
    assert all('latent' in reasons[name] for name in ('P33', 'P34'))


def _point(**changes: object) -> EnginePoint:
    """P01 of the table, changed."""
    return replace(next(point for point in POINTS if point.id == 'P01'), **changes)


def test_blocks_are_floored():
    block = 16 * 131_072
    assert predict(_point(kv=10 * block / GIB)).tokens == 160
    assert predict(_point(kv=(10 * block - 1) / GIB)).tokens == 144


def test_without_kv_bytes_the_other_terms_leave_them():
    point = _point(kv=None)  # 39.5 x 0.9 - 14.96 - 0.1 - 9.37 = 11.12 GiB
    assert point.kv_by_identity == pytest.approx(11.12)
    one = predict(point)
    assert one.tokens == predict(_point()).tokens == 91_088 and one.residual is None


def test_an_engine_that_cannot_start_has_no_tokens():
    point = next(point for point in POINTS if point.id == 'P21')
    assert point.kv_by_identity == pytest.approx(-1.05)
    assert predict(point).tokens == 0


@pytest.mark.parametrize('changes,reason', [
    ({'kv': None, 'weights': None}, 'no KV bytes'), ({'kv_heads': None}, 'are not known'),
    ({'block_tokens': None}, 'are not known'), ({'model': 'Qwen3-Next-80B'}, 'hybrid'),
    ({'note': 'hybrid: 4 of 40 layers'}, 'hybrid'), ({'model': 'google/gemma-3-27b'}, 'sliding'),
    ({'model': 'DeepSeek-V3'}, 'latent')])
def test_why_a_log_is_not_predicted(changes, reason):
    one = predict(_point(**changes))
    assert one.tokens is None and one.error is None and reason in one.reason


@pytest.mark.parametrize('column,value,words', [
    ('kv_gib_logged', 'eleven', 'a number'), ('layers', '32.5', 'a whole number'),
    ('tp', '-1', 'a whole number'), ('block_size', None, 'no such column')])
def test_a_table_with_a_typo_is_refused_by_line_and_column(tmp_path, column, value, words):
    rows = [dict(row) for row in ROWS.values()][:2]
    names = [name for name in rows[0] if value is not None or name != column]
    if value is not None:
        rows[1][column] = value
    path = tmp_path / 'points.csv'
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, names, extrasaction='ignore')
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(ConfigError, match=rf'{column} in line [23] of .*{words}'):
        read_points(path)
