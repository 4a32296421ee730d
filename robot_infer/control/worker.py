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
    stale ones become faults. Another rate holds at once, from the last time a step could begin.
    """

    def __init__(self, inference: Inference, clock: Clock, rate_hz: float) -> None:
        self._rate_hz = self._followed_hz = rate_hz
        self._inference = inference
        self._clock = clock
        self._fresh = False  # something came that no step has used
        # Both end a wait: for something new, and for the next period.
        self._news, self._interrupt = threading.Event(), threading.Event()
        self._routine = Routine('robot_infer worker', self._run)

    @property
    def rate_hz(self) -> float:
        """Steps a second, at most."""
        return self._rate_hz

    @rate_hz.setter
    def rate_hz(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz
        self._interrupt.set()
        self._news.set()

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
        self._interrupt.set()
        self.notify()  # also lets the next start begin with what is there by then

    def stop(self, timeout_s: float) -> bool:
        """Stop after the step that runs; False where that took longer than `timeout_s`."""
        self.request_stop()
        return self._routine.stop(timeout_s)

    def notify(self) -> None:
        """Say that a frame, a state or an instruction is new."""
        self._fresh = True
        self._news.set()

    def _run(self, stop: threading.Event) -> None:
        self._followed_hz = self._rate_hz
        keeper = RateKeeper(1.0 / self._followed_hz, self._clock, run_late=True)
        while True:
            self._interrupt.clear()  # before looking at what may have set it
            if stop.is_set():
                return
            self._follow_rate(keeper)
            if keeper.wait(self._interrupt) is None:
                continue
            try:
                self._turn(keeper, stop)
            except BaseException as error:  # noqa: B036 - not even SystemExit may end the thread
                self._inference.fail(error)

    def _turn(self, keeper: RateKeeper, stop: threading.Event) -> None:
        """One period: a step as soon as there is something new."""
        began_ns = self._clock.now_ns()
        while self._clock.wait_until_ns(keeper.next_ns, self._news):
            # Cleared before the inputs are read: what comes from now on causes another step.
            self._news.clear()
            if stop.is_set():
                return
            self._follow_rate(keeper)
            if self._fresh:
                self._fresh = False
                self._inference.run((self._clock.now_ns() - began_ns) / NS_PER_S, laddered=True)
                return
        if not stop.is_set():
            self._inference.check_inputs()

    def _follow_rate(self, keeper: RateKeeper) -> None:
        """Let a rate that was changed hold."""
        if self._followed_hz != self._rate_hz:
            self._followed_hz = self._rate_hz
            keeper.change_period(1.0 / self._followed_hz)
