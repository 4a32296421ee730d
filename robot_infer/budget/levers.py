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

"""What would make a plan fit: each lever's gain, found by planning once more, and its cost.

A lever keeps the number of prefixes that the pages hold, so that its gain is its own and is not
spent on a longer history; to hold less of it is a lever of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from robot_infer.budget.devices import Device
from robot_infer.budget.layout import (
    Facts,
    Layout,
    lay_out,
    page_need,
    replace_settings,
    with_budget,
    with_cameras,
)
from robot_infer.budget.machine import is_gpu
from robot_infer.budget.model_shape import ModelShape
from robot_infer.config import Config

_ALL = 'these together'
_NOT_YET = 'This version does not offer it.'
_FP8_FROM_SM = 89


@dataclass(frozen=True)
class Lever:
    """One thing to do.

    :param change: the settings, as they stand in a file; or what else must be done.
    :param gain_bytes: of the memory that is short.
    :param fits: whether that alone is enough.
    :param offered: whether settings alone do it, with this model and this version.
    """

    name: str
    change: str
    gain_bytes: int
    cost: str
    fits: bool
    offered: bool = True


@dataclass(frozen=True)
class _Case:
    """What is planned."""

    shape: ModelShape
    config: Config
    facts: Facts


@dataclass(frozen=True)
class _Idea:
    """A lever before its gain is known.

    :param on_host: image embeddings are taken out of the device's memory.
    """

    name: str
    change: str
    cost: str
    apply: Callable[[_Case], _Case]
    offered: bool = True
    on_host: bool = False


def find_levers(
    shape: ModelShape, config: Config, device: Device, facts: Facts, usable_bytes: int,
) -> tuple[Lever, ...]:
    """All levers that gain something, the largest gain first; last, all offered ones together."""
    start = _Case(shape, config, facts)
    before = lay_out(shape, config, device, facts)
    levers: list[Lever] = []
    together, combined = start, 0
    for idea in _ideas(start, device, before):
        after = _bytes(_keep_history(start, idea.apply(start)), device, idea)
        if after >= before.num_bytes:
            continue
        levers.append(Lever(idea.name, idea.change, before.num_bytes - after, idea.cost,
                            after <= usable_bytes, idea.offered))
        if idea.offered and not _excluded(idea, together, start):
            together, combined = _keep_history(together, idea.apply(together)), combined + 1
    levers.sort(key=lambda lever: -lever.gain_bytes)
    if combined > 1:
        # A shorter history is the last of them, so that nothing is kept behind it.
        after = _bytes(together, device)
        levers.append(Lever(_ALL, _changes(start, together), before.num_bytes - after,
                            'all of their costs', after <= usable_bytes))
    return tuple(levers)


def _ideas(case: _Case, device: Device, layout: Layout) -> Iterator[_Idea]:
    yield from _formats(case, device)
    yield from _inputs(case, layout)
    if not layout.one_memory:
        yield _Idea('embeddings on the host', 'image embeddings in the host\'s memory',
                    f'a copy to the device for each frame that is reused. {_NOT_YET}',
                    lambda each: each, offered=False, on_host=True)
    yield _Idea('shorter history', _least(case), 'nothing older than the prefix in use is found '
                'again: each new frame and instruction is computed anew', _forget)


def _formats(case: _Case, device: Device) -> Iterator[_Idea]:
    policy, kv_format = case.config.policy, case.config.cache.kv_format
    if policy.dtype == 'fp32':
        yield _Idea('bf16', 'policy.dtype: bf16', 'weights and pages of 8 bits of mantissa: '
                    'actions differ in the third digit', _set('policy', dtype='bf16'))
    if policy.weights != 'int4':
        for form, words in (('int8', 'weights of 255 levels a row'),
                            ('int4', 'weights of 16 levels: a clear error, to be tried first')):
            if form != policy.weights:
                yield _Idea(f'{form} weights', f'policy.weights: {form}',
                            words if not is_gpu(device) else f'{words}. {_NOT_YET[:-1]} on a GPU.',
                            _set('policy', weights=form), offered=not is_gpu(device))
    if kv_format == 'auto':
        if device.sm is not None and device.sm >= _FP8_FROM_SM:
            yield _Idea('fp8 pages', 'cache.kv_format: fp8', 'keys and values of 3 bits of '
                        'mantissa', _set('cache', kv_format='fp8'))
        yield _Idea('int8 pages', 'cache.kv_format: int8', 'keys and values of 255 levels a head',
                    _set('cache', kv_format='int8'))
    if kv_format != 'int4' and all(group.head_dim % 32 == 0 for group in case.shape.kv):
        yield _Idea('int4 pages', 'cache.kv_format: int4', 'keys and values of 15 levels: a clear '
                    'error, to be tried first', _set('cache', kv_format='int4'))


def _inputs(case: _Case, layout: Layout) -> Iterator[_Idea]:
    """Fewer cameras and smaller images: another policy must be trained for them."""
    shape, cameras = case.shape, layout.cameras
    if len(cameras) > 1:
        yield _Idea('one camera less', f'a policy for {len(cameras) - 1} cameras',
                    f'another policy, trained without {cameras[-1]}',
                    lambda each: replace(each, facts=with_cameras(each.facts, cameras[:-1])),
                    offered=False)
    width, height = (side // 2 for side in shape.image_size)
    if cameras and shape.patch and width >= 2 * shape.patch and shape.image_tokens >= 4:
        smaller = replace(
            shape, image_size=(width, height), image_tokens=shape.image_tokens // 4)
        yield _Idea('smaller images', f'a policy for images of {width} x {height}', 'another '
                    'policy, trained on them; what is small in the picture is lost',
                    lambda each: replace(each, shape=smaller), offered=False)


def _set(group: str, **values: object) -> Callable[[_Case], _Case]:
    return lambda case: replace(case, config=replace_settings(case.config, group, **values))


def _forget(case: _Case) -> _Case:
    config = replace_settings(case.config, 'cache', embeddings_per_camera=1)
    least = page_need(case.shape, config, _num_cameras(case)).num_bytes
    return replace(case, config=with_budget(config, min(least, config.cache.budget_bytes)))


def _least(case: _Case) -> str:
    return (f'cache.embeddings_per_camera: 1, cache.budget_bytes: '
            f'{_forget(case).config.cache.budget_bytes}')


def _keep_history(before: _Case, after: _Case) -> _Case:
    """A budget that holds as many prefixes as before, where nothing asked for less."""
    if after.config.cache.budget_bytes != before.config.cache.budget_bytes:
        return after
    old = page_need(before.shape, before.config, _num_cameras(before))
    new = page_need(after.shape, after.config, _num_cameras(after))
    pages = (before.config.cache.budget_bytes - old.embedding_bytes) // old.block_bytes
    spare = (pages - old.num_blocks) * new.prefix_blocks // old.prefix_blocks
    return replace(after, config=with_budget(
        after.config, (new.num_blocks + spare) * new.block_bytes + new.embedding_bytes))


def _bytes(case: _Case, device: Device, idea: _Idea | None = None) -> int:
    layout = lay_out(case.shape, case.config, device, case.facts, offered=False)
    moved = sum(line.num_bytes for line in layout.lines if line.kind == 'embeddings')
    return layout.num_bytes - (moved if idea is not None and idea.on_host else 0)


def _excluded(idea: _Idea, together: _Case, start: _Case) -> bool:
    """Whether a lever of the same kind is among them already: the first, which costs least."""
    return any(idea.change.startswith(f'{group}.{key}:') and getattr(
        getattr(together.config, group), key) != getattr(getattr(start.config, group), key)
        for group, key in (('policy', 'weights'), ('cache', 'kv_format')))


def _changes(start: _Case, together: _Case) -> str:
    old, new = start.config.flat(), together.config.flat()
    return ', '.join(f'{name}: {new[name]}' for name in new if new[name] != old[name])


def _num_cameras(case: _Case) -> int:
    return len(case.shape.cameras if case.facts.cameras is None else case.facts.cameras)
