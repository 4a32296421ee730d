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

"""What the page's second half draws: lengths, and the stops of its sliders.

The lengths are no random draw: they are the log-normal's quantiles at equal steps, in a shuffled
order that is always the same, so that the page shows the distribution and not its luck, and a
browser needs no random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
import random
from statistics import NormalDist
from typing import Any

from robot_infer.budget.fragmentation import lengths_of
from robot_infer.budget.sharing import LIFETIME, SPARE

SLOTS = 8  # of the longest length, in the pool
BLOCKS = tuple(2**power for power in range(11))
TABLE_BLOCKS = (1, 16, 64, 256)
_NUM_LENGTHS = 512
_STOPS: dict[str, tuple[int, ...]] = {
    'longest': tuple(2**power for power in range(9, 18)),
    'median': (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),  # 64ths of the longest
    'spread': tuple(range(21)),  # tenths
    'block': BLOCKS,
}


@dataclass(frozen=True)
class StorageChoice:
    """Where the sliders stand, as indices of their stops."""

    longest: int
    median: int
    spread: int
    block: int

    @property
    def longest_tokens(self) -> int:
        """The longest length."""
        return _STOPS['longest'][self.longest]

    @property
    def median_tokens(self) -> int:
        """The median length."""
        return max(1, self.longest_tokens * _STOPS['median'][self.median] // 64)

    @property
    def block_tokens(self) -> int:
        """Tokens of a page."""
        return _STOPS['block'][self.block]

    def lengths(self) -> list[int]:
        """The lengths, in the order in which they come."""
        return lengths_of(_normals(), self.median_tokens, _STOPS['spread'][self.spread] / 10,
                          self.longest_tokens)


def default_choice(page_tokens: int) -> StorageChoice:
    """Lengths of a language model's requests, in pages of about the plan's size."""
    nearest = min(BLOCKS, key=lambda block: abs(block - page_tokens))
    return StorageChoice(
        longest=_STOPS['longest'].index(32_768), median=_STOPS['median'].index(2),
        spread=_STOPS['spread'].index(10), block=BLOCKS.index(nearest))


def storage_data() -> dict[str, Any]:
    """What storage.js works with."""
    return {'stops': {name: list(stops) for name, stops in _STOPS.items()},
            'normals': _normals(), 'slots': SLOTS, 'lifetime': LIFETIME, 'spare': SPARE}


def _normals() -> list[float]:
    normal = NormalDist()
    found = [round(normal.inv_cdf((k + 0.5) / _NUM_LENGTHS), 4) for k in range(_NUM_LENGTHS)]
    random.Random(5).shuffle(found)
    return found
