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

"""Names and limits of chips."""

from __future__ import annotations

import pytest

from robot_infer_kernels.gpu.targets import ALL, NAMES, TARGETS, find_targets, fp8_refusal


@pytest.mark.parametrize('text, capabilities', [
    ('orin', (87,)), ('Thor', (110,)), ('sm_87', (87,)), ('sm87', (87,)), ('87', (87,)),
    ('sm_90a', (90,)), ('orin, hopper,sm_120', (87, 90, 120)), ('orin,87,orin', (87,)),
    ('all', ALL), ('spark,all', (121, *ALL))])
def test_chips_are_found_by_every_name(text, capabilities):
    assert tuple(target.capability for target in find_targets(text)) == capabilities


@pytest.mark.parametrize('text, words', [
    ('orinn', 'Did you mean orin?'), ('', "got ''"), ('sm_75', "got 'sm_75'"),
    ('orin,', "got ''"), ('sm_101', 'Thor is sm_110'), ('87.5', "got '87.5'")])
def test_what_is_no_chip_is_refused_with_those_that_are(text, words):
    with pytest.raises(ValueError) as caught:
        find_targets(text)
    assert words in str(caught.value)
    for name in (*NAMES, 'sm_87', 'sm_121', 'all'):
        assert name in str(caught.value)


def test_fp8_begins_with_ada():
    for capability, target in TARGETS.items():
        assert ('fp8' in target.formats) == (capability >= 89) == (not fp8_refusal(capability))
        assert {'fp32', 'bf16', 'fp16', 'int8', 'int4'} <= set(target.formats)
    assert 'sm_87 (Jetson Orin)' in fp8_refusal(87) and 'int8' in fp8_refusal(87)


def test_a_block_never_gets_all_of_an_sm():
    for target in TARGETS.values():
        assert target.block_shared + 1024 == target.sm_shared
