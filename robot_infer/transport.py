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


"""Can large frames get through? What the Fast DDS profile of this process is, without ROS.

Fast DDS hands messages to processes of the same computer through a shared-memory segment that is
512 KiB by default; best-effort messages above about half a megabyte are then nearly all lost.
config/fastdds.xml makes the segment large enough. `doctor` and the diagnostics both look here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import os
from pathlib import Path
from xml.etree import ElementTree

# Messages up to here went through the default segment without loss (480,000 bytes did).
SAFE_MESSAGE_BYTES = 480_000
# Humble's Fast DDS knows the second name only, Kilted's the first only.
_VARIABLES = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')
CURE = ('Start every process that sends or receives images, the camera drivers too, with '
        'FASTDDS_DEFAULT_PROFILES_FILE set to config/fastdds.xml of this package (on Humble '
        'FASTRTPS_DEFAULT_PROFILES_FILE), or use cameras.transport: compressed.')


@dataclass(frozen=True)
class Profile:
    """The Fast DDS profile in force; `fault` is '' where large frames get through."""

    path: str
    segment_bytes: int
    fault: str

    @property
    def carries_large_frames(self) -> bool:
        """Whether shared memory has room for a raw camera image."""
        return not self.fault


def needs_profile(middleware: str) -> bool:
    """Whether this RMW implementation is Fast DDS."""
    return 'fastrtps' in middleware or 'fastdds' in middleware


def find_profile(environment: Mapping[str, str] = os.environ) -> Profile:
    """Look the profile up as Fast DDS does, and read the size of its shared-memory segment."""
    path = next((environment[name] for name in _VARIABLES if environment.get(name)), '')
    if not path:
        return Profile('', 0, f'{_VARIABLES[0]} is not set, so the shared-memory segment is '
                       'Fast DDS\'s default of 512 KiB')
    if not Path(path).is_file():
        return Profile(path, 0, f'{path} does not exist, so Fast DDS uses its default segment of '
                       '512 KiB')
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        return Profile(path, 0, f'{path} is not valid XML ({error})')
    sizes = [int(element.text or 0) for element in root.iter()
             if element.tag.rpartition('}')[2] == 'segment_size']
    segment = max(sizes, default=0)
    if segment <= 4 * SAFE_MESSAGE_BYTES:
        return Profile(path, segment, f'{path} gives shared memory no segment_size of a few MiB')
    return Profile(path, segment, '')
