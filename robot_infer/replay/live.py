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

"""`robot-infer replay --live`: the bag over real DDS into the node, and beside it the replay.

The node runs as a process of its own in a ROS domain of its own, unless it is named; then the one
that runs is played to, and its actions go wherever they always go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
import sys
import tempfile
from typing import TYPE_CHECKING

from robot_infer.config import Config
from robot_infer.errors import ConfigError
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag, Topic
from robot_infer.replay.errors import LiveReplayError
from robot_infer.replay.match import LiveRun
from robot_infer.replay.record import ACTION_TOPIC, NODE
from robot_infer.replay.run import Options
from robot_infer.replay.schedule import shifted
from robot_infer.replay.sources import (
    INSTRUCTION_TOPIC,
    STATE_TOPIC,
    Sources,
    Wishes,
    default_image_topic,
)
from robot_infer.settings_text import config_yaml
from robot_infer.sim.children import Child, free_domain_id, ros_environment

if TYPE_CHECKING:
    from robot_infer.replay.dds_player import DdsPlayer

_LINGER_S = 1.0  # the node's last step is told by then
_ACTION_DEPTH = 200  # of our own node: no action is overtaken by the next


@dataclass(frozen=True)
class Played:
    """A run over DDS. config: the node's own settings. latest_s: how late a message was sent."""

    run: LiveRun
    config: Config
    latest_s: float


def played_topics(sources: Sources, config: Config) -> dict[str, tuple[str, Topic]]:
    """Bag topic -> the topic that the node reads it from.

    :raises ConfigError: where a camera's type is not that of cameras.transport.
    """
    wanted = (messages.COMPRESSED_IMAGE if config.cameras.transport == 'compressed'
              else messages.IMAGE)
    topics = {}
    for camera, topic in sources.cameras.items():
        if topic.type != wanted:
            raise ConfigError(
                'parameter cameras.transport', expected=f'one that takes {topic.type}, the type '
                f'of {topic.name}', got=config.cameras.transport, remedy='Change it: the node '
                'reads the bag\'s messages as they are.')
        topics[topic.name] = (default_image_topic(camera, config), topic)
    for topic, name in ((sources.state, STATE_TOPIC), (sources.instruction, INSTRUCTION_TOPIC),
                        (sources.active, INSTRUCTION_TOPIC)):
        if topic is not None and name not in {played_on for played_on, _ in topics.values()}:
            topics[topic.name] = (name, topic)
    return topics


def play_live(
    bag: Bag, sources: Sources, wishes: Wishes, config: Config, options: Options, node: str,
    progress: Callable[[float], None],
) -> Played:
    """Play the bag to a node in real time and hear what it does.

    :param node: name of a node that runs; '' starts one of our own.
    :raises RobotInferError: where there is no node, or it cannot be configured.
    """
    with ExitStack() as undo:
        child = None
        if not node:
            child = undo.enter_context(_own_node(config))
        player = _open_player(node or NODE, config, _watch(child))
        undo.callback(player.close)
        if node:
            config = player.config()
        undo.enter_context(_active(player, child))
        topics = played_topics(sources, config)
        start_ns = bag.start_ns + round(options.start_s * 1e9)
        end_ns = bag.end_ns if options.duration_s is None else min(
            bag.end_ns, start_ns + round(options.duration_s * 1e9))
        words = wishes.text or ''
        began_ns = player.play(bag.messages(topics, start_ns, end_ns + 1), topics, start_ns,
                               words, progress)
        player.linger(_LINGER_S)
    shift_ns = start_ns - began_ns
    return Played(LiveRun(
        tuple(shifted(step, shift_ns) for step in player.steps),
        tuple((time_ns + shift_ns, action) for time_ns, action in player.actions)),
        config, player.latest_s)


@contextmanager
def _own_node(config: Config) -> Iterator[Child]:
    """A policy node of our own, in a domain where nobody else is."""
    environment = ros_environment(free_domain_id())
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'replay.yaml'
        file.write_text(config_yaml(config))
        os.environ.update(environment)  # our own DDS participant needs the same
        child = Child('policy node', [
            sys.executable, '-m', 'robot_infer.ros.start', 'node', '--ros-args', '--params-file',
            str(file), '-p', 'use_sim_time:=true', '-p', 'diagnostics.publish_steps:=true',
            '-p', f'qos_overrides.{ACTION_TOPIC}.publisher.depth:={_ACTION_DEPTH}'], environment)
        try:
            yield child
        finally:
            child.stop()
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _active(player: DdsPlayer, child: Child | None) -> Iterator[None]:
    """The node active; afterwards as it was before."""
    state = player.lifecycle_state()
    for needed, name in (('unconfigured', 'configure'), ('inactive', 'activate')):
        if state in (needed, 'unconfigured') and not player.transition(name):
            told = child.lines_with('[ERROR]', 'Error')[-1:] if child else ()
            raise LiveReplayError(
                'policy node', expected=f'success of {name}',
                got=' '.join(told) or f'its refusal in state {state}',
                remedy='Mend what it names, or see its log.')
    try:
        yield
    finally:
        if state != 'active':
            player.transition('deactivate')


def _watch(child: Child | None) -> Callable[[], None]:
    def check() -> None:
        if child is not None and child.exit_status is not None:
            lines = '\n    '.join(('', *child.last_lines()))
            raise LiveReplayError(
                child.name, expected='a process that runs',
                got=f'its end with status {child.exit_status}',
                remedy=f'Its last lines:{lines}')
    return check


def _open_player(node: str, config: Config, check: Callable[[], None]) -> DdsPlayer:
    try:
        from robot_infer.replay.dds_player import DdsPlayer
    except ImportError as error:
        raise LiveReplayError(
            'ROS 2', expected=f'rclpy and its messages for {sys.executable}', got=str(error),
            remedy='Run make setup, or source a ROS 2 installation.') from error
    return DdsPlayer(node, config.control.output, check)
