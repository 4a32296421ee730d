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

"""From a bag's messages into the runtime, each by the door the node would use; and the count.

When a message is due is run.py's; here is what is done with it then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
import functools

from robot_infer.control import ManualClock, Runtime
from robot_infer.errors import ConfigError
from robot_infer.replay import messages
from robot_infer.replay.bag import BagMessage, Topic
from robot_infer.replay.errors import MessageError
from robot_infer.replay.sources import Sources
from robot_infer.report.record import StepRecord

_UNREADABLE_LASTS_S = 1.0


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


class Feed:
    """Hands messages over.

    news: whether one came that an inference step would look at; whoever makes a step clears it.
    recorded: the actions in the bag with their times. recorded_steps: its step records.
    """

    def __init__(
        self, runtime: Runtime, clock: ManualClock, sources: Sources, bag_stamps: bool,
    ) -> None:
        self.news = False
        self.recorded: list[tuple[int, messages.Action]] = []
        self.recorded_steps: list[StepRecord] = []
        self._runtime, self._clock, self._sources = runtime, clock, sources
        self._bag_stamps = bag_stamps
        self._instructed = False
        self._take = self._takers()
        topics = [*sources.fed.values(), *filter(None, (sources.actions, sources.steps))]
        self.tallies = {topic.name: Tally(topic, asked_for=topic is not sources.steps)
                        for topic in topics}

    def give(self, message: BagMessage) -> None:
        """Hand one message over, at its time; at the clock's where it comes too late for that."""
        tally = self.tallies[message.topic]
        tally.read += 1
        behind_ns = self._clock.now_ns() - message.time_ns
        if behind_ns > 0:
            tally.early += 1
            tally.early_s = max(tally.early_s, behind_ns / 1e9)
        self._clock.advance_ns(max(0, -behind_ns))
        try:
            stamp_ns = self._take[message.topic](message, self._clock.now_ns())
        except MessageError as error:
            tally.unreadable += 1
            tally.fault = tally.fault or str(error)
            self._runtime.faults.report(error, _UNREADABLE_LASTS_S)
            return
        tally.stamps_back += 0 < stamp_ns < tally.last_stamp_ns
        tally.last_stamp_ns = stamp_ns

    def _takers(self) -> dict[str, Callable[[BagMessage, int], int]]:
        """What is done with a message of each topic; each returns the message's stamp or 0."""
        sources = self._sources
        takers: dict[str, Callable[[BagMessage, int], int]] = {}
        for camera, topic in sources.cameras.items():
            convert = (messages.raw_image if topic.type == messages.IMAGE
                       else messages.encoded_image)
            takers[topic.name] = functools.partial(self._take_image, camera, convert)
        for topic, take in (
                (sources.state, self._take_state), (sources.instruction, self._take_instruction),
                (sources.active, self._take_active), (sources.actions, self._take_action),
                (sources.steps, self._take_step)):
            if topic is not None:
                takers[topic.name] = take
        return takers

    def _take_image(self, camera: str, convert: Callable, message: BagMessage, now_ns: int) -> int:
        image = convert(message.cdr, now_ns, now_ns)
        if self._bag_stamps:
            image = replace(image, stamp_ns=message.time_ns)
        self._runtime.put_image(camera, image)
        self.news = True
        return image.stamp_ns

    def _take_state(self, message: BagMessage, now_ns: int) -> int:
        state = messages.joint_positions(message.cdr)
        stamp_ns = message.time_ns if self._bag_stamps else state.stamp_ns
        self._runtime.put_state(state.names, state.positions, stamp_ns, now_ns, now_ns)
        self.news = True
        return stamp_ns

    def _take_instruction(self, message: BagMessage, now_ns: int) -> int:
        self._instructed = True
        self._runtime.put_instruction(messages.text(message.cdr))
        self.news = True
        return 0

    def _take_active(self, message: BagMessage, now_ns: int) -> int:
        if not self._instructed:
            self._runtime.put_instruction(messages.text(message.cdr))
            self.news = True
        return 0

    def _take_action(self, message: BagMessage, now_ns: int) -> int:
        self.recorded.append((message.time_ns, messages.action(
            message.cdr, self._sources.actions.type)))
        return 0

    def _take_step(self, message: BagMessage, now_ns: int) -> int:
        try:
            self.recorded_steps.append(StepRecord.from_json(messages.text(message.cdr)))
        except ConfigError as error:
            raise MessageError(error.subject, expected=error.expected, got=error.got,
                               remedy=error.remedy) from error
        return 0
