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

"""The engine and its plan: refused with the table, taken to the byte, measured when ready."""

from __future__ import annotations

from dataclasses import replace
import subprocess
import sys

import pytest
import torch

from robot_infer import engine_plan
from robot_infer.budget.probe import probe
from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import BudgetError

MIB = 2**20
# A process of its own: what this one freed before would stand in for what the engine takes.
_MEASURE = """
from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.control.memory import resident_bytes
from robot_infer.sim.changes import demo_changes
engine = Engine.from_config(Config.from_flat({'policy.threads': 1}))
for found in engine.info.measured:
    print(found.name, found.planned_bytes, found.measured_bytes, sep='|')
for _, observation in demo_changes(3, 20):
    engine.step(observation)
print('after steps', found.planned_bytes, resident_bytes(), sep='|')
"""


def config(**values: object) -> Config:
    return Config.from_flat({'policy.threads': 1, **values})


def test_a_plan_that_does_not_fit_is_refused_with_its_table(monkeypatch):
    def small(name: str, **how: object):
        here = probe(name, **how)
        return replace(here, available_bytes=100 * MIB)
    monkeypatch.setattr(engine_plan, 'probe', small)
    with pytest.raises(BudgetError) as caught:
        Engine.from_config(config(**{'cache.budget_bytes': 400 * MIB}))
    words = str(caught.value)
    assert 'the plan: expected at most' in words and 'robot-infer plan --config FILE' in words
    for line in ('pages', 'language model', 'vision workspace', 'process of the policy',
                 'all lines', 'MISSING'):
        assert any(row.startswith(line) for row in words.splitlines()), line


@pytest.mark.parametrize('values', [
    {}, {'policy.dtype': 'bf16'}, {'cache.kv_format': 'int8'}, {'cache.page_tokens': 16},
    {'policy.horizon': 4, 'cache.budget_bytes': 1 << 22}])
def test_pages_and_embeddings_are_taken_as_the_plan_says_to_the_byte(values):
    given = config(**values)
    engine = Engine.from_config(given)
    plan = engine_plan.plan_engine(given, engine_plan.Path(engine.info.checkpoint),
                                   torch.device('cpu'))
    planned = {line.name: line.num_bytes for line in plan.lines}
    assert {line.name: line.num_bytes for line in engine.info.memory} == {
        name: planned[name] for name in ('pages', 'image embeddings')}
    assert sum(planned[line.name] for line in engine.info.memory) == engine.info.taken_bytes
    assert engine.cache_stats().pages_total == plan.layout.num_pages


def test_the_whole_process_is_within_5_percent_and_pages_within_1():
    """Weights of the demo policy are too few to be seen: its tokenizer is a tenth of them."""
    done = subprocess.run([sys.executable, '-c', _MEASURE], capture_output=True, text=True,
                          check=True)
    found = {name: (int(planned), int(measured)) for name, planned, measured in (
        line.split('|') for line in done.stdout.splitlines())}
    assert list(found) == ['weights', 'pages and image embeddings', 'workspaces',
                           'process of the policy', 'after steps']
    for name, share in (('pages and image embeddings', 0.01), ('after steps', 0.05)):
        planned, measured = found[name]
        assert abs(planned - measured) <= share * measured, (name, planned, measured)
    planned, measured = found['weights']
    assert abs(planned - measured) <= 2 * MIB, (planned, measured)
