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

"""A line of the plan: one allocation, its bytes, and how well that number is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# exact: arithmetic on what will be allocated. bound: never more than this. estimate: neither.
Basis = Literal['exact', 'bound', 'estimate']
Place = Literal['device', 'host']


@dataclass(frozen=True)
class MemoryLine:
    """One allocation: its name, its bytes, and how they come about.

    :param arithmetic: the numbers that were multiplied, or the source of the number, in words.
    :param place: whose memory it takes; on a CPU and on unified memory both are one.
    :param kind: what sort of thing it is (budget.plan.KINDS); '' where nobody asks.
    :param per_camera: bytes of it that each camera takes, in the cameras' order.
    """

    name: str
    num_bytes: int
    arithmetic: str
    basis: Basis = 'exact'
    place: Place = 'device'
    kind: str = ''
    per_camera: tuple[int, ...] = ()
