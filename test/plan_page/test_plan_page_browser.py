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

"""The page in a real browser: its numbers are Python's, by mouse, by keyboard, on a phone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
import json
from pathlib import Path
from typing import Any

import pytest

from robot_infer.budget.fragmentation import simulate
from robot_infer.budget.sharing import Scheme, share
from robot_infer.plan_page import storage
from robot_infer.plan_page.numbers import Choice, page_data, planned, recompute, size
from robot_infer.plan_page.page import NUM_COLOURS, write

from page_plans import plan_of  # isort: skip - conftest.py has loaded it

KINDS = ('used', 'reserved', 'internal', 'external')
SLIDERS = [f'slider-{name}' for name in (
    'format', 'heads', 'pages', 'cameras', 'longest', 'median', 'spread', 'block')]
WIDTHS = (360, 414, 768, 1280)


@pytest.fixture
def page(browser: Any, smolvla_plan: Mapping[str, Any], tmp_path: Path) -> Iterator[Any]:
    """The browser with the page in it; afterwards nobody complained and nothing was fetched."""
    yield show(browser, smolvla_plan, tmp_path)
    assert browser.complaints() == []
    assert [one for one in browser.requests() if not one.startswith(('file:', 'data:'))] == []
    assert len([one for one in browser.requests() if one.startswith('file:')]) == 1


def show(browser: Any, plan: Mapping[str, Any], tmp_path: Path, width: int = 1280,
         **screen: bool) -> Any:
    path = tmp_path / 'plan.html'
    write(plan, path)
    browser.set_screen(width, 800, **screen)
    browser.open(path)
    return browser


def text(page: Any, name: str) -> str:
    return page.run(f'document.getElementById({json.dumps(name)}).textContent')


def shown_bytes(page: Any) -> dict[int, tuple[int, str]]:
    """Bytes of each line, and how they are written."""
    return {int(line): (int(num_bytes), words) for line, num_bytes, words in page.run(
        "[...document.querySelectorAll('#lines tbody tr')].map(row => [row.dataset.line, "
        "row.querySelector('.bytes').dataset.bytes, row.querySelector('.bytes').textContent])")}


def move(page: Any, name: str, place: int) -> None:
    """Drag a slider to a place, as the mouse does: by its middle, to where its thumb will be."""
    box = page.run(f"(() => {{ const one = document.getElementById('slider-{name}'); "
                   "one.scrollIntoView({block: 'center'}); const box = "
                   'one.getBoundingClientRect(); return [box.left, box.top, box.width, '
                   'box.height, Number(one.max)]; })()')
    left, top, width, height, most = box
    thumb = 16  # its width in Chromium: its middle goes from 8 to width - 8
    page.click(left + thumb / 2 + (width - thumb) * place / most, top + height / 2)
    assert page.run(f"Number(document.getElementById('slider-{name}').value)") == place


def check_memory(page: Any, plan: Mapping[str, Any], choice: Choice) -> None:
    """Hold everything that the page says of memory against Python."""
    numbers = recompute(plan, choice)
    assert shown_bytes(page) == {
        line: (num_bytes, size(num_bytes)) for line, num_bytes in enumerate(numbers.line_bytes)}
    assert text(page, 'tile-planned') == size(numbers.num_bytes)
    assert text(page, 'tile-left') == size(numbers.headroom_bytes)
    assert text(page, 'tile-token') == size(numbers.token_bytes)
    assert text(page, 'tile-prefixes') == f'{numbers.prefixes:,}'
    assert text(page, 'detail-token').startswith(size(numbers.page_bytes))
    assert f'of {numbers.prefix_tokens:,} tokens' in text(page, 'detail-prefixes')
    assert f'needs {numbers.min_pages:,} pages' in text(page, 'detail-prefixes')
    verdict = text(page, 'verdict')
    if numbers.headroom_bytes < 0:
        assert verdict.startswith('Memory does not suffice')
        assert size(-numbers.headroom_bytes) in verdict
    elif choice.num_pages < numbers.min_pages:
        assert verdict.startswith('Too few pages')
    else:
        assert verdict.startswith('Memory suffices') and size(numbers.headroom_bytes) in verdict


def test_it_opens_with_the_numbers_of_the_plan(page, smolvla_plan):
    check_memory(page, smolvla_plan, planned(smolvla_plan))
    assert page.run("document.getElementById('reset').disabled")


def test_every_place_of_every_slider_says_what_python_says(page, smolvla_plan):
    stops = page_data(smolvla_plan)['stops']
    fields = {'format': 'kv_format', 'heads': 'kv_heads', 'pages': 'num_pages',
              'cameras': 'cameras'}
    choice = planned(smolvla_plan)
    for name, field in fields.items():
        places = range(len(stops[name])) if len(stops[name]) < 10 else (
            0, 1, len(stops[name]) // 2, len(stops[name]) - 1)
        for place in places:  # where it ends it stays: the last slider meets moved others
            move(page, name, place)
            choice = replace(choice, **{field: stops[name][place]})
            check_memory(page, smolvla_plan, choice)
    page.run("document.getElementById('reset').click()")
    page.settle()
    check_memory(page, smolvla_plan, planned(smolvla_plan))


@pytest.mark.parametrize('name', ['pi0', 'OpenVLA-7B', 'Llama-3-70B', 'Qwen2.5-VL-3B', 'demo'])
def test_other_models_and_formats_too(browser, tmp_path, name):
    plan = plan_of(name, 'Thor T5000', kv_format='int8', page_tokens=16)
    page = show(browser, plan, tmp_path)
    choice = planned(plan)
    check_memory(page, plan, choice)
    move(page, 'format', 0)
    check_memory(page, plan, replace(choice, kv_format='fp32'))
    assert page.complaints() == []


def test_sliding_windows_and_unlike_groups_are_computed_alike(browser, tmp_path):
    plan = plan_of('Llama-3-8B', 'RTX 4090')
    group = plan['shape']['kv'][0]
    groups = [{**group, 'num_layers': 26, 'window': 1024}, {**group, 'num_layers': 6},
              {**group, 'num_layers': 2, 'num_kv_heads': 1, 'head_dim': 256}]
    plan = {**plan, 'shape': {**plan['shape'], 'kv': groups}}
    numbers = recompute(plan, planned(plan))
    for line, num_bytes in zip(plan['lines'], numbers.line_bytes):
        line['num_bytes'] = num_bytes
    page = show(browser, plan, tmp_path)
    check_memory(page, plan, planned(plan))
    stops = page_data(plan)['stops']
    for place in (0, len(stops['pages']) // 2, len(stops['pages']) - 1):
        move(page, 'pages', place)
        check_memory(page, plan, replace(planned(plan), num_pages=stops['pages'][place]))
    last = replace(planned(plan), num_pages=stops['pages'][-1], kv_heads=1)
    move(page, 'heads', 0)
    check_memory(page, plan, last)


def test_the_bar_is_as_wide_as_its_numbers(page, smolvla_plan):
    numbers = recompute(smolvla_plan, planned(smolvla_plan))
    widths = dict(page.run(
        "[...document.querySelectorAll('#bar .segment')].map(one => [one.dataset.line, "
        'one.getBoundingClientRect().width])'))
    bar, usable = page.run(
        "[document.getElementById('bar').getBoundingClientRect(), "
        "document.getElementById('usable').getBoundingClientRect()]"
        '.map(one => one.width || one.left)')
    left = page.run("document.getElementById('bar').getBoundingClientRect().left")
    scale = bar / (1.04 * numbers.usable_bytes)
    for line, num_bytes in enumerate(numbers.line_bytes):
        assert widths[str(line)] == pytest.approx(num_bytes * scale, abs=0.1)
    usable = page.run("document.getElementById('usable').getBoundingClientRect().left") - left
    assert usable == pytest.approx(numbers.usable_bytes * scale, abs=0.1)


def check_storage(page: Any, choice: storage.StorageChoice) -> None:
    """Hold everything that the page says of storage against Python."""
    lengths, longest = choice.lengths(), choice.longest_tokens
    pool = storage.SLOTS * longest
    for scheme in Scheme:
        shares = share(lengths, scheme, choice.block_tokens, pool, longest)
        shown = page.run(f"{json.dumps(KINDS)}.map(kind => Number(document.getElementById("
                         f"'share-{scheme.name}-' + kind).dataset.tokens))")
        assert shown == [getattr(shares, kind) for kind in KINDS], scheme
        assert text(page, f'ended-{scheme.name}') == f'{shares.ended:,}'
        if scheme is Scheme.PAGES:
            assert text(page, 'restarted-PAGES') == f'{shares.restarted:,}'
    for block, taken, worst in page.run(
            "[...document.querySelectorAll('#waste tbody tr')].map(row => [row.dataset.block, "
            "Number(row.dataset.taken), row.querySelector('.worst').textContent])"):
        stored = simulate(lengths, int(block) if block else None, longest)
        assert (taken, worst) == (stored.taken, f'{stored.worst:,}')


def test_contiguous_and_paged_storage_are_what_python_computes(page, smolvla_plan):
    choice = storage.default_choice(smolvla_plan['settings']['page_tokens'])
    check_storage(page, choice)
    for name, place in (('block', 4), ('median', 9), ('spread', 15), ('longest', 0),
                        ('block', 10), ('median', 0), ('spread', 0)):
        move(page, name, place)
        choice = replace(choice, **{name: place})
        check_storage(page, choice)


def test_reserved_internal_and_external_waste_have_colours_of_their_own(page):
    for dark in (False, True):
        page.set_screen(1280, 800, dark=dark)
        colours = page.run(
            f"{json.dumps(KINDS)}.map(kind => {{ const style = getComputedStyle("
            "document.querySelector('#pool-PAGES .' + kind)); "
            'return style.backgroundColor + style.backgroundImage; })')
        assert len(set(colours)) == 4


def focused(page: Any) -> str:
    return page.run('document.activeElement.id || document.activeElement.tagName')


def test_tab_goes_through_the_sliders_in_their_order_and_back(page):
    seen = []
    for _ in range(len(SLIDERS) + 1):
        page.press('Tab')
        seen.append(focused(page))
    assert seen == [*SLIDERS, 'SUMMARY']  # the button that has nothing to undo is passed over
    for name in reversed(SLIDERS):
        page.press('Tab', shift=True)
        assert focused(page) == name


def test_arrow_keys_move_a_slider_and_the_button_undoes_it(page, smolvla_plan):
    data, choice = page_data(smolvla_plan), planned(smolvla_plan)
    formats, pages = data['stops']['format'], data['stops']['pages']
    page.press('Tab')
    page.press('ArrowRight')
    moved = replace(choice, kv_format=formats[data['planned']['format'] + 1])
    check_memory(page, smolvla_plan, moved)
    page.press('ArrowLeft')
    check_memory(page, smolvla_plan, choice)
    page.press('Tab')
    page.press('Tab')
    page.press('ArrowUp')
    place = data['planned']['pages'] + 1
    check_memory(page, smolvla_plan, replace(choice, num_pages=pages[place]))
    page.press('End')
    check_memory(page, smolvla_plan, replace(choice, num_pages=pages[-1]))
    spoken = page.run("document.getElementById('slider-pages').getAttribute('aria-valuetext')")
    assert spoken == f'{64 * pages[-1]:,} tokens in {pages[-1]:,} pages'
    page.press('Tab')
    page.press('Tab')
    assert focused(page) == 'reset'
    page.press('Enter')
    check_memory(page, smolvla_plan, choice)


@pytest.mark.parametrize('width', [360, 1280])
def test_what_has_the_focus_is_not_under_the_bar(page, width):
    page.set_screen(width, 700, phone=width < 500)
    for back in [False] * len(SLIDERS) + [True] * (len(SLIDERS) - 1):  # the bar stays in view
        page.press('Tab', shift=back)
        assert page.run(
            '(() => { const box = document.activeElement.getBoundingClientRect(); return '
            'document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2) === '
            'document.activeElement; })()'), focused(page)


@pytest.mark.parametrize('dark', [False, True])
@pytest.mark.parametrize('width', WIDTHS)
def test_nothing_is_wider_than_the_screen(browser, smolvla_plan, tmp_path, width, dark):
    long = {**smolvla_plan, 'device': {**smolvla_plan['device'], 'name': 'Long' * 30},
            'lines': [{**line, 'arithmetic': line['arithmetic'] + '1234567890' * 12}
                      for line in smolvla_plan['lines']]}
    page = show(browser, long, tmp_path, width, dark=dark, phone=width < 500)
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.settle()
    assert page.run('document.documentElement.scrollWidth') <= width
    assert page.run(
        "[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, .bar, svg,"
        " .axis') && one.getBoundingClientRect().right > innerWidth + 0.5).map(one => one.id || "
        'one.className)') == []
    assert page.run("[...document.querySelectorAll('.panel, .tile')].filter(one => "
                    "one.scrollWidth > one.clientWidth)"
                    '.map(one => one.innerText)') == []


@pytest.mark.parametrize('dark', [False, True])
def test_text_stands_out_from_what_is_behind_it(browser, smolvla_plan, tmp_path, dark):
    line = {'num_bytes': 2**28, 'arithmetic': 'four', 'basis': 'exact', 'place': 'device'}
    every_colour = [{**line, 'name': f'line {k}'} for k in range(NUM_COLOURS)]
    pages = next(line for line in smolvla_plan['lines'] if line['kind'] == 'kv')
    plan = {**smolvla_plan, 'lines': [*every_colour, pages], 'usable_bytes': 3 * 2**30}
    page = show(browser, plan, tmp_path, dark=dark)
    labels = page.run("[...document.querySelectorAll('#bar .segment')].map(one => one.innerText)")
    assert set(labels) == {*(one['name'] for one in every_colour), 'pages'}
    assert page.run(CONTRAST) == []


# Contrast as WCAG 2 defines it; 4.5 is its limit for text.
CONTRAST = r'''(() => {
  const channel = one => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const colour = words => (words.match(/[\d.]+/g) || []).map(Number);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const found = colour(getComputedStyle(one).backgroundColor);
      if (found.length && (found.length < 4 || found[3] > 0)) return found;
    }
  };
  const low = [];
  for (const one of document.querySelectorAll('main *')) {
    const own = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || one.disabled) continue;
    const style = getComputedStyle(one);
    const a = light(colour(one.closest('svg') ? style.fill : style.color)), b = light(behind(one));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push([one.className.baseVal ?? one.className, one.textContent,
                                  contrast]);
  }
  return low;
})()'''
