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

"""Which topic of a bag feeds what: cameras, state, instruction, and the actions to compare with.

Everything that can be known to be wrong before the first message is told here, with the topics
that are there instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from robot_infer.config import Config
from robot_infer.errors import ConfigError, InstructionError, StateError
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag, Topic
from robot_infer.replay.errors import MessageTypeError, TopicError

IMAGE_TYPES = (messages.IMAGE, messages.COMPRESSED_IMAGE)
ACTION_TYPES = (messages.JOINT_TRAJECTORY, messages.FLOAT64_MULTI_ARRAY)
STATE_TOPIC, INSTRUCTION_TOPIC = '/joint_states', '/instruction'
# Of a node of any name: ~/step, ~/instruction_active.
_STEP_TOPIC_END, _ACTIVE_TOPIC_END = '/step', '/instruction_active'
_SHOWN = 12


@dataclass(frozen=True)
class Wishes:
    """What the user says about topics; '' and {} mean the names the node itself would use.

    fixed_state: stands in for the state topic. text: stands in for the instruction topic.
    """

    cameras: Mapping[str, str] = field(default_factory=dict)
    state: str = ''
    instruction: str = ''
    compare: str = ''
    fixed_state: tuple[float, ...] = ()
    text: str = ''


@dataclass(frozen=True)
class Sources:
    """The topics to read. state, instruction: None where something else stands in for them.

    active: where the node told which instruction is in force; it counts until the first
    instruction, for a bag that begins in the middle of a run. steps: the step records of the run
    that was recorded, where there are any.
    """

    cameras: Mapping[str, Topic]
    state: Topic | None
    instruction: Topic | None
    actions: Topic | None
    active: Topic | None
    steps: Topic | None

    @property
    def fed(self) -> dict[str, Topic]:
        """The topics whose messages go into the runtime, by name."""
        found = [*self.cameras.values(), self.state, self.instruction, self.active]
        return {topic.name: topic for topic in found if topic is not None}


def choose(bag: Bag, config: Config, wishes: Wishes) -> Sources:
    """Find all topics.

    :raises TopicError: where one is missing, empty, or feeds two cameras.
    :raises MessageTypeError: where one is of a type that cannot be used.
    :raises ConfigError: for a camera that is not configured.
    :raises StateError: for a fixed state of the wrong length.
    :raises InstructionError: where nothing says what to do.
    """
    return Sources(
        cameras=_cameras(bag, config, wishes.cameras), state=_state(bag, config, wishes),
        instruction=_instruction(bag, config, wishes),
        actions=_topic(bag, wishes.compare, ACTION_TYPES, 'the recorded actions', '--compare ')
        if wishes.compare else None,
        active=None if wishes.text or wishes.instruction else _ending(bag, _ACTIVE_TOPIC_END),
        steps=_ending(bag, _STEP_TOPIC_END))


def default_image_topic(camera: str, config: Config) -> str:
    """The topic the node reads a camera from."""
    compressed = config.cameras.transport == 'compressed'
    return f'/{camera}/image/compressed' if compressed else f'/{camera}/image'


def _cameras(bag: Bag, config: Config, given: Mapping[str, str]) -> dict[str, Topic]:
    unknown = [name for name in given if name not in config.cameras.names]
    if unknown:
        raise ConfigError(
            f'option --camera {unknown[0]}=…', expected='one of '
            f'{", ".join(config.cameras.names)}', got=unknown[0],
            remedy='Name the cameras of cameras.names; --config says which file they stand in.')
    found: dict[str, Topic] = {}
    for camera in config.cameras.names:
        name = given.get(camera) or default_image_topic(camera, config)
        topic = _topic(bag, name, IMAGE_TYPES, f'camera {camera}', f'--camera {camera}=')
        other = next((other for other, taken in found.items() if taken.name == topic.name), '')
        if other:
            raise TopicError(
                f'cameras {other} and {camera}', expected='a topic of its own for each',
                got=f'{topic.name} for both', remedy='Map each camera to its topic with --camera.')
        found[camera] = topic
    return found


def _state(bag: Bag, config: Config, wishes: Wishes) -> Topic | None:
    if not wishes.fixed_state:
        return _topic(bag, wishes.state or STATE_TOPIC, (messages.JOINT_STATE,), 'the state',
                      '--state ', 'A bag without one can be looked at with --fixed-state. ')
    if len(wishes.fixed_state) != len(config.state.joints):
        raise StateError(
            'option --fixed-state', expected=f'{len(config.state.joints)} positions, for '
            f'{", ".join(config.state.joints)}', got=f'{len(wishes.fixed_state)}',
            remedy='Give one number for each joint of state.joints.')
    return None


def _instruction(bag: Bag, config: Config, wishes: Wishes) -> Topic | None:
    if wishes.text:
        return None
    name = wishes.instruction or INSTRUCTION_TOPIC
    there = bag.topics.get(name)
    if wishes.instruction or (there is not None and there.count):
        return _topic(bag, name, (messages.STRING,), 'the instruction', '--instruction ',
                      'Or give the words with --text. ')
    if not config.instruction.text and _ending(bag, _ACTIVE_TOPIC_END) is None:
        raise InstructionError(
            'instruction', expected=f'messages on {name}, or instruction.text in the parameter '
            'file', got='neither', remedy='Give the words with --text, or the topic with '
            f'--instruction. {_there(bag, (messages.STRING,))}')
    return None


def _ending(bag: Bag, end: str) -> Topic | None:
    """The topic of texts whose name ends so, where there is one."""
    return next((topic for topic in bag.topics.values() if topic.count
                 and topic.name.endswith(end) and topic.type == messages.STRING), None)


def _topic(
    bag: Bag, name: str, types: Collection[str], what: str, option: str, more: str = '',
) -> Topic:
    """The topic of this name, if it is of one of `types` and has messages."""
    topic = bag.topics.get(name)
    if topic is None:
        raise TopicError(
            f'topic {name} for {what}', expected='it in the bag', got='no such topic',
            remedy=f'Name another one with {option}TOPIC. {more}{_there(bag, types)}')
    if topic.type not in types:
        raise MessageTypeError(
            f'topic {name} for {what}', expected=' or '.join(types), got=topic.type,
            remedy=f'{more}{_there(bag, types)}')
    if not topic.count:
        raise TopicError(
            f'topic {name} for {what}', expected='messages', got='none: the recorder knew the '
            'topic but received nothing', remedy='Check the QoS it was recorded with, or name '
            f'another one with {option}TOPIC. {_there(bag, types)}')
    messages.check_definition(topic)
    return topic


def _there(bag: Bag, types: Collection[str]) -> str:
    """The topics of the bag in words: first those that would fit, else all."""
    fitting = [topic for topic in bag.topics.values() if topic.type in types and topic.count]
    shown = fitting or list(bag.topics.values())
    words = ', '.join(f'{topic.name} ({topic.type}, {topic.count})' for topic in shown[:_SHOWN])
    more = f' and {len(shown) - _SHOWN} more' if len(shown) > _SHOWN else ''
    head = 'Of this type there are' if fitting else 'Of this type there is nothing; the bag has'
    return f'{head}: {words}{more}.'
