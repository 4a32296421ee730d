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

"""`robot-infer plan fragmentation`: the worked example from the command line, files, bad input."""

import json
import math
import xml.etree.ElementTree as ElementTree

import cv2
import pytest

from robot_infer.budget.fragmentation import draw_lengths
from robot_infer.command import run_command
from robot_infer.plan_page.command import MOST_LIVE, fragmentation_command, study

SMALL = ('--count', '50', '--max-tokens', '1024', '--median', '100')
EXAMPLE = ('--model', 'Llama-3-70B', '--kv-format', 'fp8', '--no-scales', '--budget', '506')


def run(*arguments):
    return run_command(fragmentation_command, arguments, 'robot-infer plan fragmentation')


@pytest.fixture
def around_2048(tmp_path):
    path = tmp_path / 'lengths.txt'
    path.write_text('# each place in the last page once\n'
                    + '\n'.join(map(str, range(2041, 2057))))
    return str(path)


def test_the_worked_example(around_2048, capsys):
    assert run('--lengths', around_2048, *EXAMPLE) == 0
    text = capsys.readouterr().out
    assert 'A token takes 160 KiB. The budget is 506 GB = 471.2 GiB.' in text
    rows = {line.split('  ')[0].strip(): line.split()
            for line in text.split('In one pool')[0].splitlines()}
    assert rows['contiguous'][-4:] == ['6.3%', '5.00', 'GiB', '94']
    assert rows['pages of 16'][-4:] == ['99.6%', '2.50', 'MiB', '1,502']


def test_its_numbers_as_json(around_2048, capsys):
    assert run('--lengths', around_2048, *EXAMPLE, '--json') == 0
    found = json.loads(capsys.readouterr().out)
    assert found['token_bytes'] == 160 * 2**10 and found['budget_bytes'] == 506 * 10**9
    assert [(one['block'], one['sequences_that_fit']) for one in found['at_rest']] == [
        (None, 94), (1, 1507), (16, 1502), (64, 1484), (256, 1419)]
    for one in found['in_one_pool']:
        assert math.isclose(sum(one[kind] for kind in (
            'used', 'reserved', 'internal', 'external')), 1.0)


def test_drawn_lengths_are_those_of_the_seed(capsys):
    assert run(*SMALL, '--seed', '7', '--block', '8', '--json') == 0
    found = json.loads(capsys.readouterr().out)
    lengths = draw_lengths(50, 100.0, 1.0, 1024, seed=7)
    assert found['lengths']['mean'] == pytest.approx(sum(lengths) / 50)
    assert [one['block'] for one in found['at_rest']] == [None, 8]
    assert found['at_rest'][1]['used'] == sum(lengths)


def test_a_table_shows_every_storage_and_every_kind_of_waste(capsys):
    assert run(*SMALL) == 0
    text = capsys.readouterr().out
    for words in ('contiguous', 'pages of 1 ', 'pages of 16', 'pages of 64', 'pages of 256',
                  'reserved', 'internal', 'external', 'longest length reserved'):
        assert words in text
    assert all(len(line) <= 110 for line in text.splitlines() if not line.startswith('Used'))


def test_short_sequences_are_not_followed_in_a_pool_and_it_says_so(capsys):
    assert run('--count', '20', '--median', '8', '--max-tokens', '1000000') == 0
    assert f'Not followed in a pool: more than {MOST_LIVE}' in capsys.readouterr().out


def test_a_plot_is_drawn(tmp_path, capsys):
    svg, png = tmp_path / 'folder' / 'waste.svg', tmp_path / 'waste.png'
    for path in (svg, png):
        assert run(*SMALL, '--plot', str(path)) == 0
        assert f'plot: {path}' in capsys.readouterr().out
    text = ' '.join(ElementTree.parse(svg).getroot().itertext())
    for words in ('tokens of a page', 'waste of a sequence, tokens', 'reserved', 'internal',
                  'external'):
        assert words in text
    height, width, _ = cv2.imread(str(png)).shape
    assert width > 1000 and height > 400
    again = svg.with_name('again.svg')
    assert run(*SMALL, '--plot', str(again)) == 0
    assert again.read_text() == svg.read_text()


@pytest.mark.parametrize(('arguments', 'words'), [
    (('--count', '0'), 'number of lengths'),
    (('--max-tokens', '-4'), 'longest length'),
    (('--median', 'nan'), 'median length'),
    (('--sigma', '-1'), 'spread'),
    (('--block', '0'), 'at least 1 token'),
    (('--block', '99999999'), '--block'),
    (('--plot', 'waste.jpg'), '.svg, .png, .pdf'),
    (('--plot', '/dev/null/waste.svg'), '--plot'),
    (('--budget', '5'), 'no --model'),
    (('--budget', '-5', '--model', 'pi0'), '--budget'),
    (('--budget', 'nan', '--model', 'pi0'), '--budget'),
    (('--model', 'Lama'), 'Lama'),
    (('--lengths', '/nowhere/lengths.txt'), '/nowhere/lengths.txt'),
    (('--seed', 'x'), '--seed'),
    (('--kv-format', 'int3'), 'int3'),
])
def test_bad_input_is_named_with_status_2(arguments, words, capsys):
    assert run(*SMALL, *arguments) == 2
    said = capsys.readouterr()
    assert words in said.err and 'Traceback' not in said.err and not said.out


def test_a_length_above_the_longest_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / 'lengths.txt'
    path.write_text('100\n2000\n')
    assert run('--lengths', str(path), '--max-tokens', '1024') == 2
    assert 'line 2' in capsys.readouterr().err


def test_the_pool_is_followed_for_every_block():
    found = study([100] * 10, 1024, (1, 64))
    assert [block for _, block, _ in found.pools] == [1, 1, 1, 64]
