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

"""The numbers of a plan's page: how they follow from the places of its sliders.

page.js computes the same in the browser, from what `page_data` gives it; `recompute` is what it is
held against. The formulas themselves are those of budget/kv.py and budget/pages.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
import math
from typing import Any

from robot_infer.budget.kv import FORMATS, KVFormat, bytes_per_token, kv_bytes
from robot_infer.budget.model_shape import KVGroup
from robot_infer.budget.pages import LIVE_PREFIXES
from robot_infer.errors import ConfigError

Json = Mapping[str, Any]

_KV_NAMES = ('pages', 'KV pages')
_MOST_CAMERAS = 8
_SIZES = (('GiB', 2**30), ('MiB', 2**20), ('KiB', 2**10))


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand.

    :param kv_heads: of each group of layers that has as many as the first has.
    """

    kv_format: str
    kv_heads: int
    num_pages: int
    cameras: int


@dataclass(frozen=True)
class Numbers:
    """What the page says of a choice.

    :param line_bytes: of each line of the plan, in its order.
    :param num_bytes: of those lines that count against `usable_bytes`.
    :param min_pages: without which the longest prefix could not be filled while another is read.
    :param prefixes: of the longest kind that the pages hold, whole.
    """

    line_bytes: tuple[int, ...]
    num_bytes: int
    usable_bytes: int
    token_bytes: int
    page_bytes: int
    tokens: int
    prefix_tokens: int
    min_pages: int
    prefixes: int

    @property
    def headroom_bytes(self) -> int:
        """What is left; below zero, what is lacking."""
        return self.usable_bytes - self.num_bytes


def planned(plan: Json) -> Choice:
    """The choice that the plan itself is."""
    settings = plan['settings']
    return Choice(kv_format=settings['kv_format'], kv_heads=_groups(plan)[0].num_kv_heads,
                  num_pages=settings['num_pages'], cameras=_planned_cameras(plan))


def recompute(plan: Json, choice: Choice) -> Numbers:
    """The numbers of a choice."""
    groups = _with_heads(_groups(plan), choice.kv_heads)
    page = plan['settings']['page_tokens']
    tokens = choice.num_pages * page
    line_bytes = tuple(
        kv_bytes(groups, tokens, choice.kv_format, page) if line is kv_line(plan)
        else _camera_bytes(line, choice.cameras) for line in plan['lines'])
    shape = plan['shape']
    prefix = (choice.cameras * _camera_tokens(shape) + shape['max_prompt_tokens']
              + shape['state_tokens'])
    prefix_pages = math.ceil(prefix / page)
    token_bytes = sum(bytes_per_token(group, choice.kv_format) for group in groups)
    return Numbers(
        line_bytes=line_bytes,
        num_bytes=sum(one for one, line in zip(line_bytes, plan['lines']) if counts(plan, line)),
        usable_bytes=plan['usable_bytes'], token_bytes=token_bytes, page_bytes=page * token_bytes,
        tokens=tokens, prefix_tokens=prefix,
        min_pages=LIVE_PREFIXES * (prefix_pages + 1) + math.ceil(_suffix_tokens(shape) / page) + 1,
        prefixes=choice.num_pages // max(1, prefix_pages))


def counts(plan: Json, line: Json) -> bool:
    """Does a line count against what is usable? Where there is one memory, all do."""
    device = plan['device']
    return device['unified'] or device['sm'] is None or line['place'] == 'device'


def kv_line(plan: Json) -> Json:
    """The line of the pages of keys and values."""
    found = [line for line in plan['lines'] if line.get('kind') == 'kv'] or [
        line for line in plan['lines'] if line['name'] in _KV_NAMES]
    assert len(found) == 1, [line['name'] for line in plan['lines']]
    return found[0]


def page_data(plan: Json) -> dict[str, Any]:
    """What page.js works with: lines, groups of layers, and the stops of the sliders."""
    choice, groups, shape = planned(plan), _groups(plan), plan['shape']
    formats = _formats(groups)
    return {
        'usable': plan['usable_bytes'],
        'lines': [{
            'name': line['name'], 'kv': line is kv_line(plan), 'counts': counts(plan, line),
            'bytes': line['num_bytes'],
            'base': line['num_bytes'] - sum(line.get('per_camera') or ()),
            'perCamera': list(line.get('per_camera') or ())} for line in plan['lines']],
        'groups': [{
            'layers': group.num_layers, 'heads': group.num_kv_heads, 'window': group.window,
            'headBytes': [FORMATS[name].head_bytes(group.head_dim) for name in formats]}
            for group in groups],
        'queryHeads': shape['language']['num_heads'],
        'pageTokens': plan['settings']['page_tokens'],
        'cameraTokens': _camera_tokens(shape),
        'otherTokens': shape['max_prompt_tokens'] + shape['state_tokens'],
        'suffixTokens': _suffix_tokens(shape), 'livePrefixes': LIVE_PREFIXES,
        'stops': {
            'format': formats, 'heads': _head_stops(plan), 'pages': _page_stops(plan),
            'cameras': _camera_stops(plan)},
        'planned': {
            'format': formats.index(choice.kv_format),
            'heads': _head_stops(plan).index(choice.kv_heads),
            'pages': _page_stops(plan).index(choice.num_pages),
            'cameras': _camera_stops(plan).index(choice.cameras)},
    }


def size(num_bytes: int) -> str:
    """Bytes for a person, in binary units: at most two digits behind the point."""
    for unit, one in _SIZES:
        if abs(num_bytes) >= one:
            digits = 2 if abs(num_bytes) < 100 * one else 0
            # In whole numbers, halves up: as toFixed has it, and an f-string has not.
            scaled = (2 * abs(num_bytes) * 10**digits + one) // (2 * one)
            value = f'{scaled / 10**digits:.{digits}f}'
            return f'{"-" if num_bytes < 0 else ""}{value} {unit}'
    return f'{num_bytes} bytes'


def _groups(plan: Json) -> tuple[KVGroup, ...]:
    return tuple(KVGroup(**group) for group in plan['shape']['kv'])


def _with_heads(groups: Sequence[KVGroup], heads: int) -> tuple[KVGroup, ...]:
    first = groups[0].num_kv_heads
    return tuple(replace(group, num_kv_heads=heads) if group.num_kv_heads == first else group
                 for group in groups)


def _camera_tokens(shape: Json) -> int:
    return shape['image_tokens'] + shape['image_marks']


def _suffix_tokens(shape: Json) -> int:
    """Of what is denoised together, or decoded one by one (ModelShape.suffix_tokens)."""
    return shape['suffix_state_tokens'] + shape[
        'horizon' if shape['denoise_steps'] else 'action_tokens']


def _planned_cameras(plan: Json) -> int:
    return plan['settings'].get('num_cameras', len(plan['shape']['cameras']))


def _camera_bytes(line: Json, cameras: int) -> int:
    """Bytes of a line with so many cameras; those beyond the planned are as the last planned."""
    each = line.get('per_camera') or ()
    if not each:
        return line['num_bytes']
    more = max(0, cameras - len(each))
    return line['num_bytes'] - sum(each[cameras:]) + more * each[-1]


def _formats(groups: Sequence[KVGroup]) -> list[str]:
    """Those formats that heads of these sizes can have, the largest first."""
    def has(form: KVFormat) -> bool:
        try:
            return all(form.head_bytes(group.head_dim) > 0 for group in groups)
        except ConfigError:
            return False
    return [name for name, form in FORMATS.items() if has(form)]


def _head_stops(plan: Json) -> list[int]:
    """Numbers of KV heads that divide the query heads, and the planned one."""
    heads = plan['shape']['language']['num_heads']
    divisors = {one for one in range(1, heads + 1) if heads % one == 0}
    return sorted(divisors | {_groups(plan)[0].num_kv_heads})


def _page_stops(plan: Json) -> list[int]:
    """Numbers of pages: 1, 2, 3, 4, 6, 8, 12, ... to eight times what is planned, and that."""
    most = 8 * max(plan['settings']['num_pages'],
                   math.ceil(plan['shape']['max_tokens'] / plan['settings']['page_tokens']))
    stops, power = {plan['settings']['num_pages']}, 1
    while power <= most:
        stops |= {power, power * 3 // 2 if power > 1 else 1}
        power *= 2
    return sorted(one for one in stops if one <= most)


def _camera_stops(plan: Json) -> list[int]:
    planned_cameras = _planned_cameras(plan)
    if not _camera_tokens(plan['shape']) and not planned_cameras:
        return [0]
    return list(range(min(1, planned_cameras), max(_MOST_CAMERAS, planned_cameras) + 1))
