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

"""What every launch of a Triton kernel needs: its compile key counted, its workspace at hand.

Triton compiles a kernel anew for each new key: the constants, the dtypes, whether a pointer is
aligned to 16 bytes, and whether an integer that is not excluded is 1 or a multiple of 16. `launch`
works the same key out and counts it, in the interpreter too, where nothing is compiled. After
`seal` a new key is a stall of seconds in a robot's step: an error in debug mode, a counted event
otherwise. What does not live here: what must be compiled before (warm.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton

from robot_infer_kernels.backends import capability_of
from robot_infer_kernels.debug import debugging
from robot_infer_kernels.gpu import compiling

ALIGNMENT = 16  # bytes; what Triton looks for in pointers and integers


class LateCompile(RuntimeError):
    """After warm-up something was compiled, captured or allocated that warm-up did not know."""


@dataclass
class Ledger:
    """Compile keys of this process, and what came too late.

    :param keys: every key launched so far. sealed: whether warm-up is over.
    :param late: one line for each event after it, oldest first, the first 100 of them.
    """

    keys: set[Hashable] = field(default_factory=set)
    sealed: bool = False
    num_late: int = 0
    late: list[str] = field(default_factory=list)

    def note(self, key: Hashable, what: str) -> None:
        """Count a key before it is launched.

        :raises LateCompile: in debug mode, where it is new after `seal`; it is not launched then.
        """
        if key in self.keys:
            return
        if self.sealed:
            self.report(f'{what}: a compile key that warm-up did not see: {key}')
        self.keys.add(key)

    def report(self, event: str) -> None:
        """Count an event that should have come before `seal`; nothing before it.

        :raises LateCompile: in debug mode.
        """
        if not self.sealed:
            return
        if debugging():
            raise LateCompile(f'{event}. Expected all of them before "ready": add the shape to '
                              'warm_up.')
        self.num_late += 1
        if len(self.late) < 100:
            self.late.append(event)


LEDGER = Ledger()


def launch(kernel: Any, grid: tuple[int, ...], arguments: Sequence[Any],
           constants: Mapping[str, Any], num_warps: int, num_stages: int,
           max_registers: int | None = None) -> None:
    """Launch a Triton kernel: `kernel[grid](*arguments, **constants)`.

    :param arguments: all parameters that are not `tl.constexpr`, in order; they come first.
    :raises LateCompile: in debug mode after `seal`, for a new compile key.
    """
    key = compile_key(kernel, arguments, constants, num_warps, num_stages, max_registers)
    LEDGER.note(key, kernel.__name__)
    kernel[grid](*arguments, **constants, num_warps=num_warps, num_stages=num_stages,
                 maxnreg=max_registers)


def compile_key(kernel: Any, arguments: Sequence[Any], constants: Mapping[str, Any],
                num_warps: int, num_stages: int, max_registers: int | None = None) -> Hashable:
    """What Triton would compile a kernel for."""
    free, unaligned = _excluded(kernel)
    kinds = tuple(_kind(value, index in free, index in unaligned)
                  for index, value in enumerate(arguments))
    return (kernel.__name__, kinds, tuple(constants.items()), num_warps, num_stages,
            max_registers)


def interpreting() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU."""
    return bool(triton.knobs.runtime.interpret)


def capability(device: torch.device) -> int:
    """Compute capability of the chip that a launch on `device` runs on, 87 for sm_87.

    While kernels are compiled for another chip (ahead.py), that one's; in the interpreter there
    is none: 80, the oldest that is served.
    """
    ahead = compiling.capability()
    if ahead is not None:
        return ahead
    return capability_of(device) or 80


def check_reach(device: torch.device) -> None:
    """Check that kernels can run on tensors there: on a GPU's, or on those that stand for them.

    On the CPU they do in the interpreter, and while kernels are compiled ahead.

    :raises ValueError: where they cannot.
    """
    stand_in = device.type == 'cpu' and (
        interpreting() or compiling.capability() is not None)
    if device.type != 'cuda' and not stand_in:
        raise ValueError(f"backend: expected 'cpu' for tensors on {device} (Triton runs there "
                         "only in its interpreter, TRITON_INTERPRET=1); got 'triton'")


def check_start(name: str, tensor: torch.Tensor) -> None:
    """Check that a tensor begins where loads of 16 bytes do.

    :raises ValueError: where it does not.
    """
    if tensor.data_ptr() % ALIGNMENT:
        raise ValueError(f'{name}: expected memory that begins at a multiple of 16 bytes; got '
                         f'one {tensor.data_ptr() % ALIGNMENT} bytes past it')


@dataclass
class Workspace:
    """Memory that the splits of one launch leave for the merge; launches on a stream share it.

    averages: float32; sums: float32; arrived: int32, zero between launches.
    """

    averages: torch.Tensor
    sums: torch.Tensor
    arrived: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.averages.nbytes + self.sums.nbytes + self.arrived.nbytes

    def reserve(self, averages: int, sums: int, arrived: int) -> None:
        """Make room; what is there already stays where it is.

        :raises LateCompile: in debug mode, where it must grow after warm-up.
        """
        for name, size in (('averages', averages), ('sums', sums), ('arrived', arrived)):
            held = getattr(self, name)
            if held.numel() < size:
                LEDGER.report(f'attention workspace {name}: grows from {held.numel()} to {size} '
                              'numbers')
                # A captured graph may still use the smaller one: it is kept.
                _OUTGROWN.append(held)
                setattr(self, name, torch.zeros(size, dtype=held.dtype, device=held.device))


_WORKSPACES: dict[tuple[torch.device, int], Workspace] = {}
_OUTGROWN: list[torch.Tensor] = []
_EXCLUDED: dict[int, tuple[frozenset[int], frozenset[int]]] = {}


def workspace(device: torch.device) -> Workspace:
    """The workspace of the current stream; graphs captured on one stream share one.

    Two graphs that were captured on the same stream must therefore not run at the same time.
    """
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == 'cuda' else 0
    found = _WORKSPACES.get((device, stream))
    if found is None:
        found = Workspace(torch.zeros(0, device=device), torch.zeros(0, device=device),
                          torch.zeros(0, dtype=torch.int32, device=device))
        _WORKSPACES[device, stream] = found
    return found


def _kind(value: Any, free: bool, unaligned: bool) -> Hashable:
    """What of one argument is part of the key."""
    if isinstance(value, torch.Tensor):
        return value.dtype, unaligned or value.data_ptr() % ALIGNMENT == 0
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        width = 'i32' if -2 ** 31 <= value < 2 ** 31 else 'i64'
        return width if free else (width, value == 1, value % ALIGNMENT == 0)
    return type(value).__name__


def _excluded(kernel: Any) -> tuple[frozenset[int], frozenset[int]]:
    """Positions of the arguments whose value, and whose alignment, is not part of the key."""
    found = _EXCLUDED.get(id(kernel))
    if found is None:
        options = kernel.kwargs if hasattr(kernel, 'kwargs') else vars(kernel)
        found = tuple(frozenset(kernel.arg_names.index(name) for name in options[option] or ())
                      for option in ('do_not_specialize', 'do_not_specialize_on_alignment'))
        _EXCLUDED[id(kernel)] = found
    return found
