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

"""The frame store under random sequences of calls, and under several threads."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
import sys
import threading

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from robot_infer.camera import store
from robot_infer.errors import FrameError, StaleFrameError

sys.path.insert(0, str(Path(__file__).parent))
from camera_pictures import MS, ROS0, damaged_jpeg, make_store, mark_of, nonzero, picture  # noqa: E402

STEP = st.one_of(
    st.tuples(st.just('put'), st.sampled_from(['front', 'wrist']), st.sampled_from(
        ['good', 'good', 'good', 'short', 'damaged', 'unstamped']), st.integers(-400, 400)),
    st.tuples(st.just('newest'), st.integers(-20, 20)),
    st.tuples(st.just('wait'), st.sampled_from([1, 10, 40, 130, 300])),
    st.tuples(st.just('jump'), st.sampled_from([-5000, -700, -1, 5000])),
    st.tuples(st.just('clear')))


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, min_size=8, max_size=60))
def test_every_image_ends_in_one_counter_and_what_is_handed_out_keeps_the_limits(steps):
    frames, names = make_store('front', 'wrist'), ('front', 'wrist')
    now, offset = 1000, ROS0
    puts = dict.fromkeys(names, 0)
    arrivals: dict[int, tuple[int, int]] = {}  # received, ms: (received, age then)
    for step in steps:
        now += 1
        if step[0] == 'wait':
            now += step[1]
        elif step[0] == 'jump':
            offset += step[1]
        elif step[0] == 'clear':
            frames.clear()
        elif step[0] == 'put':
            _, camera, kind, late = step
            stamp = 0 if kind == 'unstamped' else now + offset - late
            image = damaged_jpeg(now) if kind == 'damaged' else picture(
                now, ros=now + offset, stamp=stamp,
                data=np.zeros(5, np.uint8) if kind == 'short' else None)
            frames.put(camera, image)
            puts[camera] += 1
            arrivals[now] = (now, 0 if kind == 'unstamped' else max(0, late))
        else:
            when = now + step[1]
            try:
                found = frames.newest(when * MS)
            except FrameError as error:
                assert 'camera' in error.subject and error.remedy
            else:
                for frame in found.values():
                    received, age = arrivals[frame.received_ns // MS]
                    assert age + max(0, when - received) <= 250
                assert abs(found['front'].stamp_ns - found['wrist'].stamp_ns) <= 150 * MS
        for camera in names:
            ends = asdict(frames.counters(camera))
            assert ends.pop('received') == puts[camera]
            assert ends.pop('stamp_missing') <= puts[camera]
            held = puts[camera] - sum(ends.values())
            assert 0 <= held <= 2  # one waiting, one decoded and not used yet
    frames.clear()
    for camera in names:
        ends = asdict(frames.counters(camera))
        del ends['stamp_missing']
        assert ends.pop('received') == sum(ends.values())


# Threads

@pytest.fixture
def held_decode(monkeypatch):
    """Decoding, the real one, is held up: an event that it is under way, one that lets it go."""
    decoding, go_on = threading.Event(), threading.Event()

    def held_up(*arguments):
        decoding.set()
        assert go_on.wait(60)
        return decode(*arguments)

    decode = store.decode
    monkeypatch.setattr(store, 'decode', held_up)
    yield decoding, go_on
    go_on.set()


def test_put_counters_and_clear_do_not_wait_for_a_decode(held_decode):
    decoding, go_on = held_decode
    frames, found = make_store(), []
    frames.put('front', picture(0, mark=1))
    reader = threading.Thread(target=lambda: found.append(frames.newest(50 * MS)))
    reader.start()
    assert decoding.wait(60)
    for at in (10, 20):
        frames.put('front', picture(at, mark=at))
    assert nonzero(frames.counters('front')) == {'received': 3, 'dropped': 1}
    go_on.set()
    reader.join(60)
    assert mark_of(found[0]) == 1 and mark_of(frames.newest(51 * MS)) == 20


def test_what_is_being_decoded_when_cleared_is_not_handed_out(monkeypatch):
    def cleared_meanwhile(*arguments):
        frames.clear()
        return decode(*arguments)

    decode = store.decode
    monkeypatch.setattr(store, 'decode', cleared_meanwhile)
    frames = make_store()
    frames.put('front', picture(0))
    with pytest.raises(StaleFrameError, match='no frame yet'):
        frames.newest(1 * MS)
    assert nonzero(frames.counters('front')) == {'received': 1, 'dropped': 1}


def test_a_frame_cleared_while_it_is_handed_out_has_one_counter(monkeypatch):
    def cleared_meanwhile(*arguments):
        frames.clear()
        return check_skew(*arguments)

    check_skew = store._check_skew
    monkeypatch.setattr(store, '_check_skew', cleared_meanwhile)
    frames = make_store()
    frames.put('front', picture(0))
    frames.newest(1 * MS)
    assert nonzero(frames.counters('front')) == {'received': 1, 'dropped': 1}


def test_two_readers_at_once_get_the_same_frame(held_decode):
    decoding, go_on = held_decode
    frames, found, errors = make_store(), [], []

    def read():
        try:
            found.append(frames.newest(1 * MS)['front'])
        except FrameError as error:
            errors.append(error)

    frames.put('front', picture(0))
    readers = [threading.Thread(target=read) for _ in range(2)]
    readers[0].start()
    assert decoding.wait(60)
    readers[1].start()
    readers[1].join(0.1)  # no condition to wait for: it must not come back before the first
    go_on.set()
    for reader in readers:
        reader.join(60)
    assert not errors and found[0] is found[1]


@pytest.fixture
def hurried_threads():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_many_threads_lose_no_image(hurried_threads):
    names = ('front', 'wrist')
    frames = make_store(*names, max_age_s=60.0, max_skew_s=60.0)
    number, done, errors = 1500, threading.Event(), []
    seen = {camera: [] for camera in names}

    def send(camera):
        for at in range(number):
            frames.put(camera, picture(at, mark=at % 256, size=8) if at % 7 else picture(
                at, encoding='32FC1'))

    def read():
        while not done.is_set():
            try:
                found = frames.newest(number * MS)
            except StaleFrameError:
                continue
            except FrameError as error:
                if 'depth' not in str(error):
                    errors.append(error)
                continue
            for camera, frame in found.items():
                seen[camera].append(frame.stamp_ns)
                if not (frame.rgb == frame.received_ns // MS % 256).all():
                    errors.append('pixels of another image')

    senders = [threading.Thread(target=send, args=(camera,)) for camera in names]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in senders + readers:
        thread.start()
    for thread in senders:
        thread.join(60)
    last = frames.newest(number * MS)
    done.set()
    for thread in readers:
        thread.join(60)
    assert not errors
    for camera in names:
        assert last[camera].received_ns == (number - 1) * MS
        counts = asdict(frames.counters(camera))
        del counts['stamp_missing']
        assert counts.pop('received') == number == sum(counts.values())
        assert counts['bad'] == -(-number // 7) and counts['used'] >= 1
