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

"""One episode of the demo as it goes on: what is heard of it in, its record and pictures out."""

from __future__ import annotations

from robot_infer.report.record import EpisodeRecord, Mark, Picture
from robot_infer.sim.cameras import picture_point
from robot_infer.sim.episodes import EpisodePlan, Judge, Mover
from robot_infer.sim.messages import Truth
from robot_infer.sim.scene import OVERHEAD_SIZE
from robot_infer.sim.world import CONTROL_PERIOD_S

_Point = tuple[float, float]


class EpisodeLog:
    """Follows one episode from truth to truth, in real time."""

    def __init__(self, plan: EpisodePlan, started_s: float) -> None:
        """Begin at `started_s`, seconds since the run began."""
        self.plan = plan
        self.distance_m = float('nan')
        self._started_s = self._ended_s = started_s
        self._moved_s: float | None = None
        self._first_step: int | None = None
        self._judge = Judge(plan.colour)
        self._mover = Mover(plan.moved)
        self._path: list[_Point] = []
        self._targets: list[_Point] = []
        self._moved_at: _Point | None = None
        self._pictures: list[Picture] = []

    @property
    def done(self) -> bool:
        """Whether it has succeeded or run out of time."""
        return self._judge.done

    @property
    def success(self) -> bool:
        """Whether it has succeeded."""
        return self._judge.success

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return self._ended_s - self._started_s

    @property
    def moved(self) -> bool:
        """Whether the block has been moved."""
        return self._moved_s is not None

    def see(self, truth: Truth, now_s: float) -> bool:
        """Take one truth; returns whether the block is to be moved now."""
        if self._first_step is None:
            self._first_step = truth.step
        step = round((truth.step - self._first_step) * truth.period_s / CONTROL_PERIOD_S)
        target = truth.blocks[self.plan.colour]
        self.distance_m = truth.distances[self.plan.colour]
        self._path.append(truth.gripper)
        self._ended_s = now_s
        if not self._targets or target != self._targets[-1]:
            if self._targets:
                self._moved_s, self._moved_at = now_s, truth.gripper
                self._judge.block_moved()
            self._targets.append(target)
        self._judge.see(step, self.distance_m)
        return self._mover.due(step, self.distance_m)

    def add_picture(self, jpeg: bytes, caption: str) -> None:
        """Keep a picture, with what was driven until now drawn over it."""
        marks = [_mark(place, 'was') for place in self._targets[:-1]]
        marks.append(_mark(self._targets[-1], 'target'))
        marks.append(_mark(self._path[0], 'start'))
        if self._moved_at is not None:
            marks.append(_mark(self._moved_at, 'moved', 'block moved'))
        marks.append(_mark(self._path[-1], 'end'))
        width, height = OVERHEAD_SIZE
        self._pictures.append(Picture(
            jpeg, width, height, caption, _thinned([picture_point(xy) for xy in self._path]),
            tuple(marks)))

    def record(self) -> EpisodeRecord:
        """Return the record of the episode as far as it has come."""
        return EpisodeRecord(
            self.plan.number, self.plan.world_seed, self.plan.instruction, self._judge.success,
            self._started_s, self._ended_s, self.distance_m, self._moved_s,
            tuple(self._pictures))


def _mark(xy: _Point, role: str, label: str = '') -> Mark:
    x, y = picture_point(xy)
    return Mark(x, y, role, label)


def _thinned(path: list[_Point], least_px: float = 1.5) -> tuple[_Point, ...]:
    """Leave out points that lie on top of each other: the robot stood still."""
    kept = path[:1]
    for point in path[1:]:
        if abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) >= least_px:
            kept.append(point)
    return tuple(kept)
