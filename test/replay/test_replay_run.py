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

"""The replay: the same actions from the same bag, whatever else differs; and nothing lost."""

from __future__ import annotations

from collections.abc import Callable
import hashlib
import math
from pathlib import Path
import subprocess
import sys
import time

import pytest
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin

from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import InstructionError
from robot_infer.replay.bag import Bag
from robot_infer.replay.compare import compare
from robot_infer.replay.errors import BagError
from robot_infer.replay.recorder import digest
from robot_infer.replay.reenact import Reenactment
from robot_infer.replay.run import LONGEST_GAP_S, Options, Replay, Result
from robot_infer.replay.sources import Wishes, choose
from robot_infer.types import Source

sys.path.insert(0, str(Path(__file__).parent))
from replay_bags import ORIGIN_NS, PERIOD_NS, Sent, image, punch, state, text

Play = Callable[..., Result]


@pytest.fixture(scope='module')
def play(config: Config, engine: Engine) -> Play:
    """Replay a bag with the demo policy."""
    def played(path: Path, flat: dict | None = None, wishes: Wishes = Wishes(),  # noqa: B008
               progress: Callable[[float], None] = lambda seconds: None,
               **options: object) -> Result:
        settings = Config.from_flat({**config.flat(), **(flat or {})})
        engine.reset()
        with Bag(path) as bag:
            sources = choose(bag, settings, wishes)
            return Replay(bag, sources, wishes, settings, engine, Options(**options)).run(progress)
    return played


@pytest.fixture
def small() -> list[Sent]:
    """A second of small pictures and joints; nothing moves."""
    sent = [text(ORIGIN_NS, 'move to the red cube')]
    for k in range(30):
        now_ns = ORIGIN_NS + k * PERIOD_NS
        sent += [image(now_ns, '/overhead/image'), image(now_ns, '/wrist/image'), state(now_ns)]
    return sent


class TestTheSameActions:

    def test_as_the_run_that_was_recorded_to_the_last_bit(self, demo_bag, play, config):
        result = play(demo_bag, wishes=Wishes(compare='/action'))
        comparison = compare('/action', result.recorded, result.ticks, config.state.joints,
                             result.start_ns, 1 / 30)
        assert comparison.same == len(comparison.times_s) == len(result.recorded) == 60
        assert result.whole and result.status.fault_history == ()
        assert result.tallies['/overhead/image'].read == 31

    def test_twice(self, demo_bag, play):
        first, second = play(demo_bag), play(demo_bag)
        assert len(first.ticks) == 61 and digest(first.ticks) == digest(second.ticks)

    def test_from_sqlite_and_from_compressed_bags(self, demo_bag, demo_messages, play, make_bag):
        expected = digest(play(demo_bag).ticks)
        zstd = CompressionFormat.ZSTD
        for how in ({'storage': StoragePlugin.SQLITE3},
                    {'compression': (CompressionMode.MESSAGE, zstd)}):
            assert digest(play(make_bag(demo_messages, **how)).ticks) == expected

    def test_in_another_process(self, demo_bag, play):
        program = (
            'import sys\n'
            'from robot_infer.replay.command import main\n'
            'sys.exit(main(sys.argv[1:]))\n')
        done = subprocess.run(
            [sys.executable, '-c', program, str(demo_bag), '--json'], capture_output=True,
            text=True, check=True, env={**__import__('os').environ, 'OMP_NUM_THREADS': '1'})
        assert digest(play(demo_bag).ticks) in done.stdout

    def test_at_any_speed(self, demo_bag, play):
        began = time.monotonic()
        slow = play(demo_bag, speed=1.0, duration_s=1.0)
        assert time.monotonic() - began >= 1.0 - 1 / 30
        assert digest(slow.ticks) == digest(play(demo_bag, duration_s=1.0).ticks)

    def test_but_others_from_another_seed_instruction_or_latency(self, demo_bag, play):
        found = {digest(play(demo_bag).ticks)}
        found.add(digest(play(demo_bag, flat={'policy.seed': 1}).ticks))
        found.add(digest(play(demo_bag, wishes=Wishes(text='go to the blue block')).ticks))
        found.add(digest(play(demo_bag, latency_ticks=5).ticks))
        assert len(found) >= 3  # the engine's own seed was fixed when it was made


class TestTime:

    def test_a_part_begins_with_what_is_known_by_then(self, demo_bag, play):
        part = play(demo_bag, start_s=1.0, duration_s=0.5)
        assert len(part.ticks) == 16 and part.status.fault_history == ()
        assert part.status.instruction
        assert [tick.source for tick in part.ticks[:3]] == [Source.HOLD, Source.HOLD, Source.CHUNK]

    def test_ticks_and_steps_come_at_their_rates(self, demo_bag, play):
        result = play(demo_bag, flat={'control.rate_hz': 50.0, 'inference.rate_hz': 10.0})
        assert len(result.ticks) == 100
        gaps = {after.time_ns - before.time_ns
                for before, after in zip(result.ticks, result.ticks[1:])}
        assert gaps == {20_000_000}
        starts = [step.started_ns for step in result.steps]
        assert {after - before for before, after in zip(starts, starts[1:])} == {100_000_000}

    def test_progress_tells_seconds_of_bag_time(self, demo_bag, play):
        told: list[float] = []
        play(demo_bag, progress=told.append)
        assert told == sorted(told) and told[0] == 0.0 and math.isclose(told[-1], 60 / 30)

    def test_a_start_behind_the_end_is_refused(self, demo_bag, play):
        with pytest.raises(BagError, match='--start'):
            play(demo_bag, start_s=60.0)

    def test_a_long_gap_is_passed_over_and_told(self, small, play, make_bag):
        late_ns = ORIGIN_NS + 3_600_000_000_000
        path = make_bag([*small, state(late_ns)])
        result = play(path)
        (gap,) = result.gaps
        assert gap[1] > 3_500
        assert len(result.ticks) < 30 * (LONGEST_GAP_S + 3)
        assert result.ticks[-1].time_ns >= late_ns - PERIOD_NS

    def test_a_bag_that_begins_in_1970_does_not_last_for_50_years(self, small, play, make_bag):
        result = play(make_bag([text(1, 'move to the red cube'), *small[1:]]))
        assert len(result.ticks) < 30 * (LONGEST_GAP_S + 3)
        assert result.steps and result.gaps[0][1] > 1e9


class TestWhatIsWrongInsideABag:

    def test_messages_that_cannot_be_decoded_are_counted_and_named(self, small, play, make_bag):
        broken = [one._replace(cdr=one.cdr[:40]) if number % 3 == 1 and number > 40 else one
                  for number, one in enumerate(small)]
        result = play(make_bag(broken))
        tally = result.tallies['/overhead/image']
        assert not result.whole and tally.unreadable == 16 and tally.read == 30
        assert 'sensor_msgs/msg/Image' in tally.fault
        assert 'MessageError' in {fault.name for fault in result.status.fault_history}
        last_step_s = (result.steps[-1].started_ns - ORIGIN_NS) / 1e9
        assert 0.5 < last_step_s < 0.75  # from then on the camera is as good as dead

    def test_a_camera_that_stops_ends_in_the_fallback_as_on_the_robot(self, small, play, make_bag):
        one_second_more = [state(ORIGIN_NS + k * PERIOD_NS) for k in range(30, 90)]
        silent = [one for one in small if one.topic != '/wrist/image'
                  or one.time_ns < ORIGIN_NS + 15 * PERIOD_NS] + one_second_more
        result = play(make_bag(silent))
        reasons = {tick.reason for tick in result.ticks[-30:]}
        assert reasons <= {'chunk_exhausted', 'chunk_expired'}
        assert 'StaleFrameError' in {fault.name for fault in result.status.fault_history}

    def test_stamps_that_go_back_are_counted(self, small, play, make_bag):
        moved = [image(one.time_ns, one.topic, stamp_ns=one.time_ns - 50_000_000)
                 if one.topic == '/overhead/image' and number == 61 else one
                 for number, one in enumerate(small)]
        result = play(make_bag(moved))
        assert result.tallies['/overhead/image'].stamps_back == 1
        assert result.status.cameras['overhead'].out_of_order == 1

    def test_times_that_go_back_are_counted_and_nothing_is_dropped(
            self, small, play, make_bag, monkeypatch):
        path = make_bag(small)
        in_order = Bag.messages

        def shuffled(self, topics, start_ns=None, stop_ns=None):  # noqa: ANN001, ANN202
            found = list(in_order(self, topics, start_ns, stop_ns))
            found[50], found[10] = found[10], found[50]
            return iter(found)
        monkeypatch.setattr(Bag, 'messages', shuffled)
        result = play(path)
        early = sum(tally.early for tally in result.tallies.values())
        assert sum(tally.read for tally in result.tallies.values()) == len(small) == 91
        assert early >= 1 and max(tally.early_s for tally in result.tallies.values()) > 0.3

    def test_stamps_of_another_clock_are_stale_unless_receipt_counts(self, small, play, make_bag):
        def in_simulated_time(one: Sent) -> Sent:
            stamp_ns = one.time_ns - ORIGIN_NS + 1
            if one.topic == '/joint_states':
                return state(one.time_ns, stamp_ns=stamp_ns)
            return one if one.topic == '/instruction' else image(
                one.time_ns, one.topic, stamp_ns=stamp_ns)
        path = make_bag([in_simulated_time(one) for one in small])
        result = play(path)
        assert result.steps == () and result.status.cameras['wrist'].stale == 30
        assert {tick.source for tick in play(path, bag_stamps=True).ticks[3:]} == {Source.CHUNK}

    def test_a_damaged_bag_is_replayed_as_far_as_it_goes(self, demo_messages, play, make_bag):
        path = make_bag(demo_messages, compression=(
            CompressionMode.STORAGE, CompressionFormat.ZSTD))
        punch(path / f'{path.name}.mcap')
        result = play(path)
        whole = play(make_bag(demo_messages))
        assert result.damage is not None and not result.whole
        assert 10 < len(result.ticks) < 50
        assert digest(result.ticks) == digest(whole.ticks[:len(result.ticks)])

    def test_an_instruction_that_is_refused_stops_the_robot(self, small, play, make_bag):
        result = play(make_bag([*small[:45], text(small[45].time_ns, 'a\0b'), *small[45:]]))
        assert result.ticks[-1].reason == 'no_instruction'
        assert 'InstructionError' in {fault.name for fault in result.status.fault_history}

    def test_what_the_node_told_of_its_instruction_counts_until_there_is_one(
            self, small, play, make_bag):
        active = '/robot_infer/instruction_active'
        told = [text(small[0].time_ns, 'move to the red cube', active), *small[1:]]
        assert digest(play(make_bag(told)).ticks) == digest(play(make_bag(small)).ticks)
        both = [*small, text(small[30].time_ns, 'go to the blue block', active)]
        assert play(make_bag(both)).status.instruction == 'move to the red cube'

    def test_words_of_the_command_line_that_are_refused_are_an_error(self, small, play, make_bag):
        with pytest.raises(InstructionError):
            play(make_bag(small), wishes=Wishes(text='a\0b'))

    def test_a_fixed_state_stands_in_for_a_topic(self, small, play, make_bag):
        path = make_bag([one for one in small if one.topic != '/joint_states'])
        result = play(path, wishes=Wishes(fixed_state=(0.1, -0.1)))
        assert {tick.source for tick in result.ticks[2:]} == {Source.CHUNK}
        assert digest(result.ticks) == digest(play(make_bag(small)).ticks)


def test_every_action_is_the_row_it_says_of_the_chunk_that_its_frames_give_again(
        demo_bag, play, config, engine):
    result = play(demo_bag, latency_ticks=3)
    with Bag(demo_bag) as bag:
        sources = choose(bag, config, Wishes())
        again = Reenactment(bag, sources, Wishes(), config, engine).compute(result.steps)
    followed = [tick for tick in result.ticks if tick.source is Source.CHUNK]
    assert len(followed) > 50 and {tick.row for tick in followed} >= {3, 4}
    for tick in followed:
        (values,) = again[tick.epoch].values
        assert (values[tick.row] == tick.values).all()
    for step in result.steps:
        assert again[step.epoch].since_ns <= step.started_ns < again[step.epoch].until_ns


def test_no_tick_is_missing_from_the_step_records(demo_bag, play):
    result = play(demo_bag)
    told = [tick.time_ns for step in result.steps for tick in step.ticks]
    assert told == [tick.time_ns for tick in result.ticks]
    assert all(step.duration_s > 0.0 and step.frame_age_s > 0.0 for step in result.steps)


def test_the_digest_is_of_every_bit_that_was_sent(demo_bag, play):
    ticks = play(demo_bag).ticks
    assert digest(ticks) != digest(ticks[:-1])
    assert digest(()) == hashlib.sha256().hexdigest()
    changed = ticks[-1]._replace(values=ticks[-1].values + 1e-15)
    assert digest((*ticks[:-1], changed)) != digest(ticks)
