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

"""The newest frame of each camera, its limits and its counters, on an injected clock."""

from __future__ import annotations

import gc
from pathlib import Path
import sys
import weakref

import numpy as np
import pytest

from robot_infer.camera import EncodedImage, store
from robot_infer.config import CameraSettings
from robot_infer.errors import (
    ConfigError,
    FrameError,
    FrameSkewError,
    FrameStampError,
    StaleFrameError,
)

sys.path.insert(0, str(Path(__file__).parent))
from camera_pictures import MS, ROS0, damaged_jpeg, make_store, mark_of, nonzero, picture  # noqa: E402

# Binding and choice

def test_frames_are_bound_by_name_whatever_the_order_of_arrival():
    frames = make_store('front', 'wrist')
    frames.put('wrist', picture(0, mark=2))
    frames.put('front', picture(1, mark=1))
    found = frames.newest(5 * MS)
    assert list(found) == ['front', 'wrist']
    assert (mark_of(found), mark_of(found, 'wrist')) == (1, 2)
    assert [frame.camera for frame in found.values()] == ['front', 'wrist']


@pytest.mark.parametrize('call', [
    lambda frames: frames.put('rear', picture(0)), lambda frames: frames.counters('rear'),
    lambda frames: frames.fault('rear')])
def test_an_unknown_camera_is_refused_by_name(call):
    with pytest.raises(FrameError, match='camera rear: expected one of front, wrist; .*names'):
        call(make_store('front', 'wrist'))


def test_the_newest_wins_and_the_one_it_replaces_is_counted_as_dropped():
    frames = make_store()
    for at in (0, 33, 66):
        frames.put('front', picture(at, mark=at))
    assert mark_of(frames.newest(70 * MS)) == 66
    assert nonzero(frames.counters('front')) == {'received': 3, 'used': 1, 'dropped': 2}


def test_an_image_is_decoded_once_and_used_once():
    frames = make_store()
    frames.put('front', picture(0))
    first, again = frames.newest(1 * MS), frames.newest(2 * MS)
    assert first['front'] is again['front']
    assert nonzero(frames.counters('front')) == {'received': 1, 'used': 1}


def test_a_frame_that_was_decoded_but_never_handed_out_counts_as_dropped():
    frames = make_store('front', 'wrist')
    frames.put('front', picture(0))
    with pytest.raises(StaleFrameError, match='camera wrist.*no frame yet'):
        frames.newest(1 * MS)
    frames.put('front', picture(33))
    frames.put('wrist', picture(33))
    frames.newest(34 * MS)
    assert nonzero(frames.counters('front')) == {'received': 2, 'used': 1, 'dropped': 1}


def test_put_keeps_a_reference_and_lets_go_of_it_when_decoded():
    frames = make_store()
    data = np.full(12, 9, np.uint8)
    alive = weakref.ref(data)
    frames.put('front', picture(0, data=data))
    data[0] = 10  # no copy was made: the store sees it
    del data
    assert mark_of(frames.newest(1 * MS)) == 10
    assert alive() is None


@pytest.mark.parametrize('encoding', ['rgb8', '32FC1'])
def test_a_fault_does_not_keep_the_images_memory(encoding):
    frames = make_store()
    data = np.zeros(12 if encoding == '32FC1' else 11, np.uint8)
    alive = weakref.ref(data)
    frames.put('front', picture(0, data=data, encoding=encoding))
    del data
    gc.collect()
    assert frames.fault('front') is not None and alive() is None


# Age

def test_age_is_that_of_the_stamp_on_arrival_and_the_time_since_then():
    frames = make_store(max_age_s=0.25)
    frames.put('front', picture(100, stamp=ROS0 + 100 - 200))
    assert frames.newest(150 * MS)
    with pytest.raises(
            StaleFrameError,
            match=r'camera front: expected a frame at most 250.0 ms old; got 251.0 ms '
                  r'\(its stamp was 200.0 ms old on arrival\)'):
        frames.newest(151 * MS)


def test_a_step_of_the_ros_clock_after_arrival_does_not_age_a_frame():
    frames = make_store('front', 'wrist', max_skew_s=60.0)
    frames.put('front', picture(0))
    frames.put('wrist', picture(10, ros=ROS0 + 5000))
    assert frames.newest(20 * MS)


def test_a_stamp_slightly_in_the_future_counts_as_age_0():
    frames = make_store()
    frames.put('front', picture(0, stamp=ROS0 + 100))
    assert frames.newest(250 * MS)
    with pytest.raises(StaleFrameError, match='251.0 ms'):
        frames.newest(251 * MS)


def test_a_stamp_far_in_the_future_has_a_name_of_its_own():
    frames = make_store()
    frames.put('front', picture(0, stamp=ROS0 + 37_000))
    with pytest.raises(FrameStampError, match='camera front: .*250.0 ms.*37000.0 ms ahead'):
        frames.newest(1 * MS)
    assert nonzero(frames.counters('front')) == {'received': 1, 'bad': 1}
    frames.put('front', picture(33))  # and does not stand in the way of sound ones
    assert frames.newest(40 * MS) and frames.fault('front') is None


def test_an_image_that_is_stale_on_arrival_does_not_replace_one_that_waits():
    frames = make_store()
    frames.put('front', picture(0, mark=3))
    frames.put('front', picture(5, stamp=ROS0 - 4000))
    assert mark_of(frames.newest(6 * MS)) == 3
    assert nonzero(frames.counters('front')) == {'received': 2, 'used': 1, 'stale': 1}


def test_an_image_that_became_stale_while_waiting_is_not_decoded(monkeypatch):
    frames = make_store()
    frames.put('front', picture(0))
    monkeypatch.delattr(store, 'decode')
    for _ in range(2):
        with pytest.raises(StaleFrameError):
            frames.newest(300 * MS)
    assert nonzero(frames.counters('front')) == {'received': 1, 'stale': 1}


def test_a_frame_that_came_after_now_was_read_is_as_old_as_on_arrival():
    frames = make_store()
    frames.put('front', picture(100, stamp=ROS0 + 100 - 200))
    frames.apply_live(CameraSettings(names=('front',), max_age_s=0.15))
    with pytest.raises(StaleFrameError, match='got 200.0 ms|no frame yet'):
        frames.newest(20 * MS)


def test_a_decoded_frame_that_becomes_stale_before_it_is_used_counts_as_stale():
    frames = make_store('front', 'wrist')
    frames.put('front', picture(0))
    for at in (1, 300, 301):
        with pytest.raises(StaleFrameError):
            frames.newest(at * MS)
    assert nonzero(frames.counters('front')) == {'received': 1, 'stale': 1}


def test_limits_may_change_while_running():
    frames = make_store('front', 'wrist')
    frames.put('front', picture(0))
    frames.put('wrist', picture(100))
    assert frames.newest(110 * MS)
    frames.apply_live(CameraSettings(names=('front', 'wrist'), max_skew_s=0.05))
    with pytest.raises(FrameSkewError):
        frames.newest(110 * MS)
    frames.apply_live(CameraSettings(names=('front', 'wrist'), max_age_s=0.05))
    with pytest.raises(StaleFrameError):
        frames.newest(110 * MS)


# Skew

def test_frames_too_far_apart_are_refused_with_both_names():
    frames = make_store('front', 'wrist')
    frames.put('front', picture(0))
    frames.put('wrist', picture(150))
    assert frames.newest(160 * MS)
    frames.put('wrist', picture(151))
    with pytest.raises(FrameSkewError, match=(
            r'cameras wrist and front: expected stamps at most 150.0 ms apart; '
            r'got 151.0 ms \(front is the older\)')):
        frames.newest(160 * MS)
    frames.put('front', picture(161))
    assert frames.newest(162 * MS)


def test_without_a_stamp_the_time_of_receipt_is_compared():
    frames = make_store('front', 'wrist')
    frames.put('front', picture(0))
    frames.put('wrist', picture(100, stamp=0))
    found = frames.newest(110 * MS)
    assert found['wrist'].stamp_ns == (ROS0 + 100) * MS
    assert (found['front'].stamp_trusted, found['wrist'].stamp_trusted) == (True, False)
    assert frames.counters('wrist').stamp_missing == 1
    frames.put('wrist', picture(140, stamp=0))
    with pytest.raises(FrameSkewError, match='160.0 ms'):
        frames.newest(141 * MS)


# Order

def test_an_older_stamp_than_the_newest_is_dropped_as_out_of_order():
    frames = make_store()
    frames.put('front', picture(0, mark=1))
    frames.put('front', picture(1, stamp=ROS0 - 50, mark=2))
    assert mark_of(frames.newest(2 * MS)) == 1
    frames.put('front', picture(3, stamp=ROS0 - 50, mark=2))  # also after it was decoded
    assert mark_of(frames.newest(4 * MS)) == 1
    assert nonzero(frames.counters('front')) == {'received': 3, 'used': 1, 'out_of_order': 2}
    frames.put('front', picture(5, stamp=ROS0 - 20, mark=4))  # the same stamp is not older
    assert mark_of(frames.newest(6 * MS)) == 4


@pytest.mark.parametrize('back, accepted', [(999, False), (1000, False), (1001, True)])
def test_a_jump_back_of_more_than_a_second_is_a_new_time_base(back, accepted):
    frames = make_store()
    frames.put('front', picture(0, mark=1))
    frames.put('front', picture(33, ros=ROS0 - back, stamp=ROS0 - back - 20, mark=2))
    assert mark_of(frames.newest(34 * MS)) == (2 if accepted else 1)
    frames.put('front', picture(66, ros=ROS0 - back + 33, mark=3))  # and goes on from there
    assert mark_of(frames.newest(67 * MS)) == (3 if accepted else 1)


def test_frames_before_and_after_a_jump_are_not_used_together():
    frames = make_store('front', 'wrist')
    for camera in ('front', 'wrist'):
        frames.put(camera, picture(0))
    assert frames.newest(1 * MS)
    frames.put('front', picture(33, ros=ROS0 - 60_000))
    with pytest.raises(FrameSkewError, match='60000.0 ms'):
        frames.newest(34 * MS)
    frames.put('wrist', picture(35, ros=ROS0 - 60_000 + 2))
    assert frames.newest(36 * MS)


def test_images_without_a_stamp_are_taken_as_they_come():
    frames = make_store()
    for at, ros in ((0, ROS0), (33, ROS0 - 500), (66, ROS0 - 9000)):
        frames.put('front', picture(at, ros=ros, stamp=0, mark=at))
    assert mark_of(frames.newest(70 * MS)) == 66
    assert frames.counters('front').out_of_order == 0


def test_an_image_without_a_stamp_neither_is_nor_makes_another_out_of_order():
    frames = make_store()
    frames.put('front', picture(0, ros=600, mark=1))  # simulated time has just begun
    frames.put('front', picture(1, ros=601, stamp=0, mark=2))
    assert mark_of(frames.newest(2 * MS)) == 2
    frames.put('front', picture(3, ros=603, stamp=530, mark=3))
    assert mark_of(frames.newest(4 * MS)) == 2
    assert frames.counters('front').out_of_order == 1


# Bad images

@pytest.mark.parametrize('bad', [
    picture(33, encoding='32FC1'), picture(33, data=np.zeros(5, np.uint8)),
    picture(33, size=0, data=np.zeros(0, np.uint8)), damaged_jpeg(33)])
def test_a_bad_image_does_not_hide_the_last_good_one_until_that_is_stale(bad):
    frames = make_store()
    frames.put('front', picture(0, mark=1))
    if isinstance(bad, EncodedImage):  # found bad only when it is decoded
        frames.newest(1 * MS)
    frames.put('front', bad)
    assert mark_of(frames.newest(40 * MS)) == 1
    assert nonzero(frames.counters('front')) == {'received': 2, 'used': 1, 'bad': 1}
    assert 'camera front' in str(frames.fault('front'))
    with pytest.raises(FrameError) as error:  # the good one is stale, the bad one recent
        frames.newest(282 * MS)
    assert str(error.value) == str(frames.fault('front'))
    assert not isinstance(error.value, StaleFrameError)
    with pytest.raises(StaleFrameError) as error:  # nothing came for long: that is the news
        frames.newest(400 * MS)
    assert '420.0 ms' in error.value.got and str(frames.fault('front')) in error.value.remedy
    frames.put('front', picture(450, mark=5))
    assert mark_of(frames.newest(451 * MS)) == 5 and frames.fault('front') is None


def test_a_fault_raised_again_and_again_does_not_grow():
    frames = make_store()
    frames.put('front', picture(0, encoding='32FC1'))
    depths = set()
    for _ in range(3):
        with pytest.raises(FrameError) as error:
            frames.newest(1 * MS)
        depths.add(len(error.traceback))
    assert len(depths) == 1


def test_the_fault_of_the_first_camera_is_raised_and_the_others_are_still_looked_at():
    frames = make_store('front', 'wrist', 'rear')
    frames.put('rear', picture(0))
    with pytest.raises(StaleFrameError, match='camera front'):
        frames.newest(300 * MS)
    assert frames.counters('rear').stale == 1


def test_the_override_of_each_camera_is_used():
    frames = make_store('front', 'wrist', encoding_override=('', 'bgr8'))
    data = np.tile(np.array([10, 20, 30], np.uint8), 4)
    frames.put('front', picture(0, data=data))
    frames.put('wrist', picture(0, data=data, encoding='nonsense'))
    found = frames.newest(1 * MS)
    assert found['front'].rgb[0, 0].tolist() == [10, 20, 30]
    assert found['wrist'].rgb[0, 0].tolist() == [30, 20, 10]


def test_an_override_that_is_no_colour_is_refused_at_the_start():
    with pytest.raises(ConfigError, match='encoding_override, camera wrist.*depth'):
        make_store('front', 'wrist', encoding_override=('', '16UC1'))


def test_clear_forgets_frames_stamps_and_faults_but_no_counter():
    frames = make_store('front', 'wrist')
    frames.put('front', picture(0))
    frames.put('wrist', picture(0))
    frames.newest(1 * MS)
    frames.put('front', picture(33))
    frames.put('wrist', picture(33, encoding='32FC1'))
    frames.clear()
    with pytest.raises(StaleFrameError, match='camera front.*no frame yet'):
        frames.newest(34 * MS)
    assert frames.fault('wrist') is None
    assert nonzero(frames.counters('front')) == {'received': 2, 'used': 1, 'dropped': 1}
    for camera in ('front', 'wrist'):
        frames.put(camera, picture(35, stamp=ROS0 - 100, mark=7))  # older than those before
    assert mark_of(frames.newest(36 * MS)) == 7
