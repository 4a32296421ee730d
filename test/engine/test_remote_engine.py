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

"""RemoteEngine: the same numbers from another process, and its death is an error with a name."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from robot_infer.config import Config
from robot_infer.control.channel import Channel
from robot_infer.control.memory import resident_bytes
from robot_infer.control.remote import RemoteEngine
from robot_infer.engine import Engine
from robot_infer.errors import CheckpointError, EngineError, FrameError
from robot_infer.types import Frame, Observation, RobotState, StepBudget

CONFIG = Config.from_flat({'policy.threads': 1})


def observation(seed: int) -> Observation:
    rng = np.random.default_rng(seed)
    frames = {name: Frame(name, rng.integers(0, 255, (48, 64, 3), np.uint8), seed, 0)
              for name in ('overhead', 'wrist')}
    state = RobotState(rng.uniform(-0.1, 0.1, 2).astype(np.float32), seed, 0)
    return Observation(frames, state, 'move to the red block', seed)


@pytest.fixture(scope='module')
def remote():
    engine = RemoteEngine(CONFIG)
    yield engine
    engine.close()


def test_it_gives_the_same_bits_as_an_engine_in_this_process(remote) -> None:
    here = Engine.from_config(CONFIG)
    for seed in (1, 2, 2):
        for budget in (StepBudget(), StepBudget(horizon=2)):
            near, far = here.step(observation(seed), budget), remote.step(
                observation(seed), budget)
            assert np.array_equal(near.values, far.values)
            assert near.frame_stamps_ns == far.frame_stamps_ns
            assert near.report.tokens_computed == far.report.tokens_computed
    assert remote.info.memory == here.info.memory
    planned = sum(line.num_bytes for line in here.info.memory)
    assert remote.info.taken_bytes == here.info.taken_bytes == planned > 0
    assert (remote.info.horizon, remote.info.family) == (here.info.horizon, 'smolvla')
    here.close()


def test_what_it_was_told_to_forget_is_computed_again_and_epochs_go_on(remote) -> None:
    warm = [remote.step(observation(6)) for _ in range(2)][-1]
    assert warm.report.tokens_computed < warm.report.tokens_total
    remote.forget()
    cold = remote.step(observation(6))
    assert cold.report.tokens_computed == cold.report.tokens_total
    assert cold.report.cameras_encoded == 2 and cold.epoch == warm.epoch + 1
    assert np.array_equal(cold.values, warm.values)


def test_what_is_raised_over_there_is_raised_here(remote) -> None:
    with pytest.raises(CheckpointError, match='no_such_folder'):
        RemoteEngine(Config.from_flat({'policy.checkpoint': '/no_such_folder'}))
    with pytest.raises(KeyError, match='wrist') as caught:
        remote.step(Observation({'overhead': observation(1).frames['overhead']},
                                observation(1).state, 'go', 0))
    assert 'engine.py' in str(caught.value.__cause__), 'it says where'
    assert remote.step(observation(3)).values.shape[1] == 2


def test_a_process_that_was_killed_is_a_named_error_and_is_started_again(remote) -> None:
    before = remote.step(observation(4))
    os.kill(remote.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match='its end by signal 9'):
        remote.step(observation(4))
    after = remote.step(observation(4))
    assert np.array_equal(after.values, before.values)
    assert after.epoch == after.report.epoch == before.epoch + 1, 'no epoch comes twice'
    assert remote.restarts == 1
    assert resident_bytes(remote.pid) > 2**20


def test_a_process_that_hangs_can_be_ended_from_another_thread(remote) -> None:
    os.kill(remote.pid, signal.SIGSTOP)
    raised: list[BaseException] = []

    def step() -> None:
        try:
            remote.step(observation(5))
        except EngineError as error:
            raised.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    remote.kill()
    thread.join(20.0)
    assert len(raised) == 1


def test_one_that_is_just_being_started_again_can_be_ended_too(monkeypatch) -> None:
    engine = RemoteEngine(CONFIG)
    engine.kill()
    with pytest.raises(EngineError):
        engine.step(observation(1))
    engine._command = [sys.executable, '-c', _HANGING]
    killer, popen = threading.Thread(target=engine.kill), subprocess.Popen

    def start(*args, **kwargs):
        killer.start()
        killer.join(0.3)  # it may be over before there is a process
        return popen(*args, **kwargs)
    monkeypatch.setattr(subprocess, 'Popen', start)
    with pytest.raises(EngineError, match='its end by signal 9'):
        engine.step(observation(1))
    killer.join(20.0)
    engine.close()
    assert not killer.is_alive() and engine.pid is None


def test_closing_ends_the_process_and_leaves_nothing_behind() -> None:
    files = len(os.listdir('/proc/self/fd'))
    engine = RemoteEngine(CONFIG)
    pid = engine.pid
    engine.close()
    assert engine.pid is None and resident_bytes(pid) == 0
    assert len(os.listdir('/proc/self/fd')) == files
    with pytest.raises(EngineError, match='closed'):
        engine.step(observation(1))


_HANGING = """
import sys, time
from robot_infer import engine_process
engine_process._GRACE_S = 0.1
engine_process.load_engine = lambda config: time.sleep(1000.0)
engine_process.main()
"""


def test_a_process_that_hangs_does_not_outlive_who_started_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, '-c', _HANGING, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    try:
        Channel(ours).send(CONFIG)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        ours.close()
        assert process.wait(60.0) == 0
    finally:
        process.kill()
        process.wait()


def test_one_that_ends_again_and_again_is_left_alone_for_longer_each_time(monkeypatch) -> None:
    now_s = [100.0]
    engine = RemoteEngine(CONFIG, now_s=lambda: now_s[0])
    try:
        epoch = engine.step(observation(1)).epoch
        engine.kill()
        with pytest.raises(EngineError, match='its end by signal 9'):
            engine.step(observation(1))
        monkeypatch.setattr(engine, '_command', [sys.executable, '-c', 'import sys; sys.exit(3)'])
        for number, pause_s in enumerate((2.0, 4.0, 8.0, 16.0, 30.0, 30.0), 1):
            with pytest.raises(EngineError, match='exit status 3'):
                engine.step(observation(1))
            with pytest.raises(EngineError, match=f'{number} that ended before.*in {pause_s:.0f}'):
                engine.step(observation(1))
            now_s[0] += pause_s
        monkeypatch.undo()
        assert engine.step(observation(1)).epoch == epoch + 1
    finally:
        engine.close()


def test_a_command_that_cannot_serve_is_a_named_error() -> None:
    with pytest.raises(EngineError, match='exit status 3'):
        RemoteEngine(CONFIG, [sys.executable, '-c', 'import sys; sys.exit(3)'])


def test_arrays_and_named_errors_pass_whole() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    error = FrameError('camera a', expected='b', got='c', remedy='D.')
    sent = [np.arange(1_000_000, dtype=np.int16).reshape(1000, 1000), np.zeros((0, 3)), error]
    thread = threading.Thread(target=ours.send, args=(sent,))
    thread.start()
    large, empty, got = theirs.receive()
    thread.join()
    assert np.array_equal(large, sent[0]) and empty.shape == (0, 3)
    assert (type(got), str(got), got.remedy) == (FrameError, str(error), 'D.')
    ours.close()
    with pytest.raises(EOFError):
        theirs.receive()
