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

"""Values of JSON: by type, with the file and the dotted key where one is wrong."""

from __future__ import annotations

import pytest

from robot_infer.errors import CheckpointError
from robot_infer.models.json_values import JsonValues

VALUES = JsonValues('a.json', {
    'five': 5, 'half': 0.5, 'word': 'x', 'yes': True, 'null': None, 'pair': [1, 2],
    'group': {'in': {'five': '5'}}, 'rows': [{'a': 1}, {'a': 'b'}]})


def test_values_are_read_as_they_are_and_absent_ones_stood_for():
    assert VALUES.whole('five', 5, high=5) == 5 and VALUES.whole('none', 1, 7) == 7
    assert VALUES.positive('half') == 0.5 and VALUES.positive('five') == 5.0
    assert VALUES.text('word') == 'x' and VALUES.flag('yes') is True
    assert list(VALUES.wholes('pair', 2)) == [1, 2]
    assert VALUES.absent('null') and VALUES.absent('none') and not VALUES.absent('five')
    assert [row.whole('a', 1) for row in VALUES.each('rows')[:1]] == [1]
    assert VALUES.each('none') == []


@pytest.mark.parametrize(('read', 'words'), [
    (lambda: VALUES.whole('none', 1), 'none in a.json: expected a whole number.*got none'),
    (lambda: VALUES.whole('null', 1, 7), 'null in a.json: .*got None'),
    (lambda: VALUES.whole('five', 6), 'from 6'), (lambda: VALUES.whole('yes', 0), 'got True'),
    (lambda: VALUES.whole('half', 0), 'got 0.5'), (lambda: VALUES.positive('yes'), 'above 0'),
    (lambda: VALUES.text('five'), 'a text'), (lambda: VALUES.flag('five'), 'true or false'),
    (lambda: VALUES.wholes('pair', 3), 'a list of 3'),
    (lambda: VALUES.inside('five'), 'an object'),
    (lambda: VALUES.each('pair'), 'a list of objects'),
    (lambda: VALUES.supported('word', 'y'), '\'y\', the only'),
    (lambda: VALUES.inside('group').inside('in').whole('five', 1), 'group.in.five in a.json'),
    (lambda: VALUES.each('rows')[1].whole('a', 1), 'rows.1.a in a.json')])
def test_a_wrong_value_is_refused_by_file_and_key(read, words):
    with pytest.raises(CheckpointError, match=words):
        read()
