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

"""`robot-infer plan`: what it prints, its exit statuses, and every kind of bad input."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shutil
import struct

from click.testing import CliRunner, Result
import pytest

from robot_infer import cli, plan_command
from robot_infer.budget.presets import PRESETS

ROOT = Path(__file__).parents[1]
DEMO = ROOT / 'robot_infer' / 'assets' / 'demo_policy'
NANO = ('--device', 'orin nano 8gb super')
THOR = ('--device', 'agx thor')


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ['plan', *arguments])


def refused(result: Result, *words: str) -> None:
    """One line that says what was expected, what came and what to do; no traceback; status 2."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert 'Traceback' not in result.output and len(result.output.strip().splitlines()) == 1
    assert re.match(r'(Config|Checkpoint|Budget)Error: .*: expected .*; got .*\. ', result.output)
    for word in words:
        assert word in result.output, result.output


# --- verdicts -----------------------------------------------------------------------------------

def test_what_fits_is_a_table_a_sentence_and_status_0():
    result = run('--config', str(ROOT / 'config' / 'demo.yaml'), *NANO)
    assert result.exit_code == 0, result.output
    for words in (r'^ line +GiB +GB +share',
                  r'^ pages .* exact +\d+ pages; 9 planes x 2 x 16 tokens ',
                  r'^ rest of the robot +2\.000 +2\.147', r'^ headroom ', r'denoise ',
                  r'^efficiency: compute ', r'^history: the pages hold '):
        assert re.search(words, result.output, re.MULTILINE), (words, result.output)
    assert result.output.splitlines()[-1].startswith('demo_policy on Jetson Orin Nano 8GB Super ')
    assert ' fits: ' in result.output.splitlines()[-1]


def test_the_largest_line_comes_first():
    lines = run('--model', 'SmolVLA', *NANO).output.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(' ─'))
    figures = [re.search(r' (<?\d+\.\d{3}) ', line) for line in lines[first + 1:]]
    sizes = [float(found[1].lstrip('<')) for found in figures if found][:8]
    assert sizes == sorted(sizes, reverse=True)


def test_what_does_not_fit_lists_levers_with_gain_and_cost_and_is_status_3():
    result = run('--model', 'pi0', *NANO)
    assert result.exit_code == 3, result.output
    assert re.search(r'^ MISSING +2\.\d{3} ', result.output, re.MULTILINE)
    table = result.output[result.output.index('what would help'):]
    for name in ('int8 weights', 'int4 weights', 'int8 pages', 'one camera less',
                 'smaller images', 'shorter history', 'these together'):
        assert re.search(rf'^ {name} +\d+\.\d{{3}} +\d+\.\d{{3}} +(yes|no) ', table, re.MULTILINE)
    assert 'does not fit: ' in result.output.splitlines()[-1]


def test_what_fits_and_misses_the_rate_is_status_4():
    result = run('--model', 'SmolVLA', *NANO, '--rate', '500')
    assert result.exit_code == 4, result.output
    assert 'misses the rate' in result.output.splitlines()[-1]
    assert run('--model', 'SmolVLA', *NANO, '--rate', '1').exit_code == 0


def test_json_is_all_there_is_on_stdout_and_has_the_same_verdict():
    result = run('--model', 'pi0', *NANO, '--json')
    assert result.exit_code == 3
    read = json.loads(result.output)
    assert read['status'] == 3 and read['headroom_bytes'] < 0 and read['levers']
    assert read['device']['name'].startswith('Jetson Orin Nano 8GB Super')


def test_this_machine_is_asked_and_its_process_is_measured():
    result = run('--json')
    read = json.loads(result.output)
    assert result.exit_code == read['status'] in (0, 4)
    assert read['device']['measured'] and read['device']['available_bytes'] > 0
    line = next(line for line in read['lines'] if line['name'] == 'process of the policy')
    assert 'measured here' in line['arithmetic'] and line['num_bytes'] > 100 * 2 ** 20


@pytest.mark.parametrize('name', list(PRESETS))
def test_every_named_model_has_a_plan(name):
    result = run('--model', name, *THOR, '--json')
    assert result.exit_code in (0, 3, 4), result.output
    assert json.loads(result.output)['shape']['weight_bytes'] > 0


def test_a_folder_is_read_by_its_headers_to_the_byte():
    read = json.loads(run('--model', str(DEMO), *THOR, '--json').output)
    stored = sum(group['num_bytes'] for group in read['shape']['weights'])
    assert stored == read['shape']['weight_bytes'] + sum(
        group['num_bytes'] for group in read['shape']['weights'] if not group['kept'])
    file = DEMO / 'model.safetensors'
    (header,) = struct.unpack('<Q', file.open('rb').read(8))
    assert stored == file.stat().st_size - 8 - header


def test_the_page_is_written_beside_the_table(tmp_path):
    file = tmp_path / 'new' / 'plan.html'
    result = run('--model', 'SmolVLA', *NANO, '--html', str(file))
    assert result.exit_code == 0 and f'page: {file}' in result.output
    assert file.read_text().lstrip().lower().startswith('<!doctype html>')


def test_help_lists_the_statuses_and_the_command_below():
    result = run('--help')
    assert result.exit_code == 0
    for words in ('fragmentation', '3 does not fit', '--device-file', '--reserve'):
        assert words in result.output
    assert run('fragmentation', '--help').exit_code == 0


def test_the_executable_is_the_same_command(capsys):
    assert plan_command.main(['--model', 'pi0', *NANO, '--json']) == 3
    assert json.loads(capsys.readouterr().out)['status'] == 3


# --- devices and settings -----------------------------------------------------------------------

def test_a_device_that_is_in_no_table_is_given_by_number():
    result = run('--model', 'SmolVLA', '--device', 'my board', '--memory', '6', '--bandwidth',
                 '60', '--tera', 'fp16=8', '--sm', '87', '--unified', '--json')
    device = json.loads(result.output)['device']
    assert (device['name'], device['sm'], device['unified']) == ('my board', 87, True)
    assert device['total_bytes'] == 6 * 2 ** 30 and device['bandwidth'] == 60e9


def test_a_device_file_of_ones_own_is_read(tmp_path):
    file = tmp_path / 'mine.yaml'
    file.write_text('devices:\n- {name: mine, memory_gib: 4.0, bandwidth_gb_s: 40.0}\n')
    result = run('--device', 'mine', '--device-file', str(file), '--json')
    assert json.loads(result.output)['usable_bytes'] == 4 * 2 ** 30


def test_settings_of_the_command_line_go_before_those_of_the_file():
    config = str(ROOT / 'config' / 'demo.yaml')
    read = json.loads(run('--config', config, *NANO, '--json', '--set', 'cache.kv_format=int8',
                          '--set', 'policy.horizon=4').output)
    assert read['settings']['kv_format'] == 'int8' and read['settings']['page_tokens'] == 16


def test_cameras_and_the_reserve_are_as_given():
    read = json.loads(run(*NANO, '--json', '--reserve', '1.5', '--camera',
                          'wrist:1280x720:yuv422:3').output)
    lines = {line['name']: line for line in read['lines']}
    assert lines['rest of the robot']['num_bytes'] == 3 * 2 ** 29
    assert lines['camera rings']['per_camera'] == [4 * 921_600, 3 * 1280 * 720 * 2]


def test_a_model_by_name_gets_the_budget_that_it_needs_unless_one_is_given():
    read = json.loads(run('--model', 'OpenVLA-7B', *THOR, '--json').output)
    assert read['settings']['budget_bytes'] > 67_108_864
    refused(run('--model', 'OpenVLA-7B', *THOR, '--set', 'cache.budget_bytes=67108864'),
            'BudgetError: parameter cache.budget_bytes', 'at least')


# --- bad input ----------------------------------------------------------------------------------

@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of the demo policy, to be broken."""
    return Path(shutil.copytree(DEMO, tmp_path / 'policy'))


def edit(path: Path, **values: object) -> None:
    content = json.loads(path.read_text())
    for name, value in values.items():
        if value is None:
            content.pop(name, None)
        elif isinstance(value, dict):
            content[name].update(value)
        else:
            content[name] = value
    path.write_text(json.dumps(content))


def edit_header(file: Path, change) -> None:
    """Rewrite the header of a safetensors file; its data stays."""
    content = file.read_bytes()
    (length,) = struct.unpack('<Q', content[:8])
    header = json.loads(content[8:8 + length])
    change(header)
    new = json.dumps(header).encode()
    file.write_bytes(struct.pack('<Q', len(new)) + new + content[8 + length:])


def plan_folder(folder: Path) -> Result:
    return run('--model', str(folder), *THOR)


def test_an_unknown_model_type(folder):
    edit(folder / 'config.json', type='gpt9')
    refused(plan_folder(folder), 'config.json', 'smolvla', "'gpt9'")


def test_missing_safetensors(folder):
    (folder / 'model.safetensors').unlink()
    refused(plan_folder(folder), 'CheckpointError', 'model.safetensors')


@pytest.mark.parametrize('size', [0, 5, 100, -1])
def test_truncated_safetensors(folder, size):
    file = folder / 'model.safetensors'
    content = file.read_bytes()
    file.write_bytes(content[:size])
    refused(plan_folder(folder), 'CheckpointError', 'model.safetensors')


def test_a_header_that_lies_about_its_own_size(folder):
    file = folder / 'model.safetensors'
    content = file.read_bytes()
    for length in (2 ** 63, 10 ** 9, len(content), 0):
        file.write_bytes(struct.pack('<Q', length) + content[8:])
        refused(plan_folder(folder), 'CheckpointError', 'model.safetensors')


def test_a_header_that_lies_about_the_size_of_a_tensor(folder):
    name = 'model.action_out_proj.weight'

    def grow(header):
        header[name]['shape'][0] *= 2
    edit_header(folder / 'model.safetensors', grow)
    refused(plan_folder(folder), 'CheckpointError', name)


def test_a_tensor_that_is_not_there(folder):
    name = 'model.action_out_proj.bias'
    edit_header(folder / 'model.safetensors', lambda header: header.update(
        {'other': header.pop(name)}))
    refused(plan_folder(folder), 'CheckpointError', name)


def test_a_config_without_the_number_of_heads(folder):
    edit(folder / 'vlm' / 'config.json', text_config={'num_attention_heads': None})
    refused(plan_folder(folder), 'num_attention_heads')


@pytest.mark.parametrize('key, value', [
    ('num_attention_heads', -4), ('num_key_value_heads', 0), ('hidden_size', 10 ** 12),
    ('num_key_value_heads', 'two'), ('head_dim', 1.5), ('vocab_size', -1)])
def test_negative_or_absurd_values_of_the_backbone(folder, key, value):
    edit(folder / 'vlm' / 'config.json', text_config={key: value})
    refused(plan_folder(folder), key)


@pytest.mark.parametrize('key, value', [
    ('chunk_size', -1), ('chunk_size', 10 ** 12), ('num_steps', 'ten'),
    ('num_vlm_layers', 10 ** 9)])
def test_negative_or_absurd_values_of_the_policy(folder, key, value):
    edit(folder / 'config.json', **{key: value})
    refused(plan_folder(folder))


@pytest.mark.parametrize('content', ['{', '[]', 'null', '{"type": 7}', '\xff'])
def test_a_config_that_is_no_config(folder, content):
    (folder / 'config.json').write_text(content, encoding='latin-1')
    refused(plan_folder(folder), 'config.json')


def test_a_device_file_with_a_typo(tmp_path):
    file = tmp_path / 'mine.yaml'
    file.write_text('devices:\n- {name: mine, memory_gib: 4.0, bandwith_gb_s: 40.0}\n')
    for device in ('mine', 'auto'):
        refused(run('--device', device, '--device-file', str(file)),
                'bandwith_gb_s', 'Did you mean bandwidth_gb_s?')


@pytest.mark.parametrize('text', [
    '', 'devices:', 'devices: 3', '- a', 'devices:\n- {name: x, memory_gib: -4, '
    'bandwidth_gb_s: 1}', 'devices:\n- {name: x, memory_gib: .nan, bandwidth_gb_s: 1.0}', '\t:'])
def test_a_device_file_that_is_none(tmp_path, text):
    file = tmp_path / 'mine.yaml'
    file.write_text(text)
    refused(run('--device', 'x', '--device-file', str(file)), str(file))


def test_a_budget_larger_than_the_machine():
    refused(run(*NANO, '--set', 'cache.budget_bytes=9000000000'),
            'BudgetError: parameter cache.budget_bytes', '7990149120', '9000000000')


@pytest.mark.parametrize('arguments, words', [
    (('--model', 'pi7', *THOR), ('pi0.5', "'pi7'")),
    (('--model', '/no/such', *THOR), ('/no/such', 'no such folder')),
    (('--device', 'orinn'), ('Say more of the name',)),
    (('--device', 'abacus'), ('known device', "'abacus'")),
    (('--device', 'abacus', '--memory', '8'), ("'abacus'",)),
    (('--device', 'x', '--memory', '-8', '--bandwidth', '10'), ('memory_gib', '-8')),
    (('--device', 'x', '--memory', '8', '--bandwidth', 'nan'), ('bandwidth_gb_s',)),
    ((*NANO, '--memory', '1e9'), ('memory_gib', '1000000000')),
    ((*NANO, '--tera', 'fp17=3'), ('fp16', 'fp17=3')),
    ((*NANO, '--tera', 'fp16=fast'), ('fp16=fast',)),
    ((*NANO, '--rate', '-3'), ('--rate', '-3')),
    ((*NANO, '--rate', 'nan'), ('--rate', 'nan')),
    ((*NANO, '--margin', '1.5'), ('margin', '1.5')),
    ((*NANO, '--camera-rate', '0'), ('--camera-rate',)),
    ((*NANO, '--reserve', '-1'), ('--reserve', '-1')),
    ((*NANO, '--reserve', 'nan'), ('--reserve', 'nan')),
    ((*NANO, '--camera', 'wrist'), ('--camera wrist', 'overhead:1920x1080')),
    ((*NANO, '--camera', 'tail:640x480'), ('overhead, wrist', 'tail')),
    ((*NANO, '--self-test'), ('--self-test', 'this machine')),
    ((*NANO, '--set', 'cache.kv_formt=int8'), ('Did you mean cache.kv_format?',)),
    ((*NANO, '--set', 'cache.kv_format'), ('NAME=VALUE',)),
    ((*NANO, '--set', 'cache.kv_format=['), ('NAME=VALUE',)),
    ((*NANO, '--set', 'cache.page_tokens=-1'), ('cache.page_tokens', '-1')),
    ((*NANO, '--set', 'policy.weights=int8'), ('policy.weights', 'for the CPU')),
    ((*NANO, '--set', 'policy.horizon=999'), ('policy.horizon', '999')),
    ((*NANO, '--set', 'cameras.names=[nose]'), ('one camera for each policy input', 'nose')),
    ((*NANO, '--html', '/proc/x/y.html'), ('--html /proc/x/y.html',)),
    ((*NANO, '--config', '/no/such.yaml'), ('/no/such.yaml',))])
def test_bad_options_are_named_with_what_is_right(arguments, words):
    refused(run(*arguments), *words)


def test_a_parameter_file_with_a_typo_names_the_line(tmp_path):
    file = tmp_path / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters:\n    cache:\n      page_token: 64\n')
    refused(run('--config', str(file), *NANO), 'cache.page_token', 'line 4')


def test_an_option_that_does_not_exist_is_a_usage_error():
    result = run('--devise', 'x')
    assert result.exit_code == 2 and '--devise' in result.output
