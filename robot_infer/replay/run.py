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

"""The replay itself: a bag's messages through the node's own runtime and engine, in bag time.

Messages go in when the recorder received them, control ticks and inference steps come at the
configured rates of bag time. Nothing depends on the machine: the same bag and the same settings
give the same actions, bit for bit, however fast it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
import functools
import math
import time

from robot_infer.config import Config
from robot_infer.control import ManualClock, Runtime, RuntimeStatus
from robot_infer.control.inference import Engine
from robot_infer.control.lockstep import DEFAULT_LATENCY_TICKS, LockStep
from robot_infer.errors import ConfigError
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag, BagMessage, Topic
from robot_infer.replay.errors import BagDamagedError, BagError, MessageError
from robot_infer.replay.recorder import ReplayRecorder, Tick
from robot_infer.replay.sources import Sources, Wishes
from robot_infer.report.record import StepRecord
from robot_infer.types import ActionChunk

# Where no message comes for this long, nothing is ticked until the next: a bag that begins with
# a stamp of 1970 would else be ticked for 50 years.
LONGEST_GAP_S = 10.0
_UNREADABLE_LASTS_S = 1.0


@dataclass(frozen=True)
class Options:
    """How to replay.

    speed: bag seconds per real second, inf for as fast as possible. bag_stamps: whether the time
    of receipt stands in for the stamps in the messages. keep_chunks: whether all chunks are kept.
    """

    latency_ticks: int = DEFAULT_LATENCY_TICKS
    start_s: float = 0.0
    duration_s: float | None = None
    speed: float = math.inf
    bag_stamps: bool = False
    keep_chunks: bool = False


@dataclass
class Tally:
    """What became of the messages of one topic.

    early: with a time before that of the message before, by at most `early_s`; given then.
    stamps_back: with a stamp before that of the message before. unreadable: not decodable;
    `fault` says why the first was not. asked_for: False for step records, which are read where
    the bag happens to hold them.
    """

    topic: Topic
    asked_for: bool = True
    read: int = 0
    early: int = 0
    early_s: float = 0.0
    stamps_back: int = 0
    unreadable: int = 0
    fault: str = ''
    last_stamp_ns: int = 0


@dataclass(frozen=True)
class Result:
    """What a replay did.

    damage: why it ends before the bag should; None where the bag was read whole. gaps: stretches
    without a message that were passed over, (from, seconds). recorded: the actions in the bag with
    their times. recorded_steps: the step records in the bag. wall_s: real seconds it took.
    """

    start_ns: int
    end_ns: int
    ticks: tuple[Tick, ...]
    steps: tuple[StepRecord, ...]
    chunks: dict[int, ActionChunk]
    tallies: dict[str, Tally]
    status: RuntimeStatus
    damage: BagDamagedError | None
    gaps: tuple[tuple[float, float], ...]
    recorded: tuple[tuple[int, messages.Action], ...]
    recorded_steps: tuple[StepRecord, ...]
    wall_s: float

    @property
    def duration_s(self) -> float:
        """Seconds of bag time that were replayed."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def whole(self) -> bool:
        """Whether every message that was asked for could be read."""
        return self.damage is None and not self.num_unreadable

    @property
    def num_unreadable(self) -> int:
        """Messages that were asked for and could not be decoded; step records nobody asked for."""
        return sum(tally.unreadable for tally in self.tallies.values() if tally.asked_for)


class Replay:
    """One pass through a bag; its settings come from `fit_for_replay`."""

    def __init__(
        self, bag: Bag, sources: Sources, wishes: Wishes, config: Config, engine: Engine,
        options: Options,
    ) -> None:
        """Make everything ready.

        :raises BagError: where nothing of the bag lies between start and end.
        :raises ConfigError: where the settings do not fit the policy.
        """
        self._bag, self._sources, self._wishes = bag, sources, wishes
        self._config, self._options = config, options
        assert not config.inference.ladder, 'the ladder follows the times of this machine'
        self._start_ns, self._end_ns = _window(bag, options)
        self._period_ns = 1e9 / config.control.rate_hz
        self._clock = ManualClock(self._start_ns)
        self._recorder = ReplayRecorder(options.keep_chunks)
        self._runtime = Runtime(config, engine, self._clock, lambda command: None, self._recorder)
        self._lockstep = LockStep(self._runtime, config, options.latency_ticks)
        self._recorder.inference_s = self._lockstep.inference_s
        self._read = [*sources.fed.values(), *filter(None, (sources.actions, sources.steps))]
        self._tallies = {topic.name: Tally(topic, asked_for=topic is not sources.steps)
                         for topic in self._read}
        self._take = self._takers()
        self._recorded: list[tuple[int, messages.Action]] = []
        self._recorded_steps: list[StepRecord] = []
        self._damage: BagDamagedError | None = None
        self._gaps: list[tuple[float, float]] = []
        self._news = False

    def run(self, progress: Callable[[float], None] = lambda seconds: None) -> Result:
        """Replay all of it; `progress` is told the seconds of bag time that are done."""
        began_s = time.perf_counter()
        self._instruct()
        stream = self._messages()
        coming, last_ns, index = next(stream, None), self._start_ns, 0
        while (now_ns := self._start_ns + round(index * self._period_ns)) <= self._end_ns:
            while coming is not None and coming.time_ns <= now_ns:
                last_ns = max(last_ns, coming.time_ns)
                self._feed(coming)
                coming = next(stream, None)
            if self._damage is not None:
                self._end_ns = min(self._end_ns, last_ns)
            if now_ns - last_ns > LONGEST_GAP_S * 1e9:
                index = self._pass_over(now_ns, coming, index)
                continue
            self._tick(now_ns)
            index += 1
            progress((now_ns - self._start_ns) / 1e9)
            _pace(began_s, (now_ns - self._start_ns) / 1e9, self._options.speed)
        self._recorder.end()
        return Result(
            self._start_ns, self._end_ns, tuple(self._recorder.ticks), tuple(self._recorder.steps),
            self._recorder.chunks, self._tallies, self._runtime.status(), self._damage,
            tuple(self._gaps), tuple(self._recorded), tuple(self._recorded_steps),
            time.perf_counter() - began_s)

    def _tick(self, now_ns: int) -> None:
        self._turn_clock(now_ns)
        if self._wishes.fixed_state:
            self._runtime.put_state(
                self._config.state.joints, self._wishes.fixed_state, now_ns, now_ns, now_ns)
            self._news = True
        steps = len(self._lockstep.inference_s)
        self._lockstep.tick(self._news)
        if len(self._lockstep.inference_s) > steps:
            self._news = False

    def _pass_over(self, now_ns: int, coming: BagMessage | None, index: int) -> int:
        """Leave the ticks out for which there is nothing; returns the next one to be made."""
        until_ns = self._end_ns + 1 if coming is None else coming.time_ns
        behind = math.ceil((until_ns - self._start_ns) / self._period_ns)
        self._gaps.append(((now_ns - self._start_ns) / 1e9, (until_ns - now_ns) / 1e9))
        return max(behind, index + 1)

    def _messages(self) -> Iterator[BagMessage]:
        """The bag's messages; where it is damaged they end, and `_damage` says why."""
        whole = self._start_ns == self._bag.start_ns and self._end_ns == self._bag.end_ns
        window = (None, None) if whole else (self._start_ns, self._end_ns + 1)
        try:
            yield from self._bag.messages(self._tallies, *window)
        except BagDamagedError as error:
            self._damage = error

    def _feed(self, message: BagMessage) -> None:
        """Hand one message over, at its time; at the clock's where it comes too late for that."""
        tally = self._tallies[message.topic]
        tally.read += 1
        behind_ns = self._clock.now_ns() - message.time_ns
        if behind_ns > 0:
            tally.early += 1
            tally.early_s = max(tally.early_s, behind_ns / 1e9)
        self._turn_clock(message.time_ns)
        try:
            stamp_ns = self._take[message.topic](message, self._clock.now_ns())
        except MessageError as error:
            tally.unreadable += 1
            tally.fault = tally.fault or str(error)
            self._runtime.faults.report(error, _UNREADABLE_LASTS_S)
            return
        tally.stamps_back += 0 < stamp_ns < tally.last_stamp_ns
        tally.last_stamp_ns = stamp_ns

    def _turn_clock(self, time_ns: int) -> None:
        self._clock.advance_ns(max(0, time_ns - self._clock.now_ns()))

    def _takers(self) -> dict[str, Callable[[BagMessage, int], int]]:
        """What is done with a message of each topic; each returns the message's stamp or 0."""
        sources, takers = self._sources, {}
        for camera, topic in sources.cameras.items():
            convert = (messages.raw_image if topic.type == messages.IMAGE
                       else messages.encoded_image)
            takers[topic.name] = functools.partial(self._take_image, camera, convert)
        if sources.state is not None:
            takers[sources.state.name] = self._take_state
        if sources.instruction is not None:
            takers[sources.instruction.name] = self._take_instruction
        if sources.actions is not None:
            takers[sources.actions.name] = self._take_action
        if sources.steps is not None:
            takers[sources.steps.name] = self._take_step
        return takers

    def _take_image(self, camera: str, convert: Callable, message: BagMessage, now_ns: int) -> int:
        image = convert(message.cdr, now_ns, now_ns)
        if self._options.bag_stamps:
            image = replace(image, stamp_ns=message.time_ns)
        self._runtime.put_image(camera, image)
        self._news = True
        return image.stamp_ns

    def _take_state(self, message: BagMessage, now_ns: int) -> int:
        state = messages.joint_positions(message.cdr)
        stamp_ns = message.time_ns if self._options.bag_stamps else state.stamp_ns
        self._runtime.put_state(state.names, state.positions, stamp_ns, now_ns, now_ns)
        self._news = True
        return stamp_ns

    def _take_instruction(self, message: BagMessage, now_ns: int) -> int:
        self._runtime.put_instruction(messages.text(message.cdr))
        self._news = True
        return 0

    def _take_action(self, message: BagMessage, now_ns: int) -> int:
        self._recorded.append((message.time_ns, messages.action(
            message.cdr, self._sources.actions.type)))
        return 0

    def _take_step(self, message: BagMessage, now_ns: int) -> int:
        try:
            self._recorded_steps.append(StepRecord.from_json(messages.text(message.cdr)))
        except ConfigError as error:
            raise MessageError(error.subject, expected=error.expected, got=error.got,
                               remedy=error.remedy) from error
        return 0

    def _instruct(self) -> None:
        """Give the words of the command line, or the last ones from before the start."""
        if self._wishes.text:
            self._runtime.set_instruction(self._wishes.text)
        topic = self._sources.instruction
        if topic is None or self._start_ns == self._bag.start_ns:
            return
        last = None
        try:
            for last in self._bag.messages([topic.name], None, self._start_ns):
                pass
        except BagDamagedError as error:
            self._damage = error
        if last is not None:
            self._runtime.put_instruction(messages.text(last.cdr))


def fit_for_replay(config: Config) -> Config:
    """The settings without what follows the times of the machine: the ladder is off."""
    return Config.from_flat({**config.flat(), 'inference.ladder': False})


def _window(bag: Bag, options: Options) -> tuple[int, int]:
    start_ns = bag.start_ns + round(options.start_s * 1e9)
    end_ns = bag.end_ns
    if options.duration_s is not None:
        end_ns = min(end_ns, start_ns + round(options.duration_s * 1e9))
    if start_ns > bag.end_ns:
        raise BagError(
            'option --start', expected=f'less than the {bag.duration_s:.3f} s of {bag.path}',
            got=f'{options.start_s:g} s', remedy='Start earlier.')
    return start_ns, end_ns


def _pace(began_s: float, done_s: float, speed: float) -> None:
    """Wait until `done_s` of bag time are due."""
    left_s = began_s + done_s / speed - time.perf_counter()
    if left_s > 0.0:
        time.sleep(left_s)
