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

"""Compiles what the launch code launches, for a chip that is not here.

Inside `compiling_for(87)` a launch of a Triton kernel compiles it for sm_87 and returns without
running: Triton's own launcher chooses types, constants and alignment hints from the arguments, so
what is compiled is to the bit what would run there. Tensors may be on the CPU, as small as the
launch code allows. Two uses: figures.py reads what was compiled, and tests count compilations
while arguments change. It needs no GPU; it cannot work in a process with TRITON_INTERPRET=1.

Only in processes of their own (compile_worker.py): it changes Triton for the whole process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
from dataclasses import dataclass, field
import io
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from robot_infer_kernels.gpu import compiling


@dataclass(frozen=True)
class Launch:
    """One launch that was asked for.

    :param kernel: name of the jit function. compiled: Triton's CompiledKernel.
    :param is_new: it had to be compiled, or read from Triton's cache; not launched before.
    :param log: what ptxas said, where it ran.
    """

    kernel: str
    compiled: Any
    is_new: bool
    log: str


@dataclass
class Launches:
    """What was launched inside a `compiling_for`."""

    capability: int
    made: list[Launch] = field(default_factory=list)

    @property
    def new(self) -> list[Launch]:
        """Those that needed a kernel not launched before in this process."""
        return [launch for launch in self.made if launch.is_new]


class _Chip:
    """A driver for a chip that is not here: enough of one to choose what to compile."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_device(self) -> int:
        """A number of its own for each chip, so that kernels of one are not taken for another."""
        return self._capability

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return GPUTarget('cuda', self._capability, 32)


@contextlib.contextmanager
def compiling_for(capability: int) -> Iterator[Launches]:
    """Turn launches of Triton kernels into compilations for `capability` (87 for sm_87)."""
    if triton.knobs.runtime.interpret:
        raise RuntimeError('TRITON_INTERPRET: expected unset, to compile; got 1')
    launches = Launches(capability)
    run, before = JITFunction.run, driver._active
    compiled: set[int] = set()
    hook = triton.knobs.runtime.jit_post_compile_hook
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.runtime.jit_post_compile_hook = lambda **about: compiled.add(1)
    driver.set_active(_Chip(capability))
    capability_before = compiling.set_capability(capability)
    JITFunction.run = _compile_only(run, launches, compiled)
    try:
        yield launches
    finally:
        JITFunction.run = run
        driver._active = before
        compiling.set_capability(capability_before)
        triton.knobs.runtime.jit_post_compile_hook = hook


def _compile_only(run: Callable, launches: Launches, compiled: set[int]) -> Callable:
    def compile_only(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        compiled.clear()
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        launches.made.append(Launch(self.fn.__name__, kernel, bool(compiled), log.getvalue()))
        return kernel
    return compile_only
