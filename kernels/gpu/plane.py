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

"""A plane of pages, plain or quantised, as the kernels take it.

What lives here: its two sides and their scales as arguments of a launch, and what a kernel wants
of them. What does not: what a plane is (robot_infer_kernels/pages.py).
"""

from __future__ import annotations

import torch

from robot_infer_kernels.gpu import compiling
from robot_infer_kernels.gpu.launch import ALIGNMENT
from robot_infer_kernels.gpu.targets import fp8_refusal
from robot_infer_kernels.pages import Plane, QuantisedPlane, refusal

Side = torch.Tensor | None


def sides(kv: Plane | None) -> tuple[Side, Side, Side, Side, str]:
    """Keys, values, their scales, and the constant FORMAT."""
    if kv is None:
        return None, None, None, None, 'plain'
    if isinstance(kv, QuantisedPlane):
        return (*kv.values, *kv.scales, kv.format)
    return (*kv, None, None, 'plain')


def check_plane(kv: Plane) -> None:
    """Check what a kernel wants of a plane beyond its shape.

    :raises ValueError: where it does not fit, or its format is not for the chip.
    """
    if isinstance(kv, QuantisedPlane):
        ahead = compiling.capability()
        words = refusal(kv.format, kv.device) if ahead is None or kv.format != 'fp8' else (
            fp8_refusal(ahead))
        if words:
            raise ValueError(f'kv: {words}')
        pages = kv.values
    else:
        pages = kv
    if not pages.is_contiguous():
        raise ValueError(f'kv: expected a contiguous plane on a GPU; got strides {pages.stride()}')
    for name, side in zip(('keys', 'values'), pages):
        if side.data_ptr() % ALIGNMENT:
            raise ValueError(f'kv: expected {name} that begin at a multiple of 16 bytes; got some '
                             f'{side.data_ptr() % ALIGNMENT} bytes past it')
