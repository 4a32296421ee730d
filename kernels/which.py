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

"""Which backend each operation uses on a device, why, and which formats of pages it is offered.

What lives here: the words, for `robot-infer kernels which` and doctor. What does not: the choice
itself, which every entry makes for itself (attention.py, elementwise.py) and which is asked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from robot_infer_kernels import pages
from robot_infer_kernels.backends import capability_of, which_backend, why_no_triton
from robot_infer_kernels.cpu import linear, native
from robot_infer_kernels.gpu.check import triton_version
from robot_infer_kernels.gpu.targets import TARGETS

OPERATIONS = ('paged_attention', 'append_kv', 'rotate', 'rope_append', 'rms_norm', 'gated_silu',
              'gated_gelu', 'copy_blocks', 'gather_rows')


@dataclass(frozen=True)
class Choice:
    """What one operation runs as. backend: '' where it cannot run."""

    operation: str
    backend: str
    why: str


@dataclass(frozen=True)
class Format:
    """Whether pages or weights may be kept so, and why not; or what to know where they may."""

    name: str
    offered: bool
    why: str


def choices(device: torch.device) -> Iterator[Choice]:
    """For every operation on a device."""
    for operation in OPERATIONS:
        yield _choice(operation, device)


def formats(device: torch.device) -> Iterator[Format]:
    """Every format of pages, offered on a device or not."""
    for name in ('fp32', 'bf16', 'fp16'):
        yield Format(name, True, '')
    for name in pages.FORMATS:
        refused = pages.refusal(name, device)
        yield Format(name, not refused, refused or pages.remark(name, device))


def weight_formats(device: torch.device) -> Iterator[Format]:
    """Every form of weights, offered on a device or not."""
    yield Format('as loaded', True, '')
    for name in linear.FORMATS:
        refused = linear.why_not(name) if device.type == 'cpu' else 'they are for the CPU'
        yield Format(f'{name} weights', not refused, refused)


def chip_words(device: torch.device) -> str:
    """The GPU behind a device in words, or that there is none."""
    capability = capability_of(device)
    if capability is None:
        return 'none that this torch can use'
    known = TARGETS.get(capability)
    return (f'{torch.cuda.get_device_name(device)}, sm_{capability}'
            f'{f" ({known.chip})" if known else ", newer than the table of chips"}')


def triton_words() -> str:
    """The Triton that is installed, and what it can do here."""
    version = triton_version()
    if version is None:
        return 'none: ' + why_no_triton('cuda')
    missing = why_no_triton('cuda')
    return f'{version}; ' + (f'runs nothing here: {missing}; kernels check works without a GPU'
                             if missing else 'compiles and runs the kernels here')


def _choice(operation: str, device: torch.device) -> Choice:
    try:
        backend = which_backend(device)
    except ValueError as error:
        return Choice(operation, '', str(error))
    if backend == 'triton' and operation == 'append_kv':
        return Choice(operation, 'torch', 'plain pages: index_put, which waits for nothing; int8, '
                      'fp8 and int4 pages: triton')
    if backend == 'triton':
        return Choice(operation, 'triton', f'{device} is a GPU from sm_80 on, and Triton is there')
    if operation == 'paged_attention':
        return Choice(operation, 'cpu', native.describe()[1])
    return Choice(operation, 'cpu', f'{device}: torch operations')
