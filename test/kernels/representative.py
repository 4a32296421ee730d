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

"""Cases that stand for the rest in test_compiled.py: every kernel, in less time than all of them.

`robot-infer kernels check` compiles all.
"""

from __future__ import annotations

from collections.abc import Iterator

from robot_infer_kernels.gpu import cases as all_cases
from robot_infer_kernels.gpu.cases import Case, Shape
from robot_infer_kernels.gpu.targets import Target

# What differs from another case in little but its tile, and costs as much to compile.
LEFT_OUT = ('prefill', 'any length')


def cases(shape: Shape, target: Target) -> Iterator[Case]:
    """All of the shape but those."""
    for case in all_cases.cases(shape, target):
        if case.name not in LEFT_OUT:
            yield case
