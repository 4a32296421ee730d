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

"""The runtime: everything between the middleware and the engine, put together.

Messages come in by `put_*` from any thread, commands go out by `send` from the control thread.
Two ways to run it: `start` and `stop` with their two threads, or, in lock-step with a clock that
the caller turns, `infer_once` and `tick_once`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
import threading

import numpy as np
from numpy.typing import NDArray

from robot_infer.camera import EncodedImage, FrameStore, RawImage
from robot_infer.config import Config, settings
from robot_infer.config_checks import check_unchanged
from robot_infer.control.chunks import ChunkBuffer, Reason
from robot_infer.control.clock import Clock
from robot_infer.control.faults import FaultBoard
from robot_infer.control.inference import Engine, Inference, Pending
from robot_infer.control.instruction import InstructionStore
from robot_infer.control.limits import ActionLimits
from robot_infer.control.loop import ControlLoop, LoopLimits
from robot_infer.control.memory import CollectorWatch, resident_bytes
from robot_infer.control.observe import Observer
from robot_infer.control.realtime import Realtime
from robot_infer.control.recorder import Recorder
from robot_infer.control.stamps import StampClock, jump_error
from robot_infer.control.state import StateStore
from robot_infer.control.stats import DeadlineStatistics, StageStatistics, Times, TimesReader
from robot_infer.control.status import RuntimeStatus
from robot_infer.control.tick import ControlTick
from robot_infer.control.worker import InferenceWorker
from robot_infer.errors import ConfigError, InstructionError
from robot_infer.types import ActionChunk, Command, Observation

# How long a jump of the clock counts as an active fault.
_JUMP_SHOWN_S = 5.0
# How long stop() waits for a thread that hangs in the engine or in `send`.
STOP_TIMEOUT_S = 2.0


class Runtime:
    """One policy at work on one robot.

    :param engine: loaded and warmed up; its warm-up is in no statistic here.
    :param send: takes each command that has values, on the control thread; must not block.
    :param recorder: told of every tick and step.
    :raises ConfigError: where the settings do not fit the policy.
    :raises InstructionError: where instruction.text is refused.

    The robot is not moved in doubt: whatever goes wrong in an observation or a step is a fault on
    the board, the buffer runs out, and the control tick goes over to the fallback.
    """

    def __init__(
        self, config: Config, engine: Engine, clock: Clock, send: Callable[[Command], None],
        recorder: Recorder | None = None,
    ) -> None:
        joints, action_dim = config.state.joints, engine.info.action_dim
        if engine.info.state_dim != len(joints):
            raise ConfigError(
                'parameter state.joints', expected=f'{engine.info.state_dim} joints, as the '
                f'policy was trained on', got=f'{len(joints)}: {", ".join(joints)}',
                remedy='List the joints in the order of the policy\'s state.')
        self._config, self._engine = config, engine
        self._clock = clock
        self._realtime = Realtime(config.realtime)
        self._collector = CollectorWatch()
        self._clock_jumps = 0
        self._times = TimesReader()
        self._lifecycle = threading.Lock()
        self._instructing = threading.Lock()
        self._actions_are_joints = action_dim == len(joints)
        names = joints if self._actions_are_joints else tuple(map(str, range(action_dim)))
        limits = ActionLimits(config.control, names, len(joints))
        self.faults = FaultBoard(clock)
        self.frames = FrameStore(config.cameras)
        self._state = StateStore(config.state)
        self._instruction = InstructionStore(config.instruction)
        self._instruction.put(config.instruction.text)
        self._stamps = StampClock(config.control.max_clock_jump_s)
        self._buffer = ChunkBuffer(config.control.chunk_validity_s)
        self._observer = Observer(
            self.frames, self._state, self._instruction, self._stamps, self._buffer, clock)
        self._inference = Inference(
            engine, self._observer, self._buffer, limits, self.faults, clock,
            config, recorder)
        self._worker = InferenceWorker(self._inference, clock, config.inference.rate_hz)
        self._tick = ControlTick(
            config.control, self._buffer, limits, self._measured, self.faults,
            self._inference.trouble)
        self._loop = ControlLoop(
            self._tick, clock, 1.0 / config.control.rate_hz, LoopLimits.of(config), send,
            self.faults, recorder, self._realtime.enter_thread)
        self.reset()

    # Messages in, from any thread. None of these raises for bad data: it becomes a fault.

    def put_image(self, camera: str, image: RawImage | EncodedImage) -> None:
        """Take the newest image of a camera.

        :raises FrameError: for a camera that is not configured.
        """
        self.note_clock(image.received_ns, image.received_stamp_ns)
        self.frames.put(camera, image)
        self._worker.notify()

    def put_state(
        self, names: Sequence[str], positions: Sequence[float], stamp_ns: int, received_ns: int,
        received_stamp_ns: int,
    ) -> None:
        """Take the newest joint positions (see StateStore.put)."""
        self.note_clock(received_ns, received_stamp_ns)
        self._state.put(names, positions, stamp_ns, received_ns, received_stamp_ns)
        self._worker.notify()

    def put_instruction(self, text: str) -> None:
        """Take a new instruction; one that is refused becomes a fault and the robot holds."""
        try:
            self.set_instruction(text)
        except InstructionError as error:
            self.faults.report(error)

    def set_instruction(self, text: str) -> None:
        """Take a new instruction and say whether it is accepted.

        Chunks of the old one are not followed any more: the robot holds until there is one of the
        new. A blank text ends the old one; the same text again changes nothing.

        :raises InstructionError: where it is refused. The old instruction has ended all the same:
            whoever sent this one no longer wants that.
        """
        with self._instructing:  # text and reset belong together; no loop ever takes this lock
            try:
                changed = self._instruction.put(text)
            except InstructionError:
                self._buffer.reset(Reason.NO_INSTRUCTION)
                raise
            self.faults.clear(InstructionError.__name__)
            if changed:
                self._buffer.reset(
                    Reason.INSTRUCTION_CHANGED if self._instruction.text
                    else Reason.NO_INSTRUCTION)
        self._worker.notify()

    def clock_jumped(self, jump_ns: int) -> None:
        """The stamps' clock (ROS time) jumped, by whoever knows that it did; 0: to another clock.

        Whatever is stamped belongs to another time: frames, state and the chunk in use are void,
        and the robot gets the fallback until there is a chunk of the new time.
        """
        self._stamps.reset()
        self._begin_new_time(jump_ns)

    def note_clock(self, received_ns: int, received_stamp_ns: int) -> None:
        """Look whether the stamps' clock jumped; every message does, and anybody may.

        :param received_ns: steady clock now.
        :param received_stamp_ns: the stamps' clock now; 0 where nothing was heard of it yet.
        """
        jump_ns = self._stamps.note(received_ns, received_stamp_ns)
        if jump_ns:
            self._begin_new_time(jump_ns)

    def _begin_new_time(self, jump_ns: int) -> None:
        self._clock_jumps += 1
        self.frames.clear()
        self._state.clear()
        self._buffer.reset(Reason.CLOCK_JUMPED)
        self.faults.report(jump_error(jump_ns), lasts_s=_JUMP_SHOWN_S)

    # Threads.

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._loop.running

    def start(self) -> None:
        """Activate: begin to infer and to tick. Nothing happens where it runs already.

        Chunks, statistics, faults, a latched stop and the position last sent are of the past and
        forgotten; inputs that are fresh enough are used.
        """
        with self._lifecycle:
            if self._loop.running:
                return
            self.reset()
            self._realtime.enter_process()
            self._collector.start()
            self._worker.start()
            self._realtime.enter_threads()
            self._loop.start()

    def stop(
        self, timeout_s: float = STOP_TIMEOUT_S, *, step_timeout_s: float | None = None,
    ) -> bool:
        """Deactivate; no command is sent after this returns. Nothing happens where it is stopped.

        Returns whether both threads have ended. False: the engine (or `send`) is still at work
        after `timeout_s`; its chunk is discarded when it comes, and the engine must not be closed
        yet.

        :param step_timeout_s: how long to wait for the inference step under way, where that
            differs; the robot has its last command before this wait begins.
        """
        with self._lifecycle:
            was_running = self._loop.running
            self._worker.request_stop()
            ended = self._loop.stop(timeout_s)
            if was_running:
                self._buffer.reset()  # also voids the chunk that may be under way
                self._collector.stop()
                self._realtime.leave_process()
            step_timeout_s = timeout_s if step_timeout_s is None else step_timeout_s
            return self._worker.stop(step_timeout_s) and ended

    # Lock-step, without threads.

    def infer_once(self) -> ActionChunk | None:
        """One inference step now; None where its chunk does not reach the robot (see status)."""
        assert not self.running, 'infer_once is for lock-step use'
        return self._inference.run()

    def begin_inference(self) -> Pending | None:
        """The first half of `infer_once`: observe and step, and keep the chunk back.

        With control ticks between this and `deliver`, a policy of that latency is modelled.
        """
        assert not self.running, 'begin_inference is for lock-step use'
        return self._inference.begin()

    def check_inputs(self) -> None:
        """Only look whether an observation could be made, so that stale inputs become faults."""
        assert not self.running, 'check_inputs is for lock-step use'
        self._inference.check_inputs()

    def deliver(self, pending: Pending) -> bool:
        """The second half: hand the chunk over; False where it is refused, too late or void."""
        assert not self.running, 'deliver is for lock-step use'
        return self._inference.deliver(pending)

    def tick_once(self) -> Command:
        """One control tick now; its command is sent, where it has values, and returned."""
        assert not self.running, 'tick_once is for lock-step use'
        return self._loop.once()

    def observe(self) -> Observation:
        """The newest observation.

        :raises RobotInferError: InstructionError, StateError, FrameError or one of its kinds.
        """
        return self._observer.observe()

    # What an operator may ask for, from any thread, running or not.

    @property
    def enabled(self) -> bool:
        """Whether the robot follows the policy; `reset`, `start` and `stop` do not change it."""
        return self._buffer.withheld is None

    @property
    def latched(self) -> str:
        """Why the robot is stopped until `start` or `start_over`; '' where it is not."""
        latched = self._tick.latched
        return latched.value if latched else ''

    def disable(self) -> None:
        """From the next tick on the robot gets the fallback; no step is made until `enable`."""
        self._buffer.withhold(Reason.DISABLED)

    def enable(self) -> None:
        """Follow the policy again, with the chunk of an observation from now on."""
        if not self.enabled:
            self._buffer.release(self._first_reason())
            self._worker.notify()

    def start_over(self) -> None:
        """Forget chunks, a latched stop, faults, statistics and all that was kept for reuse.

        The next step is a cold one. The instruction, the newest inputs and `disable` stand; while
        it runs, the robot is held where it is until there is a chunk.
        """
        with self._lifecycle:
            self._inference.forget()
            if self._loop.running:
                self._buffer.reset(self._first_reason())
                self._loop.start_over()
                self.faults.forget()
                self.clear_statistics()
            else:
                self.reset()
        self._worker.notify()

    # Settings and figures.

    def reset(self) -> None:
        """Forget chunks, a latched stop, the position last sent, faults and statistics.

        Not while it runs: `start_over` is for that.
        """
        self._buffer.reset(self._first_reason())
        self._tick.reset()
        self.faults.forget()
        self._inference.tell_again()
        self.clear_statistics()

    def clear_statistics(self) -> None:
        """Begin the statistics of ticks, steps and chunks anew."""
        self._loop.statistics = DeadlineStatistics()
        self._inference.statistics = StageStatistics()
        self._buffer.clear_counters()
        self._collector.clear()

    def _first_reason(self) -> Reason:
        """What the robot waits for before the first chunk."""
        return Reason.NO_CHUNK_YET if self._instruction.text else Reason.NO_INSTRUCTION

    def apply_live(self, config: Config, given: Collection[str]) -> None:
        """Take over the settings that may change while the node runs: all, or none.

        :param given: the names that somebody set now. Only where instruction.text is among them
            is it an instruction: another change must not revive one that has ended since.
        :raises ConfigError: where a setting that may not change differs.
        :raises InstructionError: where instruction.text is refused; as with `set_instruction`,
            the old instruction has ended all the same.
        """
        check_unchanged((setting.name for setting in settings() if not setting.live),
                        self._config, config)
        if 'instruction.text' in given:
            self.set_instruction(config.instruction.text)
        self._config = config
        self.frames.apply_live(config.cameras)
        self._state.max_age_s = config.state.max_age_s
        self._buffer.validity_s = config.control.chunk_validity_s
        self._inference.apply_live(config)
        self._loop.limits = LoopLimits.of(config)
        self._worker.rate_hz = config.inference.rate_hz

    @property
    def instruction(self) -> str:
        """The instruction in force; '' where there is none."""
        return self._instruction.text

    def take_warnings(self) -> tuple[str, ...]:
        """Words for the log on what happened since the last call, at most once a second each.

        To be called a few times a second: an inference step that hangs is noticed here too.
        """
        if self.running:
            self._inference.report_hanging()
        return tuple(filter(None, (self._loop.take_warning(),)))

    def take_times(self) -> Times:
        """The times of each tick and step since the last call; for one reader."""
        return self._times.take(self._loop.statistics, self._inference.statistics)

    def status(self) -> RuntimeStatus:
        """Everything at this moment; may be called from any thread, at any time."""
        inference = self._inference.statistics.status()
        report = inference.report
        history = self.faults.seen()
        return RuntimeStatus(
            time_ns=self._clock.now_ns(), running=self.running, worker_alive=self._worker.alive,
            faults=tuple(fault for fault in history if fault.active), fault_history=history,
            instruction=self._instruction.text, last_command=self._loop.last_command,
            enabled=self.enabled, latched=self.latched, chunk_remaining=self._buffer.remaining(),
            chunks=self._buffer.counters(), deadline=self._loop.statistics.status(),
            inference=inference,
            cameras={name: self.frames.counters(name) for name in self._config.cameras.names},
            camera_faults={name: self.frames.fault(name) for name in self._config.cameras.names},
            pages_used=report.pages_used if report else 0,
            pages_total=report.pages_total if report else 0,
            clock_jumps=self._clock_jumps, gc_pause_s=self._collector.pauses_s.summary(),
            resident_bytes=resident_bytes(),
            realtime=(*self._realtime.outcomes(), *self._engine.info.realtime))

    def _measured(self, now_ns: int) -> NDArray[np.float64] | None:
        """The measured position where actions are positions of the joints, else None."""
        return self._state.measured(now_ns) if self._actions_are_joints else None
