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

"""The headers of safetensors files: names, dtypes, shapes and bytes; no tensor is loaded.

    8 bytes     length of the header, little-endian
    header      JSON: name -> dtype, shape, data_offsets; and __metadata__
    data        the tensors, without a hole, to the end of the file

A header is believed only where every byte of the file is accounted for. What a model is made of
is not judged here (shapes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import json
import math
import os
from pathlib import Path
import reprlib
import struct
from typing import Any, TypeGuard

from robot_infer.errors import CheckpointError

# The format's own limit (huggingface/safetensors, README: "up to 100MB").
_MOST_HEADER = 100_000_000
_MOST_DIMS, _MOST_SIZE = 64, 1 << 62
_BITS = {
    'F4': 4, 'F6_E2M3': 6, 'F6_E3M2': 6,
    'BOOL': 8, 'U8': 8, 'I8': 8, 'F8_E4M3': 8, 'F8_E5M2': 8, 'F8_E8M0': 8,
    'U16': 16, 'I16': 16, 'F16': 16, 'BF16': 16,
    'U32': 32, 'I32': 32, 'F32': 32,
    'U64': 64, 'I64': 64, 'F64': 64, 'C64': 64,
}
_INDEX, _SINGLE = 'model.safetensors.index.json', 'model.safetensors'
_COPY = 'Copy the file again from its source.'


@dataclass(frozen=True)
class TensorHeader:
    """One tensor, as its file's header describes it.

    :param dtype: as safetensors names it, e.g. BF16.
    :param file: name of the file that holds it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    file: str = ''

    @property
    def num_params(self) -> int:
        """Entries."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Headers:
    """All tensors of a checkpoint, by name."""

    path: Path
    tensors: Mapping[str, TensorHeader]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Their shapes, by name."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())


def dtype_bits(dtype: str) -> int:
    """Bits of one entry of a safetensors dtype.

    :raises KeyError: where there is no such dtype.
    """
    return _BITS[dtype]


def read_headers(path: Path | str) -> Headers:
    """Read the headers of one safetensors file, or of all that a checkpoint folder loads.

    A folder holds model.safetensors, or model.safetensors.index.json and the shards it names.

    :raises CheckpointError: where a file is missing or truncated, or a header cannot be true.
    """
    path = Path(path)
    if not path.is_dir():
        return Headers(path, {tensor.name: tensor for tensor in _read_file(path)})
    if (path / _SINGLE).exists():
        return Headers(path, {tensor.name: tensor for tensor in _read_file(path / _SINGLE)})
    if (path / _INDEX).exists():
        return Headers(path, _read_shards(path))
    others = sorted(item.name for item in path.iterdir()
                    if item.suffix in ('.bin', '.pt', '.pth', '.gguf', '.safetensors'))
    raise CheckpointError(
        f'checkpoint {path}', expected=f'{_SINGLE}, or {_INDEX} and its shards',
        got=', '.join(others[:3]) if others else 'neither',
        remedy='Copy the whole checkpoint folder; weights in other formats are not read.')


def read_json_file(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint.

    :raises CheckpointError: where it cannot be read, or is no JSON object.
    """
    subject = f'checkpoint file {path}'
    _refuse_special(path, subject)
    try:
        with open(path, 'rb') as file:
            content = file.read(_MOST_HEADER + 1)
    except OSError as error:
        raise CheckpointError(
            subject, expected='a readable file', got=error.strerror or str(error),
            remedy='Copy the whole checkpoint folder.') from error
    if len(content) > _MOST_HEADER:
        raise _lie(subject, f'at most {_MOST_HEADER} bytes of JSON', 'more')
    return _parse(content, subject)


def _read_shards(folder: Path) -> dict[str, TensorHeader]:
    index = read_json_file(folder / _INDEX)
    where = index.get('weight_map')
    subject = f'weight_map in {folder / _INDEX}'
    if not isinstance(where, dict) or not where:
        raise CheckpointError(subject, expected='an object: tensor -> file',
                              got=reprlib.repr(where), remedy=_COPY)
    for file in where.values():
        if not isinstance(file, str) or Path(file).name != file:
            raise CheckpointError(subject, expected='names of files in the same folder',
                                  got=reprlib.repr(file), remedy=_COPY)
    tensors: dict[str, TensorHeader] = {}
    for file in sorted(set(where.values())):
        for tensor in _read_file(folder / file):
            if where.get(tensor.name) != file:
                raise CheckpointError(
                    subject, expected=f'{tensor.name} in {file}, which holds it',
                    got=reprlib.repr(where.get(tensor.name, 'no such tensor')),
                    remedy='The index and its shards do not belong together; copy the folder '
                    'again.')
            tensors[tensor.name] = tensor
    missing = sorted(set(where) - set(tensors))
    if missing:
        raise CheckpointError(
            f'weights {folder / where[missing[0]]}', expected=f'a tensor {missing[0]}, as '
            f'{_INDEX} says', got=f'{len(missing)} tensor(s) of the index in no shard',
            remedy='Copy the folder again.')
    return tensors


def _read_file(path: Path) -> list[TensorHeader]:
    """The tensors of one file, in the order of their bytes."""
    subject = f'weights {path}'
    _refuse_special(path, subject)
    try:
        with open(path, 'rb') as file:
            size = os.fstat(file.fileno()).st_size
            length = _header_length(file.read(8), size, subject)
            content = file.read(length)
    except OSError as error:
        raise CheckpointError(
            subject, expected='a readable safetensors file', got=error.strerror or str(error),
            remedy='Copy the whole checkpoint folder.') from error
    if len(content) != length:
        raise _lie(subject, f'a header of {length} bytes', f'{len(content)} bytes')
    entries = _parse(content, subject)
    entries.pop('__metadata__', None)
    spans = sorted((_tensor(name, entry, path) for name, entry in entries.items()),
                   key=lambda pair: pair[:2])
    at = 0
    for begin, end, tensor in spans:
        if begin != at:
            raise _lie(f'tensor {tensor.name} in {path}',
                       f'data from byte {at} on, where the tensor before it ends',
                       f'{"overlapping data" if begin < at else "a hole"}: from byte {begin} on')
        at = end
    if 8 + length + at != size:
        what = 'truncated' if size < 8 + length + at else 'something behind the tensors'
        raise _lie(subject, f'{8 + length + at} bytes, as the header says',
                   f'{size} bytes ({what})')
    return [tensor for _, _, tensor in spans]


def _refuse_special(path: Path, subject: str) -> None:
    """Refuse a pipe or a device, which a read could wait on for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CheckpointError(subject, expected='a file', got='a pipe, socket or device',
                              remedy='Copy the whole checkpoint folder.')


def _header_length(prefix: bytes, size: int, subject: str) -> int:
    if len(prefix) < 8:
        raise _lie(subject, 'a safetensors file, which begins with 8 bytes of length',
                   f'{size} bytes')
    (length,) = struct.unpack('<Q', prefix)
    if length > min(size - 8, _MOST_HEADER):
        raise _lie(subject, f'a header of at most {min(size - 8, _MOST_HEADER)} bytes (of a '
                   f'file of {size})', f'a header of {length} bytes')
    return int(length)


def _tensor(name: str, entry: object, path: Path) -> tuple[int, int, TensorHeader]:
    """First byte, byte behind the last, and the tensor."""
    subject = f'tensor {name} in {path}'
    if not isinstance(entry, dict):
        raise _lie(subject, 'dtype, shape and data_offsets', reprlib.repr(entry))
    dtype, shape, offsets = (entry.get(key) for key in ('dtype', 'shape', 'data_offsets'))
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise _lie(subject, f'a dtype of {", ".join(_BITS)}', f'dtype {dtype!r}')
    if not _are_sizes(shape) or len(shape) > _MOST_DIMS:
        raise _lie(subject, 'a shape of whole numbers that are not negative',
                   f'shape {reprlib.repr(shape)}')
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _lie(subject, 'two data_offsets, the first not above the second',
                   f'data_offsets {reprlib.repr(offsets)}')
    bits = math.prod(shape) * _BITS[dtype]
    begin, end = offsets
    if bits != 8 * (end - begin):
        raise _lie(subject, f'{bits / 8:.0f} bytes, for shape {tuple(shape)} in {dtype}'
                   if bits < 1 << 1000 else 'a shape that a file can hold',
                   f'{end - begin} bytes')
    return begin, end, TensorHeader(name, dtype, tuple(shape), end - begin, path.name)


def _are_sizes(values: object) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value <= _MOST_SIZE for value in values)


def _parse(content: bytes, subject: str) -> dict[str, Any]:
    try:
        values = json.loads(content.decode('utf-8'), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(subject, expected='a JSON header' if subject.startswith('weights')
                              else 'JSON', got=str(error), remedy=_COPY) from error
    if not isinstance(values, dict):
        raise CheckpointError(subject, expected='a JSON object', got=type(values).__name__,
                              remedy=_COPY)
    return values


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f'the key {name!r} twice')
        values[name] = value
    return values


def _lie(subject: str, expected: str, got: str) -> CheckpointError:
    return CheckpointError(subject, expected=expected, got=got, remedy=_COPY)
