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

"""The GPU kernels of a loaded policy: compiled and given their memory at configure, watched after.

On a device whose kernels are compiled beforehand (the CPU's) there is nothing to do here. What
does not live here: which kernels a shape can reach (robot_infer_kernels.gpu.warm).
"""

from __future__ import annotations

import torch

from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.pages import PagePlan
from robot_infer.errors import ConfigError
from robot_infer.policies.base import Policy
from robot_infer_kernels import which_backend
from robot_infer_kernels.backends import gpu


class WarmKernels:
    """What attention of one policy compiles and takes beside its pages: made, then sealed.

    :param form: format of the pages, 'plain' or a quantised one.
    :raises ConfigError: where its kernels cannot be launched for this policy.
    """

    def __init__(
        self, policy: Policy, device: torch.device, page_tokens: int, plan: PagePlan, form: str,
    ) -> None:
        self._device, self._shape = device, None
        if which_backend(device) != 'triton':
            return
        warm, shape = gpu('warm'), policy.prefix_shape
        warm.unseal()  # the seal of an engine before this one
        self._shape = warm.AttentionShape(
            shape.num_heads, shape.num_kv_heads, shape.head_dim, page_tokens,
            max_pages=plan.blocks_per_sequence,
            tokens=range(1, max(shape.max_prefix, policy.horizon) + 1), dtype=shape.dtype,
            form=form)
        try:
            self._shape.launch_all(device)
        except ValueError as error:
            raise ConfigError(
                'parameter policy.device', expected='a device whose kernels run this policy',
                got=f'{device} ({error})', remedy='Use cpu.') from error

    @property
    def lines(self) -> tuple[MemoryLine, ...]:
        """What the splits of attention leave for their merge."""
        if self._shape is None:
            return ()
        averages, sums, arrived = self._shape.room(self._device)
        return (MemoryLine(
            'attention workspace', 4 * (averages + sums + arrived),
            f'({averages} averages + {sums} sums + {arrived} counters) x 4 bytes'),)

    def seal(self) -> int:
        """From now on a compilation is an event; returns bytes of the workspace."""
        return 0 if self._shape is None else gpu('warm').warm_up([], self._device).workspace_bytes

    @property
    def num_late(self) -> int:
        """Compilations and growths since the seal; each was a stall in a step."""
        return 0 if self._shape is None else gpu('warm').late_events().num_late
