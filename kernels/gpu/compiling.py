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

"""Whether launches are compiled for a chip that is not here, and for which (set by ahead.py).

Launch code asks here before it asks the device. Imports nothing, so that anything may import it.
"""

from __future__ import annotations

_STATE: dict[str, int | None] = {'capability': None}


def capability() -> int | None:
    """The chip that is compiled for (87 for sm_87); None where kernels really run."""
    return _STATE['capability']


def set_capability(value: int | None) -> int | None:
    """Say which chip is compiled for; returns what was said before."""
    before, _STATE['capability'] = _STATE['capability'], value
    return before
