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

"""Who computes: the backends, which of them a device gets, and what keeps one from running.

Every entry (attention.py, elementwise.py) chooses here. What does not live here: what a backend
does (cpu/, gpu/, reference*.py).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType
from typing import Literal

import torch

from robot_infer_kernels.debug import debugging

Backend = Literal['auto', 'triton', 'cpu', 'reference']


def which_backend(device: torch.device | str) -> str:
    """Name the backend that `backend='auto'` means for tensors on `device`.

    :raises ValueError: where there is none; it says what is missing.
    """
    device = torch.device(device) if isinstance(device, str) else device
    if device.type == 'cpu':
        return 'cpu'
    if device.type == 'cuda':
        missing = why_no_triton(device)
        if missing:
            raise ValueError(f'no attention backend for device {device}: {missing}')
        return 'triton'
    raise ValueError(f'no attention backend for device {device}: expected cpu or cuda')


def why_no_triton(device: torch.device | str = 'cuda') -> str:
    """What keeps the Triton kernels from running on a device; empty where nothing does."""
    if importlib.util.find_spec('triton') is None:
        return ('triton is not installed (pip install triton; CUDA builds of torch bring the one '
                'that fits)')
    device = torch.device(device) if isinstance(device, str) else device
    if device.type != 'cuda':
        return '' if gpu('launch').interpreting() else (
            f'Triton runs on {device} only in its interpreter (TRITON_INTERPRET=1)')
    capability = capability_of(device)
    if capability is None:
        return 'this torch sees no CUDA device'
    if capability < 80:
        return (f'compute capability {capability // 10}.{capability % 10}; expected 8.0 or '
                'newer')
    return ''


def chosen(backend: Backend, device: torch.device) -> str:
    """The backend that is meant for tensors on `device`: never 'auto'.

    :raises ValueError: for a name that is none, or one that is not for this device.
    """
    if backend == 'auto':
        return which_backend(device)
    if backend not in ('triton', 'cpu', 'reference'):
        raise ValueError("backend: expected 'auto', 'triton', 'cpu' or 'reference'; got "
                         f'{backend!r}')
    if backend == 'cpu' and device.type != 'cpu':
        raise ValueError(f"backend: expected 'triton' for tensors on {device}; got 'cpu'")
    return backend


@functools.cache
def gpu(part: str) -> ModuleType:
    """The Triton kernels of one part: imported when first asked for, since Triton may be missing.

    :raises ValueError: where it is.
    """
    if importlib.util.find_spec('triton') is None:
        raise ValueError("backend: expected 'cpu' or 'reference', since triton is not installed; "
                         "got 'triton'")
    return importlib.import_module(f'robot_infer_kernels.gpu.{part}')


def capability_of(device: torch.device) -> int | None:
    """Compute capability of the GPU behind a device, 87 for sm_87; None where there is none."""
    if device.type != 'cuda' or not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def may_look(device: torch.device) -> bool:
    """Whether values may be read without making a robot wait for its GPU.

    On a GPU in debug mode only, and never into a graph that is being captured.
    """
    return device.type == 'cpu' or (
        debugging() and not torch.cuda.is_current_stream_capturing())
