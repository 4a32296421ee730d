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

"""Keys and values in poisoned pages, and the interpreter of Triton, for the tests of the kernels.

A test marked `gpu` runs Triton kernels: on the GPU where there is one (`pytest -m gpu`), else in
Triton's interpreter, corrected and watched (interpreter.py). It puts its tensors on `device`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import importlib.util
import math
from pathlib import Path
import sys

import pytest
import torch

from robot_infer_kernels import append_kv, debugging, set_debug

HAS_TRITON = importlib.util.find_spec('triton') is not None
sys.path.insert(0, str(Path(__file__).parent))
try:
    if HAS_TRITON:
        import interpreter
finally:
    sys.path.pop(0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Triton where it is missing, and say how to get it."""
    if not HAS_TRITON and item.get_closest_marker('gpu'):
        pytest.skip("triton is not installed: pip install 'robot_infer[check]'")


@pytest.fixture(scope='session', autouse=HAS_TRITON)
def _fair_interpreter() -> None:
    """Correct and watch the interpreter, where kernels run in it."""
    if interpreter.interpreting():
        interpreter.install()


@pytest.fixture(scope='session')
def device() -> torch.device:
    """Where the tensors of a test marked `gpu` belong."""
    return torch.device('cuda' if torch.cuda.is_available() else 'cpu')


@dataclass(frozen=True)
class Pages:
    """One plane whose every slot outside the valid tokens is NaN, and what was written to it."""

    kv: torch.Tensor
    table: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    @property
    def length(self) -> int:
        """Valid tokens."""
        return self.keys.shape[0]


def paged(keys: torch.Tensor, values: torch.Tensor, page_tokens: int, blocks: list[int],
          num_blocks: int) -> Pages:
    """Put keys and values, (length, num_kv_heads, head_dim) each, into the given blocks."""
    kv = torch.full((2, num_blocks, page_tokens, *keys.shape[1:]), math.nan, dtype=keys.dtype)
    table = torch.tensor(blocks, dtype=torch.int64)
    slots = (table[:, None] * page_tokens + torch.arange(page_tokens)).flatten()
    append_kv(keys, values, kv, slots[:keys.shape[0]])
    return Pages(kv, table, keys, values)


class Maker:
    """Draws tensors and pages from one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normally distributed numbers."""
        return torch.randn(*shape, generator=self.generator).to(dtype)

    def limits(self, count: int, length: int) -> torch.Tensor:
        """Limits in no order at all: (count,) int64."""
        return torch.randint(1, length + 1, (count,), generator=self.generator)

    def pages(self, length: int, num_kv_heads: int, head_dim: int, page_tokens: int = 16,
              scattered: bool = True, dtype: torch.dtype = torch.float32) -> Pages:
        """Random keys and values, in neighbouring or in scattered blocks."""
        num_pages = -(-length // page_tokens)
        num_blocks = num_pages + 3
        blocks = list(range(2, 2 + num_pages))
        if scattered:
            blocks = torch.randperm(num_blocks, generator=self.generator)[:num_pages].tolist()
        shape = (length, num_kv_heads, head_dim)
        return paged(self.normal(*shape, dtype=dtype), self.normal(*shape, dtype=dtype),
                     page_tokens, blocks, num_blocks)


@pytest.fixture
def make() -> Maker:
    """Reproducible tensors and pages."""
    return Maker(seed=7)


@pytest.fixture(scope='session')
def make_from() -> type[Maker]:
    """Tensors and pages from a seed that the test gives."""
    return Maker


@pytest.fixture(scope='session')
def put() -> Callable[..., Pages]:
    """The function that puts given keys and values into given blocks."""
    return paged


@pytest.fixture
def debug() -> Iterator[None]:
    """Debug mode for one test."""
    before = debugging()
    set_debug(True)
    yield
    set_debug(before)
