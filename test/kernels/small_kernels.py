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

"""Small kernels for test_check.py: one that is fine, and one for each thing that can be wrong."""

from __future__ import annotations

from collections.abc import Iterator
import functools
import os
import signal

import torch
import triton
import triton.language as tl

from robot_infer_kernels.gpu.cases import Case, Shape
from robot_infer_kernels.gpu.targets import Target, fp8_refusal


@triton.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """out = a @ b in one tile of M x N, K at a time."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros([M, N], tl.float32)
    for step in range(4):
        left = tl.load(a + m[:, None] * (4 * K) + step * K + k[None, :])
        right = tl.load(b + (step * K + k[:, None]) * N + n[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + m[:, None] * N + n[None, :], total)


@triton.jit
def copy(x, out, N: tl.constexpr):
    """out = x."""
    n = tl.arange(0, N)
    tl.store(out + n, tl.load(x + n))


@triton.jit
def hoard(x, out, N: tl.constexpr):
    """Holds more numbers at once than a thread has registers."""
    n = tl.arange(0, N)
    first, second, third = tl.load(x + n), tl.load(x + N + n), tl.load(x + 2 * N + n)
    total = tl.sum(first * second * third, 0)
    tl.store(out + n, first * total + second / total + third - total)


@triton.jit
def refuse(x, N: tl.constexpr):
    """Does not compile."""
    tl.static_assert(N == 0, 'N must be nothing')
    tl.store(x, 1.0)


def call_product(rows: int, columns: int, inner: int, stages: int, offset: int = 0) -> None:
    """Launch `product`; offset: elements that its operands lie off a multiple of 16 bytes."""
    a, b = (torch.empty(64, dtype=torch.bfloat16)[offset:] for _ in range(2))
    product[(1,)](a, b, torch.empty(64), rows, columns, inner, num_warps=4, num_stages=stages)


def call_hoard() -> None:
    """Launch `hoard`: 3 x 128 numbers for each thread, which has 255 registers."""
    hoard[(1,)](torch.empty(64), torch.empty(64), 4096, num_warps=1)


def good(shape: Shape, target: Target) -> Iterator[Case]:
    """Two kernels that may be deployed, in one case, and one that is not offered below sm_89."""
    def both() -> None:
        call_product(64, 64, 64, 2)
        copy_small(1024)

    yield Case('product and copy', both)
    yield Case('product fp8', both, refusal=fp8_refusal(target.capability))


def fp8(shape: Shape, target: Target) -> Iterator[Case]:
    """A kernel over pages of fp8, named as the real ones are."""
    yield Case('copy, fp8 pages', functools.partial(copy_small, 1024),
               refusal=fp8_refusal(target.capability))


def bad(shape: Shape, target: Target) -> Iterator[Case]:
    """One for each verdict, and one more behind them."""
    yield Case('too big', functools.partial(call_product, 64, 128, 128, 6))
    yield Case('spilling', call_hoard)
    yield Case('refusing', lambda: refuse[(1,)](torch.empty(16), 4))
    yield Case('crashing', os.abort)
    yield Case('no launch', lambda: None)
    yield Case('still asked', functools.partial(copy_small, 1024))


def ended(shape: Shape, target: Target) -> Iterator[Case]:
    """Ended from outside at the second of three."""
    yield Case('before', functools.partial(copy_small, 1024))
    yield Case('ended', lambda: os.kill(os.getpid(), signal.SIGTERM))
    yield Case('behind', functools.partial(copy_small, 2048))


def copy_small(count: int) -> None:
    """Launch `copy`."""
    copy[(1,)](torch.empty(64), torch.empty(64), count)


def skewed(shape: Shape, target: Target) -> Iterator[Case]:
    """The good product, aligned and not."""
    yield Case('aligned', functools.partial(call_product, 64, 64, 64, 2))
    yield Case('skewed', functools.partial(call_product, 64, 64, 64, 2, offset=1))


@triton.jit
def shift(x, out, count, N: tl.constexpr):
    """out[i] = x[i + count]: `count` is specialised, as no argument of ours may be."""
    n = tl.arange(0, N)
    tl.store(out + n, tl.load(x + n + count))
