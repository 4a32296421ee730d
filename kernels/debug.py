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

"""Debug mode of the kernels: checks that look at values, and on a GPU wait for it.

What lives here: the switch. What does not: the checks, which stand beside what they check
(plan.py, gpu/launch.py).
"""

from __future__ import annotations

import os

_STATE = {'on': os.environ.get('ROBOT_INFER_DEBUG', '').lower() in ('1', 'true', 'yes', 'on')}


def set_debug(on: bool) -> None:
    """Turn debug mode on or off for this process; ROBOT_INFER_DEBUG=1 turns it on at import."""
    _STATE['on'] = bool(on)


def debugging() -> bool:
    """Whether values are checked before each launch."""
    return _STATE['on']
