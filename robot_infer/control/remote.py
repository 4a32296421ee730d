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

"""The engine in a process of its own: the same calls, and nothing it does can delay a tick.

Python runs one thread at a time, so a policy in this process holds up the control tick whenever
it holds the interpreter. Over there it cannot, nor can its crash or its hanging end this process.
robot_infer/engine_process.py is the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
import socket
import subprocess
import sys
import threading
import time

from robot_infer.config import Config
from robot_infer.control.channel import Channel
from robot_infer.engine_info import EngineInfo
from robot_infer.errors import EngineError
from robot_infer.types import ActionChunk, Observation, StepBudget

COMMAND = (sys.executable, '-m', 'robot_infer.engine_process')
_END_TIMEOUT_S, _LONGEST_PAUSE_S = 2.0, 30.0


@dataclass(frozen=True)
class Request:
    """Something to do over there: the name of a method of the engine, and its arguments."""

    method: str
    arguments: tuple[object, ...]


@dataclass(frozen=True)
class Answer:
    """What came of it: a value, or the error that was raised and where."""

    value: object = None
    error: Exception | None = None
    traceback: str = ''


class RemoteTraceback(Exception):
    """Where an error was raised in the other process; shown as its cause."""

    def __str__(self) -> str:
        return f'\n{self.args[0]}'


class RemoteEngine:
    """An engine that was loaded in a process started for it.

    A process that has ended is started again by the next step, which then takes as long as
    loading does; until then, and while it fails, the named error stands. One that ends again and
    again before it has made a step is left alone for longer each time, half a minute at most: a
    start takes a core for seconds. Epochs count on over restarts.

    :param command: what to start, COMMAND where none is given; it is told the number of its end of
        the socket pair.
    :param now_s: seconds on a steady clock.
    :raises RobotInferError: whatever Engine.from_config raises over there.
    """

    def __init__(
        self, config: Config, command: Sequence[str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._command = config, COMMAND if command is None else command
        self._starting = threading.Lock()
        self._closed = False
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.restarts = 0
        self._now_s, self._next_start_s = now_s, 0.0
        self._vain_starts = 0  # in a row, without a step
        self._epoch = self._epochs_before = 0
        self.info = self._start()

    @property
    def pid(self) -> int | None:
        """The process that the policy runs in; None where there is none now."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def step(self, observation: Observation, budget: StepBudget = StepBudget()) -> ActionChunk:  # noqa: B008
        """One inference step (see Engine.step).

        :raises EngineError: where the process ended before or meanwhile.
        """
        if self._process is None:
            self._start_again()
        elif self._process.poll() is not None:
            raise self._ended()
        chunk = self._ask(Request('step', (observation, budget)))
        assert isinstance(chunk, ActionChunk)
        self._vain_starts = 0
        self._epoch = self._epochs_before + chunk.epoch
        if self._epochs_before:
            chunk = replace(chunk, epoch=self._epoch, report=replace(
                chunk.report, epoch=self._epoch))
        return chunk

    def forget(self) -> None:
        """Make the next step a cold one (see Engine.forget).

        :raises EngineError: where the process ended before or meanwhile.
        """
        if self._process is not None:  # one that is started anew knows nothing
            self._ask(Request('forget', ()))

    def kill(self) -> None:
        """End the process at once, also one that hangs; whoever waits for it gets an error.

        One that is just being started is ended as soon as it is there.
        """
        with self._starting:
            self._kill()

    def close(self) -> None:
        """End the process; its memory is given back with it."""
        with self._starting:
            self._closed = True
        self._end()

    def _start_again(self) -> None:
        wait_s = self._next_start_s - self._now_s()
        if self._vain_starts and wait_s > 0.0:
            raise EngineError(
                'policy process', expected='a process that makes a step',
                got=f'{self._vain_starts} that ended before', remedy=f'It is started again in '
                f'{wait_s:.0f} s. Look at the log and at the memory of the computer.')
        self._vain_starts += 1
        self._epochs_before = self._epoch
        try:
            self.info = self._start()
        finally:
            self._next_start_s = self._now_s() + min(2.0 ** self._vain_starts, _LONGEST_PAUSE_S)
        self.restarts += 1

    def _start(self) -> EngineInfo:
        with self._starting:
            if self._closed:
                raise EngineError(
                    'policy process', expected='a step of an engine that is open',
                    got='one after it was closed', remedy='Configure the node again.')
            self._end()
            ours, theirs = socket.socketpair()
            with theirs:
                self._channel = Channel(ours)
                self._process = subprocess.Popen(
                    [*self._command, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL)
        try:
            info = self._ask(self._config)
        except BaseException:
            self._end()
            raise
        assert isinstance(info, EngineInfo)
        return info

    def _ask(self, request: object) -> object:
        try:
            self._channel.send(request)
            answer = self._channel.receive()
        except (OSError, EOFError) as error:
            raise self._ended() from error
        assert isinstance(answer, Answer)
        if answer.error is not None:
            if answer.traceback:
                answer.error.__cause__ = RemoteTraceback(answer.traceback)
            raise answer.error
        return answer.value

    def _ended(self) -> EngineError:
        """Take note that the process has ended; the next step starts another."""
        try:
            status = self._process.wait(_END_TIMEOUT_S)
            got = f'exit status {status}' if status >= 0 else f'its end by signal {-status}'
        except subprocess.TimeoutExpired:
            got = 'a closed connection'
        self._end()
        return EngineError(
            'policy process', expected='an answer', got=got,
            remedy='It is started again with the next step. If that repeats, look at the log '
            'and at the memory of the computer (dmesg tells when the kernel ended it).')

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def _end(self) -> None:
        """Close the connection; the process ends when it sees that, or is ended."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                self._process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._kill()
            self._process = None
