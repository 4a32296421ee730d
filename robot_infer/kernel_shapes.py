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

"""The shapes that a configured policy asks of the kernels: from its checkpoint's small files."""

from __future__ import annotations

from pathlib import Path

from robot_infer.config import Config
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.shapes import read_shape
from robot_infer.shared_files import DEMO_CHECKPOINT
from robot_infer_kernels.gpu.cases import Shape

_GATES = ('model.vlm_with_expert.vlm.model.text_model.layers.0.mlp.gate_proj.weight',
          'model.vlm_with_expert.lm_expert.layers.0.mlp.gate_proj.weight')


def configured_shape(config: Config) -> Shape:
    """Read what `policy.checkpoint` will ask of the kernels; no weight is loaded.

    :raises CheckpointError: where it is no checkpoint that this build runs.
    """
    checkpoint = config.policy.checkpoint
    folder = CheckpointFolder(Path(checkpoint) if checkpoint else DEMO_CHECKPOINT)
    shape = read_shape(folder)
    tensors = folder.tensors()
    return Shape(
        name=folder.path.name if checkpoint else 'demo policy',
        num_heads=shape.attention.num_heads, num_kv_heads=shape.attention.num_kv_heads,
        head_dim=shape.attention.head_dim, dtype=config.policy.dtype,
        page_tokens=config.cache.page_tokens,
        suffix_tokens=config.policy.horizon or shape.horizon, prefix_tokens=shape.prefix_tokens,
        formats=() if config.cache.kv_format == 'auto' else (config.cache.kv_format,),
        widths=(shape.width, shape.expert_width),
        hidden=tuple(tensors.shape(name)[0] for name in _GATES))
