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

"""The page of a plan: one well-formed file, and numbers that are those of the plan."""

from dataclasses import replace
from html.parser import HTMLParser
import json
import re

from hypothesis import given
from hypothesis import strategies as st
import pytest

from robot_infer.budget.presets import PRESETS, find_preset
from robot_infer.plan_page.numbers import Choice, page_data, page_lines, planned, recompute, size
from robot_infer.plan_page.page import render, write

from page_plans import GIB, ORIN, plan_of  # isort: skip - conftest.py has loaded it

VOID = {'meta', 'link', 'input'}
NAMES = ('format', 'heads', 'pages', 'cameras')


class Reader(HTMLParser):
    """Checks that tags are closed in order; collects what a page refers to and its labels."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f'</{tag}> closes {self.open[-3:]}'
        self.open.pop()

    def all(self, name):
        return [one[name] for _, one in self.attributes if one.get(name) is not None]


def test_the_page_is_well_formed_and_refers_to_nothing_outside(smolvla_plan):
    page = Reader(render(smolvla_plan))
    assert [*page.all('src'), *page.all('href')] == ['data:,']
    ids = page.all('id')
    assert len(ids) == len(set(ids))
    assert set(page.all('for')) <= set(ids)
    assert set(page.all('aria-describedby')) <= set(ids)
    assert not re.search(r'(https?:)?//\w+\.\w|@import|url\(', re.sub(
        'http://www.w3.org/2000/svg|http://www.apache.org/licenses/LICENSE-2.0', '',
        render(smolvla_plan)))


def test_every_slider_has_a_label_and_an_output(smolvla_plan):
    page = Reader(render(smolvla_plan))
    sliders = [one['id'] for tag, one in page.attributes if tag == 'input']
    labelled = [one['for'] for tag, one in page.attributes if tag == 'label']
    shown = [one['for'] for tag, one in page.attributes if tag == 'output']
    assert sliders == labelled == shown and len(sliders) == 8


def test_hostile_names_stay_text():
    evil = '</script><script>alert(1)</script><img src=x onerror=alert(2)>"\'&'
    plan = plan_of('SmolVLA')
    plan = {**plan, 'words': evil, 'device': {**plan['device'], 'name': evil},
            'shape': {**plan['shape'], 'name': evil},
            'lines': [{**line, 'arithmetic': evil} for line in plan['lines']]}
    plan['lines'][0]['name'] = evil
    page = Reader(render(plan))
    assert [tag for tag, _ in page.attributes].count('script') == 2
    assert 'img' not in [tag for tag, _ in page.attributes]


def lines_by_name(plan, choice):
    numbers = recompute(plan, choice)
    return {line.name: num_bytes
            for line, num_bytes in zip(page_lines(plan), numbers.line_bytes) if num_bytes}


@pytest.mark.parametrize('name', PRESETS)
@pytest.mark.parametrize('device', [ORIN, 'RTX 4090'])
def test_where_nothing_was_moved_the_numbers_are_the_plans(name, device):
    plan = plan_of(name, device)
    numbers = recompute(plan, planned(plan))
    assert lines_by_name(plan, planned(plan)) == {
        line['name']: line['num_bytes'] for line in plan['lines']}
    assert numbers.num_bytes == plan['num_bytes']
    assert numbers.headroom_bytes == plan['headroom_bytes']
    assert numbers.min_pages == plan['settings']['least_pages']
    assert numbers.page_bytes == plan['settings']['page_bytes']
    data = page_data(plan)
    for key in NAMES:
        assert data['planned'][key] in range(len(data['stops'][key]))
    assert len(Reader(render(plan)).all('data-bytes')) == len(page_lines(plan))


@pytest.mark.parametrize('kv_format', ['auto', 'int8', 'fp8', 'int4'])
@pytest.mark.parametrize('name', ['SmolVLA', 'pi0', 'pi0-FAST', 'demo', 'Qwen2.5-VL-3B'])
def test_a_moved_slider_says_what_another_plan_would(name, kv_format):
    """Planned with all cameras and moved to fewer; and planned with fewer and moved back."""
    device, total = 'RTX 5090', len(find_preset(name).cameras)
    every = plan_of(name, device)
    for cameras in range(1, total + 1):
        other = plan_of(name, device, num_cameras=cameras, kv_format=kv_format)
        assert lines_by_name(every, planned(other)).items() == {
            line['name']: line['num_bytes'] for line in other['lines']}.items()
        assert recompute(every, planned(other)).num_bytes == other['num_bytes']
        assert recompute(every, planned(other)).min_pages == other['settings']['least_pages']
        if kv_format == 'auto':
            # Sizes of cameras that it does not have are unknown to it.
            unknown = {line['name'] for line in every['lines']
                       if line['per_camera'] and line['kind'] != 'embeddings'}
            back = lines_by_name(other, planned(every)).items()
            assert {one for one in back if one[0] not in unknown} == {
                one for one in lines_by_name(every, planned(every)).items()
                if one[0] not in unknown}


def test_what_is_in_a_plan_and_not_in_its_settings_stays_in_its_workspaces():
    plan = plan_of('demo')
    line = [line for line in plan['lines'] if line['kind'] == 'workspace'][-1]
    line['num_bytes'] += 1000  # wider actions, say
    assert lines_by_name(plan, planned(plan))[line['name']] == line['num_bytes']


def test_the_worked_example_of_a_token():
    plan = plan_of('Llama-3-70B', 'H200', dtype='bf16')
    for heads, token, pages in ((8, 320 * 2**10, 10 * GIB), (64, 2560 * 2**10, 80 * GIB)):
        numbers = recompute(plan, Choice('bf16', heads, 512, 0))
        assert numbers.tokens == 32_768 and numbers.token_bytes == token
        assert numbers.line_bytes[[line.is_kv for line in page_lines(plan)].index(True)] == pages


def test_a_camera_more_is_as_the_last_one():
    plan = plan_of('SmolVLA')
    rings = next(line['per_camera'] for line in plan['lines'] if line['name'] == 'camera rings')
    assert len(rings) == 3
    for cameras, num_bytes in ((1, rings[0]), (2, sum(rings[:2])), (5, sum(rings) + 2 * rings[2])):
        numbers = recompute(plan, replace(planned(plan), cameras=cameras))
        assert dict(zip((line.name for line in page_lines(plan)), numbers.line_bytes))[
            'camera rings'] == num_bytes
        assert numbers.prefix_tokens == find_preset('SmolVLA').prefix_tokens(cameras)


def test_int4_is_not_offered_for_heads_that_it_cannot_have():
    plan = plan_of('SmolVLA')
    group = {**plan['shape']['kv'][0], 'head_dim': 72}
    odd = {**plan, 'shape': {**plan['shape'], 'kv': [group]}}
    assert 'int4' not in page_data(odd)['stops']['format']
    assert 'int4' in page_data(plan)['stops']['format']


@given(st.integers(-2**52, 2**52))
def test_a_size_is_within_half_of_its_last_digit(num_bytes):
    number, unit = size(num_bytes).split()
    one = {'bytes': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}[unit]
    digits = len(number.split('.')[1]) if '.' in number else 0
    assert abs(float(number) * one - num_bytes) <= one * 10**-digits / 2 * (1 + 1e-9)


def test_sizes():
    assert [size(one) for one in (0, 1023, 1024, 10 * GIB, 2621440, -GIB, 506 * 10**9)] == [
        '0 bytes', '1023 bytes', '1.00 KiB', '10.00 GiB', '2.50 MiB', '-1.00 GiB', '471 GiB']


def test_a_page_is_written_to_a_file(tmp_path, smolvla_plan):
    path = tmp_path / 'plan.html'
    write(smolvla_plan, path)
    text = path.read_text(encoding='utf-8')
    assert text == render(smolvla_plan) and len(text) < 200_000
    data = re.search(r'id="plan-data">(.*?)</script>', text)
    assert data and json.loads(data[1])['usable'] == smolvla_plan['usable_bytes']
