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

from robot_infer.config import Config
from robot_infer.control.chunks import ChunkBuffer, Delivery, Reason, Ticket
from robot_infer.control.clock import NS_PER_S, Clock
from robot_infer.control.faults import FaultBoard
from robot_infer.control.ladder import FULL_STEP, Ladder
from robot_infer.control.limits import ActionLimits
from robot_infer.control.observe import Assembly, Observer
from robot_infer.control.realtime import Outcome
from robot_infer.control.recorder import Recorder
from robot_infer.control.stats import StageStatistics
from robot_infer.errors import ActionError, EngineError, RobotInferError
from robot_infer.types import ActionChunk, Observation, StepBudget

# A step that is not over after so many deadlines, and after a second, is said to hang.
_HANGS_AFTER_DEADLINES = 10
_HANGS_AFTER_NS = NS_PER_S


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

    @property
    def horizon(self) -> int:
        """Actions of a full chunk."""
        ...

    @property
    def denoise_steps(self) -> int:
        """Denoising steps of a full action head."""
        ...

    @property
    def realtime(self) -> tuple[Outcome, ...]:
        """What was asked of its device for real time, obtained or not."""
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

    def forget(self) -> None:
        """Forget all that was kept for reuse: the next step is a cold one."""
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
        faults: FaultBoard, clock: Clock, config: Config, recorder: Recorder | None = None,
    ) -> None:
        self._ladder = Ladder(config.inference, engine.info, config.control.rate_hz)
        self._before: Assembly | None = None  # of the last step with frames of its own
        self._forgetting = False
        self._under_way_ns: int | None = None  # since when a step has been under way
        self._told_ns: int | None = None  # the step that was said to hang
        # The generation in which the last step ended in an error that no input is to blame for.
        self._broken_in: int | None = None
        self.apply_live(config)
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

    def apply_live(self, config: Config) -> None:
        """Take over the settings that may change while it is used."""
        self.deadline_s = config.inference.deadline_s
        self._max_age_ns = round(config.cameras.max_age_s * NS_PER_S)
        self._ladder.apply_live(config.inference)

    def forget(self) -> None:
        """Make the next step a cold one; from any thread, the engine is used by one alone."""
        self._forgetting = True
        self.tell_again()

    def tell_again(self) -> None:
        """The faults were forgotten: report a step that hangs once more."""
        self._told_ns = None

    def trouble(self) -> Reason | None:
        """Why no chunk is to be expected before something changes; None where one is.

        Any thread may ask. What inputs are to blame for is none: they are waited for.
        """
        began_ns = self._under_way_ns
        if began_ns is not None and began_ns == self._told_ns:
            return Reason.STEP_HANGS
        return Reason.STEP_FAILED if self._broken_in == self._buffer.generation else None

    def run(self, wait_s: float | None = None, *, laddered: bool = False) -> ActionChunk | None:
        """Observe, step and deliver; the chunk, or None where it does not reach the robot.

        wait_s: how long the worker waited for something new, for the statistics. laddered: do
        less where a full step is predicted to be late.
        """
        pending = self.begin(wait_s, laddered=laddered)
        if pending is None or not self.deliver(pending):
            return None
        return pending.chunk

    def check_inputs(self) -> None:
        """Only look whether an observation could be made, so that stale inputs show."""
        try:
            self._report_inputs(self._observer.assemble().errors)
        except Exception as error:
            self.fail(error)

    def begin(self, wait_s: float | None = None, *, laddered: bool = False) -> Pending | None:
        """Observe and step; None where a fault (now on the board) stands against it.

        While chunks are withheld from the robot none is made; the inputs are only looked at.
        """
        self._under_way_ns = self._clock.now_ns()
        try:
            if self._forgetting:
                self._engine.forget()
                self._before, self._forgetting = None, False
            if self._buffer.withheld is not None:
                self._report_inputs(self._observer.assemble().errors)
                return None
            began_ns = self._clock.now_ns()
            before = self._still_fresh(began_ns) if laddered else None
            plan = self._ladder.choose(began_ns, before is not None) if laddered else FULL_STEP
            assembly = self._observer.assemble(before if plan.old_frames else None)
            observed_ns = self._clock.now_ns()
            self._report_inputs(assembly.errors)
            if assembly.observation is None:
                self.statistics.blocked()
                return None
            chunk = self._step(assembly, plan.budget)
            finished_ns = self._clock.now_ns()
            self.statistics.record(
                chunk.report, plan, wait_s=wait_s, began_ns=began_ns, observed_ns=observed_ns,
                finished_ns=finished_ns,
                late=finished_ns - began_ns > self.deadline_s * NS_PER_S)
            observe_s = (observed_ns - began_ns) / NS_PER_S
            if chunk.report is not None:
                self._ladder.record(
                    plan, chunk.report, observe_s, (finished_ns - began_ns) / NS_PER_S,
                    finished_ns)
            if not plan.old_frames:
                self._before = assembly
            return Pending(chunk, assembly.ticket, observe_s, finished_ns)
        except Exception as error:
            self.fail(error)
            return None
        finally:
            self._under_way_ns = None

    def deliver(self, pending: Pending) -> bool:
        """Check the chunk and put it into the buffer; False where it does not get there."""
        accepted = self._put(pending)
        self._tell(pending)  # behind the chunk, which it must neither delay nor lose
        return accepted

    def fail(self, error: BaseException) -> None:
        """A step ended in `error`: write it on the board and count it."""
        self._step_faults.add(self._faults.report(error))
        if isinstance(error, EngineError) or not isinstance(error, RobotInferError):
            self._broken_in = self._buffer.generation
        self.statistics.failed()

    def report_hanging(self) -> None:
        """Report the step under way, once, where it hangs; the end of a good step clears that.

        May be called from any thread: the worker is the one that cannot tell.
        """
        began_ns = self._under_way_ns
        if began_ns is None or began_ns == self._told_ns:
            return
        limit_ns = max(
            _HANGS_AFTER_NS, round(_HANGS_AFTER_DEADLINES * self.deadline_s * NS_PER_S))
        if self._clock.now_ns() - began_ns < limit_ns:
            return
        self._told_ns = began_ns
        self._step_faults.add(self._faults.report(EngineError(
            'inference step', expected=f'its end within {self.deadline_s:g} s',
            got=f'none for {limit_ns / NS_PER_S:g} s',
            remedy='The robot gets the fallback until it ends. Where it does not, clean the node '
            'up, which ends a policy process that hangs, and configure it again.')))

    def _put(self, pending: Pending) -> bool:
        self._broken_in = None
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

    def _still_fresh(self, now_ns: int) -> Assembly | None:
        """The last step's own observation, where its frames may be used once more.

        That is while they count as fresh, and while nothing made what came before void.
        """
        before = self._before
        if before is None or before.ticket.generation != self._buffer.ticket().generation:
            return None
        inputs = before.ticket.inputs
        if inputs is None:
            return None
        oldest_ns = inputs.received_ns
        if inputs.captured_ns is not None:
            oldest_ns = min(oldest_ns, inputs.captured_ns)
        return before if now_ns - oldest_ns <= self._max_age_ns else None

    def _step(self, assembly: Assembly, budget: StepBudget) -> ActionChunk:
        try:
            return self._engine.step(assembly.observation, budget)
        except ActionError:  # the engine refuses its own actions where they are not finite
            self._buffer.refuse(assembly.ticket, Reason.ACTION_NOT_FINITE)
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
