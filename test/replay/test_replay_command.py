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

"""`robot-infer replay` as its user meets it: what it prints, what it writes, how it ends."""

from __future__ import annotations

from html.parser import HTMLParser
import json
from pathlib import Path
import sys

import pytest
from rich.console import Console

from robot_infer.replay import command
from robot_infer.replay.bag import Bag
from robot_infer.report.record import StepRecord

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import ORIGIN_NS, PERIOD_NS, image, punch, state, text, trajectory


@pytest.fixture
def small(make_bag) -> Path:  # noqa: ANN001 - a function
    """Half a second of small pictures, with actions and a step record that was late."""
    record = StepRecord(
        epoch=1, started_ns=0, ended_ns=200_000_000, stages_s={'vision': 0.15, 'denoise': 0.05},
        deadline_s=0.1, tokens_total=4, tokens_computed=4, cameras_encoded=2, pages_used=1,
        pages_total=2)
    sent = [text(ORIGIN_NS, 'move to the red cube'),
            text(ORIGIN_NS, record.to_json(), '/robot_infer/step')]
    for k in range(15):
        now_ns = ORIGIN_NS + k * PERIOD_NS
        sent += [image(now_ns, '/overhead/image'), image(now_ns, '/wrist/image'), state(now_ns),
                 trajectory(now_ns, (0.0, 0.0))]
    return make_bag(sent)


def test_a_table_a_speed_and_a_digest(small, capsys):
    assert command.main([str(small), '--compare', '/action']) == 0
    told = ' '.join(capsys.readouterr().out.split())
    for words in ('replay of bag', 'control ticks', '15 ticks', 'replayed against /action',
                  'slide_x', '15 pairs, 0 recorded actions without one', 'actions sha256',
                  'an inference step every 2 ticks', '(modelled, --latency-ticks)'):
        assert words in told


def test_json_is_all_that_is_printed_and_the_same_twice(small, capsys):
    found = []
    for _ in range(2):
        assert command.main([str(small), '--json', '--compare', '/action']) == 0
        printed = capsys.readouterr()
        found.append(json.loads(printed.out))
    first, second = found
    assert first['actions_sha256'] == second['actions_sha256']
    assert first['ticks'] == 15 and first['whole'] is True
    assert first['compare']['pairs'] == 15 and set(first['compare']['joints']) == {
        'slide_x', 'slide_y'}
    assert first['topics']['/wrist/image'] == {
        'type': 'sensor_msgs/msg/Image', 'in_bag': 15, 'read': 15, 'unreadable': 0, 'early': 0,
        'stamps_back': 0}


class _Page(HTMLParser):
    """The text and the tags of a page; fails where tags do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag, attrs) -> None:  # noqa: ANN001 - the base class's
        self.tags.append(tag)
        if tag not in ('meta', 'img', 'br', 'path', 'use', 'circle', 'rect'):
            self._open.append(tag)

    def handle_endtag(self, tag) -> None:  # noqa: ANN001
        if tag not in ('path', 'use', 'circle', 'rect'):
            assert self._open.pop() == tag

    def handle_startendtag(self, tag, attrs) -> None:  # noqa: ANN001
        self.tags.append(tag)

    def handle_data(self, data) -> None:  # noqa: ANN001
        self.words.append(data)


def test_the_report_tells_of_errors_late_steps_and_topics(small, tmp_path, capsys):
    outputs = {name: tmp_path / 'out' / name for name in ('report', 'mcap', 'records')}
    arguments = [part for name, path in outputs.items() for part in (f'--{name}', str(path))]
    assert command.main([str(small), '--compare', '/action', *arguments]) == 0
    page = _Page(outputs['report'].read_text())
    words = ' '.join(' '.join(page.words).split())
    for told in ('Replay of bag', 'Recorded and replayed actions', 'RMS error', 'slide_y',
                 'Late steps of the replay', 'Late steps of the run that was recorded',
                 'Topics that were read', '/wrist/image', 'Time of an inference step',
                 'modelled, --latency-ticks'):
        assert told in words
    assert page.tags.count('svg') >= 4
    assert 'How late control ticks began' not in words  # in bag time none is late
    assert outputs['mcap'].stat().st_size and len(
        outputs['records'].read_text().splitlines()) >= 5
    printed = capsys.readouterr().out
    assert all(f'{name}: ' in printed for name in outputs)


@pytest.mark.parametrize(('arguments', 'words'), [
    (['--state', '/nobody'], 'TopicError: topic /nobody for the state'),
    (['--camera', 'wrist=/overhead/image'], 'TopicError: cameras overhead and wrist'),
    (['--start', '99'], 'BagError: option --start'),
    (['--fixed-state', '1,2,3'], 'StateError: option --fixed-state'),
    (['--report', '/proc/no/page.html'], 'ConfigError: option --report'),
])
def test_a_mistake_is_one_line_and_status_2(small, capsys, arguments, words):
    assert command.main([str(small), *arguments]) == 2
    printed = capsys.readouterr()
    assert words in printed.err and 'Traceback' not in printed.err


@pytest.mark.parametrize('arguments', [
    ['--rate', 'fast'], ['--rate', '0'], ['--rate', 'nan'], ['--camera', 'wrist'],
    ['--camera', 'a=/x', '--camera', 'a=/y'], ['--fixed-state', 'a,b'],
    ['--fixed-state', '1,nan'], ['--text', 'a', '--instruction', '/b'],
    ['--state', '/b', '--fixed-state', '1'], ['--duration', '0'], ['--latency-ticks', '-1']])
def test_an_option_that_makes_no_sense_is_status_2(small, capsys, arguments):
    assert command.main([str(small), *arguments]) == 2
    assert capsys.readouterr().err


def test_no_bag_at_all_is_told_before_anything_is_loaded(tmp_path, capsys):
    assert command.main([str(tmp_path / 'none')]) == 2
    assert 'BagError' in capsys.readouterr().err
    assert command.main([]) == 2


def test_a_bag_that_could_not_be_read_whole_is_status_1_and_says_so(
        demo_bag, tmp_path, capsys, make_bag, demo_messages):
    from rosbags.rosbag2 import CompressionFormat, CompressionMode
    path = make_bag(demo_messages, compression=(
        CompressionMode.STORAGE, CompressionFormat.ZSTD))
    punch(path / f'{path.name}.mcap')
    assert command.main([str(path), '--report', str(tmp_path / 'page.html')]) == 1
    told = ' '.join(capsys.readouterr().out.split())
    assert 'could not be read to its end' in told and 'announces; got' in told
    assert 'could not be read to its end' in (tmp_path / 'page.html').read_text()
    with Bag(demo_bag) as bag:
        assert bag.duration_s > 1.9


def test_a_bar_shows_on_a_terminal_and_nothing_where_output_is_piped():
    import io
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=80)
        with command._progress(console, quiet=False) as progress:
            progress(1.0, 2.0)
        assert ('of bag time' in stream.getvalue()) == terminal
    stream = io.StringIO()
    with command._progress(Console(file=stream, force_terminal=True), quiet=True) as progress:
        progress(1.0, 2.0)
    assert stream.getvalue() == ''


def test_help_is_there(capsys):
    assert command.main(['--help']) == 0
    told = capsys.readouterr().out
    assert '--latency-ticks' in told and 'bit for bit' in told
