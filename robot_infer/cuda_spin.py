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

"""How the host waits for a CUDA device: by spinning, on request. Torch has no name for it.

The flags belong to the device's primary context and should be set before it exists; CUDA 12 takes
them later too, for the waits that follow.
"""

from __future__ import annotations

import ctypes

import torch

from robot_infer.control.realtime import Outcome

_NAME = 'cuda_spin'
_SCHEDULE_SPIN, _SCHEDULE_MASK = 1, 7  # cudaDeviceScheduleSpin, cudaDeviceScheduleMask


def ask_to_spin() -> None:
    """Ask that every wait of this process for its CUDA device spins; `spinning` tells."""
    runtime = _runtime()
    if runtime is not None:
        runtime.cudaSetDeviceFlags(_SCHEDULE_SPIN)


def spinning(asked: bool, device: torch.device) -> Outcome:
    """Whether waits for the device spin."""
    if not asked:
        return Outcome(_NAME, None, 'not asked for')
    if device.type != 'cuda':
        return Outcome(_NAME, False, f'the policy runs on {device}. Set policy.device to cuda.')
    runtime, flags = _runtime(), ctypes.c_uint(0)
    if runtime is None:
        return Outcome(_NAME, False, 'the CUDA runtime of torch cannot be found.')
    status = runtime.cudaGetDeviceFlags(ctypes.byref(flags))
    if status or flags.value & _SCHEDULE_MASK != _SCHEDULE_SPIN:
        return Outcome(_NAME, False, f'CUDA refused it (status {status}, flags {flags.value}).')
    return Outcome(_NAME, True, 'waits for the device spin')


def _runtime() -> ctypes.CDLL | None:
    """The CUDA runtime that torch has loaded; None where torch has none."""
    if torch.version.cuda is None or not torch.cuda.is_available():
        return None
    try:
        return ctypes.CDLL(f'libcudart.so.{torch.version.cuda.split(".")[0]}')
    except OSError:
        return None
