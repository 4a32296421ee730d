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

"""The page is one file that needs nothing else, is well formed, and says the numbers."""

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
import re

import pytest

from robot_infer.report.page import MARK_ROLES, render_page, write_page
from robot_infer.report.record import RunRecord
from robot_infer.report.summary import summarise
from robot_infer.report.words import figures, milliseconds

VOID = {'meta', 'img', 'br', 'hr', 'link', 'input'}


class Reader(HTMLParser):
    """Checks that tags are closed in order; collects text and what is referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value for name, value in attrs if name in ('src', 'href') and value]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f'</{tag}> closes {self.open[-3:]}'
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ('style', 'script'):
            self.text.append(data)


def read(page: str) -> Reader:
    """Parse a page to its end."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope='module')
def page(run: RunRecord) -> str:
    """The page of the made-up run."""
    return render_page(run)


def test_the_page_is_well_formed_and_has_its_plots(page: str):
    reader = read(page)
    assert page.startswith('<!DOCTYPE html>')
    assert page.count('<svg class="plot"') == 5
    assert 'script' not in reader.tags


def test_nothing_is_loaded_from_elsewhere(page: str):
    assert re.findall(r'https?://\S*', page) == []
    assert 'url(' not in page.replace('url(#', '')
    for reference in read(page).references:
        assert reference.startswith(('data:image/jpeg;base64,', '#')), reference[:60]
    assert "default-src 'none'" in page


def test_every_reference_inside_the_page_has_its_target(page: str):
    targets = set(re.findall(r'id="([^"]+)"', page))
    used = set(re.findall(r'url\(#([^)]+)\)', page)) | {
        reference[1:] for reference in read(page).references if reference.startswith('#')}
    assert used
    assert used <= targets


def test_the_page_says_the_main_figures(run: RunRecord, page: str):
    text = ' '.join(read(page).text)
    summary = summarise(run)
    for figure in figures(summary):
        assert figure.label in text
        assert figure.value in text
    for times in summary.stages_s.values():
        assert milliseconds(times.p99) in text
    for words in ('3 of 4', 'move to the <red> cube', 'not reached', '3.11.7', 'control.rate_hz'):
        assert words in text


def test_what_comes_from_outside_is_text_and_never_markup(page: str):
    assert '<b>markup</b>' not in page
    assert '&lt;b&gt;markup&lt;/b&gt; &amp; an ampersand' in page
    assert '&lt;red&gt;' in page


def test_plots_take_their_colours_from_the_page(page: str):
    assert '#01fe' not in page.lower()
    for name in ('ink', 'grid', 'accent', 'bad', 'series-4'):
        assert f'var(--{name})' in page
        assert f'--{name}:' in page


def test_every_role_of_a_mark_can_be_drawn(run: RunRecord, page: str):
    roles = {mark.role for mark in run.episodes[0].pictures[0].marks}
    assert roles == set(MARK_ROLES)
    assert page.count('<polyline') == 2 * len(run.episodes)


def test_a_run_without_steps_or_episodes_has_a_page(run: RunRecord, tmp_path: Path):
    bare = dataclasses.replace(run, steps=(), episodes=(), memory=(), notes=(), settings={},
                               versions={})
    path = tmp_path / 'made' / 'bare.html'
    write_page(bare, path)
    assert 'No inference step was recorded' in ' '.join(read(path.read_text('utf-8')).text)


@pytest.mark.parametrize('number', [1, 2])
def test_a_run_of_very_few_steps_has_a_page(run: RunRecord, number: int):
    short = dataclasses.replace(run, steps=run.steps[:number], memory=run.memory[:1])
    read(render_page(short))


def test_steps_without_ticks_have_a_page(run: RunRecord):
    steps = tuple(dataclasses.replace(step, ticks=()) for step in run.steps[:5])
    assert render_page(dataclasses.replace(run, steps=steps)).count('<svg class="plot"') == 4


def test_the_same_run_gives_the_same_page(run: RunRecord, page: str):
    assert render_page(run) == page
