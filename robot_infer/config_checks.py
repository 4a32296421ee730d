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

"""Settings that are each in range and do not fit together, or do not fit this machine or ROS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import os
import re
from typing import TYPE_CHECKING

from robot_infer.errors import ConfigError

if TYPE_CHECKING:
    from robot_infer.config import CameraSettings, Config

THREADS_PER_CORE = 4
_TOKEN = r'[A-Za-z_][A-Za-z0-9_]*'
_TOPIC_PART = re.compile(rf'{_TOKEN}(/{_TOKEN})*')


def check_together(config: Config) -> None:
    """Refuse settings that contradict each other.

    :raises ConfigError: naming the settings, what would fit and what came.
    """
    _check_cameras(config)
    _check_names('state.joints', config.state.joints)
    low, high = config.control.action_low, config.control.action_high
    if len(low) != len(high) or not all(a < b for a, b in zip(low, high, strict=True)):
        raise ConfigError(
            'parameters control.action_low and control.action_high',
            expected='lists of equal length with low < high', got=f'{low} and {high}',
            remedy='Give both limits for each joint, or neither.')
    most = THREADS_PER_CORE * (os.cpu_count() or 1)
    if config.policy.threads > most:
        raise ConfigError(
            'parameter policy.threads', expected=f'at most {most}, {THREADS_PER_CORE} for each '
            'core of this machine', got=str(config.policy.threads),
            remedy='0 takes one less than there are cores.')


def check_unchanged(names: Iterable[str], old: Config, new: Config) -> None:
    """Refuse changes of settings that hold for as long as a node is configured.

    :raises ConfigError: for the first of these names that changed.
    """
    before, after = old.flat(), new.flat()
    for name in names:
        if before[name] != after[name]:
            raise ConfigError(
                f'parameter {name}', expected=f'{before[name]!r}, unchanged while the node is '
                f'configured', got=repr(after[name]),
                remedy='Clean the node up and configure it again.')


def bind_cameras(cameras: CameraSettings, inputs: Sequence[str]) -> dict[str, str]:
    """Policy input -> camera name, both complete; bound by name, never by order.

    :raises ConfigError: where an input has no camera, or a camera no input.
    """
    bound = dict(zip(cameras.policy_inputs or cameras.names, cameras.names))
    if set(bound) != set(inputs):
        raise ConfigError(
            'parameters cameras.names and cameras.policy_inputs',
            expected=f'one camera for each policy input: {", ".join(inputs)}',
            got=', '.join(bound), remedy='Name the cameras after the policy\'s inputs, or list '
            'the inputs in cameras.policy_inputs in the order of cameras.names.')
    return {name: bound[name] for name in inputs}


def _check_cameras(config: Config) -> None:
    cameras = config.cameras
    _check_names('cameras.names', cameras.names)
    for name in cameras.names:
        if not _TOPIC_PART.fullmatch(name):
            raise ConfigError(
                'parameter cameras.names', expected='names that a topic can have: letters, '
                'digits and _, not a digit first, / between parts', got=repr(name),
                remedy='Rename the camera; cameras.policy_inputs may keep the policy\'s name.')
    if cameras.policy_inputs:
        _check_names('cameras.policy_inputs', cameras.policy_inputs)
    for name in ('policy_inputs', 'encoding_override'):
        values = getattr(cameras, name)
        if values and len(values) != len(cameras.names):
            raise ConfigError(
                f'parameter cameras.{name}', expected=f'{len(cameras.names)} entries, one for '
                f'each of cameras.names', got=f'{len(values)}', remedy='Add or remove entries.')


def _check_names(setting: str, names: Sequence[str]) -> None:
    """One name or more, each once, none empty or with blanks around it."""
    blank = any(not name or name != name.strip() for name in names)
    if not names or blank or len(set(names)) != len(names):
        raise ConfigError(
            f'parameter {setting}', expected='one or more different names without blanks around '
            'them', got=repr(names), remedy='Name each once.')
