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

"""Plans as their JSON has them, for the tests of their page."""

from __future__ import annotations

import json
from typing import Any

from robot_infer.budget.camera_rings import CameraRing
from robot_infer.budget.devices import find_device
from robot_infer.budget.layout import Facts, with_budget
from robot_infer.budget.plan import make_plan, with_room
from robot_infer.budget.presets import find_preset
from robot_infer.config import Config

MIB, GIB = 2**20, 2**30
ORIN = 'Orin Nano 8GB (15 W'


def plan_of(name: str, device: str = ORIN, *, num_cameras: int | None = None,
            budget_bytes: int = 256 * MIB, weights: str = 'as_loaded', dtype: str = 'fp32',
            **cache: Any) -> dict[str, Any]:
    """The plan of a named model, as a file of its JSON would have it.

    :param cache: settings of that group; the budget is raised to what they need.
    """
    shape = find_preset(name)
    cameras = shape.cameras if num_cameras is None else shape.cameras[:num_cameras]
    sizes = ((640, 480), (320, 240), (424, 240))
    rings = tuple(CameraRing(camera, *size, depth=3, assumed=False)
                  for camera, size in zip(cameras, sizes))
    facts = Facts(cameras=cameras, rings=rings)
    config = Config.model_validate({'cache': cache, 'policy': {'weights': weights,
                                                               'dtype': dtype}})
    config = with_room(shape, with_budget(config, budget_bytes), facts)
    plan = make_plan(shape, config, find_device(device), facts)
    return json.loads(json.dumps(plan.to_json()))
