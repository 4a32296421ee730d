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


"""Every setting as a ROS parameter, and the parameters as a Config again.

A wrong value never takes the node down: what an override or a parameter file got wrong is kept
here and raised, by name, when the node is configured; what a running node is asked to change is
refused with the reason. Parameters are declared with dynamic typing, because ROS would end the
process for a whole number given to a parameter of type double.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import sys

from pydantic import ValidationError
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from robot_infer.config import Config, Setting, settings
from robot_infer.errors import ConfigError, RobotInferError
from robot_infer.parameter_file import placed
from robot_infer.ros import qos
from robot_infer.ros.overrides import Overrides

_LARGEST_INT = 2**63 - 1
_QOS = 'qos_overrides.'
_TYPES = {
    'bool': Parameter.Type.BOOL, 'int': Parameter.Type.INTEGER, 'float': Parameter.Type.DOUBLE,
    'str': Parameter.Type.STRING, 'str_list': Parameter.Type.STRING_ARRAY,
    'float_list': Parameter.Type.DOUBLE_ARRAY,
}


class Parameters:
    """The parameters of one node.

    :param editable: says whether settings that are not live may be changed now (the node is
        unconfigured).
    :param apply: called with the new Config and the names that were set, when live settings
        change on a configured node; may raise a RobotInferError, which refuses the change. None
        where no setting can be changed.
    :param arguments: the command line that ROS was started with.
    """

    def __init__(
        self, node: Node, editable: Callable[[], bool],
        apply: Callable[[Config, Collection[str]], None] | None, arguments: Sequence[str] = (),
    ) -> None:
        self._node, self._editable, self._apply = node, editable, apply
        self._settings = {setting.name: setting for setting in settings()}
        self._refused: dict[str, object] = {}
        for setting in self._settings.values():
            self._declare(setting)
        self._given = Overrides(arguments, node.get_fully_qualified_name(), self._overrides())
        for words in self._given.notes:
            node.get_logger().info(words)
        for words in self._given.warnings:
            node.get_logger().warning(words)
        node.add_on_set_parameters_callback(self._on_set)

    def config(self) -> Config:
        """Everything as a Config.

        :raises ConfigError: the first wrong or unknown name, with what was expected and where it
            was given; or values that were meant for this node and did not reach it.
        """
        self._given.check()
        try:
            for name in self._unknown_overrides():
                Config.from_flat({name: None})  # raises, with the nearest name that is known
            for name, value in self._refused.items():
                raise self._settings[name].refusal(value)
            for name in self._qos_overrides():
                qos.check_override(name, self._overrides()[name].value)
            return Config.from_flat(self._values())
        except ConfigError as error:
            raise placed(error, self._given.values) from error

    def check_qos_overrides(self) -> None:
        """To be called when all topics are open: each override must belong to one of them.

        :raises ConfigError: for one that belongs to none, which ROS would ignore.
        """
        for name in self._qos_overrides():
            if not self._node.has_parameter(name):
                raise ConfigError(
                    f'parameter {name}', expected='a QoS override of a topic of this node',
                    got='an unknown one', remedy='ros2 param list shows those there are; the '
                    'reliability of images is set by cameras.reliability.')

    def _values(self) -> dict[str, object]:
        return {name: _plain(self._node.get_parameter(name).value, setting)
                for name, setting in self._settings.items()}

    def _declare(self, setting: Setting) -> None:
        """Declare one; an override that ROS itself refuses is kept for `config` to name."""
        descriptor = _descriptor(setting)
        default = Parameter(setting.name, _TYPES[setting.type], _ros_value(setting.default))
        try:
            self._node.declare_parameter(setting.name, default.value, descriptor)
        except InvalidParameterValueException:
            self._refused[setting.name] = self._overrides()[setting.name].value
            self._node.declare_parameter(
                setting.name, default.value, descriptor, ignore_override=True)
        given = self._node.get_parameter(setting.name)
        if given.type_ == Parameter.Type.NOT_SET or given.type_ == Parameter.Type.BYTE_ARRAY:
            self._node.set_parameters([default])  # an empty list has no type of its own
        elif given.type_ == Parameter.Type.INTEGER and setting.type == 'float':
            self._node.set_parameters(
                [Parameter(setting.name, Parameter.Type.DOUBLE, float(given.value))])

    def _overrides(self) -> Mapping[str, Parameter]:
        # rclpy has no public way to ask which overrides a node was given.
        return getattr(self._node, '_parameter_overrides', {})

    def _qos_overrides(self) -> Iterable[str]:
        return sorted(name for name in self._overrides() if name.startswith(_QOS))

    def _unknown_overrides(self) -> Iterable[str]:
        """Names the user gave that nobody declared; those of QoS are declared with their topic."""
        return sorted(name for name in self._overrides()
                      if not name.startswith(_QOS)
                      and not self._node.has_parameter(name))

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        """Judge a change before it is made; all or nothing."""
        changes = {parameter.name: _plain(parameter.value, self._settings[parameter.name])
                   for parameter in parameters if parameter.name in self._settings}
        try:
            if self._editable():
                for name, value in changes.items():
                    _check_alone(self._settings[name], value)
            elif changes:
                self._change_live(changes)
        except RobotInferError as error:
            return SetParametersResult(successful=False, reason=str(error))
        for name in changes:
            self._refused.pop(name, None)
        self._given.forget(changes)
        return SetParametersResult(successful=True)

    def _change_live(self, changes: Mapping[str, object]) -> None:
        if self._apply is None:
            raise ConfigError(
                f'parameter {next(iter(changes))}', expected='no change, as this node reads its '
                'parameters when it starts', got='one',
                remedy='Start it again with the new value.')
        for name in changes:
            if not self._settings[name].live:
                raise ConfigError(
                    f'parameter {name}', expected='a change while the node is unconfigured',
                    got='one while it is configured',
                    remedy='Deactivate and clean up, set it, then configure again.')
        self._apply(Config.from_flat({**self._values(), **changes}), changes.keys())


def _descriptor(setting: Setting) -> ParameterDescriptor:
    when = 'may be changed at any time' if setting.live else (
        'may be changed while the node is unconfigured')
    descriptor = ParameterDescriptor(
        name=setting.name, type=_TYPES[setting.type].value, description=setting.help,
        additional_constraints=f'{setting.wanted}; {when}', dynamic_typing=True)
    low, high = setting.low, setting.high
    if setting.type == 'int' and (low is not None or high is not None):
        descriptor.integer_range = [IntegerRange(
            from_value=-_LARGEST_INT if low is None else int(low),
            to_value=_LARGEST_INT if high is None else int(high), step=0)]
    if setting.type == 'float' and (low is not None or high is not None):
        descriptor.floating_point_range = [FloatingPointRange(
            from_value=-sys.float_info.max if low is None else float(low),
            to_value=sys.float_info.max if high is None else float(high), step=0.0)]
    return descriptor


def _check_alone(setting: Setting, value: object) -> None:
    """Check type and range of one value; how settings fit together is checked at configure."""
    value = tuple(value) if isinstance(value, list) else value
    try:
        Config.model_validate({setting.group: {setting.key: value}})
    except ValidationError:
        raise setting.refusal(value) from None


def _ros_value(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _plain(value: object, setting: Setting) -> object:
    """A parameter's value as plain Python; an unset or untyped empty list is an empty list."""
    if isinstance(value, array):
        value = value.tolist()
    if setting.type.endswith('_list') and (value is None or value == b'' or value == []):
        return []
    return value
