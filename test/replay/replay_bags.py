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

"""Bags for the tests: the demo world driven in lock-step and recorded, and small bags by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.replay import messages
from robot_infer.sim.cameras import rows
from robot_infer.sim.episodes import EpisodePlan
from robot_infer.sim.lockstep import LockStep
from robot_infer.sim.world import CAMERAS, CONTROL_PERIOD_S, JOINT_NAMES

ORIGIN_NS = 1_750_000_000_000_000_000
PERIOD_NS = round(CONTROL_PERIOD_S * 1e9)
LATENCY_TICKS = 2
BAGS = Path(__file__).parents[1] / 'data' / 'bags'


class Sent(NamedTuple):
    """One message for a bag."""

    topic: str
    type: str
    time_ns: int
    cdr: bytes


def header(stamp_ns: int, frame_id: str = '') -> object:
    """A std_msgs/Header."""
    stamp = messages.new('builtin_interfaces/msg/Time', sec=stamp_ns // 10**9,
                         nanosec=stamp_ns % 10**9)
    return messages.new('std_msgs/msg/Header', stamp=stamp, frame_id=frame_id)


def image(time_ns: int, topic: str = '/overhead/image', stamp_ns: int | None = None,
          width: int = 64, height: int = 48, value: int = 0, **fields: object) -> Sent:
    """A small rgb8 picture."""
    given = {'encoding': 'rgb8', 'is_bigendian': 0, 'step': 3 * width,
             'data': np.full(3 * width * height, value, np.uint8), **fields}
    message = messages.new(
        messages.IMAGE, header=header(time_ns if stamp_ns is None else stamp_ns), width=width,
        height=height, **given)
    return Sent(topic, messages.IMAGE, time_ns, messages.encode(message, messages.IMAGE))


def state(time_ns: int, positions: Sequence[float] = (0.1, -0.1),
          names: Sequence[str] = JOINT_NAMES, topic: str = '/joint_states',
          stamp_ns: int | None = None) -> Sent:
    """A JointState."""
    message = messages.new(
        messages.JOINT_STATE, header=header(time_ns if stamp_ns is None else stamp_ns),
        name=list(names), position=np.array(positions, np.float64), velocity=np.zeros(0),
        effort=np.zeros(0))
    return Sent(topic, messages.JOINT_STATE, time_ns,
                messages.encode(message, messages.JOINT_STATE))


def text(time_ns: int, words: str, topic: str = '/instruction') -> Sent:
    """A String."""
    return Sent(topic, messages.STRING, time_ns,
                messages.encode(messages.new(messages.STRING, data=words), messages.STRING))


def trajectory(time_ns: int, values: Sequence[float], joints: Sequence[str] = JOINT_NAMES,
               topic: str = '/action') -> Sent:
    """A JointTrajectory of one point."""
    duration = messages.new('builtin_interfaces/msg/Duration', sec=0, nanosec=PERIOD_NS)
    none = np.zeros(0)
    point = messages.new(
        'trajectory_msgs/msg/JointTrajectoryPoint', positions=np.array(values, np.float64),
        velocities=none, accelerations=none, effort=none, time_from_start=duration)
    message = messages.new(messages.JOINT_TRAJECTORY, header=header(0),
                           joint_names=list(joints), points=[point])
    return Sent(topic, messages.JOINT_TRAJECTORY, time_ns,
                messages.encode(message, messages.JOINT_TRAJECTORY))


def write(folder: Path, sent: Sequence[Sent], storage: StoragePlugin = StoragePlugin.MCAP,
          compression: tuple | None = None) -> Path:
    """Write a bag."""
    writer = Writer(folder, version=8, storage_plugin=storage)
    if compression is not None:
        writer.set_compression(*compression)
    connections: dict[tuple[str, str], object] = {}
    with writer:
        for one in sent:
            key = (one.topic, one.type)
            if key not in connections:
                connections[key] = writer.add_connection(
                    one.topic, one.type, typestore=messages.STORE)
            writer.write(connections[key], one.time_ns, one.cdr)
    return folder


def punch(file: Path, where: float = 0.5, size: int = 400_000) -> None:
    """Spoil a part of a file, enough for the head of a compressed block to lie within."""
    content = bytearray(file.read_bytes())
    start = int(where * len(content))
    content[start:start + size] = b'\xff' * len(content[start:start + size])
    file.write_bytes(content)


class RecordedLockStep(LockStep):
    """The demo in lock-step that keeps every message, as a recorder beside the robot would."""

    def __init__(self, config: Config, engine: Engine, plan: EpisodePlan) -> None:
        self.sent = [text(ORIGIN_NS, plan.instruction)]
        super().__init__(config, engine, plan, LATENCY_TICKS)
        self.sent += self._pictures(ORIGIN_NS)

    def step(self) -> None:
        now_ns = ORIGIN_NS + self.ticks * PERIOD_NS
        self.sent.append(state(now_ns, self.world.state().tolist()))
        super().step()
        if self.commanded is not None:
            self.sent.append(trajectory(now_ns, self.commanded.tolist()))

    def _take(self, command) -> None:  # noqa: ANN001 - a Command
        self.commanded = command.values
        super()._take(command)

    def _show(self) -> None:
        super()._show()
        if self.ticks:  # after the tick that must not see it
            self.sent += self._pictures(ORIGIN_NS + (self.ticks - 1) * PERIOD_NS + 1000)

    def _pictures(self, time_ns: int) -> list[Sent]:
        pictures = []
        for camera in CAMERAS:
            sent = rows(camera, self.world.render(camera))
            height, step = sent.pixels.shape
            pictures.append(image(
                time_ns, f'/{camera}/image', width=sent.width, height=height, step=step,
                encoding=sent.encoding, data=sent.pixels.reshape(-1)))
        return pictures
