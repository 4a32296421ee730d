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

"""The process that the policy runs in: it answers robot_infer/control/remote.py until left alone.

    python -m robot_infer.engine_process FILE_DESCRIPTOR
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from robot_infer.config import Config
from robot_infer.control.channel import Channel
from robot_infer.control.remote import Answer, Request
from robot_infer.errors import ConfigError, RobotInferError

if TYPE_CHECKING:
    from robot_infer.engine import Engine

METHODS = frozenset({'step', 'forget'})
_GRACE_S = 2.0  # for a step under way, once nobody waits for it any more


def load_engine(config: Config) -> Engine:
    """Load and warm up in this process; torch is imported here and not before.

    :raises RobotInferError: what does not fit, torch that is missing included.
    """
    try:
        from robot_infer.engine import Engine
    except ImportError as error:
        raise ConfigError(
            'Python environment', expected=f'torch and its like for {sys.executable}',
            got=str(error), remedy='Run make setup, or start the node with the Python that has '
            'them; robot-infer doctor says more.') from error
    return Engine.from_config(config)


def serve(channel: Channel) -> None:
    """Load what the first message asks for, then do what the others ask for.

    :raises EOFError: when the other end is gone.
    """
    config = channel.receive()
    assert isinstance(config, Config)
    engine = _tell(channel, lambda: load_engine(config), lambda engine: engine.info)
    if engine is None:
        return
    while True:
        request = channel.receive()
        assert isinstance(request, Request) and request.method in METHODS, request
        _tell(channel, lambda: getattr(engine, request.method)(*request.arguments))  # noqa: B023


def _tell(channel: Channel, act, show=lambda value: value):  # noqa: ANN001, ANN202
    """Do something and tell what came of it; None where it raised."""
    try:
        value = act()
    except Exception as error:
        channel.send(_failure(error))
        return None
    channel.send(Answer(show(value)))
    return value


def _failure(error: Exception) -> Answer:
    where = '' if isinstance(error, RobotInferError) else traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever it holds, its words are what matters
        error = RuntimeError(f'{type(error).__name__}: {error}')
    return Answer(error=error, traceback=where)


def _end_when_alone(descriptor: int) -> None:
    """Wait for the other end to be closed; a step that hangs must not outlive it."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is told in any case
    poll.poll()
    time.sleep(_GRACE_S)
    os._exit(0)


def main() -> int:
    """Serve the process at the other end of the socket pair; returns the exit status."""
    # Ctrl-C reaches every process of a terminal; this one ends when its parent has.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=_end_when_alone, args=(end.fileno(),), daemon=True).start()
    channel = Channel(end)
    try:
        serve(channel)
    except (EOFError, OSError):
        pass
    return 0


if __name__ == '__main__':
    sys.exit(main())
