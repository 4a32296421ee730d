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

"""A rosbag2 bag as a stream of messages in the order of time, read by `rosbags`, without ROS.

Uncompressed storage files are opened one by one: opened as a folder, rosbags yields not one
message where metadata.yaml and the storage write QoS or a type in different words. What a message
means is messages.py's; which topics are wanted, sources.py's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
import heapq
from pathlib import Path
import sys
from typing import NamedTuple

from rosbags.interfaces import Connection, MessageDefinitionFormat, Qos
from rosbags.rosbag2 import Reader
from rosbags.rosbag2.metadata import parse_qos

from robot_infer.replay.errors import BagDamagedError, BagError
from robot_infer.replay.files import BagFiles, find_files

_MANY = 6  # names in a note


@dataclass(frozen=True)
class Topic:
    """One topic of a bag.

    type: as `package/msg/Name`, however the bag writes it; several where publishers disagree,
    joined by ' and '. definition: the message definition the bag carries, '' where none.
    qos: what its publishers offered.
    """

    name: str
    type: str
    count: int
    definition: str = ''
    definition_is_idl: bool = False
    qos: tuple[Qos, ...] = ()


class BagMessage(NamedTuple):
    """One message as it lies in the bag. time_ns: when it was received by the recorder."""

    topic: str
    time_ns: int
    cdr: bytes


class Bag:
    """An open bag.

    notes: what a reader should know: parts that could not be read, and where metadata.yaml and
    the storage disagree. start_ns, end_ns: times of the first and the last message.
    """

    def __init__(self, path: Path) -> None:
        """Open the bag at `path`: a folder, or one .mcap or .db3 file.

        :raises BagError: where it is none, is damaged, or holds no message.
        """
        self.path = path
        found = find_files(path)
        self._readers: list[Reader] = []
        try:
            for file in (found.folder,) if found.folder else found.files:
                self._readers.append(_open(file))
            self.topics = _topics(self._readers)
            self.notes = [*found.notes, *_disagreements(found, self.topics)]
            self.count = sum(reader.message_count for reader in self._readers)
            if not self.count:
                raise BagError(
                    f'bag {path}', expected='messages', got=f'none on {len(self.topics)} topics',
                    remedy='See whether the recorder ran beside the robot, in its ROS domain.')
            self.start_ns = min(reader.start_time for reader in self._readers)
            self.end_ns = max(reader.end_time for reader in self._readers) - 1
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        while self._readers:
            self._readers.pop().close()

    @property
    def duration_s(self) -> float:
        """Seconds from the first to the last message."""
        return (self.end_ns - self.start_ns) / 1e9

    def messages(
        self, topics: Collection[str], start_ns: int | None = None, stop_ns: int | None = None,
    ) -> Iterator[BagMessage]:
        """Yield the messages of `topics` with start_ns <= time < stop_ns, ordered by time.

        :raises BagDamagedError: where the storage cannot be read any further.
        """
        streams = [self._stream(reader, topics, start_ns, stop_ns) for reader in self._readers]
        yield from streams[0] if len(streams) == 1 else heapq.merge(
            *streams, key=lambda message: message.time_ns)

    def _stream(
        self, reader: Reader, topics: Collection[str], start_ns: int | None, stop_ns: int | None,
    ) -> Iterator[BagMessage]:
        connections = [one for one in reader.connections if one.topic in topics]
        if not connections:
            return
        announced = sum(one.msgcount for one in connections)
        count, last_ns = 0, self.start_ns
        try:
            for connection, time_ns, cdr in reader.messages(connections, start_ns, stop_ns):
                count, last_ns = count + 1, time_ns
                yield BagMessage(connection.topic, time_ns, cdr)
        except Exception as error:  # whatever a parser says of bytes that are not what they claim
            raise self._damaged(reader, announced, f'{count}, up to '
                                f'{(last_ns - self.start_ns) / 1e9:.3f} s, then '
                                f'{type(error).__name__}: {error}') from error
        if start_ns is None and stop_ns is None and count != announced:
            raise self._damaged(reader, announced, f'{count}')

    def _damaged(self, reader: Reader, announced: int, got: str) -> BagDamagedError:
        return BagDamagedError(
            f'bag {self.path}', expected=f'the {announced} messages that {reader.path.name} '
            'announces', got=got, remedy=_repair(reader.path))


def normal_type(name: str) -> str:
    """`sensor_msgs/msg/Image` also for what writes `sensor_msgs/Image`."""
    package, _, rest = name.partition('/')
    return name if not rest or '/' in rest else f'{package}/msg/{rest}'


def _open(path: Path) -> Reader:
    reader = Reader(path)
    try:
        reader.open()
    except Exception as error:  # whatever a parser says of bytes that are not what they claim
        words = str(error) or 'its parts contradict each other'
        raise BagError(
            f'bag {path}', expected='a whole rosbag2 storage file', got=f'{words} '
            f'({type(error).__name__})', remedy=_repair(path)) from error
    return reader


def _repair(path: Path) -> str:
    repair = {'.mcap': f'mcap recover {path.name} -o whole.mcap saves what is intact (mcap.dev).',
              '.db3': f'sqlite3 {path.name} .recover | sqlite3 whole.db3 saves what is intact.'}
    return 'Copy it again, or mend it: ' + repair.get(path.suffix, 'ros2 bag reindex.')


def _topics(readers: Collection[Reader]) -> dict[str, Topic]:
    """The topics of all files by name, in the order of their names."""
    by_name: dict[str, list[Connection]] = {}
    for reader in readers:
        for connection in reader.connections:
            by_name.setdefault(connection.topic, []).append(connection)
    return {name: _topic(name, by_name[name]) for name in sorted(by_name)}


def _topic(name: str, connections: list[Connection]) -> Topic:
    types = dict.fromkeys(normal_type(one.msgtype) for one in connections)
    defined = [one.msgdef for one in connections
               if one.msgdef.format is not MessageDefinitionFormat.NONE]
    qos = dict.fromkeys(tuple(one.ext.offered_qos_profiles) for one in connections)
    return Topic(
        sys.intern(name), ' and '.join(types), sum(one.msgcount for one in connections),
        defined[0].data if defined else '',
        bool(defined) and defined[0].format is MessageDefinitionFormat.IDL,
        tuple(profile for profiles in qos for profile in profiles))


def _disagreements(found: BagFiles, topics: Mapping[str, Topic]) -> list[str]:
    """What metadata.yaml says and the storage does not bear out; the storage counts."""
    if found.metadata is None or found.folder is not None:
        return []
    notes = []
    told = found.metadata.topics
    for what, names in (
            ('topics', set(told) ^ set(topics)),
            ('types', {name for name in set(told) & set(topics)
                       if told[name][0] != topics[name].type
                       and normal_type(told[name][0]) != topics[name].type}),
            ('numbers of messages', {name for name in set(told) & set(topics)
                                     if told[name][1] != topics[name].count}),
            ('QoS', {name for name in set(told) & set(topics)
                     if _qos(told[name][2]) != topics[name].qos})):
        if names:
            shown = sorted(names)[:_MANY]
            more = f' and {len(names) - _MANY} more' if len(names) > _MANY else ''
            notes.append(f'metadata.yaml and the storage disagree about the {what} of '
                         f'{", ".join(shown)}{more}: the storage was believed')
    return notes


def _qos(written: object) -> tuple[Qos, ...] | None:
    """QoS as metadata.yaml writes it; None where that cannot be understood."""
    try:
        return tuple(parse_qos(written)) if written else ()
    except Exception:  # hand-written or of another rosbag2: then it is what the storage says not
        return None
