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


"""The benchmark of weights in few bits runs, and its errors are those of the forms."""

from __future__ import annotations

import importlib
from pathlib import Path
import sys
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / 'tools' / 'bench'


@pytest.fixture(scope='module')
def bench() -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module('bench_linear')
    finally:
        sys.path.pop(0)


def test_a_projection_is_a_line_of_times_ratios_and_errors(bench, monkeypatch):
    monkeypatch.setattr(bench, 'COLD_BYTES', 1)
    forms = bench.usable()
    cells = bench.projection((64, 96), 3, forms, 2).split()
    assert cells[:4] == ['64', 'x', '96', '3'] and len(cells) == 4 + 3 * len(forms)
    errors = dict(zip(forms, map(float, cells[6::3]), strict=True))
    most = {'fp32': 1e-6, 'bf16': 6e-3, 'int8': 0.015, 'int4': 0.1}
    assert all(0 < errors[form] < most[form] for form in forms)
    assert errors['fp32'] < errors['bf16']


def test_steps_of_all_forms_see_the_same_and_are_shown(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench, 'MAX_ROUNDS', 2)
    forms = bench.usable()
    bench.show_steps('demo', bench.DEMO_CHECKPOINT, 1, forms, 0.0)
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()
             if line.split() and line.split()[0] in forms}
    assert set(lines) == set(forms)
    errors = {form: float(lines[form][5]) for form in forms}
    assert errors['fp32'] == 0.0
    most = {'bf16': 0.03, 'int8': 0.03, 'int4': 0.3}  # random pixels are no frames of the demo
    for form in forms[1:]:
        assert 0.0 < errors[form] < most[form], form
    for form in forms[2:]:
        assert 'saved;' in lines[form]
