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

"""What storage of sequences wastes: a range of the longest length each, or pages.

Tokens are the unit. Lengths are drawn from a log-normal or read from a file. How the waste divides
while sequences grow and end in one pool is in sharing.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robot_infer.errors import BudgetError, ConfigError

BLOCKS = (1, 16, 64, 256)
_MOST_LENGTHS = 10_000_000


@dataclass(frozen=True)
class Storage:
    """Sequences at their full length, stored in one way.

    :param block: tokens of a page; None: each has a contiguous range of the longest length.
    :param used: tokens that are stored.
    :param taken: tokens that there is memory taken for.
    :param worst: most tokens taken and not used by one sequence.
    """

    block: int | None
    num_sequences: int
    used: int
    taken: int
    worst: int

    @property
    def waste(self) -> int:
        """Tokens of memory taken and not used."""
        return self.taken - self.used

    @property
    def waste_per_sequence(self) -> float:
        """Mean of it, tokens."""
        return self.waste / self.num_sequences

    @property
    def utilisation(self) -> float:
        """Share of what is taken that is used."""
        return self.used / self.taken


def simulate(lengths: Sequence[int], block: int | None, max_len: int) -> Storage:
    """Store sequences of these lengths.

    :param block: tokens of a page; None: a contiguous range of `max_len` for each sequence.
    :raises ConfigError: where a length is not from 1 to `max_len`, or a block less than 1.
    """
    count = check_lengths(lengths, max_len)
    slots = slot_tokens(count, block, max_len)
    return Storage(block, len(count), int(count.sum()), int(slots.sum()),
                   int((slots - count).max()))


def slot_tokens(lengths: np.ndarray | int, block: int | None, max_len: int) -> np.ndarray:
    """Tokens of memory that sequences of `lengths` take."""
    if block is None:
        return np.full_like(np.asarray(lengths), max_len)
    if block < 1:
        raise ConfigError('block', expected='at least 1 token', got=str(block),
                          remedy='Use 16, 64 or 256.')
    return -(-np.asarray(lengths) // block) * block


def sequences_that_fit(budget_bytes: int, token_bytes: int, storage: Storage) -> int:
    """How many sequences like those stored a budget holds: of the mean that one takes.

    In whole numbers, with what the last pages lack on the mean: budget / (taken / sequences).
    """
    return budget_bytes * storage.num_sequences // (token_bytes * storage.taken)


def lengths_of(normals: Iterable[float], median: float, sigma: float, max_len: int) -> list[int]:
    """Log-normal lengths from standard normal numbers, none below 1 or above `max_len`."""
    spread = median * np.exp(sigma * np.asarray(tuple(normals), dtype=np.float64))
    return [int(one) for one in np.floor(np.clip(spread, 1.0, float(max_len)) + 0.5)]


def draw_lengths(
    count: int, median: float, sigma: float, max_len: int, seed: int = 0,
) -> list[int]:
    """Draw log-normal lengths; the same seed draws the same.

    :raises ConfigError: for a count, a median, a spread or a longest length that is not positive.
    """
    for name, value, high in (('longest length', max_len, 2**40),
                              ('number of lengths', count, _MOST_LENGTHS),
                              ('median length', median, max_len)):
        if not 1 <= value <= high:
            raise ConfigError(name, expected=f'1 to {high}', got=f'{value}',
                              remedy='Give a number in this range.')
    if not 0.0 <= sigma <= 10.0:
        raise ConfigError('spread of the lengths', expected='0 to 10 (standard deviation of the '
                          'logarithm)', got=f'{sigma}', remedy='Give a number in this range.')
    return lengths_of(np.random.default_rng(seed).standard_normal(count), median, sigma, max_len)


def read_lengths(path: Path, max_len: int | None = None) -> list[int]:
    """Read lengths from a text file: whole numbers with spaces, commas or line ends between.

    What follows a # is a comment.

    :param max_len: the longest that is allowed; None: any.
    :raises ConfigError: naming the line, where one is not a length.
    """
    try:
        text = path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f'file of lengths {path}', expected='a text file of whole numbers',
                          got=getattr(error, 'strerror', None) or str(error),
                          remedy='Name a file that can be read.') from error
    found: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        for word in line.split('#', 1)[0].replace(',', ' ').split():
            found.append(_length(word, f'file of lengths {path}, line {number}', max_len))
    if not found or len(found) > _MOST_LENGTHS:
        raise ConfigError(f'file of lengths {path}', expected=f'1 to {_MOST_LENGTHS} lengths',
                          got=f'{len(found)}', remedy='Write one length, in tokens, a line.')
    return found


def _length(word: str, subject: str, max_len: int | None) -> int:
    high = 2**40 if max_len is None else max_len
    if not (word.isascii() and word.isdecimal() and len(word) < 16 and 1 <= int(word) <= high):
        raise ConfigError(subject, expected=f'a length of 1 to {high} tokens', got=repr(word[:40]),
                          remedy='Correct it, or raise the longest length.')
    return int(word)


def check_lengths(lengths: Sequence[int], max_len: int) -> np.ndarray:
    """Lengths as an array, or what is wrong with them."""
    count = np.asarray(lengths, dtype=np.int64)
    if not count.size:
        raise ConfigError('lengths', expected='at least one', got='none', remedy='Give some.')
    low, high = int(count.min()), int(count.max())
    if low < 1 or high > max_len:
        raise ConfigError('lengths', expected=f'1 to {max_len} tokens, the longest length',
                          got=f'{low} to {high}', remedy='Raise the longest length.')
    return count


def check_pool(pool_tokens: int, max_len: int, block: int) -> None:
    """Refuse a pool that cannot hold one sequence of the longest length.

    :raises BudgetError: with both numbers.
    """
    needed = int(slot_tokens(max_len, block, max_len))
    if pool_tokens // block * block < needed:
        raise BudgetError(
            'pool', expected=f'at least {needed} tokens: one sequence of the longest length, '
            f'{max_len}, in pages of {block}', got=f'{pool_tokens} tokens',
            remedy='Give more memory, or a shorter longest length.')
