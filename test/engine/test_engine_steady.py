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

"""The engine in its steady state: step after step in the memory that was taken at configure."""

from __future__ import annotations

from collections.abc import Iterator
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from robot_infer.config import Config
from robot_infer.control.memory import held_bytes
from robot_infer.engine import Engine
from robot_infer.sim.changes import demo_changes
from robot_infer.types import Observation, RobotState

STEPS, SETTLED = 2000, 300
GROWTH_BYTES = 256 * 1024  # less than one camera image, or than a page of every second step


@pytest.fixture(scope='module')
def engine() -> Engine:
    """The demo policy; a short action head, since it is the number of steps that counts."""
    return Engine.from_config(Config.from_flat({
        'policy.threads': 1, 'policy.horizon': 2, 'policy.denoise_steps': 2,
        'cache.budget_bytes': 1 << 22}))


def robot() -> Iterator[Observation]:
    """New frames every tenth step, a new state each step, now and then another instruction."""
    scenes = [each for _, each in demo_changes(5, 24)]
    rng = np.random.default_rng(5)
    for number in itertools.count():
        scene = scenes[number // 10 % len(scenes)]
        state = RobotState(rng.uniform(-0.2, 0.2, 2).astype(np.float32), number, 0)
        yield Observation(scene.frames, state, scene.instruction, number)


def test_2000_steps_take_no_page_beyond_the_plan_and_do_not_grow_the_process(engine):
    if not Path('/proc/self/status').exists():
        pytest.skip('needs /proc, to see what the process holds')
    steps, held, used, total = robot(), [], set(), engine.cache_stats().pages_total
    for _ in range(SETTLED):
        engine.step(next(steps))
    device = engine.info.device
    before = torch.cuda.memory_stats(device) if device != 'cpu' else {}
    for number in range(STEPS):
        report = engine.step(next(steps)).report
        used.add(report.pages_used)
        assert report.pages_total == total and not report.late_kernels
        if number % 100 == 99:
            held.append(held_bytes('RssAnon'))
    assert max(used) < total and len(used) <= 3, 'pages of one or two prefixes and a suffix'
    assert np.median(held[-5:]) - np.median(held[:5]) < GROWTH_BYTES, held
    if device != 'cpu':
        after = torch.cuda.memory_stats(device)
        assert after['num_device_alloc'] == before['num_device_alloc']
        assert after['reserved_bytes.all.peak'] == before['reserved_bytes.all.peak']
