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

"""A replay from its request to what came of it, without a word printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from robot_infer.config import Config
from robot_infer.engine_process import load_engine
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag
from robot_infer.replay.compare import Comparison, compare
from robot_infer.replay.errors import TopicError
from robot_infer.replay.match import LiveRun, Matching, match
from robot_infer.replay.reenact import Reenactment
from robot_infer.replay.run import Options, Replay, Result
from robot_infer.replay.schedule import as_run, delay_ns, in_bag_time, shifted
from robot_infer.replay.sources import Sources, Wishes, choose
from robot_infer.replay.words import notes
from robot_infer.report.record import StepRecord

Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class Request:
    """What is to be replayed, and how.

    as_recorded: at the times of the step records in the bag. live: over DDS too, into `node` where
    one is named.
    """

    bag: Path
    config: Config
    wishes: Wishes
    options: Options
    as_recorded: bool = False
    live: bool = False
    node: str = ''


@dataclass(frozen=True)
class Outcome:
    """A finished replay.

    notes: what is to be said about it. matching: how the actions of a run that was followed stand
    to it. live_steps: of the node, where the bag was also played over DDS.
    """

    config: Config
    result: Result
    comparison: Comparison | None
    notes: list[str]
    matching: Matching | None = None
    live_steps: tuple[StepRecord, ...] = ()

    @property
    def well(self) -> bool:
        """Whether the bag was read whole, and the same frames always gave the same actions."""
        return self.result.whole and not (self.matching and self.matching.contradictions)


def replay_bag(request: Request, progress: Progress) -> Outcome:
    """Replay a bag; `progress` is told the seconds done and those to do.

    :raises RobotInferError: where the bag or the policy cannot be used.
    """
    config, wishes = request.config, request.wishes
    with Bag(request.bag) as bag:
        sources = choose(bag, config, wishes)
        followed = _recorded_steps(bag, sources) if request.as_recorded else ()
        engine = load_engine(config)
        try:
            joints = action_names(config, engine.info.action_dim)
            options, again = request.options, {}
            if followed:
                again = Reenactment(bag, sources, wishes, config, engine).compute(
                    followed, chunks=sources.actions is not None)
                late_ns = delay_ns(followed, again)
                followed = tuple(shifted(step, -late_ns) for step in followed)
                options = replace(options, plan=as_run(followed))
                engine.reset()
            replay = Replay(bag, sources, wishes, config, engine, options)
            result = replay.run(lambda done_s: progress(done_s, replay.duration_s))
        finally:
            engine.close()
        if result.damage is not None and not any(t.read for t in result.tallies.values()):
            raise result.damage
        matching = match(LiveRun(followed, result.recorded), result.ticks, result.steps, again,
                         1.0 / config.control.rate_hz) if followed and result.recorded else None
        return Outcome(
            config, result, _compare(sources, result, config, joints),
            notes(bag, sources, wishes, config, options, result), matching)


def _recorded_steps(bag: Bag, sources: Sources) -> tuple[StepRecord, ...]:
    """The step records of the run that was recorded, in bag time."""
    if sources.steps is None:
        raise TopicError(
            'option --as-recorded', expected='step records in the bag (~/step of the node, with '
            'diagnostics.publish_steps)', got='no topic of texts that ends in /step',
            remedy='Leave the option out: the replay keeps its own schedule then.')
    return in_bag_time([
        (message.time_ns, StepRecord.from_json(messages.text(message.cdr)))
        for message in bag.messages([sources.steps.name])])


def action_names(config: Config, action_dim: int) -> tuple[str, ...]:
    """The joints where actions are positions of joints, else numbers."""
    joints = config.state.joints
    return joints if len(joints) == action_dim else tuple(map(str, range(action_dim)))


def _compare(
    sources: Sources, result: Result, config: Config, joints: tuple[str, ...],
) -> Comparison | None:
    if sources.actions is None:
        return None
    return compare(sources.actions.name, result.recorded, result.ticks, joints, result.start_ns,
                   1.0 / config.control.rate_hz)
