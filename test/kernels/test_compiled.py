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

"""What the kernels of a SmolVLA take of each chip, and that it is not more than it was.

The figures in data/compiled.json are those of the last deliberate change; `make kernel-figures`
takes new ones. They are of every case; compiled here are those that representative.py names.

What is allowed beside them: a tenth more registers, 1 KiB more shared memory. What is not: a
spill, one block less on an SM, loads of 16 bytes that became narrow, another kind of matrix
instruction, a kernel that is gone.
"""

from __future__ import annotations

from dataclasses import replace
import json
import os
from pathlib import Path

import pytest

from robot_infer.kernel_command import as_json
from robot_infer_kernels.gpu.cases import SHAPES
from robot_infer_kernels.gpu.check import HOW_TO_GET_TRITON, Result, check, triton_version
from robot_infer_kernels.gpu.targets import ALL, TARGETS, find_targets

RECORDED = Path(__file__).parent / 'data' / 'compiled.json'
REGISTERS, SHARED_BYTES, WIDE_SHARE = 1.1, 1024, 0.02
REPRESENTATIVE = Path(__file__).parent / 'representative.py'
SHAPE = next(shape for shape in SHAPES if shape.name == 'SmolVLA')


def worse(recorded: list[dict], now: list[Result]) -> list[str]:
    """Each figure that is worse than it was beyond the tolerance, in words."""
    found = {(result.target, name, result.kernel): result
             for result in now for name in result.cases}
    words = []
    names = {name for _, name, _ in found}
    for before in recorded:
        for name in names.intersection(before['cases']):
            where = f"{before['target']}, {name}, {before['kernel']}"
            result = found.get((before['target'], name, before['kernel']))
            if result is None:
                words.append(f'{where}: was compiled, and is not any more')
            elif before['figures'] and result.figures:
                words += [f'{where}: {word}' for word in _worse(before['figures'],
                                                                result.figures)]
    return sorted(set(words))


def _worse(before: dict, now: dict) -> list[str]:
    words = []
    if now['registers'] > REGISTERS * before['registers']:
        words.append(f"{now['registers']} registers, were {before['registers']}")
    if now['shared_bytes'] > before['shared_bytes'] + SHARED_BYTES:
        words.append(f"{now['shared_bytes']} bytes of shared memory, were "
                     f"{before['shared_bytes']}")
    if now['spill_bytes'] > before['spill_bytes']:
        words.append(f"{now['spill_bytes']} bytes spilled, were {before['spill_bytes']}")
    if now['blocks'] < before['blocks']:
        words.append(f"{now['blocks']} blocks on an SM, were {before['blocks']}")
    shares = [each['wide_bytes'] / max(1, each['loaded_bytes']) for each in (before, now)]
    if shares[1] < shares[0] - WIDE_SHARE:
        words.append(f'{shares[1]:.0%} of the bytes by loads of 16 bytes, were {shares[0]:.0%}')
    kinds = [[kind for kind in ('mma', 'wgmma', 'tcgen05') if each[kind]]
             for each in (before, now)]
    if kinds[0] != kinds[1]:
        words.append(f'matrix instructions {kinds[1]}, were {kinds[0]}')
    return words


@pytest.fixture(scope='module')
def compiled(pytestconfig) -> list[Result]:
    """Every kernel of the shape for every chip; compiled once, then kept by pytest's cache."""
    if triton_version() is None:
        pytest.skip(f'triton is not installed: {HOW_TO_GET_TRITON}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('TRITON_CACHE_DIR', str(pytestconfig.cache.mkdir('triton')))
        return check(find_targets('all'), [SHAPE], jobs=os.cpu_count() or 1,
                     cases=f'{REPRESENTATIVE}:cases')


@pytest.fixture(scope='module')
def recorded() -> dict:
    """What was committed."""
    return json.loads(RECORDED.read_text())


def test_every_kernel_fits_every_chip_without_a_spill(compiled):
    assert {result.target for result in compiled} == {TARGETS[each].name for each in ALL}
    assert [f'{result.target}, {result.case}, {result.kernel}: {result.state}: {result.words}'
            for result in compiled if result.failed] == []
    for result in compiled:
        if result.figures:
            assert result.figures['spill_bytes'] == 0
            assert result.figures['shared_bytes'] <= find_targets(result.target)[0].block_shared


def test_keys_and_values_come_by_loads_of_16_bytes(compiled):
    """Codes of int8, fp8 and int4 too; their scales, page numbers and limits are narrower."""
    attention = [result for result in compiled if result.kernel in ('decode', 'prefill')]
    assert len({result.target for result in attention}) == len(ALL)
    for result in attention:
        figures = result.figures
        assert figures['wide_loads'] > 0, result
        if 'pages' not in result.case:
            assert figures['wide_bytes'] > 0.5 * figures['loaded_bytes'], result


def test_only_fp8_on_chips_before_ada_is_not_offered(compiled):
    refused = [result for result in compiled if result.state == 'not offered']
    assert {result.target for result in refused} <= {'sm_80', 'sm_87'}
    assert all('fp8' in result.case and 'int8' in result.words for result in refused)


def test_nothing_takes_more_than_it_did(compiled, recorded):
    if triton_version() != recorded['triton']:
        pytest.skip(f"the figures are of triton {recorded['triton']}; this is {triton_version()}")
    assert worse(recorded['results'], compiled) == []


def test_every_kernel_is_recorded(compiled, recorded):
    """A new kernel has no figures to be held against until they are taken."""
    known = {(each['target'], name, each['kernel'])
             for each in recorded['results'] for name in each['cases']}
    now = {(result.target, name, result.kernel) for result in compiled for name in result.cases}
    assert sorted(now - known) == []


def _result(**figures: int) -> Result:
    usual = {'registers': 100, 'spill_bytes': 0, 'shared_bytes': 4096, 'warps': 4, 'stages': 3,
             'mma': 8, 'wgmma': 0, 'tcgen05': 0, 'wide_loads': 8, 'loads': 12, 'wide_bytes': 128,
             'loaded_bytes': 144, 'blocks': 4, 'bound': 'registers'}
    return Result('sm_87', 'SmolVLA', ('decode', 'suffix'), 'decode', 'ok', '',
                  {**usual, **figures})


@pytest.mark.parametrize('change, words', [
    ({'registers': 111}, '111 registers, were 100'),
    ({'shared_bytes': 6000}, '6000 bytes of shared memory, were 4096'),
    ({'spill_bytes': 8}, '8 bytes spilled, were 0'), ({'blocks': 3}, '3 blocks on an SM, were 4'),
    ({'wide_bytes': 64}, '44% of the bytes by loads of 16 bytes, were 89%'),
    ({'mma': 0, 'wgmma': 8}, "matrix instructions ['wgmma'], were ['mma']")])
def test_each_figure_that_gets_worse_is_named(change, words):
    recorded = json.loads(as_json([], [_result()]))['results']
    assert worse(recorded, [_result(**change)]) == [
        f'sm_87, {name}, decode: {words}' for name in ('decode', 'suffix')]


@pytest.mark.parametrize('change', [
    {}, {'registers': 110}, {'registers': 40}, {'shared_bytes': 5120}, {'blocks': 5},
    {'mma': 16}, {'wide_bytes': 144}])
def test_what_is_within_the_tolerance_or_better_passes(change):
    recorded = json.loads(as_json([], [_result()]))['results']
    assert worse(recorded, [_result(**change)]) == []


def test_a_kernel_that_is_gone_is_named():
    recorded = json.loads(as_json([], [_result()]))['results']
    assert worse(recorded, [replace(_result(), kernel='other')]) == [
        f'sm_87, {name}, decode: was compiled, and is not any more'
        for name in ('decode', 'suffix')]


def test_what_was_not_compiled_here_is_not_missed():
    recorded = json.loads(as_json([], [replace(_result(), cases=('any length',))]))['results']
    assert worse(recorded, [_result()]) == []
