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

"""Headers are believed only where every byte of the file is accounted for."""

from __future__ import annotations

import json
import os
from pathlib import Path
import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from robot_infer.budget.headers import dtype_bits, read_headers
from robot_infer.errors import CheckpointError

ROOT = Path(__file__).parents[2]
CHECKPOINTS = [ROOT / 'robot_infer/assets/demo_policy',
               *sorted((ROOT / 'test/golden/data').glob('*/checkpoint'))]
TWO = {'a': ('F32', [2, 3], [0, 24]), 'b': ('BF16', [4], [24, 32])}


def _file(path: Path, tensors: object, data: int = 32, length: int | None = None) -> Path:
    """A safetensors file that says what it is told to say."""
    if isinstance(tensors, dict):
        tensors = {name: entry if not isinstance(entry, tuple) else dict(
            zip(('dtype', 'shape', 'data_offsets'), entry)) for name, entry in tensors.items()}
    header = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    path.write_bytes(struct.pack('<Q', len(header) if length is None else length) + header
                     + bytes(data))
    return path


def test_names_dtypes_shapes_and_bytes_are_read(tmp_path):
    headers = read_headers(_file(tmp_path / 'x.safetensors', {'__metadata__': {'k': 'v'}, **TWO}))
    assert {name: (one.dtype, one.shape, one.num_bytes, one.num_params, one.file)
            for name, one in headers.tensors.items()} == {
        'a': ('F32', (2, 3), 24, 6, 'x.safetensors'), 'b': ('BF16', (4,), 8, 4, 'x.safetensors')}
    assert headers.num_bytes == 32


@pytest.mark.parametrize('folder', CHECKPOINTS, ids=lambda path: path.parent.name)
def test_bytes_of_a_real_checkpoint_are_those_of_its_file(folder):
    path = folder / 'model.safetensors'
    (length,) = struct.unpack('<Q', path.read_bytes()[:8])
    headers = read_headers(folder)
    assert headers.num_bytes == path.stat().st_size - 8 - length
    with safe_open(str(path), framework='numpy') as file:
        assert set(headers.tensors) == set(file.keys())
        for name, tensor in headers.tensors.items():
            assert list(tensor.shape) == file.get_slice(name).get_shape()
            assert tensor.dtype == file.get_slice(name).get_dtype()


@pytest.mark.parametrize('tensors,data,words', [
    (TWO, 31, r'32 bytes.*truncated|bytes \(truncated\)'),
    (TWO, 33, 'something behind the tensors'),
    ({'a': ('F32', [2, 3], [0, 24]), 'b': ('F32', [4], [16, 32])}, 32, 'overlapping data'),
    ({'a': ('F32', [2, 3], [0, 24]), 'b': ('F32', [2, 3], [0, 24])}, 24, 'overlapping data'),
    ({'a': ('F32', [2, 3], [0, 24]), 'b': ('F32', [1], [28, 32])}, 32, 'a hole'),
    ({'a': ('F32', [8], [4, 36])}, 36, 'a hole'),
    ({'a': ('F32', [2, 3], [0, 32])}, 32, '24 bytes, for shape'),
    ({'a': ('F32', [8], [0, 1 << 40])}, 32, '32 bytes, for shape'),
    ({'a': ('F32', [1 << 38], [0, 1 << 40])}, 32, 'truncated'),
    ({'a': ('F32', [-2, -4], [0, 32])}, 32, 'not negative'),
    ({'a': ('F32', [8.0], [0, 32])}, 32, 'whole numbers'),
    ({'a': ('F32', [True, 8], [0, 32])}, 32, 'whole numbers'),
    ({'a': ('F32', 8, [0, 32])}, 32, 'whole numbers'),
    ({'a': ('F32', [1 << 62] * 64, [0, 32])}, 32, 'a shape that a file can hold'),
    ({'a': ('F32', [1] * 65, [0, 4])}, 4, 'whole numbers'),
    ({'a': ('F31', [8], [0, 32])}, 32, "dtype 'F31'"),
    ({'a': (None, [8], [0, 32])}, 32, 'dtype None'),
    ({'a': (['F32'], [8], [0, 32])}, 32, 'dtype'),
    ({'a': ('F32', [8], [32, 0])}, 32, 'the first not above the second'),
    ({'a': ('F32', [8], [0])}, 32, 'two data_offsets'),
    ({'a': ('F32', [8], [-32, 0])}, 32, 'two data_offsets'),
    ({'a': ('F32', [8], None)}, 32, 'two data_offsets'),
    ({'a': ('F4', [3], [0, 2])}, 2, 'bytes, for shape'),
    ({'a': 7}, 0, 'dtype, shape and data_offsets'),
    ([], 0, 'a JSON object'),
    (b'', 0, 'JSON header'),
    (b'{"a": ', 0, 'JSON header'),
    (b'\xff\xfe{}', 0, 'JSON header'),
    (b'[' * 100_000, 0, 'JSON header'),
    (b'{"a": {"dtype": "F32", "shape": [' + b'9' * 5000 + b'], "data_offsets": [0, 4]}}', 4,
     'JSON header|whole numbers'),
    (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},'
     b' "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', 4, "key 'a' twice"),
])
def test_a_header_that_lies_is_refused(tmp_path, tensors, data, words):
    path = _file(tmp_path / 'x.safetensors', tensors, data)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_headers(path)
    assert str(path) in str(caught.value) and caught.value.remedy


@pytest.mark.parametrize('content', [b'', b'\0' * 7, struct.pack('<Q', 1), struct.pack(
    '<Q', 1 << 63) + b'{}', struct.pack('<Q', 100_000_001) + b'{}'])
def test_a_file_too_short_for_its_header_is_refused(tmp_path, content):
    path = tmp_path / 'x.safetensors'
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f'got .*{len(content)} bytes|header of'):
        read_headers(path)


def test_a_tensor_without_entries_has_no_bytes(tmp_path):
    path = _file(tmp_path / 'x.safetensors', {
        'a': ('F32', [2, 3], [0, 24]), 'none': ('F32', [0, 5], [24, 24]),
        'b': ('F32', [], [24, 28])}, 28)
    assert [one.num_bytes for one in read_headers(path).tensors.values()] == [24, 0, 4]


def _shards(folder: Path, index: object) -> Path:
    save_file({'a': np.zeros(4, np.float32)}, folder / 'model-1.safetensors')
    save_file({'b': np.zeros((2, 2), np.float16), 'c': np.zeros(1, np.int8)},
              folder / 'model-2.safetensors')
    (folder / 'model.safetensors.index.json').write_text(json.dumps(index))
    return folder


RIGHT = {'a': 'model-1.safetensors', 'b': 'model-2.safetensors', 'c': 'model-2.safetensors'}


def test_shards_are_read_by_their_index(tmp_path):
    # total_size is what other tools write there, not always right: the headers are what counts.
    headers = read_headers(_shards(tmp_path, {'metadata': {'total_size': 1}, 'weight_map': RIGHT}))
    assert headers.num_bytes == 16 + 8 + 1
    assert {name: one.file for name, one in headers.tensors.items()} == RIGHT


@pytest.mark.parametrize('index,words', [
    ({'weight_map': {**RIGHT, 'd': 'model-3.safetensors'}}, 'model-3.safetensors.*No such file'),
    ({'weight_map': {**RIGHT, 'd': 'model-2.safetensors'}}, 'a tensor d'),
    ({'weight_map': {'a': RIGHT['a'], 'b': RIGHT['b']}}, 'expected c in model-2.*no such tensor'),
    ({'weight_map': {**RIGHT, 'a': 'model-2.safetensors', 'x': 'model-1.safetensors'}},
     'expected a in model-1'),
    ({'weight_map': {**RIGHT, 'a': '../model-1.safetensors'}}, 'in the same folder'),
    ({'weight_map': {**RIGHT, 'a': 1}}, 'in the same folder'),
    ({'weight_map': {}}, 'tensor -> file'), ({}, 'tensor -> file'), ([], 'a JSON object')])
def test_an_index_that_lies_is_refused(tmp_path, index, words):
    with pytest.raises(CheckpointError, match=words):
        read_headers(_shards(tmp_path, index))


def test_a_truncated_shard_is_refused_by_name(tmp_path):
    _shards(tmp_path, {'weight_map': RIGHT})
    path = tmp_path / 'model-2.safetensors'
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r'model-2\.safetensors.*truncated'):
        read_headers(tmp_path)


def test_a_folder_without_safetensors_says_what_it_holds(tmp_path):
    with pytest.raises(CheckpointError, match='got neither'):
        read_headers(tmp_path)
    (tmp_path / 'pytorch_model.bin').touch()
    with pytest.raises(CheckpointError, match=r'got pytorch_model\.bin.*other formats'):
        read_headers(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r'gone\.safetensors.*No such file'):
        read_headers(tmp_path / 'gone.safetensors')


def test_a_pipe_is_not_waited_on(tmp_path):
    os.mkfifo(tmp_path / 'model.safetensors')
    with pytest.raises(CheckpointError, match='a pipe'):
        read_headers(tmp_path)


def test_tensors_are_not_read(tmp_path):
    size = 200_000_000_000  # as a file with a hole: reading it would take minutes, or fail
    path = _file(tmp_path / 'x.safetensors', {'a': ('F32', [size // 4], [0, size])}, 0)
    with open(path, 'r+b') as file:
        file.truncate(path.stat().st_size + size)
    assert read_headers(path).num_bytes == size


def test_bits_of_a_dtype():
    assert [dtype_bits(name) for name in ('F64', 'BF16', 'F8_E4M3', 'F6_E2M3', 'F4')] == [
        64, 16, 8, 6, 4]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(at=st.integers(0, 400), value=st.integers(0, 255), cut=st.integers(0, 40))
def test_what_the_safetensors_library_refuses_is_refused_here(tmp_path, at, value, cut):
    path = tmp_path / 'x.safetensors'
    save_file({'a': np.arange(6, dtype=np.float32), 'b': np.ones((2, 3), np.float16),
               'c': np.zeros((1, 1), np.int64)}, path)
    content = bytearray(path.read_bytes())
    content[at % len(content)] = value
    path.write_bytes(content[:len(content) - cut % 5])
    try:
        with safe_open(str(path), framework='numpy') as file:
            theirs = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
    except (SafetensorError, OSError):
        with pytest.raises(CheckpointError):
            read_headers(path)
        return
    try:
        ours = {name: one.shape for name, one in read_headers(path).tensors.items()}
    except CheckpointError:
        return  # stricter, e.g. about a key that stands twice
    assert ours == theirs
