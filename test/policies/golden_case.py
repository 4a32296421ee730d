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

"""Golden cases as tests read them: a checkpoint, its observations, LeRobot's own numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
import json
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from robot_infer.engine import DEMO_CHECKPOINT
from robot_infer.types import Frame, Observation, RobotState

DATA = Path(__file__).parents[1] / 'golden' / 'data'
CASES = sorted(path.parent.name for path in DATA.glob('*/golden.json'))


@dataclass(frozen=True)
class GoldenCase:
    """One folder below test/golden/data; what each key means stands in test/golden/README.md."""

    name: str

    @cached_property
    def notes(self) -> dict:
        """golden.json."""
        return json.loads((DATA / self.name / 'golden.json').read_text())

    @cached_property
    def values(self) -> dict[str, Tensor]:
        """golden.safetensors."""
        return load_file(DATA / self.name / 'golden.safetensors')

    @property
    def checkpoint(self) -> Path:
        """The checkpoint folder the values were made with; the demo policy's is the package's."""
        return DEMO_CHECKPOINT if self.name == 'demo' else DATA / self.name / 'checkpoint'

    def steps(self) -> list[GoldenStep]:
        """The observations of the case."""
        return [GoldenStep(self, number) for number in range(len(self.notes['observations']))]


@dataclass(frozen=True)
class GoldenStep:
    """One observation and what the reference made of it."""

    case: GoldenCase
    number: int

    @property
    def note(self) -> dict:
        """Its entry in golden.json."""
        return self.case.notes['observations'][self.number]

    def __getitem__(self, key: str) -> Tensor:
        return self.case.values[f'observations.{self.number}.{key}']

    def __contains__(self, key: str) -> bool:
        return f'observations.{self.number}.{key}' in self.case.values

    def of_image(self, camera: str, key: str) -> Tensor:
        """A value of one of its images: rgb, pixels, embedding."""
        return self.case.values[f'images.{camera}.{self.note["images"][camera]}.{key}']

    @property
    def observation(self) -> Observation:
        """The observation itself."""
        frames = {camera: Frame(camera, self.of_image(camera, 'rgb').numpy(), 0, 0)
                  for camera in self.note['images']}
        return Observation(frames, RobotState(self['state'].numpy(), 0, 0),
                           self.note['instruction'], 0)
