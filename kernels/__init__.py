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

"""Attention over paged keys and values: one entry, several backends.

What lives here: `paged_attention` and `append_kv`, which check their arguments and hand over to a
backend (`gpu/`: Triton; `cpu/`: torch and native code; `reference.py`: plain float64, the
definition); `plan_attention` and `planned_attention` are the two halves of the first, for many
calls of one shape. `set_debug` turns on the checks that look at values. What does not: which
blocks belong to whom (robot_infer/cache) and what the tokens mean (robot_infer/models).
"""

from robot_infer_kernels.attention import append_kv, paged_attention, planned_attention
from robot_infer_kernels.backends import which_backend, why_no_triton
from robot_infer_kernels.debug import debugging, set_debug
from robot_infer_kernels.elementwise import (
    copy_blocks,
    gated_gelu,
    gated_silu,
    gather_rows,
    rms_norm,
    rope_append,
    rotate,
)
from robot_infer_kernels.plan import AttentionPlan, plan_attention

__all__ = ['AttentionPlan', 'append_kv', 'copy_blocks', 'debugging', 'gated_gelu', 'gated_silu',
           'gather_rows', 'paged_attention', 'plan_attention', 'planned_attention', 'rms_norm',
           'rope_append', 'rotate', 'set_debug', 'which_backend', 'why_no_triton']
