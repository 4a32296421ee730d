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

"""Observer: what an observation is made of, and every reason why there is none."""

from __future__ import annotations

import numpy as np
import pytest

from robot_infer.camera import RawImage
from robot_infer.control.stamps import StampClock
from robot_infer.errors import (
    FrameError,
    FrameSkewError,
    InstructionError,
    RobotInferError,
    StaleFrameError,
    StateError,
)


def test_an_observation_binds_frames_and_joints_by_name(make_rig) -> None:
    rig = make_rig()
    rig.put_frames(overhead=10, wrist=20)
    rig.put_state(0.5, 0.25, gripper=9.0)
    observation = rig.runtime.observe()
    assert {name: int(frame.rgb.mean()) for name, frame in observation.frames.items()} == {
        'overhead': 10, 'wrist': 20}
    assert observation.state.values.tolist() == [0.5, 0.25]
    assert observation.instruction == 'to the light'
    assert observation.observed_ns == rig.clock.now_ns()
    assert observation.oldest_frame_stamp_ns == rig.stamp_ns()


def test_what_is_missing_is_named(make_rig) -> None:
    rig = make_rig(instruction__text='')
    with pytest.raises(InstructionError, match='waiting for an instruction'):
        rig.runtime.observe()
    rig.runtime.set_instruction('go')
    with pytest.raises(StateError, match='no message yet'):
        rig.runtime.observe()
    rig.put_state()
    with pytest.raises(StaleFrameError, match='camera overhead'):
        rig.runtime.observe()
    rig.put_frames()
    rig.runtime.observe()


def test_everything_that_is_missing_shows_at_once(make_rig) -> None:
    rig = make_rig(instruction__text='')
    assert rig.runtime.infer_once() is None
    assert set(rig.faults()) == {'InstructionError', 'StateError', 'StaleFrameError'}


@pytest.mark.parametrize(('spoil', 'error', 'words'), [
    (lambda rig: rig.put_state(float('nan')), StateError, 'joint slide_x: .*got nan'),
    (lambda rig: rig.runtime.put_state(['slide_x'], [0.0], 0, rig.clock.now_ns(), 1),
     StateError, 'joint slide_y'),
    (lambda rig: rig.clock.advance_s(0.3), StateError, 'not older than 0.25 s'),
    (lambda rig: (rig.clock.advance_s(0.3), rig.put_state()), StaleFrameError,
     'camera overhead: expected a frame at most 250.0 ms old'),
    (lambda rig: rig.runtime.put_instruction(''), InstructionError, 'waiting'),
    (lambda rig: rig.runtime.put_instruction('x' * 10_000), InstructionError,
     'at most 500 characters; got 10000'),
])
def test_whatever_spoils_an_input_is_the_error_of_the_next_observation(
    make_rig, spoil, error: type[RobotInferError], words: str,
) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.observe()
    spoil(rig)
    with pytest.raises(error, match=words):
        rig.runtime.observe()


def test_frames_too_far_apart_are_refused(make_rig) -> None:
    rig = make_rig(cameras__max_skew_s=0.05)
    rig.put_frames()
    rig.clock.advance_s(0.1)
    image = np.zeros(48, np.uint8)
    rig.put_state()
    rig.runtime.put_image('wrist', RawImage(
        'rgb8', 4, 4, 12, False, image, rig.stamp_ns(), rig.clock.now_ns(), rig.stamp_ns()))
    with pytest.raises(FrameSkewError, match='wrist and overhead'):
        rig.runtime.observe()


def test_a_camera_that_is_not_configured_is_refused_at_the_door(make_rig) -> None:
    rig = make_rig()
    with pytest.raises(FrameError, match='camera left: expected one of overhead, wrist'):
        rig.runtime.put_image('left', RawImage(
            'rgb8', 4, 4, 12, False, np.zeros(48, np.uint8), 1, 1, 1))


class Meanwhile:
    """The real frames, with something that happens while they are decoded."""

    def __init__(self, frames, happening) -> None:
        self._frames = frames
        self._happening = happening

    def newest(self, now_ns: int):
        self._happening()
        return self._frames.newest(now_ns)


def test_an_instruction_that_changes_while_frames_are_decoded_voids_the_chunk(make_rig) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime._observer._frames = Meanwhile(
        rig.runtime.frames, lambda: rig.runtime.put_instruction('away from the light'))
    pending = rig.runtime.begin_inference()
    assert pending is not None
    assert rig.runtime.deliver(pending) is False


def test_an_action_sent_while_frames_are_decoded_counts_as_sent_since_the_observation(
    make_rig,
) -> None:
    rig = make_rig()
    rig.feed()
    rig.runtime.infer_once()
    rig.runtime._observer._frames = Meanwhile(rig.runtime.frames, rig.runtime.tick_once)
    chunk = rig.runtime.infer_once()
    assert rig.tick()[0].values.tolist() == chunk.values[1].tolist()


def test_stamps_are_carried_over_to_the_steady_clock_by_the_newest_message() -> None:
    stamps = StampClock(1.0)
    assert stamps.steady_ns(1_000) is None
    stamps.note(received_ns=50, received_stamp_ns=1_050)
    assert stamps.steady_ns(1_020) == 20
    stamps.note(received_ns=60, received_stamp_ns=9_060)  # the stamps' clock was set
    assert stamps.steady_ns(9_020) == 20
    stamps.note(received_ns=70, received_stamp_ns=0)  # no simulated time yet
    assert stamps.steady_ns(9_020) == 20


def test_latency_is_measured_from_the_oldest_stamp_and_age_from_the_receipt(make_rig) -> None:
    rig = make_rig()
    rig.put_frames(stamp_ns=rig.stamp_ns() - 30_000_000)
    rig.put_state()
    rig.runtime.infer_once()
    rig.tick()
    deadline = rig.runtime.status().deadline
    assert deadline.input_age_s.max == pytest.approx(0.020)
    assert deadline.end_to_end_s.max == pytest.approx(0.050)


def test_without_a_trusted_stamp_there_is_no_latency_to_speak_of(make_rig) -> None:
    rig = make_rig()
    rig.put_frames(stamp_ns=0)
    rig.put_state()
    rig.runtime.infer_once()
    rig.tick()
    deadline = rig.runtime.status().deadline
    assert (deadline.input_age_s.count, deadline.end_to_end_s.count) == (1, 0)


@pytest.mark.parametrize(('spoil', 'kind'), [
    (lambda runtime: runtime.put_instruction('go\x07'), InstructionError),
    (lambda runtime: runtime.put_state(['slide_x', 'slide_y'], [float('nan'), 0.0], 0, 1, 1),
     StateError)])
def test_what_stays_bad_gathers_nothing_however_often_it_is_looked_at(
    make_rig, spoil, kind: type[RobotInferError],
) -> None:
    rig = make_rig()
    rig.feed()
    spoil(rig.runtime)

    def entries() -> int:
        with pytest.raises(kind) as raised:
            rig.runtime.observe()
        return len(raised.traceback)
    first = entries()
    assert [entries() for _ in range(5)] == [first] * 5
