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

"""Objects from one process to another over a socket they share; arrays go as they lie in memory.

Only for processes of one parent: what is received is unpickled, so the other end is trusted.
"""

from __future__ import annotations

import pickle
import socket
import struct

_COUNT = struct.Struct('<I')


class Channel:
    """One end of a socket pair; one thread sends and one receives at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, value: object) -> None:
        """Send one object.

        :raises OSError: where the other end is gone.
        """
        arrays: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
        parts = [memoryview(head), *(array.raw() for array in arrays)]
        sizes = struct.pack(f'<{len(parts)}Q', *(part.nbytes for part in parts))
        self._socket.sendall(_COUNT.pack(len(parts)) + sizes)
        for part in parts:
            self._socket.sendall(part)

    def receive(self) -> object:
        """Wait for one object.

        :raises EOFError: where the other end is gone.
        """
        (count,) = _COUNT.unpack(self._take(_COUNT.size))
        sizes = struct.unpack(f'<{count}Q', self._take(8 * count))
        head, *arrays = [self._take(size) for size in sizes]
        return pickle.loads(head, buffers=arrays)

    def close(self) -> None:
        """Let go; the other end finds itself alone."""
        self._socket.close()

    def _take(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view.nbytes:
            try:
                got = self._socket.recv_into(view)
            except ConnectionResetError:
                got = 0
            if not got:
                raise EOFError('the other process has ended')
            view = view[got:]
        return data
