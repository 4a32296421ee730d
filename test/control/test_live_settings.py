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

"""Settings that are changed while the robot moves: all of them or none, and at once."""

from __future__ import annotations

import pytest

from robot_infer.errors import ConfigError, InstructionError


def test_a_refused_set_takes_over_nothing_and_ends_the_instruction(make_rig) -> None:
    rig = make_rig()
    with pytest.raises(InstructionError):
        rig.apply(cameras__max_age_s=9.0, control__chunk_validity_s=9.0,
                  instruction__text='y' * 10_000)
    rig.feed()
    assert rig.runtime.status().instruction == ''
    assert rig.runtime.infer_once() is None
    rig.runtime.set_instruction('to the light')
    rig.clock.advance_s(1.0)
    rig.put_state()
    assert rig.runtime.infer_once() is None  # the frames are stale, as before the refused set
    assert 'StaleFrameError' in rig.faults()


def test_another_change_does_not_revive_an_ended_instruction(make_rig) -> None:
    rig = make_rig()
    with pytest.raises(InstructionError):
        rig.apply(instruction__text='y' * 10_000)
    rig.apply(cameras__max_age_s=0.31)
    assert rig.runtime.status().instruction == ''


def test_setting_the_text_it_already_has_replaces_one_that_came_by_topic(make_rig) -> None:
    rig = make_rig()
    rig.runtime.put_instruction('away from the light')
    rig.apply(instruction__text='to the light')
    assert rig.runtime.status().instruction == 'to the light'


def test_live_settings_take_effect(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    rig.apply(control__chunk_validity_s=0.03, state__max_age_s=9.0, cameras__max_age_s=9.0,
              inference__deadline_s=0.001, inference__rate_hz=3.0)
    assert [command.reason for command in rig.tick(2)] == ['', 'chunk_expired']
    rig.clock.advance_s(5.0)
    rig.policy.before_step = lambda: rig.clock.advance_s(0.002)
    assert rig.runtime.infer_once() is not None
    assert rig.runtime.status().inference.counters.late == 1
    assert rig.runtime._worker.rate_hz == 3.0
    rig.apply(instruction__text='away from the light')
    assert rig.runtime.status().instruction == 'away from the light'


def test_other_settings_cannot_be_changed_and_then_none_is(make_rig) -> None:
    rig = make_rig()
    with pytest.raises(ConfigError, match='control.rate_hz: expected 50.0, unchanged'):
        rig.apply(control__rate_hz=10.0, state__max_age_s=9.0)
    rig.put_state()
    rig.clock.advance_s(1.0)
    rig.put_frames()
    assert rig.runtime.infer_once() is None, 'the state is stale, as before the refused set'
    assert 'StateError' in rig.faults()
