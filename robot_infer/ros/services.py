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

"""What an operator may call: ~/enable, ~/reset, ~/clear_statistics.

Requests to calls of the runtime, and what came of them to words. An answer of success False means
that nothing was changed. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable
import traceback
from typing import TypeVar

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from robot_infer.control import Runtime

Response = TypeVar('Response', SetBool.Response, Trigger.Response)
Outcome = tuple[bool, str]

_UNCONFIGURED = 'not configured: configure and activate the node first'


class Services:
    """The services of one node, in every state of its lifecycle.

    :param runtime: the one of now; None while the node is not configured.
    :param started_over: called after a reset that was done.

    enabled: the operator's last word. It outlives runtimes: what was disabled stays so through
    deactivate, cleanup and configure, until it is enabled or the process ends.
    """

    def __init__(
        self, node: Node, runtime: Callable[[], Runtime | None], started_over: Callable[[], None],
    ) -> None:
        self.enabled = True
        self._runtime, self._started_over = runtime, started_over
        self._logger = node.get_logger()
        node.create_service(SetBool, '~/enable', self._on_enable)
        node.create_service(Trigger, '~/reset', self._on_reset)
        node.create_service(Trigger, '~/clear_statistics', self._on_clear_statistics)

    def hand_on(self, runtime: Runtime) -> None:
        """Let the operator's word hold for a runtime that was made after it."""
        if not self.enabled:
            runtime.disable()

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        return self._answer('enable', self._enable if request.data else self._disable, response)

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._answer('reset', self._reset, response)

    def _on_clear_statistics(
        self, request: Trigger.Request, response: Trigger.Response,
    ) -> Trigger.Response:
        return self._answer('clear_statistics', self._clear_statistics, response)

    def _answer(self, name: str, act: Callable[[], Outcome], response: Response) -> Response:
        try:
            response.success, response.message = act()
            self._logger.info(f'{name}: {response.message}')
        except Exception as error:  # an answer is owed; without one the caller waits for ever
            response.success = False
            response.message = f'{type(error).__name__}: {error}'
            self._logger.error(f'{name} failed\n{traceback.format_exc()}')
        return response

    def _disable(self) -> Outcome:
        """An order to be safe is taken in every state."""
        self.enabled, runtime = False, self._runtime()
        if runtime is None:
            return True, 'disabled: the policy will not be followed before it is enabled'
        runtime.disable()
        if not runtime.running:
            return True, 'disabled: once it is active, the node sends the fallback'
        return True, 'disabled: from the next control tick on the fallback is sent'

    def _enable(self) -> Outcome:
        runtime = self._runtime()
        if runtime is None:
            return False, _UNCONFIGURED
        if not runtime.running:
            return False, 'not active: activate the node first'
        if runtime.latched:
            return False, (f'the robot is stopped ({runtime.latched}): call ~/reset, or '
                           'deactivate and activate the node')
        if runtime.enabled:
            return True, 'it was enabled already'
        runtime.enable()
        self.enabled = True
        waits = '' if runtime.instruction else ', once there is an instruction'
        return True, f'enabled: the policy is followed from its next chunk on{waits}'

    def _reset(self) -> Outcome:
        runtime = self._runtime()
        if runtime is None:
            return False, _UNCONFIGURED
        latched, faults = runtime.latched, len(runtime.faults.active())
        runtime.start_over()
        self._started_over()
        done = ['chunks', 'the cached prefixes (the next step is a cold one)', 'statistics']
        if latched:
            done.append(f'the stop ({latched})')
        if faults:
            done.append(f'{faults} fault{"s" if faults > 1 else ""}')
        then = '' if runtime.enabled else '; still disabled: call ~/enable to follow the policy'
        if not runtime.running:
            then = '; the node is not active' + then
        return True, f'forgotten: {", ".join(done)}{then}'

    def _clear_statistics(self) -> Outcome:
        runtime = self._runtime()
        if runtime is None:
            return False, _UNCONFIGURED
        runtime.clear_statistics()
        return True, ('figures of ticks, steps, chunks and pauses begin anew; counts of faults '
                      'and of frames go on')
