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

"""Which files make up a bag, and what its metadata.yaml says about them.

The storage counts, metadata.yaml is only asked for what the storage cannot know: the order of the
files and whether they are compressed. Where the two disagree a note says so. Nothing is opened
here but metadata.yaml and the first bytes of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

import yaml

from robot_infer.replay.errors import BagError

STORAGE_SUFFIXES = ('.mcap', '.db3')
_COMPRESSED_SUFFIX = '.zstd'
_KNOWN_MAGIC = {
    b'#ROSBAG V': ('a ROS 1 bag', 'Convert it with rosbags-convert, which comes with rosbags.'),
    b'\x89MCAP0\r\n': ('an MCAP file of another name', 'Rename it so that it ends in .mcap.'),
    b'SQLite format 3': ('an SQLite file of another name', 'Rename it so that it ends in .db3.'),
    b'\x28\xb5\x2f\xfd': ('a compressed file', 'Give the folder that holds it and metadata.yaml.'),
}


@dataclass(frozen=True)
class Metadata:
    """What metadata.yaml says. compression: '', 'file' or 'message'.

    topics: name -> (type, number of messages, QoS as it stands there).
    """

    files: tuple[str, ...]
    compression: str
    topics: Mapping[str, tuple[str, int, object]]


@dataclass(frozen=True)
class BagFiles:
    """The storage files in the order they are read, and what is to be said about them.

    folder: the bag's folder, where the bag is compressed and has to be opened as a whole.
    """

    files: tuple[Path, ...]
    folder: Path | None = None
    metadata: Metadata | None = None
    notes: tuple[str, ...] = ()


def find_files(path: Path) -> BagFiles:
    """Find the files of the bag at `path`, a folder or one storage file.

    :raises BagError: where there is no rosbag2 bag.
    """
    if not path.exists():
        raise BagError(f'bag {path}', expected='a folder or a file', got='nothing there',
                       remedy='Check the path.')
    found = _of_folder(path) if path.is_dir() else BagFiles((_storage_file(path),))
    return BagFiles(found.files, found.folder, found.metadata,
                    (*found.notes, *_unwritten(found.files)))


def _of_folder(folder: Path) -> BagFiles:
    there = sorted(entry for entry in folder.iterdir() if entry.suffix in STORAGE_SUFFIXES)
    metadata = None
    if (folder / 'metadata.yaml').is_file():
        metadata, fault = _read_metadata(folder / 'metadata.yaml')
    else:
        fault = 'it has no metadata.yaml (the recorder did not end in order)'
    if metadata is None:
        if not there:
            raise BagError(f'bag {folder}', expected='a folder with .mcap or .db3 files',
                           got=f'none, and {fault}', remedy='Give the folder that was recorded.')
        return BagFiles(tuple(there), notes=(
            f'{fault}: its {len(there)} storage files were read in the order of their names',))
    listed = [folder / name for name in metadata.files]
    missing = [file.name for file in listed if not file.is_file()]
    if missing or not listed:
        raise BagError(
            f'bag {folder}', expected=f'the {len(listed)} files that its metadata.yaml lists',
            got=f'no {", ".join(missing) or "file in the list"}',
            remedy='Copy the whole bag, or give one storage file itself.')
    extra = [file.name for file in there if file not in listed]
    notes = (f'{", ".join(extra)} lies in the bag\'s folder but is not listed in its '
             'metadata.yaml, and was not read',) if extra else ()
    return BagFiles(tuple(listed), folder if metadata.compression else None, metadata, notes)


def _read_metadata(path: Path) -> tuple[Metadata | None, str]:
    """metadata.yaml, or None and what is wrong with it."""
    try:
        information = yaml.safe_load(path.read_text())['rosbag2_bagfile_information']
        topics = {}
        for entry in information.get('topics_with_message_count') or ():
            topic = entry['topic_metadata']
            topics[str(topic['name'])] = (
                str(topic['type']), int(entry['message_count']),
                topic.get('offered_qos_profiles'))
        compression = str(information.get('compression_mode') or '').lower()
        # Older rosbag2 wrote paths relative to the folder above.
        files = tuple(PurePath(name).name for name in information['relative_file_paths'])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError,
            AttributeError) as error:
        return None, f'its metadata.yaml cannot be read ({type(error).__name__}: {error})'
    return Metadata(files, '' if compression == 'none' else compression, topics), ''


def _storage_file(path: Path) -> Path:
    """The file itself, where its name says that it is a storage file."""
    if path.suffix in STORAGE_SUFFIXES:
        return path
    with path.open('rb') as stream:
        head = stream.read(16)
    for magic, (what, remedy) in _KNOWN_MAGIC.items():
        if head.startswith(magic):
            raise BagError(f'bag {path}', expected='a rosbag2 folder, .mcap or .db3 file',
                           got=what, remedy=remedy)
    raise BagError(
        f'bag {path}', expected='a rosbag2 folder, .mcap or .db3 file',
        got=f'a file that begins {head!r}' if head else 'an empty file',
        remedy='Give the folder or file that ros2 bag record or robot-infer record has written.')


def _unwritten(files: tuple[Path, ...]) -> list[str]:
    """SQLite keeps the newest messages in a file beside it; readers of bags do not look there."""
    logs = [Path(f'{file}-wal') for file in files]
    return [f'{log.name} holds messages that never reached the bag ({log.stat().st_size} bytes): '
            f'they were not read; sqlite3 {log.name[:-4]} "pragma wal_checkpoint" brings them in'
            for log in logs if log.is_file() and log.stat().st_size]
