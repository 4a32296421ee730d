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

"""Times steps on a GPU by CUDA events around graph replays; and torch's attention beside ours.

What lives here: how a time is taken, what a card can do at best, and the rivals. What does not:
which shapes are run, and what is said of them (bench_gpu.py). Without a GPU, in Triton's
interpreter, the same steps are called once each, and times mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
import contextlib
from dataclasses import dataclass
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

Step = Callable[[], object]
FLEX_PAGE = 128
_SCALE = 1.0 / 8.0


@dataclass(frozen=True)
class Timer:
    """Takes times on one device.

    :param seconds: about how long one measurement may take on a GPU.
    """

    device: torch.device
    seconds: float = 0.15

    def micros(self, steps: Sequence[Step]) -> float:
        """Median time of one step, microseconds; the steps are gone through in turn.

        Give as many steps, on memory of their own, as exceed the L2 cache together.
        """
        if self.device.type != 'cuda':
            began = time.perf_counter()
            for step in steps:
                step()
            return 1e6 * (time.perf_counter() - began) / len(steps)
        graph = self._capture(steps)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        once = self._replay(graph, events, 1)
        repeats = max(1, min(200, round(self.seconds * 1e3 / 5 / max(once, 1e-3))))
        rounds = [self._replay(graph, events, repeats) / repeats for _ in range(5)]
        return 1e3 * statistics.median(rounds) / len(steps)

    def _capture(self, steps: Sequence[Step]) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for step in steps:
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for step in steps:
                step()
        return graph

    @staticmethod
    def _replay(graph: torch.cuda.CUDAGraph, events: list[torch.cuda.Event], repeats: int
                ) -> float:
        """Milliseconds of `repeats` replays."""
        graph.replay()
        events[0].record()
        for _ in range(repeats):
            graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        return events[0].elapsed_time(events[1])

    def turns(self, nbytes: int) -> int:
        """How many buffers of a size exceed the L2 cache four times; 1 to 64."""
        if self.device.type != 'cuda':
            return 2
        cache = torch.cuda.get_device_properties(self.device).L2_cache_size
        return max(2, min(64, -(-4 * cache // nbytes)))


def copy_bandwidth(timer: Timer, nbytes: int) -> float:
    """Bytes a second, read and written, of a copy."""
    source = torch.zeros(nbytes, dtype=torch.uint8, device=timer.device)
    target = torch.empty_like(source)
    return 2 * nbytes / (1e-6 * timer.micros([lambda: target.copy_(source)]))


def matrix_rate(timer: Timer, size: int, dtype: torch.dtype) -> float:
    """Operations a second of a square matrix product."""
    left, right = torch.randn(2, size, size, device=timer.device).to(dtype)
    out = torch.empty_like(left)
    return 2 * size ** 3 / (1e-6 * timer.micros([lambda: torch.mm(left, right, out=out)]))


@dataclass(frozen=True)
class Dense:
    """Keys and values without pages, for torch: (1, num_kv_heads, length, head_dim) each."""

    keys: torch.Tensor
    values: torch.Tensor


def rivals(q: torch.Tensor, dense: Sequence[Dense], causal: bool, with_flex: bool
           ) -> Iterator[tuple[str, Callable[[], list[Step]]]]:
    """Torch's ways to compute the same, each as a function that makes its steps.

    :param q: (1, num_heads, num_tokens, head_dim).
    :param causal: whether row i sees the keys up to i, from a square start; else all keys.
    """
    if q.device.type == 'cuda':
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION,
                        SDPBackend.EFFICIENT_ATTENTION):
            name = backend.name.lower().removesuffix('_attention')
            yield f'sdpa {name}', lambda b=backend: _sdpa(q, dense, causal, [b])
    else:
        yield 'sdpa', lambda: _sdpa(q, dense, causal, None)
    if with_flex:
        yield 'flex with pages', lambda: _flex(q, dense, causal)


def _sdpa(q: torch.Tensor, dense: Sequence[Dense], causal: bool,
          backends: list[SDPBackend] | None) -> list[Step]:
    def attend(one: Dense) -> torch.Tensor:
        with sdpa_kernel(backends) if backends else contextlib.nullcontext():
            return scaled_dot_product_attention(
                q, one.keys, one.values, is_causal=causal, scale=_SCALE, enable_gqa=True)
    return [lambda one=one: attend(one) for one in dense]


def _flex(q: torch.Tensor, dense: Sequence[Dense], causal: bool) -> list[Step]:
    """flex_attention over a pool of pages in random order; each plane a pool of its own."""
    num_kv_heads, length, head_dim = dense[0].keys.shape[1:]
    num_pages = -(-length // FLEX_PAGE)
    pool = PagedAttention(num_pages, FLEX_PAGE, 1, device=str(q.device))
    pool.empty_pages = torch.randperm(num_pages).tolist()
    number = torch.tensor(0, device=q.device)
    pool.reserve(number, torch.tensor(length, device=q.device))
    mask = create_block_mask(
        lambda b, h, row, key: key <= row if causal else key < length, 1, 1, q.shape[2],
        num_pages * FLEX_PAGE, device=str(q.device), BLOCK_SIZE=(FLEX_PAGE, FLEX_PAGE))
    paged_mask = pool.convert_logical_block_mask(mask)
    positions = torch.arange(length, device=q.device)[None]
    caches = []
    for one in dense:
        cache = torch.zeros(2, 1, num_kv_heads, num_pages * FLEX_PAGE, head_dim, dtype=q.dtype,
                            device=q.device)
        pool.assign(number[None], positions, one.keys, one.values, cache[0], cache[1])
        caches.append(cache)
    run = torch.compile(flex_attention, dynamic=False) if q.device.type == 'cuda' else (
        flex_attention)
    return [lambda cache=cache: run(q, cache[0], cache[1], block_mask=paged_mask, scale=_SCALE,
                                    enable_gqa=True) for cache in caches]
