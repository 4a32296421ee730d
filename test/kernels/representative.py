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
LEFT_OUT = ('prefill', 'any length', 'suffix, ', 'long prefill, ')


def cases(shape: Shape, target: Target) -> Iterator[Case]:
    """All of the shape but those; of quantised pages one token, and the write of one."""
    for case in all_cases.cases(shape, target):
        if case.name != LEFT_OUT[0] and not case.name.startswith(LEFT_OUT[1:]):
            yield case
