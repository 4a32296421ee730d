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
from dataclasses import dataclass, field, replace
import math
from typing import Any

from robot_infer.budget.kv import FORMATS, KVFormat, bytes_per_token, kv_bytes
from robot_infer.budget.model_shape import KVGroup
from robot_infer.budget.pages import LIVE_PREFIXES
from robot_infer.errors import ConfigError
from robot_infer.plan_page.workspaces import KIND as WORKSPACE
from robot_infer.plan_page.workspaces import Json, shape_of, workspace_lines

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
class PageLine:
    """A line of the plan, and how it depends on the number of cameras.

    :param counts: against what is usable.
    :param per_camera: bytes of it that each takes; one more takes as much as the last.
    :param by_cameras: bytes of it, by number of cameras, where it is no sum over them.
    """

    name: str
    num_bytes: int
    arithmetic: str
    basis: str
    counts: bool
    is_kv: bool = False
    per_camera: tuple[int, ...] = ()
    by_cameras: Mapping[int, int] = field(default_factory=dict)

    @property
    def base_bytes(self) -> int:
        """Without any camera's."""
        return self.num_bytes - sum(self.per_camera)

    def with_cameras(self, cameras: int) -> int:
        """Bytes of it with so many."""
        if self.by_cameras:
            return self.by_cameras[cameras]
        more = max(0, cameras - len(self.per_camera))
        last = self.per_camera[-1] if self.per_camera else 0
        return self.base_bytes + sum(self.per_camera[:cameras]) + more * last


@dataclass(frozen=True)
class Numbers:
    """What the page says of a choice.

    :param line_bytes: of each of `page_lines`, in their order.
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
    groups, lines = _with_heads(_groups(plan), choice.kv_heads), page_lines(plan)
    page = plan['settings']['page_tokens']
    tokens = choice.num_pages * page
    line_bytes = tuple(
        kv_bytes(groups, tokens, choice.kv_format, page) if line.is_kv
        else line.with_cameras(choice.cameras) for line in lines)
    shape = shape_of(plan)
    prefix = shape.prefix_tokens(choice.cameras)
    prefix_pages = math.ceil(prefix / page)
    token_bytes = sum(bytes_per_token(group, choice.kv_format) for group in groups)
    return Numbers(
        line_bytes=line_bytes,
        num_bytes=sum(one for one, line in zip(line_bytes, lines) if line.counts),
        usable_bytes=plan['usable_bytes'], token_bytes=token_bytes, page_bytes=page * token_bytes,
        tokens=tokens, prefix_tokens=prefix,
        min_pages=LIVE_PREFIXES * (prefix_pages + 1) + _suffix_pages(plan),
        prefixes=choice.num_pages // max(1, prefix_pages))


def page_lines(plan: Json) -> tuple[PageLine, ...]:
    """The lines of a plan; and those workspaces that would be lines with other cameras."""
    planned_cameras, stops = _planned_cameras(plan), _camera_stops(plan)
    is_kind = any(line.get('kind') == WORKSPACE for line in plan['lines'])
    tables = workspace_lines(plan, planned_cameras, stops) if is_kind else {}
    found = [PageLine(
        name=line['name'], num_bytes=line['num_bytes'], arithmetic=line['arithmetic'],
        basis=line['basis'], counts=_counts(plan, line), is_kv=line is kv_line(plan),
        per_camera=tuple(line.get('per_camera') or ()),
        by_cameras=dict(zip(stops, tables.pop(line['name'])))
        if line.get('kind') == WORKSPACE else {}) for line in plan['lines']]
    return (*found, *(
        PageLine(name, 0, 'within the workspaces of the stages before it', 'bound', counts=True,
                 by_cameras=dict(zip(stops, table)))
        for name, table in tables.items() if any(table)))


def _counts(plan: Json, line: Json) -> bool:
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
    choice, groups, shape = planned(plan), _groups(plan), shape_of(plan)
    formats = _formats(groups)
    return {
        'usable': plan['usable_bytes'],
        'lines': [{
            'name': line.name, 'kv': line.is_kv, 'counts': line.counts, 'bytes': line.num_bytes,
            'base': line.base_bytes, 'perCamera': line.per_camera,
            'byCameras': list(line.by_cameras.values())} for line in page_lines(plan)],
        'groups': [{
            'layers': group.num_layers, 'heads': group.num_kv_heads, 'window': group.window,
            'headBytes': [FORMATS[name].head_bytes(group.head_dim) for name in formats]}
            for group in groups],
        'queryHeads': shape.language.num_heads,
        'pageTokens': plan['settings']['page_tokens'],
        'cameraTokens': shape.prefix_tokens(1) - shape.prefix_tokens(0),
        'otherTokens': shape.prefix_tokens(0),
        'suffixPages': _suffix_pages(plan), 'livePrefixes': LIVE_PREFIXES,
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
    return shape_of(plan).kv


def _with_heads(groups: Sequence[KVGroup], heads: int) -> tuple[KVGroup, ...]:
    first = groups[0].num_kv_heads
    return tuple(replace(group, num_kv_heads=heads) if group.num_kv_heads == first else group
                 for group in groups)


def _suffix_pages(plan: Json) -> int:
    """What every step needs beside the prefixes; the horizon is configured."""
    settings = plan['settings']
    prefix = shape_of(plan).prefix_tokens(_planned_cameras(plan))
    return settings['least_pages'] - LIVE_PREFIXES * (
        math.ceil(prefix / settings['page_tokens']) + 1)


def _planned_cameras(plan: Json) -> int:
    return len(plan['settings']['cameras'])


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
    if not plan['shape']['image_tokens'] and not planned_cameras:
        return [0]
    return list(range(min(1, planned_cameras), max(_MOST_CAMERAS, planned_cameras) + 1))
