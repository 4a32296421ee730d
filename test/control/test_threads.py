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

"""Routine: started and stopped over and over, and never twice at once."""

from __future__ import annotations

import threading

from robot_infer.control.threads import Routine


class Body:
    """Waits for its stop event, unless told to hang; counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = self.most_inside = self.runs = 0
        self.entered = threading.Semaphore(0)
        self.hang: threading.Event | None = None

    def __call__(self, stop: threading.Event) -> None:
        self.inside += 1
        self.runs += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.release()
        if self.hang is not None:
            self.hang.wait()
        stop.wait()
        self.inside -= 1


def test_start_and_stop_can_be_repeated_and_each_is_idempotent() -> None:
    body = Body()
    routine = Routine('test', body)
    assert routine.stop(1.0) is True
    for run in range(1, 4):
        routine.start()
        routine.start()
        assert body.entered.acquire(timeout=20.0)
        assert routine.running and routine.alive
        assert routine.stop(20.0) is True
        assert routine.stop(20.0) is True
        assert not routine.running and not routine.alive
        assert body.runs == run
    assert body.most_inside == 1


def test_a_run_that_hangs_is_told_and_the_next_waits_for_it() -> None:
    body = Body()
    body.hang = threading.Event()
    routine = Routine('test', body)
    routine.start()
    assert body.entered.acquire(timeout=20.0)
    assert routine.stop(0.01) is False
    assert routine.alive and not routine.running
    routine.start()
    assert not body.entered.acquire(timeout=0.1), 'a second body began beside the one that hangs'
    body.hang.set()
    assert body.entered.acquire(timeout=20.0), 'the second run never began'
    assert routine.stop(20.0) is True
    assert (body.runs, body.most_inside) == (2, 1)


def test_a_run_stopped_while_it_waits_for_one_that_hangs_never_begins() -> None:
    body = Body()
    body.hang = threading.Event()
    routine = Routine('test', body)
    routine.start()
    assert body.entered.acquire(timeout=20.0)
    routine.stop(0.01)
    routine.start()
    assert routine.stop(0.2) is False, 'the first run still hangs'
    body.hang.set()
    assert routine.stop(20.0) is True
    assert body.runs == 1
