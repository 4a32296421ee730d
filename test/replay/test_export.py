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

"""What is written can be read by others: JSON lines, and MCAP by the mcap library."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
import json
from pathlib import Path
import sys

from mcap.reader import make_reader
import numpy as np
import pytest

from robot_infer.config import Config
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag
from robot_infer.replay.export import (
    ACTION,
    LATE_STEP,
    STATUS,
    STEP,
    action_message,
    write_mcap,
    write_records,
)
from robot_infer.replay.run import Options, Replay, Result
from robot_infer.replay.sources import Wishes, choose
from robot_infer.report.record import StepRecord

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope='module')
def result(demo_bag: Path, config: Config, engine) -> Result:  # noqa: ANN001 - an Engine
    """A replay of which one step was late."""
    engine.reset()
    with Bag(demo_bag) as bag:
        found = Replay(bag, choose(bag, config, Wishes()), Wishes(), config, engine,
                       Options(duration_s=1.0)).run()
    steps = [replace(step, deadline_s=1e9) for step in found.steps]
    steps[3] = replace(steps[3], deadline_s=1e-9)
    return replace(found, steps=tuple(steps))


def test_records_come_back_from_their_lines(result, tmp_path):
    write_records(result.steps, tmp_path / 'new' / 'steps.jsonl')
    lines = (tmp_path / 'new' / 'steps.jsonl').read_text().splitlines()
    assert [StepRecord.from_json(line) for line in lines] == list(result.steps)


def test_the_mcap_file_holds_everything_in_bag_time_with_its_definitions(result, config, tmp_path):
    write_mcap(result, config, tmp_path / 'replay.mcap')
    with (tmp_path / 'replay.mcap').open('rb') as stream:
        reader = make_reader(stream, validate_crcs=True)
        assert reader.get_header().profile == 'ros2'
        found = [(channel.topic, schema, channel.message_encoding, message)
                 for schema, channel, message in reader.iter_messages()]
    assert Counter(one[0] for one in found) == {
        ACTION: len(result.ticks), STATUS: 2, STEP: len(result.steps), LATE_STEP: 1}
    actions = [one[3] for one in found if one[0] == ACTION]
    for tick, message in zip(result.ticks, actions):
        assert message.log_time == tick.time_ns
        sent = messages.action(message.data, messages.JOINT_TRAJECTORY)
        assert sent.joints == config.state.joints and (sent.values == tick.values).all()
    for topic, schema, encoding, message in found:
        if encoding == 'json':
            described = json.loads(schema.data)
            value = json.loads(message.data)
            assert schema.encoding == 'jsonschema' and described['type'] == 'object'
            assert set(described['properties']) <= set(value), topic
        else:
            assert schema.encoding == 'ros2msg' and b'MSG: ' in schema.data
    steps = [StepRecord.from_json(one[3].data) for one in found if one[0] == STEP]
    # In bag time a step that took long ends behind the one that followed.
    assert sorted(steps, key=lambda step: step.epoch) == list(result.steps)
    (late,) = [json.loads(one[3].data) for one in found if one[0] == LATE_STEP]
    assert late['epoch'] == result.steps[3].epoch and late['words']


def test_the_actions_and_status_are_messages_that_rosbags_and_ros_read(result, config, tmp_path):
    write_mcap(result, config, tmp_path / 'replay.mcap')
    with (tmp_path / 'replay.mcap').open('rb') as stream:
        for schema, channel, message in make_reader(stream).iter_messages(topics=[STATUS]):
            status = messages.STORE.deserialize_cdr(message.data, schema.name)
            assert channel.topic == STATUS and status.name == '/replay'
            assert status.message in ('hold: instruction_changed', 'chunk')
            assert {pair.key for pair in status.values} == {'source', 'reason', 'epoch', 'row'}


@pytest.mark.parametrize('output', ['joint_trajectory', 'float64_multi_array'])
def test_an_action_is_the_message_that_the_node_sends(config, output):
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    from rclpy.serialization import deserialize_message

    from robot_infer.ros import messages as ros_messages
    settings = Config.from_flat({**config.flat(), 'control.output': output})
    values = np.array([0.123456789, -7.5])
    sent = getattr(ros_messages, output)(config.state.joints, values, 1 / config.control.rate_hz)
    type_name, cdr = action_message(values, settings)
    assert type_name.endswith(type(sent).__name__)
    assert deserialize_message(cdr, type(sent)) == sent  # bytes between the fields are anyone's


def test_a_replay_without_a_step_can_be_written(result, config, tmp_path):
    write_mcap(replace(result, steps=(), ticks=()), config, tmp_path / 'none.mcap')
    with (tmp_path / 'none.mcap').open('rb') as stream:
        assert list(make_reader(stream).iter_messages()) == []
