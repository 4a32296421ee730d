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

"""`robot-infer kernels check` and `which`: what they print, their exit statuses, bad input."""

from __future__ import annotations

import functools
import json
from pathlib import Path
import re

from click.testing import CliRunner, Result
import pytest
import torch

from robot_infer import cli, kernel_command
from robot_infer.config import Config
from robot_infer.kernel_shapes import configured_shape
from robot_infer_kernels.cpu.linear import why_not
from robot_infer_kernels.gpu import check as checking
from robot_infer_kernels.gpu.cases import SHAPES
from robot_infer_kernels.gpu.targets import fp8_refusal

ROOT = Path(__file__).parents[1]
SMALL = ROOT / 'test' / 'kernels' / 'small_kernels.py'

needs_triton = pytest.mark.skipif(checking.triton_version() is None, reason=(
    f'triton is not installed: {checking.HOW_TO_GET_TRITON}'))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ['kernels', *arguments])


@pytest.fixture
def small(monkeypatch, tmp_path_factory, request):
    """Small kernels in place of the real ones, which test/kernels/test_compiled.py compiles."""
    folder = request.config.cache.mkdir('triton')
    monkeypatch.setenv('TRITON_CACHE_DIR', str(folder))

    def use(cases: str) -> None:
        monkeypatch.setattr(kernel_command, 'check', functools.partial(
            checking.check, cases=f'{SMALL}:{cases}'))
    return use


@needs_triton
def test_what_fits_is_a_table_and_status_0(small, tmp_path):
    small('good')
    file = tmp_path / 'new' / 'figures.json'
    result = run('check', '--target', 'orin,ada', '--json', str(file))
    assert result.exit_code == 0, result.output
    assert 'sm_87 (Jetson Orin), demo policy: 4:2 x 32, fp32, pages of 64' in result.output
    row, = re.findall(r'^ product .*16384 of 166912 .*mma.*$', result.output, re.MULTILINE)
    assert ' ok ' in row and '16 of 16' in row
    assert 'product fp8: not offered: fp8 pages are not offered on sm_87' in result.output
    assert 'all may be deployed' in result.output
    written = json.loads(file.read_text())
    assert written['triton'] == checking.triton_version()
    assert written['shapes'][0]['head_dim'] == 32
    assert {(each['target'], each['state'], each['failed']) for each in written['results']} == {
        ('sm_87', 'ok', False), ('sm_87', 'not offered', False), ('sm_89', 'ok', False)}


@needs_triton
def test_a_configured_format_that_the_chip_has_not_is_status_1(small, tmp_path):
    small('fp8')
    config = tmp_path / 'config.yaml'
    config.write_text('/**:\n  ros__parameters: {cache: {kv_format: fp8}}\n')
    result = run('check', '--target', 'sm_87', '--config', str(config))
    assert result.exit_code == 1, result.output
    assert 'What is configured is not offered for sm_87' in result.output
    result = run('check', '--target', 'sm_89', '--config', str(config))
    assert result.exit_code == 0, result.output


@needs_triton
def test_what_does_not_fit_is_named_and_status_1(small):
    small('bad')
    result = run('check', '--target', 'sm_87')
    assert result.exit_code == 1, result.output
    for words in ('too big (product): does not fit: ', 'spilling (hoard): spills: ',
                  'refusing: does not compile: ', '5 must not be deployed'):
        assert words in result.output, result.output


@pytest.mark.parametrize('arguments, words', [
    (('--target', 'orinn'), ('orin, thor', 'sm_87', "got 'orinn'", 'Did you mean orin?')),
    (('--target', 'sm_75'), ('sm_87', "got 'sm_75'")),
    ((), ('--target', 'orin', 'sm_87', 'all')),
    (('--target', 'orin', '--config', '/nowhere.yaml'), ('/nowhere.yaml', 'does not exist')),
    (('--target', 'orin', '--json', '/proc/x/y.json'), ('--json /proc/x/y.json', 'written')),
    (('--target', 'orin', '--shape', 'pi7'), ('pi7', '32:8x128')),
    (('--target', 'orin', '--jobs', '0'), ('--jobs',))])
def test_bad_input_is_status_2_and_says_what_is_right(arguments, words):
    result = run('check', *arguments)
    assert result.exit_code == 2
    for word in words:
        assert word in result.output


def test_a_checkpoint_that_is_none_is_named(tmp_path):
    file = tmp_path / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters:\n    policy:\n      checkpoint: /no/such\n')
    result = run('check', '--target', 'orin', '--config', str(file))
    assert result.exit_code == 2 and 'CheckpointError: checkpoint /no/such' in result.output


def test_without_triton_it_says_how_to_get_one(monkeypatch):
    find = checking.importlib.util.find_spec
    monkeypatch.setattr(checking.importlib.util, 'find_spec',
                        lambda name, *rest: None if name == 'triton' else find(name, *rest))
    result = run('check', '--target', 'orin')
    assert result.exit_code == 2
    assert 'KernelError: triton: expected an installed triton' in result.output
    assert "pip install 'robot_infer[check]'" in result.output


def test_the_shape_is_that_of_the_configured_policy():
    shape = configured_shape(Config.from_flat({'policy.dtype': 'bf16', 'cache.page_tokens': 32,
                                               'policy.horizon': 9}))
    assert (shape.num_heads, shape.num_kv_heads, shape.head_dim) == (4, 2, 32)
    assert (shape.dtype, shape.page_tokens, shape.suffix_tokens) == ('bf16', 32, 9)
    assert len(shape.widths) == len(shape.hidden) == 2 and min(shape.widths) > 0


def test_the_policies_this_is_for_are_known_shapes():
    known = {(each.num_heads, each.num_kv_heads, each.head_dim) for each in SHAPES}
    assert {(15, 5, 64), (8, 1, 256), (32, 8, 128)} <= known


def test_which_names_a_backend_and_a_reason_for_every_operation():
    result = run('which')
    assert result.exit_code == 0, result.output
    for operation in ('paged_attention', 'append_kv', 'rope_append', 'rms_norm', 'gated_silu',
                      'gated_gelu', 'copy_blocks', 'gather_rows'):
        row, = re.findall(rf'^ +{operation} +(.*)$', result.output, re.MULTILINE)
        backend, reason = row.split(maxsplit=1)
        assert backend == 'cpu' and reason.strip()
    for line in ('GPU: ', 'triton: ', 'attention on a CPU: ', 'page formats: fp32, bf16'):
        assert re.search(f'^{re.escape(line)}.+', result.output, re.MULTILINE), result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason='there is a GPU here')
def test_which_says_why_nothing_runs_where_there_is_no_gpu():
    result = run('which', '--device', 'cuda')
    assert result.exit_code == 1
    assert result.output.count(' none ') >= 8 and 'sees no CUDA device' in result.output
    assert 'not offered: fp8: ' in result.output


@pytest.mark.parametrize('capability, offered', [((8, 7), False), ((8, 9), True)])
def test_which_offers_fp8_from_ada_on_and_says_why_not_on_orin(monkeypatch, capability, offered):
    """On the chip that torch reports; what runs there is test/kernels/test_check.py's."""
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'get_device_capability', lambda device=None: capability)
    monkeypatch.setattr(torch.cuda, 'get_device_name', lambda device=None: 'a GPU')
    result = run('which', '--device', 'cuda')
    formats, = re.findall(r'^page formats: (.*)$', result.output, re.MULTILINE)
    assert ('fp8' in formats.split(', ')) == offered and 'int8' in formats
    refusal = re.findall(r'^not offered: fp8: (.*)$', result.output, re.MULTILINE)
    assert refusal == ([] if offered else [fp8_refusal(87)])


def test_which_offers_weights_of_few_bits_on_a_cpu_alone():
    on_cpu = run('which').output
    words = {form: why_not(form) for form in ('int8', 'int4')}
    offered = ', '.join(['as loaded', *(form for form, reason in words.items() if not reason)])
    assert f'\nweights: {offered}\n' in on_cpu
    on_cuda = run('which', '--device', 'cuda').output
    assert '\nweights: as loaded\n' in on_cuda
    for form in words:
        assert f'not offered: {form} weights: they are for the CPU' in on_cuda


def test_which_refuses_a_device_that_is_none():
    result = run('which', '--device', 'coda')
    assert result.exit_code == 2
    assert "ConfigError: policy.device: expected a torch device: cpu, cuda" in result.output


def test_the_pinned_triton_is_the_same_everywhere():
    pins = {re.search(r'triton==([\d.]+)', (ROOT / place).read_text())[1]
            for place in ('setup.py', 'tools/setup_env.sh', 'kernels/gpu/check.py')}
    assert pins == {json.loads((ROOT / 'test/kernels/data/compiled.json').read_text())['triton']}
