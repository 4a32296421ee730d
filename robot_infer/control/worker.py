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

"""The inference worker: newest observation in, a chunk out, over and over, in one thread."""

from __future__ import annotations

import threading

from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.control.inference import Inference
from robot_infer.control.schedule import RateKeeper
from robot_infer.control.threads import Routine


class InferenceWorker:
    """Runs an inference step whenever there is something new, at most `rate_hz` times a second.

    The times at which a step may begin are an absolute schedule; a step that takes longer than a
    period lets the next one begin at once, and whole periods that are missed are skipped. Where
    nothing new comes for a whole period no step is made, the inputs are only looked at, so that
    stale ones become faults.
    """

    def __init__(self, inference: Inference, clock: Clock, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self._inference = inference
        self._clock = clock
        self._news = threading.Event()
        self._routine = Routine('robot_infer worker', self._run)

    @property
    def alive(self) -> bool:
        """Whether the thread is at work, be it in a step that hangs after `stop`."""
        return self._routine.alive

    def start(self) -> None:
        """Start the thread; nothing happens where it runs already."""
        self._routine.start()

    def request_stop(self) -> None:
        """Begin no further step; does not wait."""
        self._routine.request_stop()
        self._news.set()

    def stop(self, timeout_s: float) -> bool:
        """Stop after the step that runs; False where that took longer than `timeout_s`."""
        self.request_stop()
        return self._routine.stop(timeout_s)

    def notify(self) -> None:
        """Say that a frame, a state or an instruction is new."""
        self._news.set()

    def _run(self, stop: threading.Event) -> None:
        rate_hz = self.rate_hz
        keeper = RateKeeper(1.0 / rate_hz, self._clock, run_late=True)
        while keeper.wait(stop) is not None:
            try:
                self._turn(keeper.next_ns, stop)
            except BaseException as error:  # noqa: B036 - not even SystemExit may end the thread
                self._inference.fail(error)
            if self.rate_hz != rate_hz:
                rate_hz = self.rate_hz
                keeper.change_period(1.0 / rate_hz)

    def _turn(self, until_ns: int, stop: threading.Event) -> None:
        """One period: a step as soon as there is something new."""
        began_ns = self._clock.now_ns()
        news = self._clock.wait_until_ns(until_ns, self._news)
        if stop.is_set():
            return
        if not news:
            self._inference.check_inputs()
            return
        # Cleared before the inputs are read: what comes from now on causes another step.
        self._news.clear()
        self._inference.run((self._clock.now_ns() - began_ns) / NS_PER_S, laddered=True)
