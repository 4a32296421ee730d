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

"""Paged attention as its definition reads: plain, in float64, one row at a time.

This is the oracle of every other backend; it is meant to be read, not to be fast.
"""

from __future__ import annotations

import torch

from robot_infer_kernels.pages import Plane, read_blocks
from robot_infer_kernels.plan import AttentionPlan


def attend(
    q: torch.Tensor, kv: Plane, plan: AttentionPlan, scale: float, softcap: float | None,
) -> torch.Tensor:
    """See `attention.planned_attention`."""
    keys, values = read_blocks(kv, plan.pages, torch.float64).flatten(1, 2)[:, :plan.length]
    group = q.shape[1] // keys.shape[1]
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for row in range(q.shape[0]):
        end = plan.limit if isinstance(plan.limit, int) else int(plan.limit[row])
        begin = 0 if plan.window is None else max(0, end - plan.window)
        for head in range(q.shape[1]):
            k, v = keys[begin:end, head // group], values[begin:end, head // group]
            scores = scale * (k @ q[row, head].double())
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            weights = torch.exp(scores - scores.max())
            out[row, head] = (weights / weights.sum()) @ v
    return out.to(q.dtype)
