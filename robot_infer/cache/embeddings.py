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

"""Image embeddings by camera and frame digest: a frame that was encoded once is not encoded again.

What lives here: the memory of the embeddings and which frame each one is of. What does not: how a
digest is taken (camera/preprocess.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch


class EmbeddingCache:
    """`entries` embeddings a camera, least recently used replaced first; memory is taken once.

    Memory: (num_cameras, entries, tokens, width). The same digest under another camera is another
    entry: a policy may encode its cameras differently. A view that was handed out stays valid
    until `entries` further `put`s for that camera.
    """

    def __init__(
        self, cameras: Sequence[str], entries: int, tokens: int, width: int,
        dtype: torch.dtype, device: torch.device | str = 'cpu',
    ) -> None:
        shape = (len(cameras), entries, tokens, width)
        if min(shape) < 1 or len(set(cameras)) != len(cameras):
            raise ValueError(f'cameras, entries, tokens, width: expected different names and '
                             f'positive sizes; got {tuple(cameras)}, {shape[1:]}')
        self._data = torch.empty(shape, dtype=dtype, device=device)
        self._data.fill_(0.0)
        self._camera = {name: number for number, name in enumerate(cameras)}
        # Digest to entry for each camera, least recently used first.
        self._known: list[OrderedDict[bytes, int]] = [OrderedDict() for _ in cameras]

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return self._data.nbytes

    def get(self, camera: str, digest: bytes) -> torch.Tensor | None:
        """Find the embedding of a frame: (tokens, width), a view; None where it is unknown."""
        number = self._number(camera)
        known = self._known[number]
        entry = known.get(digest)
        if entry is None:
            return None
        known.move_to_end(digest)
        return self._data[number, entry]

    def put(self, camera: str, digest: bytes, embedding: torch.Tensor) -> torch.Tensor:
        """Store the embedding of a frame: (tokens, width); returns the stored view.

        :raises ValueError: where camera, shape or dtype do not fit.
        """
        number = self._number(camera)
        wanted = self._data.shape[2:]
        if embedding.shape != wanted or embedding.dtype != self._data.dtype:
            raise ValueError(
                f'embedding of camera {camera}: expected {tuple(wanted)} {self._data.dtype}; got '
                f'{tuple(embedding.shape)} {embedding.dtype}')
        known = self._known[number]
        if digest in known:
            entry = known.pop(digest)
        elif len(known) < self._data.shape[1]:
            entry = len(known)
        else:
            _, entry = known.popitem(last=False)
        known[digest] = entry
        return self._data[number, entry].copy_(embedding)

    def clear(self) -> None:
        """Forget every frame."""
        for known in self._known:
            known.clear()

    def _number(self, camera: str) -> int:
        number = self._camera.get(camera)
        if number is None:
            raise ValueError(f'camera: expected one of {sorted(self._camera)}; got {camera!r}')
        return number
