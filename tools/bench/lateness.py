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

"""Lateness of loops, made of the times that bench_node.py's processes noted: figures and a table.

What does not live here: the processes (bench_node.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

RATE_HZ = 50.0
PERIOD_NS = round(1e9 / RATE_HZ)
ON_TIME_NS = 1_000_000
TARGET_SHARE = 0.001


def judge(folder: Path) -> dict[str, object]:
    """Lateness of each loop, period by period."""
    phase_ns, bare = _of_bare(np.load(folder / 'bare.npy'))
    second = _of_bare(np.load(folder / 'second.npy'))[1]
    ours = _fill(np.load(folder / 'node.npy'), phase_ns, len(bare))
    timer = _of_timer(np.load(folder / 'timer.npy'))
    on_time = bare <= ON_TIME_NS
    status = json.loads((folder / 'status.json').read_text())
    return {
        'bare loop': _figures(bare), 'our tick': _figures(ours),
        'rclpy timer': _figures(timer),
        'our tick where bare was on time': _figures(ours[on_time]),
        'second bare loop where the first was on time': _figures(second[on_time]),
        'bare on time': float(on_time.mean()), 'status': status}


def _of_bare(times: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Phase and lateness of a bare loop."""
    phase_ns, started = int(times[0]), times[1:]
    return phase_ns, started - (phase_ns + np.arange(len(started)) * PERIOD_NS)


def _fill(noted: NDArray[np.int64], phase_ns: int, periods: int) -> NDArray[np.int64]:
    """Lateness of our tick in each period; one that was skipped is as late as the next tick."""
    times = phase_ns + np.arange(periods) * PERIOD_NS
    place = np.searchsorted(noted[:, 0], times - PERIOD_NS // 4)
    place = np.minimum(place, len(noted) - 1)
    return noted[place, 1] - times


def _of_timer(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lateness of the timer against its own schedule, whose phase is its best one."""
    begun, started = times[0], times[1:]
    index, lateness = np.divmod(started - begun, PERIOD_NS)
    lateness -= lateness.min()
    skipped = np.setdiff1d(np.arange(index[0], index[-1] + 1), index)
    following = index[np.minimum(np.searchsorted(index, skipped), len(index) - 1)]
    late = {int(i): int(value) for i, value in zip(index, lateness)}
    extra = [(int(n) - int(s)) * PERIOD_NS + late[int(n)] for s, n in zip(skipped, following)]
    return np.concatenate([lateness, np.array(extra, np.int64)])


def _figures(lateness_ns: NDArray[np.int64]) -> dict[str, float]:
    late = np.maximum(lateness_ns, 0)
    ms = np.percentile(late, [50, 99], method='inverted_cdf') / 1e6
    return {'periods': len(late), 'p50_ms': ms[0], 'p99_ms': ms[1], 'max_ms': late.max() / 1e6,
            **{f'over_{limit}_ms': float((late > limit * 1e6).mean()) for limit in (1, 2, 5)}}


def show(title: str, result: dict[str, object]) -> bool:
    """Print one run; whether it met the targets."""
    table = Table(title=title)
    table.add_column('lateness')
    for name in ('periods', 'p50 ms', 'p99 ms', 'max ms', '> 1 ms', '> 2 ms', '> 5 ms'):
        table.add_column(name, justify='right')
    for name, figures in result.items():
        if not isinstance(figures, dict) or name == 'status':
            continue
        table.add_row(name, f'{figures["periods"]}', *(
            f'{figures[key]:.2f}' for key in ('p50_ms', 'p99_ms', 'max_ms')), *(
            f'{figures[f"over_{limit}_ms"]:.2%}' for limit in (1, 2, 5)))
    console = Console()
    console.print(table)
    judged, ours = result['our tick where bare was on time'], result['our tick']
    share, timer = judged['over_2_ms'], result['rclpy timer']
    met = share <= TARGET_SHARE
    better = ours['p99_ms'] <= timer['p99_ms'] and ours['over_2_ms'] <= timer['over_2_ms']
    status, second = result['status'], result['second bare loop where the first was on time']
    console.print(
        f'bare loop within 1 ms: {result["bare on time"]:.1%} of periods; there '
        f'{share:.2%} of our ticks were later than 2 ms: '
        f'{"met" if met else "NOT met"} (at most {TARGET_SHARE:.1%}); of a second bare loop\'s '
        f'turns there {second["over_2_ms"]:.2%}\n'
        f'never worse than the rclpy timer (p99, share > 2 ms): '
        f'{"met" if better else "NOT met"}\n'
        f'policy: {status["steps"]} steps, p50 {status["step_p50_s"] * 1e3:.0f} ms, '
        f'p99 {status["step_p99_s"] * 1e3:.0f} ms; {status["chunk_ticks"]} ticks followed it, '
        f'{status["fallback_ticks"]} had the fallback; decide p99 '
        f'{status["decide_p99_s"] * 1e3:.2f} ms, publish p99 {status["publish_p99_s"] * 1e3:.2f} '
        f'ms, longest collection {status["gc_pause_max_s"] * 1e3:.1f} ms\n'
        + '; '.join(status['realtime']))
    return met and better
