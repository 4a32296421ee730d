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

"""What is to be said about a replay, the same for the terminal, the page and the JSON."""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import TYPE_CHECKING

from robot_infer.config import Config
from robot_infer.control.lockstep import ticks_per_inference
from robot_infer.replay.bag import Bag
from robot_infer.replay.feed import Tally
from robot_infer.replay.match import Matching, Place
from robot_infer.replay.recorder import digest
from robot_infer.replay.run import LONGEST_GAP_S, Options, Result
from robot_infer.replay.sources import Sources, Wishes
from robot_infer.types import Source

if TYPE_CHECKING:
    from robot_infer.replay.outcome import Outcome


def how(config: Config, options: Options) -> str:
    """How bag time was cut into ticks and steps."""
    if options.plan:
        return ('Control ticks and inference steps come when they did in the run that is '
                'followed, chunks when they were there then. The ladder is off. Times of steps '
                'and stages are those of this machine.')
    latency_ms = options.latency_ticks / config.control.rate_hz * 1e3
    return (f'In bag time: control ticks at {config.control.rate_hz:g} Hz, an inference step '
            f'every {ticks_per_inference(config)} ticks, its chunk used {options.latency_ticks} '
            f'ticks ({latency_ms:.0f} ms) after the observation (modelled, --latency-ticks). '
            'The ladder is off. Times of steps and stages are those of this machine.')


def notes(
    bag: Bag, sources: Sources, wishes: Wishes, config: Config, options: Options, result: Result,
) -> list[str]:
    """Everything a reader should know before believing the figures, worst first."""
    found = []
    if result.damage is not None:
        found.append(f'The bag could not be read to its end: {result.damage}')
    found += [words for tally in result.tallies.values() for words in _of_tally(tally)]
    found += [words for camera in sources.cameras for words in _of_camera(camera, result)]
    found += [f'{fault.name}, {_times(fault.count)}: {fault.message}'
              for fault in result.status.fault_history]
    if result.gaps:
        longest = max(result.gaps, key=lambda gap: gap[1])
        found.append(
            f'No message for more than {LONGEST_GAP_S:g} s, {_times(len(result.gaps))}: passed '
            f'over ({sum(gap[1] for gap in result.gaps):.1f} s, the longest {longest[1]:.1f} s '
            f'at {longest[0]:.1f} s)')
    found += [f'{words[0].upper()}{words[1:]}.' for words in bag.notes]
    if wishes.fixed_state:
        found.append(
            f'The state is fixed at {", ".join(f"{value:g}" for value in wishes.fixed_state)} '
            '(--fixed-state): the actions are those of a robot that never moves.')
    if options.bag_stamps:
        found.append('Times of receipt stand in for the stamps in the messages (--stamps bag).')
    if not math.isinf(options.speed):
        wanted_s = result.duration_s / options.speed
        if result.wall_s > 1.02 * wanted_s + 0.1:
            found.append(f'Slower than asked for: {result.wall_s:.1f} s instead of '
                         f'{wanted_s:.1f} s.')
    return [how(config, options), *found]


def matching_figures(matching: Matching) -> list[tuple[str, str]]:
    """How a run over DDS stands to the replay, line by line."""
    same, again = matching.at_same_place, matching.computed_again
    equal = sum(one.equal is True for one in same)
    follow = sum(one.follows is True for one in again)
    found = [(f'ticks: {place.value}', str(matching.places[place])) for place in Place]
    return [
        *found,
        ('same frames, same tick: equal actions', f'{equal} of {len(same)}'),
        ('computed again from the frames used: equal actions', f'{follow} of {len(again)}'),
        ('actions lost on the way', str(matching.lost)),
        ('actions from before the first or behind the last step', str(matching.unplaced))]


def as_json(outcome: Outcome) -> dict[str, object]:
    """The replay as plain values."""
    result, comparison = outcome.result, outcome.comparison
    sources = [tick.source for tick in result.ticks]
    late = sum(step.late for step in result.steps)
    found: dict[str, object] = {
        'duration_s': result.duration_s, 'wall_s': result.wall_s, 'whole': result.whole,
        'ticks': len(result.ticks), 'steps': len(result.steps), 'late_steps': late,
        'sources': {source.value: sources.count(source) for source in Source},
        'actions_sha256': digest(result.ticks), 'topics': {
            name: _tally_values(tally) for name, tally in result.tallies.items()},
        'faults': {fault.name: fault.count for fault in result.status.fault_history},
        'notes': outcome.notes}
    if comparison is not None:
        found['compare'] = {
            'topic': comparison.topic, 'pairs': len(comparison.times_s), 'same': comparison.same,
            'unpaired': comparison.unpaired, 'alignment': comparison.alignment,
            'joints': {one.joint: {'rms': one.rms, 'max': one.max, 'worst_s': one.worst_s}
                       for one in comparison.by_joint()}}
    if outcome.matching is not None:
        matching = outcome.matching
        found['live'] = {
            'ticks': {place.name.lower(): matching.places[place] for place in Place},
            'same_place': len(matching.at_same_place),
            'same_place_equal': sum(one.equal is True for one in matching.at_same_place),
            'computed_again': len(matching.computed_again),
            'computed_again_equal': sum(
                one.follows is True for one in matching.computed_again),
            'lost': matching.lost, 'unplaced': matching.unplaced,
            'contradictions': len(matching.contradictions)}
    return found


def _times(number: int) -> str:
    return 'once' if number == 1 else f'{number} times'


def _tally_values(tally: Tally) -> Mapping[str, object]:
    return {'type': tally.topic.type, 'in_bag': tally.topic.count, 'read': tally.read,
            'unreadable': tally.unreadable, 'early': tally.early,
            'stamps_back': tally.stamps_back}


def _of_tally(tally: Tally) -> list[str]:
    name, found = tally.topic.name, []
    if tally.unreadable:
        found.append(f'{tally.unreadable} of {tally.read} messages of {name} could not be decoded '
                     f'and were not used: {tally.fault}')
    if tally.early:
        found.append(f'{tally.early} messages of {name} have a time before that of the message '
                     f'before, by up to {tally.early_s:.3f} s: they were given right after it')
    if tally.stamps_back:
        found.append(f'{tally.stamps_back} of {tally.read} stamps of {name} lie before the one '
                     'before')
    return found


def _of_camera(camera: str, result: Result) -> list[str]:
    """Images that no inference step could use; those replaced by newer ones are usual."""
    counts = result.status.cameras[camera]
    unused = {'stale': counts.stale, 'not decodable': counts.bad,
              'out of order': counts.out_of_order}
    words = ', '.join(f'{number} {name}' for name, number in unused.items() if number)
    return [f'Of {counts.received} images of camera {camera}: {words}'] if words else []
