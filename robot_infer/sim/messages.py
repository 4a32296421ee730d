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

"""What the demo driver and the simulated robot tell each other, as JSON in std_msgs/String.

The policy sees none of it: it gets camera frames, joint states and an instruction, as on a real
robot. The truth about the world is for the driver alone, which judges the episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

import pydantic
from pydantic import Field, TypeAdapter

from robot_infer.errors import ConfigError
from robot_infer.sim.world import COLOURS

RESET_TOPIC = 'sim/reset'
DISTURB_TOPIC = 'sim/disturb'
LOOK_TOPIC = 'sim/look'
TRUTH_TOPIC = 'sim/truth'
PICTURE_TOPIC = 'sim/picture'

_T = TypeVar('_T')
_STRICT = pydantic.ConfigDict(extra='forbid', allow_inf_nan=False)


@dataclass(frozen=True)
class Reset:
    """Start an episode: the table made from `seed` with `blocks` blocks, known as `episode`.

    keep_gripper: leave the gripper where it is, as a real one would be while a table is cleared;
    else it is somewhere else at once.
    """

    __pydantic_config__ = _STRICT

    seed: Annotated[int, Field(ge=0)] = 0
    blocks: Annotated[int, Field(ge=1, le=len(COLOURS))] = 3
    episode: int = 0
    keep_gripper: bool = False


@dataclass(frozen=True)
class Disturb:
    """Move the block of `colour` to a free place, chosen by `seed`, at least `at_least` m away."""

    __pydantic_config__ = _STRICT

    colour: str
    seed: Annotated[int, Field(ge=0)] = 0
    at_least: Annotated[float, Field(gt=0.0, le=0.3)] = 0.15


@dataclass(frozen=True)
class Look:
    """Send one overhead picture as a JPEG, labelled `label`, on sim/picture."""

    __pydantic_config__ = _STRICT

    label: str = ''


@dataclass(frozen=True)
class Truth:
    """Where everything is.

    episode: of the last reset (-1 before the first one). step: physics steps of `period_s` since
    then. moved: blocks moved in this episode. blocks: colour to (x, y) in metres. distances: from
    the gripper to each block, metres. commands: actions taken since the process began; idle:
    whether the last one is too old, so that the robot stands still.
    """

    episode: int
    seed: int
    step: int
    period_s: float
    moved: int
    gripper: tuple[float, float]
    blocks: Mapping[str, tuple[float, float]]
    distances: Mapping[str, float]
    commands: int
    idle: bool


_ADAPTERS = {kind: TypeAdapter(kind) for kind in (Reset, Disturb, Look, Truth)}


def to_json(message: Reset | Disturb | Look | Truth) -> str:
    """Return the text that goes into the std_msgs/String."""
    return _ADAPTERS[type(message)].dump_json(message).decode()


def from_json(kind: type[_T], text: str, topic: str) -> _T:
    """Read a message of `topic`.

    :raises ConfigError: where the text is not such a message.
    """
    try:
        return _ADAPTERS[kind].validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = '.'.join(str(part) for part in first['loc']) or 'the text'
        fields = ', '.join(kind.__dataclass_fields__)
        raise ConfigError(
            f'message on {topic}', expected=f'JSON with the fields {fields}',
            got=f'{text[:80]!r} ({first["msg"]} at {where})',
            remedy=f'See {kind.__name__} in robot_infer/sim/messages.py.') from error
