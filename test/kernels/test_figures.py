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

"""What is read out of PTX, and how many blocks a chip can hold."""

from __future__ import annotations

import pytest

from robot_infer_kernels.gpu.check import HOW_TO_GET_TRITON
from robot_infer_kernels.gpu.targets import TARGETS

pytest.importorskip('triton', reason=f'triton is not installed: {HOW_TO_GET_TRITON}')
from robot_infer_kernels.gpu.figures import load_sizes, occupancy  # noqa: E402

PTX = '''
    @%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
    ld.global.L1::evict_last.L2::cache_hint.v2.b64 { %rd5, %rd6 }, [ %rd1 + 0 ], %rd9;
    ld.global.b16 { %rs1 }, [ %rd2 + 0 ];
    ld.global.cg.u8 { %rs1 }, [ %rd2 + 0 ];
    ld.shared.v4.b32 { %r1, %r2, %r3, %r4 }, [ %r9 ];
    cp.async.cg.shared.global [ %r10 + 0 ], [ %rd4 + 0 ], 0x10, %r11;
    cp.async.ca.shared.global [ %r10 + 0 ], [ %rd4 + 0 ], 0x4, %r11;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1];
    st.global.v4.b32 [ %rd1 + 0 ], { %r1, %r2, %r3, %r4 };
'''


def test_loads_from_global_memory_are_counted_with_their_size():
    assert sorted(load_sizes(PTX)) == [1, 2, 4, 16, 16, 16, 16]


# Of NVIDIA's occupancy calculator.
@pytest.mark.parametrize('capability, registers, warps, shared, expected', [
    (87, 128, 4, 0, (4, 'registers')), (87, 32, 4, 0, (12, 'warps')),
    (80, 32, 4, 0, (16, 'warps')), (80, 16, 1, 0, (32, 'blocks')), (87, 16, 1, 0, (16, 'blocks')),
    (87, 64, 4, 81920, (2, 'shared memory')), (89, 64, 4, 101376, (1, 'shared memory')),
    (89, 64, 4, 101377, (0, 'shared memory')), (90, 255, 8, 0, (1, 'registers')),
    (90, 255, 16, 0, (0, 'registers')), (90, 129, 4, 0, (3, 'registers'))])
def test_blocks_per_sm(capability, registers, warps, shared, expected):
    assert occupancy(registers, warps, shared, TARGETS[capability]) == expected
