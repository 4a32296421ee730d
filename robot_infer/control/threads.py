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

"""A thread that can be started and stopped over and over, and never runs twice at once."""

from __future__ import annotations

from collections.abc import Callable
import threading
import time

# A new run looks this often, in real seconds, whether a run that hung has ended at last.
_RETRY_S = 0.02


class Routine:
    """Runs `body(stop)` in a thread of its own until `stop` is set.

    Each start gives the body a fresh stop event, so that a run that hangs through `stop` can
    never be revived by the next start: it ends as soon as it looks at its event. Until then the
    next run waits for it, because a body may own what must be used from one thread only.
    Start and stop are called from one thread at a time.
    """

    def __init__(self, name: str, body: Callable[[threading.Event], None]) -> None:
        self._name = name
        self._body = body
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop: threading.Event | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._stop is not None

    @property
    def alive(self) -> bool:
        """Whether a body is still at work, be it one that was told to stop and hangs."""
        return self._turn.locked()

    def start(self) -> None:
        """Start the thread; nothing happens where it runs already."""
        if self._stop is not None:
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stop,), name=self._name, daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Tell the thread to stop, without waiting."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def stop(self, timeout_s: float) -> bool:
        """Tell the thread to stop and wait for it; False says that it still hangs."""
        self.request_stop()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        end_s = time.monotonic() + timeout_s
        thread.join(timeout_s)
        # Its own thread may have ended before it began, because an earlier body still hangs.
        ended = self._turn.acquire(timeout=max(0.0, end_s - time.monotonic()))
        if ended:
            self._turn.release()
        return ended

    def _run(self, stop: threading.Event) -> None:
        while not self._turn.acquire(timeout=_RETRY_S):
            if stop.is_set():
                return
        try:
            if not stop.is_set():
                self._body(stop)
        finally:
            self._turn.release()
