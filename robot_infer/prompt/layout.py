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

"""The layout of a prefix: segments in the trained order, their attention limits, their page keys.

The one rule for exact reuse (DESIGN 2.2) lives here. An entry may be reused only if everything it
depends on is unchanged, and query i depends on the identities of all tokens j < limit[i]:

    key of tokens [0, end)  =  digest(domain, identities[0 : limit[end - 1]], end)

For a causal segment limit[i] = i + 1 and this is the chained block hash; for a bidirectional
group it is the whole group, so that partial reuse, which would be wrong, cannot be expressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
import hashlib
import struct

from robot_infer.types import PageKey


@dataclass(frozen=True)
class Segment:
    """A run of tokens that come from one thing: a camera frame, the words, the state.

    identity: digest of that thing (of a frame: of its preprocessed pixels), or, where `ids` are
    given, unused: each token is then identified by its own id.
    group: attention group. Tokens of one group see each other and all earlier groups; in a
    causal segment each token sees only the tokens up to itself.
    """

    name: str
    length: int
    group: int
    identity: bytes = b''
    ids: tuple[int, ...] = ()
    causal: bool = False

    def identify(self, count: int) -> bytes:
        """Bytes that fix the first `count` tokens of this segment."""
        body = struct.pack(f'<{count}q', *self.ids[:count]) if self.ids else self.identity
        head = f'{self.name}|{count}|{len(body)}|'.encode()
        return head + body


@dataclass(frozen=True)
class Layout:
    """Segments in order. `domain` fixes weights, dtype, preprocessing: whatever all keys share."""

    domain: bytes
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        groups = [segment.group for segment in self.segments]
        assert groups == sorted(groups), 'attention groups must not decrease along the prefix'
        assert all(not s.ids or len(s.ids) == s.length for s in self.segments)

    @cached_property
    def identity(self) -> bytes:
        """32 bytes that fix every token, whatever weights and dtype they are computed with."""
        digest = hashlib.blake2b(digest_size=32)
        for segment, start, end in self.spans:
            digest.update(segment.identify(end - start))
        return digest.digest()

    @property
    def length(self) -> int:
        """Tokens in the prefix."""
        return sum(segment.length for segment in self.segments)

    @cached_property
    def spans(self) -> tuple[tuple[Segment, int, int], ...]:
        """(segment, start, end) of every segment that has tokens."""
        spans, start = [], 0
        for segment in self.segments:
            if segment.length:
                spans.append((segment, start, start + segment.length))
            start += segment.length
        return tuple(spans)

    @cached_property
    def group_ends(self) -> tuple[int, ...]:
        """Token counts at which an attention group ends: where a cold prefill is split."""
        ends = {segment.group: end for segment, _, end in self.spans}
        return tuple(ends.values())

    def limit(self, token: int) -> int:
        """How many leading tokens the given token may attend to."""
        for segment, start, end in self.spans:
            if start <= token < end:
                if segment.causal:
                    return token + 1
                return next(edge for edge in self.group_ends if edge > token)
        raise AssertionError(f'token {token} is outside a prefix of {self.length}')

    def resume_point(self, length: int) -> int:
        """The largest point not beyond `length` at which a prefill may be taken up again.

        Cold and warm steps are split at the same points, the ends of groups, so that both run
        the same shapes and give the same bits.
        """
        return max((end for end in self.group_ends if end <= length), default=0)

    def pieces(self, start: int) -> Iterator[tuple[int, int]]:
        """The prefill from `start` (a resume point) to the end, split at the ends of groups."""
        for end in self.group_ends:
            if end > start:
                yield start, end
                start = end

    def keys(self, page_tokens: int) -> tuple[PageKey, ...]:
        """Keys of all page edges, and of all group ends but the last, by ascending end.

        The end of the whole prefix gets no key of its own: at least one token is always left to
        compute, so it could never be a hit, and the page it lies in stays writable.
        """
        edges = range(page_tokens, self.length + 1, page_tokens)
        ends = sorted({*edges, *self.group_ends[:-1]})
        return tuple(PageKey(end, self._digest(end)) for end in ends)

    def _digest(self, end: int) -> bytes:
        visible = self.limit(end - 1)
        digest = hashlib.blake2b(self.domain, digest_size=32)
        for segment, start, stop in self.spans:
            if start >= visible:
                break
            digest.update(segment.identify(min(stop, visible) - start))
        digest.update(struct.pack('<q', end))
        return digest.digest()
