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

"""The script for a lent GPU, run once in Triton's interpreter: the same code, tiny shapes."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys

import pytest

pytest.importorskip('triton', reason='triton is not installed')

SCRIPT = Path(__file__).resolve().parents[2] / 'tools' / 'bench' / 'bench_gpu.py'


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], text=True,
                          capture_output=True, env={**os.environ, **environment})


def test_the_whole_script_runs_without_a_gpu_and_writes_its_result(tmp_path):
    out = tmp_path / 'results' / 'result.json'
    done = run('--interpreter', '--out', str(out))
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert result['interpreter'] and result['card'].startswith('none')
    assert {'torch', 'triton', 'date', 'copy_bytes_per_s', 'matrix_flop_per_s'} <= set(result)
    errors = result['correctness']
    assert len(errors) == 6
    assert all(error <= (1e-5 if name.startswith('float32') else 1e-2)
               for name, error in errors.items())
    assert [found['kind'] for found in result['cases']] == ['decode', 'suffix', 'prefill']
    assert set(result['cases'][0]['micros']) == {'ours', 'sdpa', 'flex with pages'}
    assert len(result['choices']) >= 4 and sum(c['table'] for c in result['choices']) == 1


def test_what_there_was_no_time_for_is_named(tmp_path):
    out = tmp_path / 'result.json'
    done = run('--interpreter', '--budget-s', '0', '--out', str(out))
    assert done.returncode == 0, done.stderr
    assert 'left out: decode 4:2 x 32, 1 over 100' in done.stdout
    assert json.loads(out.read_text())['cases'] == []


def test_without_a_gpu_it_says_so():
    done = run(CUDA_VISIBLE_DEVICES='')
    assert done.returncode == 1 and 'sees no CUDA device; --interpreter' in done.stderr
