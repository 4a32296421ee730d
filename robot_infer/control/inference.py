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

"""One inference step as the control side sees it: observe, step, check, hand over the chunk.

The two halves are apart so that a lock-step caller can let control ticks pass between them and so
model a slow policy exactly; the worker runs one behind the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from robot_infer.control.chunks import ChunkBuffer, Delivery, Reason, Ticket
from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.control.faults import FaultBoard
from robot_infer.control.limits import ActionLimits
from robot_infer.control.observe import Observer
from robot_infer.control.recorder import Recorder
from robot_infer.control.stats import StageStatistics
from robot_infer.errors import ActionError
from robot_infer.types import ActionChunk, Observation, StepBudget


class EngineInfo(Protocol):
    """What the control side needs to know of a policy."""

    @property
    def state_dim(self) -> int:
        """Number of joints in the state."""
        ...

    @property
    def action_dim(self) -> int:
        """Number of values in an action."""
        ...


class Engine(Protocol):
    """What is needed of the engine; used from one thread only."""

    @property
    def info(self) -> EngineInfo:
        """Facts that do not change."""
        ...

    def step(self, observation: Observation, budget: StepBudget = ...) -> ActionChunk:
        """One inference step."""
        ...


@dataclass(frozen=True)
class Pending:
    """A chunk on its way from the policy to the robot, with the ticket of its observation.

    observe_s: what reading the inputs and decoding the frames took; ended_ns: when it was there.
    """

    chunk: ActionChunk
    ticket: Ticket
    observe_s: float
    ended_ns: int


class Inference:
    """Runs inference steps; an error in one becomes a fault, never more."""

    def __init__(
        self, engine: Engine, observer: Observer, buffer: ChunkBuffer, limits: ActionLimits,
        faults: FaultBoard, clock: Clock, deadline_s: float, recorder: Recorder | None = None,
    ) -> None:
        self.deadline_s = deadline_s
        self.statistics = StageStatistics()
        self._engine = engine
        self._observer = observer
        self._buffer = buffer
        self._limits = limits
        self._faults = faults
        self._clock = clock
        self._recorder = recorder
        # Faults reported here that are not over yet.
        self._input_faults: set[str] = set()
        self._step_faults: set[str] = set()

    def run(self, wait_s: float | None = None) -> ActionChunk | None:
        """Observe, step and deliver; the chunk, or None where it does not reach the robot.

        wait_s: how long the worker waited for something new, for the statistics.
        """
        pending = self.begin(wait_s)
        if pending is None or not self.deliver(pending):
            return None
        return pending.chunk

    def check_inputs(self) -> None:
        """Only look whether an observation could be made, so that stale inputs show."""
        try:
            self._report_inputs(self._observer.assemble().errors)
        except Exception as error:
            self.fail(error)

    def begin(self, wait_s: float | None = None) -> Pending | None:
        """Observe and step; None where a fault (now on the board) stands against it."""
        try:
            began_ns = self._clock.now_ns()
            assembly = self._observer.assemble()
            observed_ns = self._clock.now_ns()
            self._report_inputs(assembly.errors)
            if assembly.observation is None:
                self.statistics.blocked()
                return None
            chunk = self._step(assembly.observation, assembly.ticket)
            finished_ns = self._clock.now_ns()
            self.statistics.record(
                chunk.report, wait_s=wait_s, began_ns=began_ns, observed_ns=observed_ns,
                finished_ns=finished_ns,
                late=finished_ns - began_ns > self.deadline_s * NS_PER_S)
            return Pending(
                chunk, assembly.ticket, (observed_ns - began_ns) / NS_PER_S, finished_ns)
        except Exception as error:
            self.fail(error)
            return None

    def deliver(self, pending: Pending) -> bool:
        """Check the chunk and put it into the buffer; False where it does not get there."""
        accepted = self._put(pending)
        self._tell(pending)  # behind the chunk, which it must neither delay nor lose
        return accepted

    def fail(self, error: BaseException) -> None:
        """A step ended in `error`: write it on the board and count it."""
        self._step_faults.add(self._faults.report(error))
        self.statistics.failed()

    def _put(self, pending: Pending) -> bool:
        refusal = self._limits.refusal(pending.chunk.values)
        if refusal is not None:
            self._step_faults.add(self._faults.report(refusal.error))
            self._buffer.refuse(pending.ticket, refusal.reason)
            return False
        self._clear(self._step_faults)
        return self._buffer.put(pending.chunk, pending.ticket) is Delivery.ACCEPTED

    def _tell(self, pending: Pending) -> None:
        if self._recorder is None:
            return
        try:
            self._recorder.step(
                pending.chunk, observe_s=pending.observe_s, ended_ns=pending.ended_ns,
                deadline_s=self.deadline_s, inputs=pending.ticket.inputs)
        except Exception as error:
            self._step_faults.add(self._faults.report(error))

    def _step(self, observation: Observation, ticket: Ticket) -> ActionChunk:
        try:
            return self._engine.step(observation, StepBudget())
        except ActionError:  # the engine refuses its own actions where they are not finite
            self._buffer.refuse(ticket, Reason.ACTION_NOT_FINITE)
            raise

    def _report_inputs(self, errors: tuple[Exception, ...]) -> None:
        """Report what is wrong with the inputs now, clear what was before."""
        names = {self._faults.report(error) for error in errors}
        self._clear(self._input_faults - names)
        self._input_faults = names

    def _clear(self, names: set[str]) -> None:
        for name in tuple(names):
            self._faults.clear(name)
            names.discard(name)
