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

"""The named errors a user can meet: each says what was expected, what came and what to do.

Our own broken invariants are `assert`s; they are not in this list.
"""

from __future__ import annotations

from typing import TypeVar

_Kind = TypeVar('_Kind', bound='RobotInferError')


class RobotInferError(Exception):
    """A fault with a name.

    :param subject: the thing at fault, as the user knows it (a parameter, topic, file, key).
    :param expected: what would have been right.
    :param got: what was found.
    :param remedy: what to do about it, one sentence.
    """

    def __init__(self, subject: str, *, expected: str, got: str, remedy: str) -> None:
        # What another library said may end in a full stop of its own.
        found = got if got.endswith('..') else got.removesuffix('.')
        super().__init__(f'{subject}: expected {expected}; got {found}. {remedy}')
        self.subject = subject
        self.expected = expected
        self.got = got
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        """Pass from process to process whole."""
        return _remake, (type(self), self.subject, self.expected, self.got, self.remedy)

    def anew(self: _Kind) -> _Kind:
        """The same fault to be raised once more.

        One that is kept and raised again and again would gather a traceback each time, and with
        it everything that the functions on the way had at hand.
        """
        return _remake(type(self), self.subject, self.expected, self.got, self.remedy)

    @property
    def name(self) -> str:
        """The class name, used as the fault's name in logs, status and diagnostics."""
        return type(self).__name__


def _remake(
    kind: type[_Kind], subject: str, expected: str, got: str, remedy: str,
) -> _Kind:
    return kind(subject, expected=expected, got=got, remedy=remedy)


class ConfigError(RobotInferError):
    """A setting is unknown, has the wrong type, or is out of range."""


class CheckpointError(RobotInferError):
    """A checkpoint is missing, of another family, or has missing, extra or misshapen tensors."""


class StatisticsError(CheckpointError):
    """A normalisation statistic is missing, not finite or of the wrong length."""


class BudgetError(RobotInferError):
    """The memory budget is too small for what the configuration needs."""


class FrameError(RobotInferError):
    """A camera message cannot be decoded."""


class StaleFrameError(FrameError):
    """A camera has delivered nothing, or nothing recent enough."""


class FrameStampError(FrameError):
    """A camera's stamps lie ahead of the ROS clock: the two clocks do not agree."""


class FrameSkewError(FrameError):
    """Frames that are to be used together were taken too far apart."""


class StateError(RobotInferError):
    """The robot state is missing, stale, of the wrong length or not finite."""


class InstructionError(RobotInferError):
    """The instruction is missing, too long, or cannot be tokenised."""


class ActionError(RobotInferError):
    """An action is not finite or outside its limits; it is not sent to the robot."""


class DeadlineError(RobotInferError):
    """So many control periods in a row were missed that the robot is stopped."""


class ClockError(RobotInferError):
    """The ROS clock jumped or stands still."""


class EngineError(RobotInferError):
    """A step does not end; or the process of the policy has ended, or could not be started."""


class KernelError(RobotInferError):
    """A kernel cannot be compiled or run here, or what that needs is missing."""
