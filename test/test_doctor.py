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


"""The doctor finds what is there, says what is missing, and survives either."""

from __future__ import annotations

import io
import os
from pathlib import Path
import subprocess
import sys

import pytest
from rich.console import Console

from robot_infer import doctor
from robot_infer.doctor import Finding

ROOT = Path(__file__).parents[1]


def found(subject: str) -> Finding:
    (finding,) = [line for line in doctor.examine() if line.subject == subject]
    return finding


def text(findings: list[Finding]) -> tuple[bool, str]:
    console = Console(file=io.StringIO(), width=200)
    well = doctor.report(findings, console)
    return well, console.file.getvalue()


def test_everything_a_make_target_needs_is_there():
    findings = doctor.examine()
    well, words = text(findings)
    assert well and 'Nothing is missing.' in words, words
    for subject in ('Python', 'torch', 'backends', 'ROS 2', 'middleware', 'Fast DDS profile',
                    'libraries', 'GPU', 'memory', 'real time', 'demo policy'):
        assert subject in words


def test_what_is_missing_makes_it_fail_and_is_named_at_the_end():
    well, words = text([Finding('torch', 'missing', 'nothing', 'Install it.'),
                        Finding('GPU', 'note', 'none'), Finding('memory', 'ok', 'much')])
    assert not well and 'Missing: torch.' in words and 'Install it.' in words


def test_every_line_that_is_not_ok_says_what_to_do():
    assert not [line for line in doctor.examine() if line.state != 'ok' and not line.remedy]


def test_without_the_profile_it_shows_the_line_to_type(monkeypatch):
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    monkeypatch.delenv('FASTDDS_DEFAULT_PROFILES_FILE', raising=False)
    monkeypatch.delenv('FASTRTPS_DEFAULT_PROFILES_FILE', raising=False)
    line = found('Fast DDS profile')
    path = ROOT / 'config' / 'fastdds.xml'
    assert line.state == 'note'
    assert f'export FASTDDS_DEFAULT_PROFILES_FILE={path}' in line.remedy
    monkeypatch.setenv('FASTDDS_DEFAULT_PROFILES_FILE', str(path))
    assert found('Fast DDS profile').state == 'ok'


@pytest.mark.parametrize('module, subjects', [
    ('torch', ('torch', 'backends')), ('rclpy', ('ROS 2', 'middleware')),
    ('cv2', ('libraries',))])
def test_it_works_without(module, subjects):
    """In a process of its own where the module cannot be imported."""
    program = (f'import sys; sys.modules[{module!r}] = None\n'
               'from robot_infer.cli import main; main(["doctor"])')
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True,
                         env={**os.environ, 'COLUMNS': '200'}, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    (end,) = [line for line in run.stdout.splitlines() if line.startswith('Missing: ')]
    for subject in subjects:
        assert subject in end
    assert 'Traceback' not in run.stderr


def test_a_check_that_breaks_is_a_finding_itself(monkeypatch):
    def broken() -> Finding:
        raise OSError('libnothing.so: cannot open')

    broken.__name__ = '_gpu'
    line = doctor._safely(broken)
    assert line.state == 'missing' and 'libnothing.so' in line.found and line.subject == 'gpu'
