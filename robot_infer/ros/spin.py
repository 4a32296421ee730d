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

"""A node of this package from its start until its process is told to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import os
import signal
import sys
import time
import traceback
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from robot_infer.errors import RobotInferError
from robot_infer.ros.overrides import reason_for

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_PAUSE_S = 0.1


class Ending(Protocol):
    """A node with threads of its own."""

    context: Context

    def end(self) -> None:
        """Stop the threads."""

    def destroy_node(self) -> None:
        """Leave the graph."""


class _Signals:
    """SIGINT and SIGTERM: the first one interrupts, the others are too many.

    rclpy.init puts handlers of its own before these, which shut the context down and then call
    them; the interrupt is for what is at work at that moment, such as a policy that is loaded.
    """

    def __init__(self) -> None:
        self.is_begun = self._is_ending = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        sys.unraisablehook = _report_unless_interrupt

    def ignore(self) -> None:
        """From now on no signal interrupts anything, nor the end of the interpreter."""
        self._is_ending = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.is_begun:
            os._exit(0)  # nothing is there yet that would have to be ended
        if not self._is_ending:
            self._is_ending = True
            raise KeyboardInterrupt


def run(make: Callable[[Sequence[str]], Ending], args: Sequence[str] | None) -> int:
    """Run what `make` makes of the command line until SIGINT or SIGTERM; the exit status.

    It is 0 however often we are told to end, and 2 where the node could not be started, with the
    reason in one line.
    """
    try:
        return _run(make, list(sys.argv if args is None else args), _Signals())
    except KeyboardInterrupt:  # before it could turn a deaf ear, on its way out
        return 0


def spin(node: Node) -> None:
    """Spin until shutdown. What a callback raises is logged; it does not end the node.

    After each failure comes a pause: one that repeats at every turn would fill disk and processor.
    """
    executor = _Executor()
    executor.add_node(node)
    while node.context.ok():
        try:
            executor.spin()
        except ExternalShutdownException:
            return
        except Exception:
            if not node.context.ok():
                return
            node.get_logger().error(f'a callback failed\n{traceback.format_exc()}')
            time.sleep(_PAUSE_S)


def _run(
    make: Callable[[Sequence[str]], Ending], arguments: list[str], signals: _Signals,
) -> int:
    node = None
    try:
        rclpy.init(args=arguments)
        signals.is_begun = True
        node = make(arguments)
        spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception as error:
        if signals.is_begun and not rclpy.ok():  # told to end while things were being made
            return 0
        if node is not None:
            raise
        fault = error if isinstance(error, RobotInferError) else reason_for(error, arguments)
        print(f'{fault.name}: {fault}', file=sys.stderr)
        return 2
    finally:
        signals.ignore()
        if node is not None:
            node.end()
            node.destroy_node()
        rclpy.try_shutdown()
    return 0


class _Executor(SingleThreadedExecutor):
    # An interrupt may end rclpy's constructor before it has set this, and its __del__ reads it.
    _sigint_gc = None


def _report_unless_interrupt(unraisable: UnraisableHookArgs) -> None:
    """An interrupt that fell into a destructor has ended the context nevertheless."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
