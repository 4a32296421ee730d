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

"""Published times beside ours: the whole table is printed, with its errors."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.table import Table

from robot_infer.budget.devices import find_device
from robot_infer.budget.presets import find_preset
from robot_infer.budget.published import (
    TABLE,
    Comparison,
    compare,
    median_error,
    published_points,
)
from robot_infer.budget.roofline import BOUND
from robot_infer.errors import ConfigError


@pytest.fixture(scope='module')
def comparisons() -> tuple[Comparison, ...]:
    return compare()


def test_predicted_against_published(comparisons, capsys):
    table = Table(title='published and predicted, in ms')
    for column in ('model', 'device', 'engine', 'kind', 'what', 'published', 'bound', 'reached',
                   'expected', 'error'):
        table.add_column(column)
    for each in comparisons:
        point = each.point
        table.add_row(
            point.model, point.device.split(' (')[0], point.engine, point.kind, point.words,
            *(f'{seconds * 1e3:.1f}' for seconds in (point.published_s, each.bound_s)),
            f'{each.reached:.0%}', f'{each.expected_s * 1e3:.1f}', f'{each.error:+.0%}')
    with capsys.disabled():
        Console(width=190).print(table)
        for kind in ('tuned', 'compiled', 'ggml', 'eager'):
            of_kind = [each for each in comparisons if each.point.kind == kind]
            print(f'{kind}: {len(of_kind)} figures, median error {median_error(of_kind):.0%}, '
                  f'largest {max(abs(each.error) for each in of_kind):.0%}')
    tuned = [each for each in comparisons if each.point.kind == 'tuned']
    errors = sorted(abs(each.error) for each in tuned)
    assert median_error(tuned) < 0.12
    assert errors[int(0.8 * len(errors))] < 0.25  # four of five
    assert errors[-1] < 0.5


def test_no_engine_beats_the_bound(comparisons):
    assert [each.point for each in comparisons if each.reached > 1] == []


def test_every_engine_that_is_not_tuned_takes_longer_than_is_expected(comparisons):
    """So the usual efficiency promises nothing of them: their own must be measured."""
    others = [each for each in comparisons if each.point.kind != 'tuned']
    assert all(each.error < 0 for each in others)


def test_what_the_research_says_of_reached_shares_is_found_again(comparisons):
    """Dexmal's pi0 on a 4090, 1, 2 and 3 cameras, empty prompt: 73, 82 and 83 % by VLA-Perf.

    Theirs is another roofline (14.7, 22.5, 30.4 ms); ours is 4 % below it.
    """
    shares = [each.reached for each in comparisons
              if each.point.engine == 'realtime-vla' and each.point.model == 'pi0'
              and each.point.device == 'GeForce RTX 4090' and each.point.load.horizon == 63]
    assert shares == pytest.approx([0.73, 0.82, 0.83], rel=0.06)


def test_the_efficiency_can_be_replaced(comparisons):
    for each, bound in zip(comparisons, compare(efficiency=BOUND), strict=True):
        assert bound.expected_s == pytest.approx(bound.bound_s) == pytest.approx(each.bound_s)


def test_every_point_names_a_known_model_a_known_device_and_its_source():
    points = published_points()
    assert len(points) == len(set(points)) == 47
    for point in points:
        assert find_preset(point.model).name == point.model
        assert find_device(point.device).name == point.device
        assert point.source
    assert {find_preset(point.model).family for point in points} == {
        'smolvla', 'pi0', 'pi05', 'pi0fast', 'openvla'}


@pytest.mark.parametrize('old,new', [
    ('tuned', 'magic'), (',step,', ',whole,'), (',20.0,', ',fast,'), (',fp16,', ',fp17,'),
    ('published_ms', 'ms')])
def test_a_wrong_line_is_refused(tmp_path, old, new):
    path = tmp_path / 'points.csv'
    path.write_text(TABLE.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError):
        published_points(path)
