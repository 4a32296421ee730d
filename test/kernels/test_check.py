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

"""The check before deployment: kernels are compiled for chips that are not here, and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from pathlib import Path
import subprocess
import sys

import pytest

from robot_infer_kernels.gpu import check as checking
from robot_infer_kernels.gpu.cases import Shape
from robot_infer_kernels.gpu.check import Result, check
from robot_infer_kernels.gpu.targets import TARGETS

SMALL = Path(__file__).parent / 'small_kernels.py'
SHAPE = Shape('none', 1, 1, 16)

pytestmark = pytest.mark.skipif(checking.triton_version() is None, reason=(
    f'triton is not installed: {checking.HOW_TO_GET_TRITON}'))


@pytest.fixture(scope='module')
def kept(tmp_path_factory) -> Path:
    """A folder for compiled kernels that is empty at first."""
    return tmp_path_factory.mktemp('triton')


@pytest.fixture(scope='module')
def compiled(kept) -> Iterator[Callable[..., list[Result]]]:
    """Check small kernels for capabilities."""
    def run(cases: str, *capabilities: int) -> list[Result]:
        return check([TARGETS[each] for each in capabilities], [SHAPE], jobs=1,
                     cases=f'{SMALL}:{cases}')

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('TRITON_CACHE_DIR', str(kept))
        yield run


@pytest.fixture(scope='module')
def good(compiled) -> list[Result]:
    """Kernels that may be deployed, for three generations of chips."""
    return compiled('good', 87, 90, 100)


def test_a_kernel_that_fits_is_ok_and_its_figures_are_told(good):
    product, copy = (result for result in good if result.target == 'sm_90')
    assert (product.kernel, product.state) == ('product', 'ok')
    assert product.cases == ('product and copy', 'product fp8')  # the same code twice is one line
    figures = product.figures
    assert 0 < figures['registers'] < 256 and figures['spill_bytes'] == 0
    assert figures['shared_bytes'] >= 2 * 64 * 64 * 2
    assert figures['wide_loads'] == figures['loads'] > 0
    assert figures['blocks'] > 1 and figures['bound'] in ('registers', 'shared memory')
    assert copy.kernel == 'copy' and copy.figures['shared_bytes'] == 0


def test_each_generation_has_its_own_matrix_instruction(good):
    kinds = {result.target: [name for name in ('mma', 'wgmma', 'tcgen05') if result.figures[name]]
             for result in good if result.kernel == 'product'}
    assert kinds == {'sm_87': ['mma'], 'sm_90': ['wgmma'], 'sm_100': ['tcgen05']}


def test_fp8_is_not_offered_on_orin_and_the_words_say_why(good):
    refused, = (result for result in good if result.state == 'not offered')
    assert (refused.target, refused.case, refused.failed) == ('sm_87', 'product fp8', False)
    assert 'sm_87 (Jetson Orin)' in refused.words and 'sm_89' in refused.words
    assert 'int8' in refused.words


def test_figures_are_the_same_where_only_the_binary_was_kept(compiled, good, kept):
    """Nothing is compiled; ptxas runs once more for its words, with Triton's own options."""
    for log in (kept / 'ptxas').glob('*.log'):
        log.unlink()
    assert compiled('good', 87, 90, 100) == good


def test_each_thing_that_can_be_wrong_is_named_and_the_rest_is_still_checked(compiled):
    found = {result.case: result for result in compiled('bad', 87)}
    states = {case: result.state for case, result in found.items()}
    assert states == {
        'too big': 'does not fit', 'spilling': 'spills', 'refusing': 'does not compile',
        'crashing': 'does not compile', 'no launch': 'does not compile', 'still asked': 'ok'}
    assert '166912' in found['too big'].words
    assert 'bytes a thread' in found['spilling'].words
    assert 'N must be nothing' in found['refusing'].words
    assert 'ended by SIGABRT' in found['crashing'].words
    assert 'nothing was launched' in found['no launch'].words
    assert [case for case, result in found.items() if not result.failed] == ['still asked']


def test_a_process_that_is_ended_from_outside_is_not_started_again(compiled):
    before, rest = compiled('ended', 87)
    assert (before.case, before.state) == ('before', 'ok')
    assert rest.failed and rest.case == 'the rest' and 'ended by SIGTERM' in rest.words


def test_after_an_interrupt_nothing_more_is_begun(kept, monkeypatch):
    monkeypatch.setenv('TRITON_CACHE_DIR', str(kept))
    seen: list[Result] = []

    def interrupted(result: Result) -> None:
        seen.append(result)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check([TARGETS[each] for each in (87, 89, 90)], [SHAPE], jobs=1, cases=f'{SMALL}:good',
              progress=interrupted)
    assert len(seen) == 1


def test_hints_are_those_of_the_arguments_and_chips_may_be_done_at_the_same_time(
        monkeypatch, tmp_path):
    """One operand off by an element: no load of 16 bytes is left (the launcher saw it)."""
    monkeypatch.setenv('TRITON_CACHE_DIR', str(tmp_path))
    seen: list[Result] = []
    results = check([TARGETS[each] for each in (87, 89)], [SHAPE], jobs=2,
                    cases=f'{SMALL}:skewed', progress=seen.append)
    assert [(result.target, result.case) for result in results] == [
        (target, case) for target in ('sm_87', 'sm_89') for case in ('aligned', 'skewed')]
    for result in results:
        wide = result.figures['loads'] if result.case == 'aligned' else 0
        assert result.figures['wide_loads'] == wide
    assert sorted(result.key for result in seen) == sorted(result.key for result in results)


def test_a_process_that_cannot_start_is_a_result_with_its_words(compiled):
    result, = compiled('no_such_function', 87)
    assert result.failed and 'no_such_function' in result.words


def test_without_triton_it_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(checking.importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(checking.TritonMissing, match=r'pip install .*robot_infer\[check\]'):
        check([TARGETS[87]], [SHAPE])


@pytest.mark.parametrize('variable, expected', [
    ({'TRITON_CACHE_DIR': '/x/y'}, '/x/y'),
    ({'XDG_CACHE_HOME': '{tmp}'}, '{tmp}/robot_infer/triton'),
    ({'XDG_CACHE_HOME': '/proc/none'}, '/tmp')])
def test_compiled_kernels_are_kept_where_one_may_write(monkeypatch, tmp_path, variable, expected):
    monkeypatch.delenv('TRITON_CACHE_DIR', raising=False)
    monkeypatch.setenv('TMPDIR', '/tmp')
    for name, value in variable.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    assert str(checking.cache_folder()).startswith(expected.format(tmp=tmp_path))


def test_an_integer_that_is_specialised_shows_as_a_new_compilation(kept):
    """Counting launches for a chip that is not here: 1, 2 and 16 are three kernels, 17 is none."""
    program = f'''
import sys; sys.path.insert(0, {str(SMALL.parent)!r})
import torch
from small_kernels import shift
from robot_infer_kernels.gpu.ahead import compiling_for
x, out = torch.empty(64), torch.empty(64)
with compiling_for(87) as launches:
    for count in (1, 2, 16, 17, 32, 2, 1):
        shift[(1,)](x, out, count, 16)
print([launch.is_new for launch in launches.made])
'''
    environment = {name: value for name, value in os.environ.items() if name != 'TRITON_INTERPRET'}
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True,
                         check=True, env={**environment, 'TRITON_CACHE_DIR': str(kept)})
    assert run.stdout.strip() == '[True, True, True, False, False, False, False]'


def test_in_the_interpreter_nothing_can_be_compiled():
    program = ('from robot_infer_kernels.gpu.ahead import compiling_for\n'
               'with compiling_for(87): pass')
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True,
                         check=False, env={**os.environ, 'TRITON_INTERPRET': '1'})
    assert run.returncode != 0 and 'TRITON_INTERPRET: expected unset' in run.stderr
