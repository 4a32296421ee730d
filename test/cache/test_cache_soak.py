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

"""A hundred thousand control steps: no page and no Python object is lost on the way."""

from __future__ import annotations

import gc
import hashlib
import random

import torch

from robot_infer.cache import BlockPool, KVStorage, PagedCache, PageKey, PrefixIndex

NUM_STEPS = 100_000
PAGE = 16
FRAMES, WORDS, STATE, SUFFIX = 48, 9, 1, 10  # tokens: three pages of frames, then one shared page


class Robot:
    """Two prefixes alive at a time; frames, words and state change at random, and come back."""

    def __init__(self, cache: PagedCache, seed: int) -> None:
        self.cache = cache
        self.random = random.Random(seed)
        self.frame, self.words, self.state = 0, 0, 0
        self.last = None

    def keys(self) -> tuple[PageKey, ...]:
        """Keys as for a bidirectional prefix: the state is left to compute."""
        seen = f'{self.frame}|{self.words}|'.encode()
        return tuple(PageKey(end, hashlib.blake2b(seen + bytes([end]), digest_size=16).digest())
                     for end in (16, 32, 48, FRAMES + WORDS))

    def step(self) -> None:
        """Change something, run one inference step, let the last prefix but one go."""
        dice = self.random.random()
        if dice < 0.3:
            self.frame = self.random.randrange(7)
        elif dice < 0.35:
            self.words = self.random.randrange(3)
        keys, total = self.keys(), FRAMES + WORDS + STATE
        sequence = self.cache.open(keys, total - 1)
        sequence.append(total - sequence.length)
        self.cache.publish(sequence, keys)
        if dice > 0.9:
            sequence.fork().release()
        snapshot = sequence.snapshot()
        sequence.append(SUFFIX)
        sequence.restore(snapshot)
        if self.last is not None:
            self.last.release()
        self.last = sequence


def count_objects() -> int:
    """Python objects that the collector knows."""
    gc.collect()
    return len(gc.get_objects())


def test_a_hundred_thousand_steps_lose_nothing():
    storage, pool = KVStorage(2, 24, PAGE, 1, 8, torch.float32), BlockPool(24)
    cache = PagedCache(storage, pool, PrefixIndex(pool, PAGE), 8)
    robot = Robot(cache, seed=5)
    objects = []
    with torch.inference_mode():
        for number in range(1, NUM_STEPS + 1):
            robot.step()
            if number % (NUM_STEPS // 5) == 0:
                cache.invariants()
                objects.append(count_objects())
                assert cache.stats.sequences == 1 and cache.stats.pages_used <= 5
    assert max(objects[1:]) - objects[0] < 50, f'objects grew: {objects}'
    stats = cache.stats
    assert stats.opens == NUM_STEPS
    assert stats.hits > NUM_STEPS / 2 and stats.evictions > NUM_STEPS / 10, 'too tame a soak'
    robot.last.release()
    assert cache.stats.pages_free + cache.stats.pages_cached == 24
    cache.clear()
    assert cache.stats.pages_free == 24
    cache.invariants()
