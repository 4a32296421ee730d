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

"""Storage: its layout, its size, copies of blocks; and block tables."""

from __future__ import annotations

import pytest
import torch

from robot_infer.cache import BlockTable, KVStorage
from robot_infer_kernels import append_kv
from robot_infer_kernels.pages import FORMATS, read_blocks


@pytest.mark.parametrize('dtype,itemsize', [(torch.float32, 4), (torch.bfloat16, 2)])
def test_bytes_are_what_was_announced(dtype, itemsize):
    storage = KVStorage(3, 7, 16, 2, 24, dtype)
    a_block = KVStorage.bytes_per_block(3, 16, 2, 24, dtype)
    assert a_block == 3 * 2 * 16 * 2 * 24 * itemsize
    assert storage.nbytes == 7 * a_block
    assert storage.dtype == dtype and storage.device == torch.device('cpu')


def test_planes_are_contiguous_views_of_one_tensor():
    storage = KVStorage(3, 7, 16, 2, 8, torch.float32)
    starts = set()
    for number in range(3):
        plane = storage.plane(number)
        assert plane.shape == (2, 7, 16, 2, 8) and plane.is_contiguous()
        starts.add(plane.untyped_storage().data_ptr())
        plane.fill_(number)
    assert len(starts) == 1
    assert [float(storage.plane(number).unique()) for number in range(3)] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize('num_tokens', [None, 1, 3, 4])
def test_a_block_is_copied_in_all_planes_and_nowhere_else(num_tokens):
    storage = KVStorage(3, 5, 4, 2, 8, torch.float32, poison=True)
    for number in range(3):
        storage.plane(number)[:, 1] = torch.randn(2, 4, 2, 8)
    storage.copy_block(1, 3, num_tokens)
    copied = 4 if num_tokens is None else num_tokens
    for number in range(3):
        plane = storage.plane(number)
        assert torch.equal(plane[:, 3, :copied], plane[:, 1, :copied])
        assert bool(plane[:, 3, copied:].isnan().all())
        assert bool(plane[:, [0, 2, 4]].isnan().all())


def test_fresh_blocks_are_poisoned_on_request_only():
    poisoned = KVStorage(2, 3, 4, 1, 8, torch.bfloat16, poison=True)
    plain = KVStorage(2, 3, 4, 1, 8, torch.bfloat16)
    for storage in (poisoned, plain):
        storage.plane(1).fill_(1.0)
        storage.refresh([2])
        storage.refresh([])
    assert bool(poisoned.plane(1)[:, 2].isnan().all())
    assert not poisoned.plane(1)[:, :2].isnan().any()
    assert bool((plain.plane(1) == 1.0).all())


def test_a_fingerprint_changes_with_any_plane_and_not_behind_its_tokens():
    storage = KVStorage(2, 3, 4, 1, 8, torch.bfloat16)
    before = storage.fingerprint(1, 3)
    storage.plane(1)[:, 1, 3] = 5.0
    storage.plane(1)[:, 2] = 5.0
    assert storage.fingerprint(1, 3) == before
    storage.plane(1)[1, 1, 2, 0, 7] = 5.0
    assert storage.fingerprint(1, 3) != before


@pytest.mark.parametrize('name,head_bytes', [('int8', 36), ('fp8', 36), ('int4', 18)])
def test_bytes_of_quantised_pages_count_their_scales(name, head_bytes):
    storage = KVStorage(3, 7, 16, 2, 32, torch.float32, kv_format=name)
    a_block = KVStorage.bytes_per_block(3, 16, 2, 32, torch.float32, name)
    assert a_block == 3 * 2 * 16 * 2 * head_bytes and storage.nbytes == 7 * a_block
    assert storage.plane(1).shape == (2, 7, 16, 2, 32) and storage.dtype == FORMATS[name].dtype
    assert not storage.plane(2).scales.any()


@pytest.mark.parametrize('num_tokens', [None, 1, 3])
@pytest.mark.parametrize('name', FORMATS)
def test_a_quantised_block_is_copied_with_its_scales(name, num_tokens):
    storage = KVStorage(3, 5, 4, 2, 32, torch.float32, poison=True, kv_format=name)
    for number in range(3):
        append_kv(*torch.randn(2, 4, 2, 32), storage.plane(number), torch.arange(4, 8))
    storage.copy_block(1, 3, num_tokens)
    copied = 4 if num_tokens is None else num_tokens
    for number in range(3):
        source, target, *rest = (read_blocks(storage.plane(number), [block], torch.float64)[:, 0]
                                 for block in (1, 3, 0, 2, 4))
        assert torch.equal(target[:, :copied], source[:, :copied]) and source.isfinite().all()
        assert all(bool(page.isnan().all()) for page in (target[:, copied:], *rest))
    assert storage.fingerprint(1, copied) == storage.fingerprint(3, copied)


@pytest.mark.parametrize('name', FORMATS)
def test_a_fingerprint_of_a_quantised_block_changes_with_codes_and_with_scales(name):
    storage = KVStorage(2, 3, 4, 1, 32, torch.float32, kv_format=name)
    before = storage.fingerprint(1, 3)
    plane = storage.plane(1)
    plane.scales[1, 1, 3] = 1.0
    plane.raw()[1, 2] = 1
    assert storage.fingerprint(1, 3) == before
    plane.scales[1, 1, 2] = 1.0
    after = storage.fingerprint(1, 3)
    plane.raw()[0, 1, 0, 0, 5] = 1
    assert len({before, after, storage.fingerprint(1, 3)}) == 3


def test_fresh_quantised_blocks_are_poisoned_on_request_only():
    for name in FORMATS:
        poisoned, plain = (KVStorage(2, 3, 4, 1, 32, torch.float32, poison=poison, kv_format=name)
                           for poison in (True, False))
        for storage in (poisoned, plain):
            append_kv(*torch.ones(2, 12, 1, 32), storage.plane(1), torch.arange(12))
            storage.refresh([2])
            storage.refresh([])
        read = read_blocks(poisoned.plane(1), range(3), torch.float64)
        assert bool(read[:, 2].isnan().all()) and not read[:, :2].isnan().any()
        assert bool(read_blocks(plain.plane(1), range(3), torch.float64).isfinite().all())


def test_an_empty_size_is_refused():
    with pytest.raises(ValueError, match='positive sizes'):
        KVStorage(2, 0, 4, 1, 8, torch.float32)


def test_a_table_names_slots():
    table = BlockTable(5, 4, 'cpu')
    table.set(0, [7, 2])
    table.set(2, [9])
    assert table.view(3).tolist() == [7, 2, 9]
    assert table.slots(0, 12).tolist() == [28, 29, 30, 31, 8, 9, 10, 11, 36, 37, 38, 39]
    assert table.slots(3, 5).tolist() == [31, 8]
    assert table.slots(6, 6).tolist() == []
    assert table.view(3).dtype == table.slots(0, 1).dtype == torch.int64


def test_a_view_of_a_table_follows_it():
    table = BlockTable(3, 4, 'cpu')
    table.set(0, [7, 2])
    view = table.view(2)
    table.set(1, [5])
    assert view.tolist() == [7, 5]
