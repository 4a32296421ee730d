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

from html.parser import HTMLParser
import json
import re

from hypothesis import given
from hypothesis import strategies as st
import pytest

from robot_infer.budget.kv import kv_bytes
from robot_infer.budget.presets import PRESETS, find_preset
from robot_infer.plan_page.numbers import Choice, page_data, planned, recompute, size
from robot_infer.plan_page.page import render, write

from page_plans import GIB, MIB, plan_of  # isort: skip - conftest.py has loaded it

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
    plan = plan_of(find_preset('SmolVLA'))
    plan = {**plan, 'words': evil, 'device': {**plan['device'], 'name': evil},
            'shape': {**plan['shape'], 'name': evil},
            'lines': [{**line, 'arithmetic': evil} for line in plan['lines']]}
    plan['lines'][0]['name'] = evil
    page = Reader(render(plan))
    assert [tag for tag, _ in page.attributes].count('script') == 2
    assert 'img' not in [tag for tag, _ in page.attributes]


@pytest.mark.parametrize('name', PRESETS)
def test_where_nothing_was_moved_the_numbers_are_the_plans(name):
    plan = plan_of(find_preset(name))
    numbers = recompute(plan, planned(plan))
    assert list(numbers.line_bytes) == [line['num_bytes'] for line in plan['lines']]
    assert numbers.num_bytes == sum(numbers.line_bytes)
    shape = find_preset(name)
    assert numbers.prefix_tokens == shape.prefix_tokens()
    data = page_data(plan)
    for key in NAMES:
        assert data['planned'][key] in range(len(data['stops'][key]))
    assert Reader(render(plan)).all('data-bytes')


@pytest.mark.parametrize('kv_format', ['fp32', 'bf16', 'fp8', 'int8', 'int4'])
def test_the_pages_are_those_of_the_kv_arithmetic(smolvla_plan, kv_format):
    shape = find_preset('SmolVLA')
    numbers = recompute(smolvla_plan, Choice(kv_format, shape.kv[0].num_kv_heads, 300, 2))
    assert numbers.line_bytes[1] == kv_bytes(shape.kv, 300 * 64, kv_format, 64)
    assert numbers.page_bytes * 300 == numbers.line_bytes[1]


def test_the_worked_example_of_a_token():
    plan = plan_of(find_preset('Llama-3-70B'), num_pages=512)
    mha = recompute(plan, Choice('bf16', 64, 512, 0))
    gqa = recompute(plan, Choice('bf16', 8, 512, 0))
    assert gqa.token_bytes == 320 * 2**10 and gqa.tokens == 32_768
    assert gqa.line_bytes[1] == 10 * GIB and mha.line_bytes[1] == 80 * GIB


def test_cameras_take_what_their_lines_say():
    plan = plan_of(find_preset('SmolVLA'))
    rings = plan['lines'][3]['per_camera']
    three = recompute(plan, planned(plan))
    assert len(rings) == 3
    for cameras, ring, work in ((1, rings[0], 80), (2, sum(rings[:2]), 110),
                                (5, sum(rings) + 2 * rings[2], 200)):
        numbers = recompute(plan, Choice('bf16', 5, 200, cameras))
        assert numbers.line_bytes[3] == ring
        assert numbers.line_bytes[2] == work * MIB
        assert numbers.line_bytes[0] == three.line_bytes[0]
        shape = find_preset('SmolVLA')
        assert numbers.prefix_tokens == shape.prefix_tokens(cameras)


def test_what_lies_on_the_host_counts_where_there_is_one_memory():
    plan = plan_of(find_preset('SmolVLA'))
    every = recompute(plan, planned(plan)).num_bytes
    discrete = {**plan, 'device': {'name': 'RTX 4090', 'sm': 89, 'unified': False}}
    on_host = plan['lines'][3]['num_bytes'] + GIB
    assert recompute(discrete, planned(plan)).num_bytes == every - on_host
    cpu = {**plan, 'device': {'name': 'CPU', 'sm': None, 'unified': False}}
    assert recompute(cpu, planned(plan)).num_bytes == every


def test_int4_is_not_offered_for_heads_that_it_cannot_have():
    plan = plan_of(find_preset('SmolVLA'))
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
