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

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
import math
import time

from robot_infer.config import Config
from robot_infer.control import ManualClock, Runtime, RuntimeStatus
from robot_infer.control.inference import Engine, Pending
from robot_infer.control.lockstep import DEFAULT_LATENCY_TICKS, LockStep
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag, BagMessage
from robot_infer.replay.errors import BagDamagedError, BagError
from robot_infer.replay.feed import Feed, Tally
from robot_infer.replay.recorder import ReplayRecorder, Tick
from robot_infer.replay.reenact import ShortenedEngine
from robot_infer.replay.schedule import Deed, Event
from robot_infer.replay.sources import Sources, Wishes
from robot_infer.report.record import StepRecord

# Where no message comes for this long, nothing is ticked until the next: a bag that begins with
# a stamp of 1970 would else be ticked for 50 years.
LONGEST_GAP_S = 10.0


@dataclass(frozen=True)
class Options:
    """How to replay.

    speed: bag seconds per real second, inf for as fast as possible. bag_stamps: whether the time
    of receipt stands in for the stamps in the messages. plan: the deeds of a run that is followed
    instead of a schedule of our own (schedule.py); latency_ticks means nothing then.
    """

    latency_ticks: int = DEFAULT_LATENCY_TICKS
    start_s: float = 0.0
    duration_s: float | None = None
    speed: float = math.inf
    bag_stamps: bool = False
    plan: tuple[Event, ...] = ()


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
        return self.damage is None and not any(
            tally.unreadable for tally in self.tallies.values() if tally.asked_for)


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
        assert not config.inference.ladder, 'the ladder follows the times of this machine'
        self._bag, self._sources, self._wishes = bag, sources, wishes
        self._config, self._options = config, options
        self._start_ns, self._end_ns = _window(bag, options)
        self._period_ns = 1e9 / config.control.rate_hz
        self._clock = ManualClock(max(bag.start_ns, self._start_ns - _freshness_ns(config)))
        self._recorder = ReplayRecorder()
        self._engine = ShortenedEngine(engine)
        self._runtime = Runtime(
            config, self._engine, self._clock, lambda command: None, self._recorder)
        self._lockstep = LockStep(self._runtime, config, options.latency_ticks)
        self._recorder.inference_s = self._lockstep.inference_s
        self._feed = Feed(self._runtime, self._clock, sources, options.bag_stamps)
        self._damage: BagDamagedError | None = None
        self._gaps: list[tuple[float, float]] = []
        self._stream: Iterator[BagMessage] = iter(())
        self._coming: BagMessage | None = None
        self._last_ns = self._start_ns

    @property
    def duration_s(self) -> float:
        """Seconds of bag time there are to be replayed."""
        return (self._end_ns - self._start_ns) / 1e9

    def run(self, progress: Callable[[float], None] = lambda seconds: None) -> Result:
        """Replay all of it; `progress` is told the seconds of bag time that are done."""
        began_s = time.perf_counter()
        self._warm_start()
        self._stream = self._messages()
        self._coming = next(self._stream, None)
        for now_ns in (self._follow_plan if self._options.plan else self._keep_schedule)():
            done_s = (now_ns - self._start_ns) / 1e9
            progress(done_s)
            _pace(began_s, done_s, self._options.speed)
        for rest in filter(None, (self._coming, *self._stream)):  # too late for a tick, yet read
            self._feed.give(rest)
        return self._result(time.perf_counter() - began_s)

    def _keep_schedule(self) -> Iterator[int]:
        """Tick at the configured rate; yields the time of each tick once it is made."""
        index = 0
        # One tick behind the last message, so that there is one for each.
        ticks_end_ns = self._end_ns + (
            round(self._period_ns) - 1 if self._end_ns == self._bag.end_ns else 0)
        while (now_ns := self._start_ns + round(index * self._period_ns)) <= ticks_end_ns:
            self._feed_until(now_ns)
            if self._damage is not None:
                self._end_ns = ticks_end_ns = min(self._end_ns, self._last_ns)
            if now_ns - self._last_ns > LONGEST_GAP_S * 1e9:
                index += self._pass_over(now_ns)
                continue
            self._tick(now_ns)
            index += 1
            yield now_ns

    def _follow_plan(self) -> Iterator[int]:
        """Do what a run did, when it did it; yields the time of each deed."""
        pending: dict[int, Pending] = {}
        for event in self._options.plan:
            if not self._start_ns <= event.time_ns <= self._end_ns + self._period_ns:
                continue
            self._feed_until(event.time_ns)
            if self._damage is not None and self._coming is None:
                self._end_ns = min(self._end_ns, self._last_ns)
                return
            self._clock.advance_ns(max(0, event.time_ns - self._clock.now_ns()))
            if event.deed is Deed.OBSERVE:
                began_s = time.perf_counter()
                self._engine.horizon = event.horizon
                made = self._runtime.begin_inference()
                self._recorder.inference_s.append(time.perf_counter() - began_s)
                if made is not None:
                    pending[event.epoch] = made
            elif event.deed is Deed.TICK:
                self._runtime.tick_once()
            elif event.epoch in pending:
                self._runtime.deliver(pending.pop(event.epoch))
            yield event.time_ns

    def _feed_until(self, now_ns: int) -> None:
        while self._coming is not None and self._coming.time_ns <= now_ns:
            self._last_ns = max(self._last_ns, self._coming.time_ns)
            self._feed.give(self._coming)
            self._coming = next(self._stream, None)

    def _result(self, wall_s: float) -> Result:
        recorder, feed = self._recorder, self._feed
        recorder.end()
        return Result(
            self._start_ns, self._end_ns, tuple(recorder.ticks), tuple(recorder.steps),
            feed.tallies, self._runtime.status(), self._damage,
            tuple(self._gaps), tuple(feed.recorded), tuple(feed.recorded_steps), wall_s)

    def _tick(self, now_ns: int) -> None:
        self._clock.advance_ns(max(0, now_ns - self._clock.now_ns()))
        if self._wishes.fixed_state:
            self._runtime.put_state(
                self._config.state.joints, self._wishes.fixed_state, now_ns, now_ns, now_ns)
            self._feed.news = True
        steps = len(self._lockstep.inference_s)
        self._lockstep.tick(self._feed.news)
        if len(self._lockstep.inference_s) > steps:
            self._feed.news = False

    def _pass_over(self, now_ns: int) -> int:
        """Leave the ticks out for which there is nothing; returns how many."""
        until_ns = self._end_ns + 1 if self._coming is None else self._coming.time_ns
        self._gaps.append(((now_ns - self._start_ns) / 1e9, (until_ns - now_ns) / 1e9))
        return max(1, math.ceil((until_ns - now_ns) / self._period_ns))

    def _messages(self) -> Iterator[BagMessage]:
        """The bag's messages; where it is damaged they end, and `_damage` says why."""
        whole = self._start_ns == self._bag.start_ns and self._end_ns == self._bag.end_ns
        window = (None, None) if whole else (self._start_ns, self._end_ns + 1)
        try:
            yield from self._bag.messages(self._feed.tallies, *window)
        except BagDamagedError as error:
            self._damage = error

    def _warm_start(self) -> None:
        """Bring the runtime to where it would be at the start, had it listened before.

        That is the last instruction there was, and frames and state that are still fresh.
        """
        if self._wishes.text:
            self._runtime.set_instruction(self._wishes.text)
        if self._start_ns == self._bag.start_ns:
            return
        sources = self._sources
        told = [topic.name for topic in (sources.active, sources.instruction) if topic]
        try:
            for message in deque(self._bag.messages(told, None, self._start_ns), 1):
                self._runtime.put_instruction(messages.text(message.cdr))
            fresh = [name for name in sources.fed if name not in told]
            for message in self._bag.messages(fresh, self._clock.now_ns(), self._start_ns):
                self._feed.give(message)
        except BagDamagedError as error:
            self._damage = error


def fit_for_replay(config: Config) -> Config:
    """The settings without what follows the times of the machine: the ladder is off."""
    return Config.from_flat({**config.flat(), 'inference.ladder': False})


def _freshness_ns(config: Config) -> int:
    """How far back a message may lie and still be used."""
    return round(max(config.cameras.max_age_s, config.state.max_age_s) * 1e9)


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
