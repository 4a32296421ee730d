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

"""How the workspaces of a plan depend on the number of cameras.

The stages of a step use the same memory one after the other, and a line is what its stage needs
beyond those before it: so it is no sum over cameras. Here it is computed anew for each number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robot_infer.budget.loaded import VALUE_BYTES
from robot_infer.budget.model_shape import KVGroup, ModelShape, Stack, WeightGroup
from robot_infer.budget.workspace import plan_workspace

Json = Mapping[str, Any]
KIND = 'workspace'


def shape_of(plan: Json) -> ModelShape:
    """The shape that a plan's JSON was made of."""
    values = {name: plan['shape'][name] for name in ModelShape.__dataclass_fields__}
    for name, kind in (('weights', WeightGroup), ('kv', KVGroup), ('more_vision', Stack)):
        values[name] = tuple(kind(**each) for each in values[name])
    for name in ('vision', 'language', 'action'):
        values[name] = values[name] and Stack(**values[name])
    for name in ('image_size', 'cameras'):
        values[name] = tuple(values[name])
    return ModelShape(**values)


def workspace_lines(plan: Json, planned: int, counts: Sequence[int]) -> dict[str, list[int]]:
    """Bytes of each line of a workspace with so many cameras, by the line's name.

    What the plan knew and its JSON does not tell (a horizon of one's own, the width of an action
    in a checkpoint) is in its lines: with the planned number of cameras these come out.

    :param planned: number of cameras of the plan.
    """
    known = {line['name']: line['num_bytes'] for line in plan['lines']}
    corrections, taken = {}, 0
    for name, num_bytes in _stages(plan, planned).items():
        taken_before, taken = taken, taken + known.get(name, 0)
        corrections[name] = taken - num_bytes if known.get(name) else min(
            0, taken_before - num_bytes)
    found: dict[str, list[int]] = {name: [] for name in corrections}
    for count in counts:
        stages, taken = _stages(plan, count), 0
        for name, column in found.items():
            more = max(0, stages.get(name, 0) + corrections[name] - taken)
            column.append(more)
            taken += more
    return found


def _stages(plan: Json, cameras: int) -> dict[str, int]:
    shape, settings = shape_of(plan), plan['settings']
    workspace = plan_workspace(
        shape, num_cameras=cameras, prefix_tokens=shape.prefix_tokens(cameras),
        horizon=max(1, shape.suffix_tokens), denoise_steps=shape.denoise_steps,
        value_bytes=VALUE_BYTES[settings['dtype']], quantised=settings['weights'] != 'as_loaded')
    return {f'{name} workspace': num_bytes for name, num_bytes, _ in workspace.stages}
