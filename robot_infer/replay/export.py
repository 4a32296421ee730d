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

"""A replay as files for other tools: step records as JSON lines, everything as an MCAP file.

The MCAP file carries its own definitions, so that Foxglove opens it without ROS, beside the bag
itself: its times are those of the bag.

    /replay/action      the action of every control tick, in the type of control.output
    /replay/status      diagnostic_msgs/DiagnosticStatus, on change and once a second
    /replay/step        one StepRecord per inference step (JSON)
    /replay/late_step   what made a late step late (JSON)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import json
from pathlib import Path

from mcap.writer import Writer
import numpy as np

from robot_infer.config import Config
from robot_infer.control.chunks import Reason
from robot_infer.replay import messages
from robot_infer.replay.late import explain
from robot_infer.replay.recorder import Tick
from robot_infer.replay.run import Result
from robot_infer.report.record import StepRecord
from robot_infer.types import Source

ACTION, STATUS, STEP, LATE_STEP = (
    '/replay/action', '/replay/status', '/replay/step', '/replay/late_step')
_STATUS_PERIOD_NS = 1_000_000_000
_OK, _WARN = 0, 1
_WAITING = frozenset(reason.value for reason in Reason if reason.waiting)
_INTEGERS = ('epoch', 'started_ns', 'ended_ns', 'tokens_total', 'tokens_computed',
             'cameras_encoded', 'pages_used', 'pages_total', 'state_stamp_ns', 'late_kernels')
_LATE_NUMBERS = ('duration_ms', 'deadline_ms', 'excess_ms')
_LATE_WORDS = ('cause', 'stage', 'words')


def write_records(steps: Sequence[StepRecord], path: Path) -> None:
    """Write one line of JSON per step; `StepRecord.from_json` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w', encoding='utf-8') as stream:
        stream.writelines(step.to_json() + '\n' for step in steps)


def write_mcap(result: Result, config: Config, path: Path) -> None:
    """Write the replay as an MCAP file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('wb') as stream:
        writer = Writer(stream)
        writer.start(profile='ros2', library='robot_infer')
        _write_actions(writer, result.ticks, config)
        _write_status(writer, result.ticks, config)
        _write_steps(writer, result.steps)
        writer.finish()


def action_message(values: np.ndarray, config: Config) -> tuple[str, bytes]:
    """An action as the node sends it (ros/messages.py): its type and its CDR."""
    if config.control.output == 'float64_multi_array':
        dimension = messages.new(
            'std_msgs/msg/MultiArrayDimension', label='action', size=len(values),
            stride=len(values))
        layout = messages.new(
            'std_msgs/msg/MultiArrayLayout', dim=[dimension], data_offset=0)
        return messages.FLOAT64_MULTI_ARRAY, messages.encode(
            messages.new(messages.FLOAT64_MULTI_ARRAY, layout=layout, data=values),
            messages.FLOAT64_MULTI_ARRAY)
    whole_s, rest_ns = divmod(round(1e9 / config.control.rate_hz), 10**9)
    time = messages.new('builtin_interfaces/msg/Time', sec=0, nanosec=0)
    none = np.zeros(0)
    point = messages.new(
        'trajectory_msgs/msg/JointTrajectoryPoint', positions=values, velocities=none,
        accelerations=none, effort=none, time_from_start=messages.new(
            'builtin_interfaces/msg/Duration', sec=whole_s, nanosec=rest_ns))
    return messages.JOINT_TRAJECTORY, messages.encode(messages.new(
        messages.JOINT_TRAJECTORY,
        header=messages.new('std_msgs/msg/Header', stamp=time, frame_id=''),
        joint_names=list(config.state.joints), points=[point]), messages.JOINT_TRAJECTORY)


def _write_actions(writer: Writer, ticks: Sequence[Tick], config: Config) -> None:
    output = {'joint_trajectory': messages.JOINT_TRAJECTORY,
              'float64_multi_array': messages.FLOAT64_MULTI_ARRAY}[config.control.output]
    put = _ros_channel(writer, ACTION, output)
    for tick in ticks:
        if tick.values is not None:
            put(tick.time_ns, action_message(np.asarray(tick.values, np.float64), config)[1])


def _write_status(writer: Writer, ticks: Sequence[Tick], config: Config) -> None:
    put = _ros_channel(writer, STATUS, messages.DIAGNOSTIC_STATUS)
    last, due_ns = None, 0
    for tick in ticks:
        state = (tick.source, tick.reason)
        if state == last and tick.time_ns < due_ns:
            continue
        last, due_ns = state, tick.time_ns + _STATUS_PERIOD_NS
        followed = tick.source is Source.CHUNK
        values = {'source': tick.source.value, 'reason': tick.reason, 'epoch': tick.epoch,
                  'row': tick.row}
        message = messages.new(
            messages.DIAGNOSTIC_STATUS, name='/replay',
            level=_OK if followed or tick.reason in _WAITING else _WARN,
            message=tick.source.value if followed else f'{tick.source.value}: {tick.reason}',
            hardware_id=config.diagnostics.hardware_id, values=[
                messages.new('diagnostic_msgs/msg/KeyValue', key=key, value=str(value))
                for key, value in values.items()])
        put(tick.time_ns, messages.encode(message, messages.DIAGNOSTIC_STATUS))


def _write_steps(writer: Writer, steps: Sequence[StepRecord]) -> None:
    # Objects and numbers only, which every viewer understands; the ticks within are not described.
    stages = dict.fromkeys(name for step in steps for name in step.stages_s)
    cameras = dict.fromkeys(name for step in steps for name in step.frame_stamps_ns)
    put = _json_channel(writer, STEP, 'robot_infer.StepRecord', {
        **_kinds('integer', _INTEGERS), **_kinds('number', ('deadline_s', 'frame_age_s')),
        'stages_s': _object(_kinds('number', stages)),
        'frame_stamps_ns': _object(_kinds('integer', cameras))})
    for step in steps:
        put(step.ended_ns, step.to_json().encode())
    put = _json_channel(writer, LATE_STEP, 'robot_infer.LateStep', {
        **_kinds('integer', ('epoch',)), **_kinds('number', _LATE_NUMBERS),
        **_kinds('string', _LATE_WORDS)})
    for late in explain(steps):
        put(late.step.ended_ns, json.dumps({
            'epoch': late.step.epoch, 'duration_ms': late.step.duration_s * 1e3,
            'deadline_ms': late.step.deadline_s * 1e3, 'excess_ms': late.excess_s * 1e3,
            'cause': late.cause.value, 'stage': late.stage, 'words': late.words}).encode())


def _ros_channel(writer: Writer, topic: str, type_name: str) -> Callable[[int, bytes], None]:
    schema = writer.register_schema(
        type_name, 'ros2msg', messages.definition(type_name).encode())
    return _channel(writer, topic, 'cdr', schema)


def _json_channel(
    writer: Writer, topic: str, name: str, properties: Mapping[str, object],
) -> Callable[[int, bytes], None]:
    return _channel(writer, topic, 'json', writer.register_schema(
        name, 'jsonschema', json.dumps(_object(properties)).encode()))


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {'type': 'object', 'properties': dict(properties)}


def _kinds(kind: str, names: Iterable[str]) -> dict[str, object]:
    return {name: {'type': kind} for name in names}


def _channel(
    writer: Writer, topic: str, encoding: str, schema: int,
) -> Callable[[int, bytes], None]:
    channel = writer.register_channel(topic, encoding, schema)

    def put(time_ns: int, data: bytes) -> None:
        writer.add_message(channel, time_ns, data, time_ns)
    return put
