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

"""Plans in the form of Plan.to_json(), for the tests of their page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from robot_infer.budget.kv import kv_bytes
from robot_infer.budget.model_shape import ModelShape

MIB, GIB = 2**20, 2**30


def plan_of(shape: ModelShape, kv_format: str = 'bf16', num_pages: int = 200,
            page_tokens: int = 64, **more: Any) -> Mapping[str, Any]:
    """A plan as the page wants it, of a real model and made-up surroundings."""
    def line(name: str, num_bytes: int, basis: str = 'exact', place: str = 'device',
             **extra: Any) -> dict[str, Any]:
        return {'name': name, 'num_bytes': num_bytes, 'arithmetic': f'{num_bytes} bytes',
                'basis': basis, 'place': place, **extra}

    pages = kv_bytes(shape.kv, num_pages * page_tokens, kv_format, page_tokens)
    rings = [3 * 640 * 480 * 3, 3 * 320 * 240 * 3, 3 * 424 * 240 * 3][:len(shape.cameras)]
    work = [30 * MIB] * len(shape.cameras)
    plan = {
        'shape': asdict(shape), 'usable_bytes': 6 * GIB, 'words': 'Fits: it is only an example.',
        'device': {'name': 'Orin Nano', 'sm': 87, 'unified': True},
        'settings': {'kv_format': kv_format, 'page_tokens': page_tokens, 'num_pages': num_pages,
                     'num_cameras': len(shape.cameras)},
        'lines': [
            line('weights', shape.weight_bytes), line('pages', pages),
            line('workspace', 50 * MIB + sum(work), 'bound', per_camera=work),
            line('camera rings', sum(rings), place='host', per_camera=rings),
            line('CUDA context', 400 * MIB, 'estimate'),
            line('the rest of the robot', GIB, 'estimate', 'host')]}
    return {**plan, **more}
