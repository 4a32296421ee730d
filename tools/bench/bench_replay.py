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

"""How fast raw images come out of a bag, beside what rosbags alone does; and a replay's speed.

Both read the same 640x480 rgb8 images of the same bag, in turns within one run, and end with the
pixels as a NumPy array: rosbags by its Reader and `deserialize_cdr`, we by `Bag` and `raw_image`
and with the frame store behind it, as a replay does. Times are of the wall clock; figures are
medians over the rounds, and the bags lie in the page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
import statistics
import sys
import tempfile
import time

import click
import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from robot_infer.camera import FrameStore
from robot_infer.config import CameraSettings, Config
from robot_infer.engine_process import load_engine
from robot_infer.replay import messages
from robot_infer.replay.bag import Bag
from robot_infer.replay.run import Options, Replay, fit_for_replay
from robot_infer.replay.sources import Wishes, choose
from robot_infer.shared_files import shared_file
from robot_infer.sim.world import JOINT_NAMES, World

TOPIC = '/overhead/image'
WIDTH, HEIGHT = 640, 480
ORIGIN_NS, PERIOD_NS = 1_750_000_000_000_000_000, 33_333_333
TARGET_MB_S, TARGET_RATIO = 200.0, 0.8


@dataclass(frozen=True)
class Kind:
    """One kind of bag."""

    name: str
    storage: StoragePlugin
    compression: tuple[CompressionMode, CompressionFormat] | None = None


KINDS = (
    Kind('mcap', StoragePlugin.MCAP), Kind('sqlite3', StoragePlugin.SQLITE3),
    Kind('mcap, zstd chunks', StoragePlugin.MCAP, (CompressionMode.STORAGE,
                                                   CompressionFormat.ZSTD)),
    Kind('sqlite3, zstd messages', StoragePlugin.SQLITE3, (CompressionMode.MESSAGE,
                                                           CompressionFormat.ZSTD)))


def pictures(seconds: float) -> Iterator[tuple[str, str, int, bytes]]:
    """What the demo world's robot would publish: both cameras at 30 Hz, joints, an instruction."""
    world = World(1, 3)
    text = messages.encode(messages.new(messages.STRING, data='move to the red cube'),
                           messages.STRING)
    yield '/instruction', messages.STRING, ORIGIN_NS, text
    for number in range(round(seconds * 30)):
        now_ns = ORIGIN_NS + number * PERIOD_NS
        for camera in ('overhead', 'wrist'):
            pixels = world.render(camera)
            yield (f'/{camera}/image', messages.IMAGE, now_ns, messages.encode(messages.new(
                messages.IMAGE, header=_header(now_ns), height=pixels.shape[0],
                width=pixels.shape[1], encoding='rgb8', is_bigendian=0,
                step=3 * pixels.shape[1], data=pixels.reshape(-1)), messages.IMAGE))
        none = np.zeros(0)
        yield ('/joint_states', messages.JOINT_STATE, now_ns, messages.encode(messages.new(
            messages.JOINT_STATE, header=_header(now_ns), name=list(JOINT_NAMES),
            position=world.state().astype(np.float64), velocity=none, effort=none),
            messages.JOINT_STATE))
        world.step(np.array([0.2, 0.1]))


def _header(stamp_ns: int) -> object:
    stamp = messages.new('builtin_interfaces/msg/Time', sec=stamp_ns // 10**9,
                         nanosec=stamp_ns % 10**9)
    return messages.new('std_msgs/msg/Header', stamp=stamp, frame_id='camera')


def write_bag(folder: Path, kind: Kind, sent: list[tuple[str, str, int, bytes]]) -> Path:
    """Write the messages as a bag of this kind."""
    writer = Writer(folder, version=8, storage_plugin=kind.storage)
    if kind.compression is not None:
        writer.set_compression(*kind.compression)
    connections: dict[str, object] = {}
    with writer:
        for topic, type_name, time_ns, cdr in sent:
            if topic not in connections:
                connections[topic] = writer.add_connection(
                    topic, type_name, typestore=messages.STORE)
            writer.write(connections[topic], time_ns, cdr)
    return folder


def by_rosbags(path: Path) -> int:
    """Read all images with rosbags alone; returns the bytes of their pixels."""
    store, total = get_typestore(Stores.LATEST), 0
    with Reader(path) as reader:
        wanted = [one for one in reader.connections if one.topic == TOPIC]
        for connection, _, cdr in reader.messages(wanted):
            total += store.deserialize_cdr(cdr, connection.msgtype).data.nbytes
    return total


def by_us(path: Path) -> int:
    """Read all images as a replay does, up to the RawImage."""
    total = 0
    with Bag(path) as bag:
        for message in bag.messages([TOPIC]):
            total += messages.raw_image(message.cdr, message.time_ns, message.time_ns).data.nbytes
    return total


def into_the_store(path: Path) -> int:
    """As `by_us`, and each image goes into the frame store, where it waits to be decoded."""
    total, frames = 0, FrameStore(CameraSettings(names=('overhead',)))
    with Bag(path) as bag:
        for message in bag.messages([TOPIC]):
            image = messages.raw_image(message.cdr, message.time_ns, message.time_ns)
            frames.put('overhead', image)
            total += image.data.nbytes
    return total


WAYS: tuple[tuple[str, Callable[[Path], int]], ...] = (
    ('rosbags alone', by_rosbags), ('to RawImage', by_us), ('to the frame store', into_the_store))


def measure(path: Path, rounds: int) -> dict[str, float]:
    """MB (10^6 bytes of pixels) a second for each way, read in turns; medians."""
    rates: dict[str, list[float]] = {name: [] for name, _ in WAYS}
    for _, read in WAYS:
        read(path)
    for turn in range(rounds):
        for name, read in WAYS if turn % 2 else reversed(WAYS):
            started = time.perf_counter()
            total = read(path)
            rates[name].append(total / 1e6 / (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in rates.items()}


def replay_speed(path: Path, rounds: int) -> tuple[float, float]:
    """Bag seconds a second of a replay with the demo policy, median; and seconds of the bag."""
    config = fit_for_replay(Config.from_yaml(shared_file('config/demo.yaml')))
    engine = load_engine(config)
    speeds = []
    for _ in range(rounds):
        engine.reset()
        with Bag(path) as bag:
            result = Replay(bag, choose(bag, config, Wishes()), Wishes(), config, engine,
                            Options()).run()
        assert result.whole and len(result.steps) > 1
        speeds.append(result.duration_s / result.wall_s)
    engine.close()
    return statistics.median(speeds), result.duration_s


@click.command()
@click.option('--seconds', default=5.0, show_default=True, help='Length of the bag.')
@click.option('--rounds', default=7, show_default=True, help='Timed rounds.')
def main(seconds: float, rounds: int) -> None:
    """Time reading and replaying; status 1 where a target is missed."""
    sent = list(pictures(seconds))
    number = sum(topic == TOPIC for topic, *_ in sent)
    print(f'{number} images of {WIDTH}x{HEIGHT} rgb8, {number * WIDTH * HEIGHT * 3 / 1e6:.0f} MB '
          f'(10^6), beside a second camera and joints; medians of {rounds} rounds, in turns')
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(KINDS):
            path = write_bag(Path(folder) / f'bag{number}', kind, sent)
            rates = measure(path, rounds)
            alone, ours = rates['rosbags alone'], rates['to the frame store']
            fine = ours >= TARGET_MB_S or ours >= TARGET_RATIO * alone
            passed &= fine
            words = ', '.join(f'{name} {rate:.0f} MB/s' for name, rate in rates.items())
            print(f'{kind.name:24s} {words}: {ours / alone:.2f} of rosbags alone'
                  + ('' if fine else '  BELOW THE TARGET'))
        speed, duration_s = replay_speed(Path(folder) / 'bag0', min(rounds, 3))
        passed &= speed > 1.0
        print(f'replay of the {duration_s:.1f} s with the demo policy: {speed:.1f} times real '
              'time' + ('' if speed > 1.0 else '  SLOWER THAN REAL TIME'))
    print(f'targets: {TARGET_MB_S:.0f} MB/s, or {TARGET_RATIO:.0%} of rosbags alone; replay '
          'faster than real time')
    sys.exit(0 if passed else 1)


if __name__ == '__main__':
    main()
