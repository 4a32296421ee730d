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

"""The plots that only a replay has, in the style of the report's own."""

from __future__ import annotations

import numpy as np

from robot_infer.replay.compare import Comparison
from robot_infer.report.plots import NUM_SERIES, WIDE, colour, figure_in_style

_MOST_JOINTS = 6


def shown_joints(comparison: Comparison) -> list[int]:
    """Indices of the joints that are drawn: those of the largest errors, in the robot's order."""
    errors = comparison.by_joint()
    worst = sorted(range(len(errors)), key=lambda k: -errors[k].rms)[:_MOST_JOINTS]
    return sorted(worst)


def actions(comparison: Comparison) -> str:
    """Recorded and replayed action of each joint over time."""
    joints = shown_joints(comparison)
    size = (WIDE[0], 1.1 + 1.3 * len(joints))
    with figure_in_style(size) as (figure, done):
        rows = figure.subplots(len(joints), 1, sharex=True, squeeze=False)[:, 0]
        for axes, k in zip(rows, joints):
            axes.plot(comparison.times_s, comparison.recorded[:, k], color=colour('muted'),
                      linewidth=3.0, drawstyle='steps-post')
            axes.plot(comparison.times_s, comparison.replayed[:, k], color=colour('accent'),
                      linewidth=1.2, drawstyle='steps-post')
            axes.set_ylabel(comparison.joints[k])
        rows[-1].set_xlabel('seconds of bag time since the start')
    return done()


def errors(comparison: Comparison) -> str:
    """Replayed less recorded, all joints over time; where no chunk was followed, marks below."""
    with figure_in_style(WIDE) as (figure, done):
        axes = figure.add_subplot()
        for k in shown_joints(comparison):
            axes.plot(comparison.times_s, comparison.errors[:, k], drawstyle='steps-post',
                      linewidth=1.2, color=colour(f'series-{k % NUM_SERIES}'))
        low = min(0.0, float(comparison.errors.min()))
        high = max(0.0, float(comparison.errors.max()))
        room = 0.08 * (high - low) or 1e-3
        fallback = comparison.times_s[~comparison.followed]
        axes.plot(fallback, np.full(len(fallback), low - room), linestyle='none', marker='|',
                  markersize=5, color=colour('bad'))
        axes.set_ylim(low - 2 * room, high + room)
        axes.set_ylabel('replayed less recorded')
        axes.set_xlabel('seconds of bag time since the start')
    return done()
