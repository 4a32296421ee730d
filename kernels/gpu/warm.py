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

"""Compiles and captures everything at configure time; afterwards nothing is compiled, or it shows.

What lives here: which compile keys a shape of attention can reach, the launches that compile them,
and CUDA graphs. What does not: the count of keys and the seal (launch.py).

    warm_up(shapes, device)      every kernel of every shape; room for the splits; then sealed
    capture(step, device)        a graph of one step, to replay; before the seal

Attention reaches one key for each tile its choice can take: how many tokens, how long the table
and the sequence are, and where the tensors lie changes no key by itself. So the shapes say which
numbers of tokens come, and all choices for them are enumerated, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
import functools
import time
from typing import Protocol

import torch

from robot_infer_kernels.gpu.attention import (
    Choice,
    attend,
    chip_of,
    choose,
    compiled_as,
    room_needed,
)
from robot_infer_kernels.gpu.launch import LEDGER, Ledger, workspace
from robot_infer_kernels.pages import zero_plane
from robot_infer_kernels.plan import plan_attention


class Warmable(Protocol):
    """A shape of an operation that can launch everything it may ever need."""

    def launch_all(self, device: torch.device) -> None:
        """Launch each kernel that this shape can reach once, on made-up tensors of its own."""


@dataclass(frozen=True)
class AttentionShape:
    """One kind of attention that a policy runs.

    :param tokens: numbers of queries that come, e.g. `(1, 50)` or `range(1, 513)`.
    :param max_pages: length of the longest block table.
    :param form: format of the pages; plain ones have the dtype of the queries.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    page_tokens: int
    max_pages: int
    tokens: Sequence[int]
    dtype: torch.dtype = torch.bfloat16
    window: int | None = None
    softcap: float | None = None
    form: str = 'plain'

    def choices(self, device: torch.device) -> dict[tuple[int, Choice], int]:
        """Every choice that can be made: (tokens, choice) -> length of a table that makes it."""
        on, num_sms = chip_of(device)
        return {(count, choose(on, num_sms, count, self.num_heads, self.num_kv_heads,
                               self.head_dim, self.page_tokens, pages, self.dtype.itemsize,
                               self.form)): pages
                for count in self.tokens for pages in range(1, self.max_pages + 1)}

    def room(self, device: torch.device) -> tuple[int, int, int]:
        """Numbers of averages, sums and counters that the largest call needs."""
        needs = [room_needed(count, self.num_heads, self.num_kv_heads, self.head_dim, choice)
                 for count, choice in self.choices(device)] or [(0, 0, 0)]
        averages, sums, arrived = (max(numbers) for numbers in zip(*needs, strict=True))
        return averages, sums, arrived

    def launch_all(self, device: torch.device) -> None:
        """Launch each kernel and tile of this shape once, over one token."""
        workspace(device).reserve(*self.room(device))
        kv = zero_plane((2, 1, self.page_tokens, self.num_kv_heads, self.head_dim), self.form,
                        self.dtype, device)
        length = torch.ones(1, dtype=torch.int32, device=device)
        one_a_key = {compiled_as(count, self.num_heads, self.head_dim, choice):
                     (count, choice, pages)
                     for (count, choice), pages in self.choices(device).items()}
        for count, choice, pages in one_a_key.values():
            table = torch.zeros(pages, dtype=torch.int64, device=device)
            limit = torch.ones(count, dtype=torch.int64, device=device)
            plan = plan_attention(kv, table, length, limit, count, self.window)
            q = torch.zeros(count, self.num_heads, self.head_dim, dtype=self.dtype, device=device)
            attend(q, kv, plan, 1.0, self.softcap, choice)


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up did.

    :param num_keys: compile keys known after it. workspace_bytes: held by the splits' workspace.
    """

    num_keys: int
    seconds: float
    workspace_bytes: int


def warm_up(shapes: Iterable[Warmable], device: torch.device | str) -> WarmUp:
    """Compile all that the shapes can reach, take their workspace, and seal the ledger.

    Captures (`capture`) come before or in a second `warm_up`, which opens the seal for itself.
    After it a new compile key, capture or growth of the workspace raises `LateCompile` in debug
    mode, and is counted otherwise (`late_events`).
    """
    device = torch.device(device)
    if device.type == 'cuda' and device.index is None:
        device = torch.device('cuda', torch.cuda.current_device())
    began = time.perf_counter()
    LEDGER.sealed = False
    for shape in shapes:
        shape.launch_all(device)
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
    LEDGER.sealed = True
    return WarmUp(len(LEDGER.keys), time.perf_counter() - began, workspace(device).nbytes)


def unseal() -> None:
    """Allow compiling again, for a new configuration; what was counted stays."""
    LEDGER.sealed = False


def late_events() -> Ledger:
    """What came after the seal, and all keys known."""
    return LEDGER


@dataclass(frozen=True)
class Captured:
    """A step that was captured; on a CPU, where there are no graphs, the step itself."""

    replay: Callable[[], None]
    is_graph: bool


def capture(step: Callable[[], object], device: torch.device | str) -> Captured:
    """Capture one step, to replay it; what it reads and writes must stay where it is.

    The step runs twice before: once to compile, once on the stream that is captured. Graphs share
    one workspace: replay one after the other.

    :raises LateCompile: in debug mode, after the seal.
    """
    device = torch.device(device)
    LEDGER.report('a step is captured')
    step()
    if device.type != 'cuda':
        return Captured(lambda: _drop(step()), False)
    stream = _capture_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return Captured(graph.replay, True)


def _drop(result: object) -> None:
    """A replay returns nothing."""


@functools.cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all captures, so that their graphs share one workspace."""
    return torch.cuda.Stream(device)
