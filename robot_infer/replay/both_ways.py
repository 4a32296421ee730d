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

"""The same bag both ways: over DDS into the node, and through the replay; then side by side.

The replay follows the node's own times (schedule.py), less what a message took to arrive. Where
the same frames met the same tick then, the actions must be the same; where other frames did, the
matching says which, and holds the node's action against its own frames, computed again.
"""

from __future__ import annotations

from dataclasses import replace
import math

from robot_infer.engine_process import load_engine
from robot_infer.replay.bag import Bag
from robot_infer.replay.compare import compare
from robot_infer.replay.errors import LiveReplayError
from robot_infer.replay.live import play_live
from robot_infer.replay.match import LiveRun, match
from robot_infer.replay.outcome import Outcome, Progress, Request, action_names
from robot_infer.replay.record import ACTION_TOPIC
from robot_infer.replay.reenact import Reenactment
from robot_infer.replay.run import Replay, fit_for_replay
from robot_infer.replay.schedule import as_run, delay_ns, shifted
from robot_infer.replay.sources import choose
from robot_infer.replay.words import notes


def replay_both_ways(request: Request, progress: Progress) -> Outcome:
    """Play the bag to the node, replay it as the node did, and match the two.

    :raises RobotInferError: where the bag, the node or the policy cannot be used.
    """
    wishes, start_s = request.wishes, request.options.start_s
    with Bag(request.bag) as bag:
        sources = choose(bag, request.config, wishes)
        whole_s = request.options.duration_s or bag.duration_s - start_s
        played = play_live(bag, sources, wishes, request.config, request.options, request.node,
                           lambda done_s: progress(done_s, whole_s))
        if not played.run.steps:
            raise LiveReplayError(
                'policy node', expected='inference steps on ~/step', got='none, and '
                f'{len(played.run.actions)} actions', remedy='See /diagnostics while it plays.')
        config = fit_for_replay(played.config)
        engine = load_engine(config)
        try:
            again = Reenactment(bag, sources, wishes, config, engine).compute(played.run.steps)
            delay = delay_ns(played.run.steps, again)
            run = _earlier(played.run, delay)
            options = replace(request.options, plan=as_run(run.steps), speed=math.inf)
            engine.reset()
            result = Replay(bag, sources, wishes, config, engine, options).run()
            joints = action_names(config, engine.info.action_dim)
        finally:
            engine.close()
    period_s = 1.0 / config.control.rate_hz
    matching = match(run, result.ticks, result.steps, again, period_s)
    comparison = compare(f'{ACTION_TOPIC} over DDS', run.actions, result.ticks, joints,
                         result.start_ns, period_s)
    said = (f'Played in real time over DDS: {len(run.steps)} inference steps and '
            f'{len(run.actions)} actions came back. No message was sent later than '
            f'{played.latest_s * 1e3:.1f} ms after its time; the node knew most of them '
            f'{delay / 1e6:.0f} ms after they were sent.')
    return Outcome(config, result, comparison, [said, *notes(
        bag, sources, wishes, config, options, result)], matching, run.steps)


def _earlier(run: LiveRun, by_ns: int) -> LiveRun:
    """The same run as if messages took no time to arrive."""
    return LiveRun(tuple(shifted(step, -by_ns) for step in run.steps),
                   tuple((time_ns - by_ns, action) for time_ns, action in run.actions))
