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

"""The demo's commands: a file that cannot be written at the end is refused at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_infer.command import check_writable
from robot_infer.errors import ConfigError


def test_a_file_that_can_be_written_is_neither_made_nor_changed(tmp_path):
    new = tmp_path / 'reports' / 'demo.html'
    check_writable('--report', new)
    assert new.parent.is_dir() and not new.exists()
    new.write_text('kept')
    check_writable('--report', new)
    assert new.read_text() == 'kept'


@pytest.mark.parametrize('make', [
    lambda folder: folder, lambda folder: folder / 'file' / 'demo.html',
    lambda folder: Path('/proc/none/demo.html'), lambda folder: folder / 'a\0b'])
def test_one_that_cannot_is_refused_by_its_option(tmp_path, make):
    (tmp_path / 'file').write_text('')
    with pytest.raises(ConfigError, match='--report .*expected a file that can be written'):
        check_writable('--report', make(tmp_path))


@pytest.mark.parametrize('option', ['--report', '--record-json'])
def test_the_demo_says_so_before_it_starts(tmp_path, monkeypatch, capsys, option):
    demo = pytest.importorskip('robot_infer.sim.demo', reason='the demo needs rich')

    def start(*_):
        raise AssertionError('started')

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, 'Demo', start)
    (tmp_path / 'file').write_text('')
    assert demo.main([option, 'file/demo.html']) == 2
    assert f'ConfigError: {option} file/demo.html: expected' in capsys.readouterr().err
