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

"""What the lateness benchmark makes of its notes, and a short soak of the real node."""

from __future__ import annotations

import importlib
from pathlib import Path
import sys
from types import ModuleType

import numpy as np
import pytest

TOOLS = Path(__file__).parents[2] / 'tools' / 'bench'
MS = 1_000_000


def tool(name: str) -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(scope='module')
def bench() -> ModuleType:
    return tool('bench_node')


@pytest.fixture(scope='module')
def lateness() -> ModuleType:
    return tool('lateness')


def test_a_skipped_tick_is_as_late_as_the_next_one(lateness) -> None:
    noted = np.array([[0, 1], [20, 23], [80, 81], [100, 100]]) * MS
    late = lateness._fill(noted, 0, 6)
    assert (late / MS).tolist() == [1, 3, 41, 21, 1, 0]


def test_a_timer_is_judged_by_its_own_best_phase(lateness) -> None:
    begun = 1_000 * MS
    started = begun + np.array([20.3, 40.3, 65.3, 80.3, 140.3]) * MS
    late = lateness._of_timer(np.concatenate([[begun], started]).astype(np.int64))
    assert (late / MS).tolist() == pytest.approx([0, 0, 5, 0, 0, 40, 20])


def test_figures_count_what_is_later_than_one_two_and_five_ms(lateness) -> None:
    figures = lateness._figures(np.array([-1, 0, 1.5, 3, 7]) * MS)
    assert (figures['over_1_ms'], figures['over_2_ms'], figures['over_5_ms']) == (0.6, 0.4, 0.2)
    assert (figures['p50_ms'], figures['max_ms']) == (1.5, 7.0)


def test_a_short_run_has_figures_of_every_process(bench) -> None:
    """With a guard and the policy's own process, so that all that the tool hooks into is there."""
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    result = bench.measure(2.0, priority=0, in_process=False, guarded=True)
    for loop in ('bare loop', 'our tick', 'rclpy timer'):
        assert result[loop]['periods'] > 0, loop
    assert result['status']['steps'] > 0 and result['status']['chunk_ticks'] > 0


def test_a_soak_tells_growth_and_drift() -> None:
    soak = tool('soak')
    period = tool('bench_node').PERIOD_NS
    samples = [soak.Sample(float(n), 1000 + n, 5000, 0, 10, 20 + (n > 80)) for n in range(100)]
    ticks = np.array([[5, 6], [5 + 70 * period + 3, 0]])
    figures = soak.judge(samples, ticks, 50.0)
    assert figures['growth_of_node_bytes'] == 50 and figures['growth_of_policy_bytes'] == 0
    assert (figures['growth_threads'], figures['growth_files']) == (0, 1)
    assert (figures['drift_ns'], figures['periods'], figures['ticks']) == (3, 71, 2)


def test_the_node_runs_without_drift_and_without_new_threads_or_files() -> None:
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    figures = tool('soak').run(16.0, 6.0)
    assert (figures['drift_ns'], figures['growth_threads'], figures['growth_files']) == (0, 0, 0)
    assert figures['growth_bytes'] < 16 * 2**20  # the first minute may grow; half an hour may not
    assert figures['ticks'] > 0.3 * figures['periods']
