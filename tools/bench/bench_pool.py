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

"""What a block costs in a small pool and in a large one: the ratio should be near one.

Pools of both sizes, and a second small one as a measure of the noise, are timed in turns within
one run. Times are of this thread's CPU, so that other processes' turns do not count; figures are
medians over the rounds.

    stack   take 8, release 8: the same blocks over and over, as scratch pages are
    round   evict 8, take 8, publish, release, share, release: what a step does to prefix pages;
            every block is cached, so this goes round through the whole pool
    cold    the same, with the blocks in random order: each one's entries have to come from
            memory again. It shows the machine's caches more than the pool, so it has no target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import random
import statistics
import sys
import time

import click

from robot_infer.cache import BlockPool

BLOCKS = 8  # a step's


def shuffled_pool(num_blocks: int, seed: int) -> BlockPool:
    """A pool whose free list is in random order."""
    pool = BlockPool(num_blocks)
    blocks = pool.take(num_blocks)
    random.Random(seed).shuffle(blocks)
    pool.release(blocks)
    return pool


def stack_work(pool: BlockPool) -> Callable[[int], None]:
    """Take and release."""
    def work(repeats: int) -> None:
        take, release = pool.take, pool.release
        for _ in range(repeats):
            release(take(BLOCKS))

    return work


def round_work(pool: BlockPool) -> Callable[[int], None]:
    """Evict, take, publish, release, share and release, with every block cached."""
    def fill() -> list[int]:
        blocks = pool.take(BLOCKS)
        for block in blocks:
            pool.publish(block)
        pool.release(blocks)
        return blocks

    while pool.num_free >= BLOCKS:
        fill()

    def work(repeats: int) -> None:
        for _ in range(repeats):
            for _ in range(BLOCKS):
                pool.unpublish(pool.oldest_cached())
            blocks = fill()
            pool.share(blocks)
            pool.release(blocks)

    return work


@dataclass(frozen=True)
class Workload:
    """What is timed, on which pool, and whether its ratio has a target."""

    name: str
    make: Callable[[BlockPool], Callable[[int], None]]
    shuffled: bool
    has_target: bool

    def build(self, num_blocks: int, seed: int) -> Callable[[int], None]:
        """The work on a pool of this size."""
        return self.make(shuffled_pool(num_blocks, seed) if self.shuffled
                         else BlockPool(num_blocks))


WORKLOADS = (Workload('stack', stack_work, shuffled=True, has_target=True),
             Workload('round', round_work, shuffled=False, has_target=True),
             Workload('cold', round_work, shuffled=True, has_target=False))


def measure(works: list[Callable[[int], None]], rounds: int, repeats: int) -> list[list[float]]:
    """Nanoseconds a block, one list for each work, timed in turns."""
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work(repeats)
    for turn in range(rounds):
        order = range(len(works)) if turn % 2 else reversed(range(len(works)))
        for number in order:
            start = time.thread_time_ns()
            works[number](repeats)
            times[number].append((time.thread_time_ns() - start) / (repeats * BLOCKS))
    return times


def describe(times: list[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(times, n=4)
    return f'{middle:6.0f} ns a block (quartiles {low:.0f} to {high:.0f})'


@click.command()
@click.option('--small', default=32, show_default=True, help='Blocks in the small pool.')
@click.option('--large', default=32_768, show_default=True, help='Blocks in the large pool.')
@click.option('--rounds', default=301, show_default=True, help='Timed rounds.')
@click.option('--repeats', default=200, show_default=True, help='Operations in a round.')
@click.option('--target', default=1.5, show_default=True, help='Largest ratio accepted.')
def main(small: int, large: int, rounds: int, repeats: int, target: float) -> None:
    """Compare the cost of a block in a small and in a large pool."""
    print(f'BlockPool, {BLOCKS} blocks an operation; medians of {rounds} rounds of {repeats} '
          f'operations, in turns, in CPU time of this thread')
    passed = True
    for workload in WORKLOADS:
        works = [workload.build(size, seed) for seed, size in enumerate((small, large, small))]
        a, b, again = measure(works, rounds, repeats)
        ratio = statistics.median(b) / statistics.median(a)
        noise = statistics.median(again) / statistics.median(a)
        goal = f'target at most {target}' if workload.has_target else 'no target'
        print(f'{workload.name:6} {small:6} blocks  {describe(a)}\n'
              f'{"":6} {large:6} blocks  {describe(b)}\n'
              f'{"":6} ratio {ratio:.2f}  ({goal}; {small} blocks against {small}: {noise:.2f})')
        passed &= ratio <= target or not workload.has_target
    sys.exit(0 if passed else 1)


if __name__ == '__main__':
    main()
