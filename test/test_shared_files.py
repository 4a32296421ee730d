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

"""The files of config/ and launch/ are found where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_infer import shared_files
from robot_infer.errors import ConfigError
from robot_infer.shared_files import shared_file

ROOT = Path(__file__).parents[1]


def test_in_a_checkout_they_are_those_of_the_checkout():
    assert shared_file('config/fastdds.xml') == ROOT / 'config' / 'fastdds.xml'
    assert shared_file('launch/demo.launch.py') == ROOT / 'launch' / 'demo.launch.py'


def test_installed_they_lie_below_a_prefix_of_ros_the_first_first(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_files, '__file__', str(tmp_path / 'site' / 'robot_infer' / 'x.py'))
    for prefix in ('overlay', 'underlay'):
        share = tmp_path / prefix / 'share' / 'robot_infer' / 'config'
        share.mkdir(parents=True)
        (share / 'demo.yaml').touch()
    monkeypatch.setenv('AMENT_PREFIX_PATH', ':'.join(
        str(tmp_path / name) for name in ('empty', 'overlay', 'underlay')))
    found = shared_file('config/demo.yaml')
    assert found == tmp_path / 'overlay' / 'share' / 'robot_infer' / 'config' / 'demo.yaml'


def test_one_that_is_nowhere_is_refused_with_the_places_looked_at():
    with pytest.raises(ConfigError, match='config/nothing.yaml.*nothing at .*share/robot_infer'):
        shared_file('config/nothing.yaml')
