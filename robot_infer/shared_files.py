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

"""Where files lie that are not code: those of `config/` and `launch/`, and the demo policy.

In a checkout, or where they were installed.
"""

from __future__ import annotations

import os
from pathlib import Path
import sys
import sysconfig

from robot_infer.errors import ConfigError

DEMO_CHECKPOINT = Path(__file__).parent / 'assets' / 'demo_policy'


def shared_file(name: str) -> Path:
    """Find one of them, such as 'config/fastdds.xml'.

    :raises ConfigError: where it is nowhere, with the places looked at.
    """
    prefixes = [*os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep), sys.prefix,
                sysconfig.get_path('data')]
    places = [Path(__file__).resolve().parents[1] / name, *(
        Path(prefix) / 'share' / 'robot_infer' / name for prefix in prefixes if prefix)]
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        f'file {name}', expected='a file that is installed with robot_infer',
        got=f'nothing at {", ".join(dict.fromkeys(map(str, places)))}',
        remedy='Install the package again (make setup, or colcon build).')
