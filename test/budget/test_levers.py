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

"""Levers: what each one gains is what planning with it says, and what it costs is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_infer.budget.devices import find_device, given_device
from robot_infer.budget.layout import Facts, lay_out, page_need, with_budget
from robot_infer.budget.levers import Lever, find_levers
from robot_infer.budget.plan import make_plan, with_room
from robot_infer.budget.presets import find_preset
from robot_infer.config import Config

NANO = find_device('Jetson Orin Nano 8GB Super (MAXN_SUPER, 1020 MHz)')
SMALL_CPU = replace(given_device(0.5, 20.0, {'fp32': 0.1}), unified=True)


def levers_of(name: str, device, facts: Facts | None = None, **settings: object,  # noqa: ANN001
              ) -> tuple[dict[str, Lever], int]:
    """By name; and the bytes of the plan without them."""
    shape, facts = find_preset(name), facts or Facts()
    config = with_room(shape, Config.from_flat(settings), facts)
    found = find_levers(shape, config, device, facts, device.total_bytes)
    return ({lever.name: lever for lever in found},
            lay_out(shape, config, device, facts).num_bytes)


def test_every_lever_of_the_issue_is_there_for_a_robot_s_policy():
    on_cpu, _ = levers_of('SmolVLA', SMALL_CPU)
    assert set(on_cpu) == {
        'bf16', 'int8 weights', 'int4 weights', 'int8 pages', 'int4 pages', 'one camera less',
        'smaller images', 'shorter history', 'these together'}
    on_gpu, _ = levers_of('pi0', find_device('GeForce RTX 4090'), **{'policy.dtype': 'bf16'})
    assert {'fp8 pages', 'int8 pages', 'embeddings on the host'} <= set(on_gpu)
    assert 'fp8 pages' not in levers_of('pi0', NANO, **{'policy.dtype': 'bf16'})[0]


def test_every_lever_gains_something_and_says_what_it_costs():
    found, _ = levers_of('SmolVLA', SMALL_CPU)
    gains = [lever.gain_bytes for name, lever in found.items() if name != 'these together']
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0
    assert all(lever.cost and lever.change for lever in found.values())


@pytest.mark.parametrize('name, changed', [
    ('bf16', {'policy.dtype': 'bf16'}), ('int8 weights', {'policy.weights': 'int8'}),
    ('int8 pages', {'cache.kv_format': 'int8'})])
def test_the_gain_is_what_planning_with_the_same_history_says(name, changed):
    found, before = levers_of('SmolVLA', SMALL_CPU)
    shape, facts = find_preset('SmolVLA'), Facts()
    old = page_need(shape, Config(), 3)
    config = Config.from_flat(changed)
    new = page_need(shape, config, 3)
    pages = (Config().cache.budget_bytes - old.embedding_bytes) // old.block_bytes
    pages = max(pages, old.num_blocks)
    config = with_budget(config, pages * new.block_bytes + new.embedding_bytes)
    after = lay_out(shape, config, SMALL_CPU, facts)
    assert found[name].gain_bytes == before - after.num_bytes


def test_a_shorter_history_is_the_smallest_budget_that_the_engine_takes():
    found, _ = levers_of('SmolVLA', SMALL_CPU, **{'cache.budget_bytes': 200_000_000})
    settings = dict(part.split(': ') for part in found['shorter history'].change.split(', '))
    least = Config.from_flat({name: int(value) for name, value in settings.items()})
    shape = find_preset('SmolVLA')
    assert lay_out(shape, least, SMALL_CPU, Facts()).num_pages == (
        page_need(shape, least, 3).num_blocks)


def test_all_together_gain_what_a_plan_with_their_settings_says():
    shape = find_preset('SmolVLA')
    found, before = levers_of('SmolVLA', SMALL_CPU, **{'cache.budget_bytes': 200_000_000})
    lever = found['these together']
    settings = dict(part.split(': ') for part in lever.change.split(', '))
    config = Config.from_flat({name: int(value) if value.isdecimal() else value
                               for name, value in settings.items()})
    after = lay_out(shape, config, SMALL_CPU, Facts())
    assert before - after.num_bytes == lever.gain_bytes
    assert lever.gain_bytes > max(each.gain_bytes for name, each in found.items()
                                  if each.offered and name != 'these together')


def test_what_is_enough_alone_is_named_in_the_verdict():
    shape, facts = find_preset('SmolVLA'), Facts()
    device = replace(given_device(3.9, 20.0, {'fp32': 0.1}), unified=True)
    plan = make_plan(shape, with_room(shape, Config(), facts), device, facts)
    enough = [lever for lever in plan.levers if lever.fits and lever.offered]
    assert plan.headroom_bytes < 0 and enough
    least = min(enough, key=lambda lever: lever.gain_bytes)
    assert f'{least.change} would make it fit' in plan.words
    assert least.gain_bytes >= -plan.headroom_bytes


def test_what_this_version_does_not_offer_is_said_and_is_not_among_all_together():
    found, _ = levers_of('pi0', NANO, **{'policy.dtype': 'bf16'})
    assert not found['int4 weights'].offered and 'not offer' in found['int4 weights'].cost
    assert not found['one camera less'].offered and 'policy' in found['one camera less'].cost
    assert 'policy.weights' not in found['these together'].change


def test_a_lever_that_is_in_use_is_not_offered_again():
    found, _ = levers_of('SmolVLA', SMALL_CPU, **{
        'policy.dtype': 'bf16', 'policy.weights': 'int4', 'cache.kv_format': 'int4'})
    assert not {'bf16', 'int8 weights', 'int4 weights', 'int8 pages', 'int4 pages'} & set(found)
