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

"""What a report is made of: records of inference steps, control ticks, episodes and pictures.

Plain frozen dataclasses with a JSON form, so that a run can be kept and rendered again. Nothing is
computed or drawn here. A node publishes one `StepRecord` a line on `~/step`; whoever drives a run
(the demo, a replay) gathers them into a `RunRecord`.

Times ending in `_ns` are CLOCK_MONOTONIC, which all processes of one machine share; times ending
in `_s` inside a `RunRecord` are seconds since the run began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pydantic
from pydantic import TypeAdapter

from robot_infer.errors import ConfigError
from robot_infer.types import ActionChunk, Source


class TickRecord(NamedTuple):
    """One control tick: when it began, how late that was, and where its action came from.

    late: whether it began after its deadline. skipped: periods before it that had no tick at all.
    reason: why a fallback was taken, '' for an action of a chunk. epoch: of that chunk, else -1.
    """

    time_ns: int
    lateness_s: float
    source: Source
    late: bool = False
    skipped: int = 0
    reason: str = ''
    epoch: int = -1

    @property
    def missed(self) -> int:
        """Missed deadlines: this one if it is late, and those of the periods skipped."""
        return self.late + self.skipped


@dataclass(frozen=True)
class StepRecord:
    """One inference step, and the control ticks since the step before it.

    started_ns: when its observation was taken; ended_ns: when its chunk was there.
    stages_s: seconds per stage in the order they ran: `observe`, then the engine's own.
    frame_age_s: from the oldest frame's stamp to the chunk; None where stamps cannot be trusted.
    frame_stamps_ns, state_stamp_ns: what it looked at, by the senders' stamps. horizon: actions in
    its chunk; 0 in records of before this was told. late_kernels: GPU kernels compiled in it.
    """

    epoch: int
    started_ns: int
    ended_ns: int
    stages_s: Mapping[str, float]
    deadline_s: float
    tokens_total: int
    tokens_computed: int
    cameras_encoded: int
    pages_used: int
    pages_total: int
    frame_age_s: float | None = None
    ticks: tuple[TickRecord, ...] = ()
    frame_stamps_ns: Mapping[str, int] = field(default_factory=dict)
    state_stamp_ns: int = 0
    horizon: int = 0
    late_kernels: int = 0

    @classmethod
    def from_chunk(
        cls, chunk: ActionChunk, *, observe_s: float, ended_ns: int, deadline_s: float,
        frame_age_s: float | None = None, ticks: Iterable[TickRecord] = (),
    ) -> StepRecord:
        """Make the record of the step that produced `chunk` (which must carry its report)."""
        report = chunk.report
        assert report is not None, 'a chunk of the engine carries its report'
        return cls(
            epoch=chunk.epoch, started_ns=chunk.observed_ns, ended_ns=ended_ns,
            stages_s={'observe': observe_s, **report.stages_s}, deadline_s=deadline_s,
            tokens_total=report.tokens_total, tokens_computed=report.tokens_computed,
            cameras_encoded=report.cameras_encoded, pages_used=report.pages_used,
            pages_total=report.pages_total, frame_age_s=frame_age_s, ticks=tuple(ticks),
            frame_stamps_ns=chunk.frame_stamps_ns, state_stamp_ns=chunk.state_stamp_ns,
            horizon=len(chunk.values), late_kernels=report.late_kernels)

    @property
    def duration_s(self) -> float:
        """Seconds from the observation to the chunk."""
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def late(self) -> bool:
        """Whether the step took longer than its deadline."""
        return self.duration_s > self.deadline_s

    @property
    def tokens_reused(self) -> int:
        """Prefix tokens whose keys and values were already in pages."""
        return self.tokens_total - self.tokens_computed

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return _STEP.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> StepRecord:
        """Read a record back; ConfigError where the text is not one."""
        return _read(_STEP, text, 'step record')


@dataclass(frozen=True)
class Mark:
    """A named point in a picture, in pixels. role: 'start', 'end' or 'target'."""

    x: float
    y: float
    role: str
    label: str = ''


@dataclass(frozen=True)
class Picture:
    """A camera frame with what was driven over it: `path` is in pixels, oldest point first."""

    jpeg: bytes
    width: int
    height: int
    caption: str
    path: tuple[tuple[float, float], ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode: what was asked, what came of it. moved_s: when the blocks were moved."""

    number: int
    seed: int
    instruction: str
    success: bool
    started_s: float
    ended_s: float
    distance_m: float
    moved_s: float | None = None
    pictures: tuple[Picture, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether blocks were moved while the robot was under way."""
        return self.moved_s is not None

    @property
    def duration_s(self) -> float:
        """Seconds from the instruction to the end."""
        return self.ended_s - self.started_s


@dataclass(frozen=True)
class MemorySample:
    """Resident memory of one process at one moment."""

    time_s: float
    process: str
    rss_bytes: int


@dataclass(frozen=True)
class RunRecord:
    """One whole run. started: local time in words; origin_ns: the monotonic time of second 0."""

    title: str
    started: str
    origin_ns: int
    duration_s: float
    steps: tuple[StepRecord, ...]
    episodes: tuple[EpisodeRecord, ...] = ()
    memory: tuple[MemorySample, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def seconds(self, time_ns: int) -> float:
        """Return a monotonic time as seconds since the run began."""
        return (time_ns - self.origin_ns) / 1e9

    def ticks(self) -> list[TickRecord]:
        """Return the control ticks of all steps, in order."""
        return [tick for step in self.steps for tick in step.ticks]

    def write_json(self, path: Path) -> None:
        """Write the record to `path`, making its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_RUN.dump_json(self))

    @classmethod
    def read_json(cls, path: Path) -> RunRecord:
        """Read a record back; ConfigError where the file is missing or is not one."""
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f'run record {path}', expected='a readable file', got=str(error.strerror),
                remedy='Check the path.') from error
        return _read(_RUN, text, f'run record {path}')


# Bytes travel as base64, because JSON knows only text.
for _record in (StepRecord, Picture, RunRecord):
    _record.__pydantic_config__ = pydantic.ConfigDict(
        ser_json_bytes='base64', val_json_bytes='base64', extra='forbid')
_STEP = TypeAdapter(StepRecord)
_RUN = TypeAdapter(RunRecord)


def _read(adapter: TypeAdapter, text: str | bytes, subject: str):  # noqa: ANN202 - the adapter's
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = '.'.join(str(part) for part in first['loc']) or 'the text'
        raise ConfigError(
            subject, expected=f'the JSON that robot_infer {_version()} writes',
            got=f'{first["msg"]} at {where}',
            remedy='Record the run again with this version.') from error


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version
    try:
        return version('robot_infer')
    except PackageNotFoundError:
        return '(not installed)'
