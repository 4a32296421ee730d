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

"""A plan as one HTML page that needs nothing else: no network, no other files.

`render(plan)` takes what `Plan.to_json()` gives. What the page needs of it:

    shape         dataclasses.asdict(ModelShape), and what else
    device        name, unified, sm (None: a CPU)
    usable_bytes  what the lines may take together
    lines         name, num_bytes, arithmetic, basis, place; and, where they are known:
                  kind        'kv' of the line that holds the pages of keys and values, and only
                              of it; without it, that is the line named 'pages' or 'KV pages'.
                              'workspace' of what a stage needs beyond the stages before it
                  per_camera  bytes of it that each camera takes, in the cameras' order; with one
                              camera less the line is so much less. Absent: the line does not
                              depend on the cameras
    settings      dtype, weights, kv_format (a format of budget/kv.py), page_tokens, num_pages (of
                  the kv line), least_pages (that every step needs), cameras
    words         the verdict in a sentence; optional, shown as the plan's own

On unified memory and on a CPU all lines count; else those whose place is 'device'. The numbers
of the page and how they follow from the sliders are in numbers.py; page.js has the same once
more, and a test in a real browser compares the two.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
import hashlib
from html import escape
import json
from pathlib import Path
from typing import Any

from robot_infer.plan_page import numbers, storage
from robot_infer.plan_page.numbers import PageLine, size
from robot_infer.plan_page.workspaces import Json

_HERE = Path(__file__).parent
NUM_COLOURS = 9
_CONTROLS = (
    ('format', 'KV precision', 'Format of keys and values; 8 and 4 bits with their scales.'),
    ('heads', 'KV heads', 'As many as query heads: MHA; fewer: GQA; one: MQA.'),
    ('pages', 'Context', 'All tokens that the pages hold.'),
    ('cameras', 'Cameras', 'Those added are like the last one.'))
_STORAGE_CONTROLS = (
    ('longest', 'Longest length', 'What is reserved where nobody knows the length.'),
    ('median', 'Median length', 'Half of the sequences are shorter.'),
    ('spread', 'Spread', 'Standard deviation of the logarithm.'),
    ('block', 'Page', 'Tokens that are taken together.'))
_SCHEMES = (('LONGEST', 'Contiguous, longest length reserved'),
            ('KNOWN', 'Contiguous, if lengths were known'), ('PAGES', 'Pages'))
_KINDS = (('used', 'holds a token'), ('reserved', 'held for tokens still to come'),
          ('internal', 'held, and never used'), ('external', 'free, and no use to who waits'))


def render(plan: Json) -> str:
    """The page of a plan, as `Plan.to_json()` gives it."""
    data = {**numbers.page_data(plan), 'storage': storage.storage_data()}
    script = '\n'.join(_HERE.joinpath(name).read_text(encoding='utf-8')
                       for name in ('page.js', 'storage.js'))
    style = _HERE.joinpath('page.css').read_text(encoding='utf-8')
    title = f"{plan['shape']['name']} on {plan['device']['name']}"
    # Only this script and this style may run, whatever a hostile name in a plan contains.
    policy = (f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
              f'script-src {_digest(script)}')
    return '\n'.join((
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">',
        f'<title>{escape(title)}: memory plan</title>\n<style>{style}</style>\n</head>\n<body>',
        f'<main>\n<header><p class="kicker">Memory plan</p><h1>{escape(title)}</h1>',
        f'<p class="words">{escape(plan.get("words", ""))}</p></header>',
        _memory(plan, data), _storage(plan, data),
        '<footer>Written by robot_infer. GiB is 2<sup>30</sup> bytes, GB 10<sup>9</sup>. Nothing '
        'in this page is loaded from elsewhere.</footer>\n</main>',
        f'<script type="application/json" id="plan-data">{_json(data)}</script>',
        f'<script>{script}</script>\n</body>\n</html>\n'))


def write(plan: Json, path: Path) -> None:
    """Write the page of a plan to a file."""
    path.write_text(render(plan), encoding='utf-8')


def _memory(plan: Json, data: Mapping[str, Any]) -> str:
    lines = numbers.page_lines(plan)
    order = sorted(range(len(lines)), key=lambda k: -lines[k].num_bytes)
    colours = {line: f'c{place % NUM_COLOURS}' for place, line in enumerate(
        line for line in order if not lines[line].is_kv)}
    colours.update({line: 'kv' for line in order if lines[line].is_kv})
    segments = ''.join(f'<div class="segment {colours[line]}" data-line="{line}"></div>'
                       for line in order if lines[line].counts)
    rows = ''.join(_row(lines[line], line, colours[line]) for line in order)
    planned = numbers.recompute(plan, numbers.planned(plan))
    tiles = ''.join((
        _tile('planned', 'Planned', size(planned.num_bytes), 'all that will be taken'),
        _tile('usable', 'Usable', size(plan['usable_bytes']), 'for all of it'),
        _tile('left', 'Left', size(planned.headroom_bytes), 'what nothing takes'),
        _tile('token', 'A token of keys and values', size(planned.token_bytes), '', 'token'),
        _tile('prefixes', 'Prefixes in the pages', f'{planned.prefixes:,}', '', 'prefixes')))
    return f'''<section aria-labelledby="memory-title">
<h2 id="memory-title">What it takes</h2>
<div class="panel stage"><p id="verdict" role="status">{escape(plan.get('words', ''))}</p>
<div class="bar-box"><div id="bar" class="bar" role="img" aria-label="Memory bar">{segments}
<div id="over"></div></div><div id="usable"><span>usable</span></div></div>
<div id="axis" class="axis" aria-hidden="true"></div></div>
<div class="columns"><form class="panel controls" aria-label="What if"><h3>What if</h3>
{_controls(_CONTROLS, data['stops'], data['planned'])}
<button type="button" id="reset" disabled>Back to the plan</button></form>
<div class="side"><div class="tiles">{tiles}</div>
<div class="panel lines"><table id="lines"><caption>Each allocation, the largest first</caption>
<thead><tr><th scope="col">what</th><th scope="col" class="n">size</th>
<th scope="col" class="n">share</th></tr></thead><tbody>{rows}</tbody></table></div></div></div>
</section>'''


def _row(line: PageLine, number: int, colour: str) -> str:
    return (
        f'<tr data-line="{number}"><th scope="row"><span class="swatch {colour}"></span>'
        f'{escape(line.name)}<span class="arithmetic"><span class="basis">{escape(line.basis)}'
        f'</span> <span class="how">{escape(line.arithmetic)}</span></span></th>'
        f'<td class="n bytes" data-bytes="{line.num_bytes}">{size(line.num_bytes)}</td>'
        '<td class="n share"></td></tr>\n')


def _tile(name: str, label: str, value: str, detail: str, detail_name: str = '') -> str:
    detail_id = f' id="detail-{detail_name}"' if detail_name else ''
    return (f'<div class="tile"><div class="label">{escape(label)}</div><div class="value" '
            f'id="tile-{name}">{escape(value)}</div><div class="detail"{detail_id}>'
            f'{escape(detail)}</div></div>')


def _controls(
    controls: Sequence[tuple[str, str, str]], stops: Mapping[str, Sequence[Any]],
    places: Mapping[str, int],
) -> str:
    """Sliders over stops; one that has a single stop cannot be moved."""
    return ''.join(
        f'<div class="control"><label for="slider-{name}">{escape(label)}</label>'
        f'<output id="output-{name}" for="slider-{name}"></output>'
        f'<input type="range" id="slider-{name}" min="0" max="{len(stops[name]) - 1}" step="1" '
        f'value="{places[name]}" autocomplete="off" aria-describedby="hint-{name}"'
        f'{" disabled" if len(stops[name]) < 2 else ""}>'
        f'<p class="hint" id="hint-{name}">{escape(hint)}</p></div>\n'
        for name, label, hint in controls)


def _storage(plan: Json, data: Mapping[str, Any]) -> str:
    choice = storage.default_choice(plan['settings']['page_tokens'])
    places = {name: getattr(choice, name) for name in data['storage']['stops']}
    legend = ''.join(f'<span><i class="swatch {kind}"></i><b>{kind}</b>&ensp;{words}</span>'
                     for kind, words in _KINDS)
    pools = ''.join(
        f'<div class="pool" id="pool-{scheme}"><div class="pool-head"><h4>{title}</h4>'
        '<span class="in-use"></span></div><div class="bar thin" role="img">'
        + ''.join(f'<div class="segment {kind}"></div>' for kind, _ in _KINDS) + '</div></div>'
        for scheme, title in _SCHEMES)
    shares = ''.join(
        f'<tr><th scope="row">{title}</th>'
        + ''.join(f'<td class="n" id="share-{scheme}-{kind}"></td>' for kind, _ in _KINDS)
        + ''.join(f'<td class="n" id="{what}-{scheme}"></td>'
                  for what in ('live', 'ended', 'restarted')) + '</tr>\n'
        for scheme, title in _SCHEMES)
    heads = ''.join(f'<th scope="col" class="n">{word}</th>' for word in (
        *(kind for kind, _ in _KINDS), 'at once', 'ended', 'sent back'))
    waste_rows = ''.join(
        f'<tr data-block="{block or ""}"><th scope="row">'
        f'{f"pages of {block}" if block else "contiguous"}</th><td class="n mean"></td>'
        '<td class="n worst"></td><td class="n utilisation"></td></tr>\n'
        for block in (None, *storage.TABLE_BLOCKS))
    return f'''<section aria-labelledby="storage-title">
<h2 id="storage-title">Contiguous against pages</h2>
<p class="lead">Sequences of unlike lengths share a pool that holds {storage.SLOTS} of the longest.
Each comes with half of its tokens and writes the rest; an endless line waits to be let in.</p>
<div class="columns"><form class="panel controls" aria-label="Lengths"><h3>Lengths</h3>
{_controls(_STORAGE_CONTROLS, data['storage']['stops'], places)}</form>
<div class="side"><div class="panel"><h3>Where the pool goes</h3>
<div class="legend">{legend}</div>{pools}
<details><summary>The numbers</summary><div class="scroll" tabindex="0" role="region"
aria-label="Shares of the pool"><table id="shares"><thead><tr><th scope="col">storage</th>{heads}
</tr></thead><tbody>{shares}</tbody></table></div></details></div>
<div class="panel"><h3>Waste of a sequence at its full length, tokens</h3>
<div class="legend"><span><i class="stroke mean"></i>mean</span>
<span><i class="stroke bound"></i>never more: page - 1</span>
<span><i class="stroke longest"></i>contiguous, mean</span></div>
<div id="waste-plot"></div>
<table id="waste"><thead><tr><th scope="col">storage</th><th scope="col" class="n">mean</th>
<th scope="col" class="n">worst</th><th scope="col" class="n">used</th></tr></thead>
<tbody>{waste_rows}</tbody></table></div></div></div>
</section>'''


def _json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(',', ':'), allow_nan=False).replace('<', '\\u003c')


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
