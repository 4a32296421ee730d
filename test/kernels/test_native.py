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

"""The C++ kernel in every build this processor runs: values, bits, threads, refusals.

Nothing here asks which build `auto` takes, so that a narrow build is as well tested as a wide one.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from hypothesis import given, settings
from hypothesis import strategies as st
import psutil
import pytest
import torch

from robot_infer_kernels import append_kv, paged_attention, plan_attention
from robot_infer_kernels.cpu import attention as cpu
from robot_infer_kernels.cpu import build, native
from robot_infer_kernels.pages import empty_plane

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


def runnable() -> list[str]:
    """Builds of this processor, none where nothing was built."""
    names = list(build.builds())
    try:
        lanes = native.Library(names[-1]).lanes_of_processor
    except native.NativeError:
        return []
    width = {'avx512': 16, 'avx2': 8}
    return [name for name in names if width.get(name, 4) <= lanes]


BUILDS = runnable()
needs_build = pytest.mark.skipif(
    not BUILDS, reason=f'no C++ kernel here: {native.describe()[1]}')
each_build = pytest.mark.parametrize('name', BUILDS or ['none'])
pytestmark = needs_build


@pytest.fixture
def threads():
    """Sets torch's threads, and puts them back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def run(name, q, kv, table, length, limit, scale, window=None, softcap=None, form='auto'):
    plan = plan_attention(kv, table, length, limit, q.shape[0], window)
    prepared = native.prepare(q, kv, plan, form)
    return native.Library(name).attend(q, prepared, scale, softcap)


def error_of(out, wanted):
    assert bool(torch.isfinite(out).all()), 'something that was never written was read'
    return float((out.double() - wanted.double()).norm() / wanted.double().norm())


def check(name, q, pages, limit, window=None, softcap=None, form='auto'):
    arguments = (pages.table, pages.length, limit, q.shape[2] ** -0.5, window, softcap)
    wanted = paged_attention(q.double(), pages.kv.double(), *arguments, backend='reference')
    out = run(name, q, pages.kv, *arguments, form)
    assert out.dtype == q.dtype and out.is_contiguous()
    assert error_of(out, wanted) <= TOLERANCE[q.dtype]
    return out


def lanes_fit(name, head_dim):
    return head_dim >= {'avx512': 16, 'avx2': 8}.get(name, 4)


# --- values -----------------------------------------------------------------------------------


@each_build
@pytest.mark.parametrize('form', ['few', 'many'])
@pytest.mark.parametrize('dtype', list(TOLERANCE))
@pytest.mark.parametrize('head_dim', [8, 9, 16, 31, 64, 65, 72, 80, 96, 128, 192, 256])
def test_values_of_every_head_size(make, name, form, dtype, head_dim):
    if not lanes_fit(name, head_dim):
        with pytest.raises(native.NativeError, match='small a head_dim'):
            check(name, make.normal(1, 1, head_dim), make.pages(3, 1, head_dim), 3)
        return
    for group, num_tokens in ((1, 1), (3, 2), (5, 7), (16, 1)):
        pages = make.pages(131, 2, head_dim, dtype=dtype)
        q = make.normal(num_tokens, 2 * group, head_dim, dtype=dtype)
        check(name, q, pages, 131, form=form)
        check(name, q, pages, make.limits(num_tokens, 131), 40, 7.0, form)


@each_build
@pytest.mark.parametrize('form', ['few', 'many'])
@pytest.mark.parametrize('length', [1, 3, 4, 63, 64, 65, 255, 256, 257, 700])
def test_lengths_around_tiles_and_chunks(make, name, form, length):
    for page_tokens in (1, 16, 100):
        pages = make.pages(length, 3, 24, page_tokens)
        check(name, make.normal(2, 6, 24), pages, length, form=form)
        limits = torch.tensor([1, length])
        check(name, make.normal(2, 6, 24), pages, limits, form=form)
        check(name, make.normal(2, 6, 24), pages, limits, window=2, form=form)


@each_build
@pytest.mark.parametrize('form', ['few', 'many'])
def test_whole_chunks_hidden_from_some_rows(make, name, form):
    """Their splits see no key: -inf and zeros, merged without a NaN."""
    pages = make.pages(3000, 1, 32, page_tokens=64)
    limits = torch.linspace(1, 3000, 40).long()
    for window in (None, 1, 100):
        check(name, make.normal(40, 2, 32), pages, limits, window=window, form=form)


@each_build
@pytest.mark.parametrize('rows', [1, 2, 15, 16, 17, 47, 48, 49, 200])
def test_rows_around_vectors_and_groups(make, name, rows):
    pages = make.pages(300, 2, 128)
    limits = make.limits(rows, 300).sort().values
    check(name, make.normal(rows, 2, 128), pages, limits)


@each_build
@pytest.mark.parametrize('form', ['few', 'many'])
@pytest.mark.parametrize('dtype', list(TOLERANCE))
@pytest.mark.parametrize('head_dim', [20, 64, 128])
def test_int8_pages_equal_the_reference_on_what_they_hold(make, name, form, dtype, head_dim):
    kv = empty_plane((2, 12, 16, 2, head_dim), 'int8')
    kv.poison()
    table, length = torch.tensor([7, 2, 9, 0, 11]), 75
    slots = (table[:, None] * 16 + torch.arange(16)).flatten()[:length]
    append_kv(make.normal(length, 2, head_dim), make.normal(length, 2, head_dim), kv, slots)
    for num_tokens, limit in ((1, 75), (5, make.limits(5, 75)), (20, make.limits(20, 75))):
        q = make.normal(num_tokens, 6, head_dim, dtype=dtype)
        for softcap in (None, 5.0):
            arguments = (table, length, limit, 0.2, None, softcap)
            wanted = paged_attention(q.double(), kv, *arguments, backend='reference')
            assert error_of(run(name, q, kv, *arguments, form), wanted) <= TOLERANCE[dtype]


@needs_build
@given(data=st.data())
@settings(deadline=None, max_examples=120)
def test_drawn_shapes(make_from, data):
    draw = data.draw
    make = make_from(draw(st.integers(0, 2**31)))
    name, dtype = draw(st.sampled_from(BUILDS)), draw(st.sampled_from(list(TOLERANCE)))
    length, head_dim = draw(st.integers(1, 400)), draw(st.integers(16, 256))
    num_kv_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 16))
    num_tokens = draw(st.integers(1, 12))
    pages = make.pages(length, num_kv_heads, head_dim, draw(st.integers(1, 130)), True, dtype)
    q = make.normal(num_tokens, num_kv_heads * group, head_dim, dtype=dtype)
    limit = draw(st.one_of(st.integers(1, length), st.just(make.limits(num_tokens, length))))
    check(name, q, pages, limit, draw(st.one_of(st.none(), st.integers(1, 450))),
          draw(st.one_of(st.none(), st.floats(0.5, 100.0))),
          draw(st.sampled_from(list(native.FORMS))))


@each_build
@pytest.mark.parametrize('form', ['few', 'many'])
def test_peaks_and_tiny_scores(make, name, form):
    """One key takes all, or all alike; capped scores keep their digits near zero."""
    pages = make.pages(200, 2, 64)
    for factor, softcap in ((100.0, None), (1e-4, None), (100.0, 50.0), (1e-3, 50.0)):
        check(name, factor * make.normal(3, 4, 64), pages, 200, softcap=softcap, form=form)


@each_build
@pytest.mark.parametrize('form', ['few', 'many'])
@pytest.mark.parametrize('side', [0, 1])
def test_a_valid_nan_is_not_hidden(make, name, form, side):
    pages = make.pages(70, 1, 32)
    block, offset = divmod(50, 16)
    pages.kv[side, pages.table[block], offset, 0, 5] = float('nan')
    out = run(name, make.normal(2, 2, 32), pages.kv, pages.table, 70, 70, 0.2, form=form)
    assert bool(torch.isnan(out[..., 5] if side else out).all())


# --- bits -------------------------------------------------------------------------------------


@each_build
@pytest.mark.parametrize('dtype', list(TOLERANCE))
@pytest.mark.parametrize('rows', [1, 3, 50])
def test_bits_do_not_depend_on_pages(make, put, name, dtype, rows):
    """Neither on where blocks lie nor on how large they are."""
    length = 600
    keys, values = make.normal(2, length, 5, 64, dtype=dtype)
    q, limits = make.normal(rows, 15, 64, dtype=dtype), make.limits(rows, length)
    outs = []
    for page_tokens in (8, 64, 200):
        blocks = -(-length // page_tokens)
        for order in (list(range(blocks)), list(range(blocks, 0, -1)),
                      [2 * block for block in range(blocks)]):
            pages = put(keys, values, page_tokens, order, 2 * blocks + 1)
            outs.append(run(name, q, pages.kv, pages.table, length, limits, 0.1))
    assert all(torch.equal(outs[0], out) for out in outs[1:])


@each_build
@pytest.mark.parametrize('rows', [1, 2, 50])
def test_bits_do_not_depend_on_threads(make, threads, name, rows):
    pages = make.pages(2000, 5, 64, page_tokens=64)
    q = make.normal(rows, 15, 64)
    outs = []
    for count in (1, 2, 3, 7, 2):
        threads(count)
        outs.append(run(name, q, pages.kv, pages.table, 2000, 2000, 0.1))
    assert all(torch.equal(outs[0], out) for out in outs[1:])


@each_build
def test_calls_from_several_threads_at_once(make, threads, name):
    threads(2)
    pages = make.pages(1500, 4, 64, page_tokens=64)
    queries = [make.normal(rows, 8, 64) for rows in (1, 50, 2, 30)]
    plans = [plan_attention(pages.kv, pages.table, 1500, 1500, q.shape[0]) for q in queries]
    library = native.Library(name)
    prepared = [native.prepare(q, pages.kv, plan) for q, plan in zip(queries, plans)]
    wanted = [library.attend(q, each, 0.1, None) for q, each in zip(queries, prepared)]
    wrong = []

    def work(number):
        for _ in range(20):
            out = library.attend(queries[number], prepared[number], 0.1, None)
            if not torch.equal(out, wanted[number]):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@each_build
def test_views_of_planes_and_queries(make, name):
    """A plane with gaps between tokens and heads; queries inside a fused projection."""
    whole = make.normal(2, 9, 20, 6, 40)
    kv, fused = whole[:, 1:8, :16, 1:4, :32], make.normal(9, 6 + 3 + 3, 32)
    table = torch.tensor([5, 0, 3])
    for q in (fused[:, :6], fused[:1, :6], fused.transpose(0, 1)[:9, :6],
              make.normal(9, 32, 6).transpose(1, 2)):
        arguments = (table, 45, 45, 0.2)
        wanted = paged_attention(q.double(), kv.double(), *arguments, backend='reference')
        assert error_of(run(name, q, kv, *arguments), wanted) <= 1e-5


# --- living in a process ----------------------------------------------------------------------


def test_the_lock_of_python_is_free_during_a_call(make):
    """With turns of an hour, another thread runs only where a call lets it."""
    pages = make.pages(4096, 8, 128, page_tokens=64)
    q, state = make.normal(64, 32, 128), {'inside': False, 'seen': False}
    plan = plan_attention(pages.kv, pages.table, 4096, 4096, 64)
    prepared, library = native.prepare(q, pages.kv, plan), native.Library(BUILDS[0])

    def work():
        state['inside'] = True
        library.attend(q, prepared, 0.1, None)
        state['inside'] = False

    before = sys.getswitchinterval()
    sys.setswitchinterval(3600.0)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        while worker.is_alive() and not state['seen']:
            state['seen'] = state['inside']
            time.sleep(0)
        worker.join()
    finally:
        sys.setswitchinterval(before)
    assert state['seen']


def test_memory_does_not_grow(make):
    pages = make.pages(1000, 5, 64, page_tokens=64)
    queries = [make.normal(rows, 15, 64) for rows in (1, 50)]
    library = native.Library(BUILDS[0])
    plans = [plan_attention(pages.kv, pages.table, 1000, 1000, q.shape[0]) for q in queries]
    prepared = [native.prepare(q, pages.kv, plan) for q, plan in zip(queries, plans)]

    def calls(count):
        for _ in range(count):
            for q, each in zip(queries, prepared):
                library.attend(q, each, 0.1, None)
        return psutil.Process().memory_info().rss

    before = calls(20)
    assert calls(300) - before < 1 << 20


def test_every_attention_of_these_types_takes_the_kernel(make, monkeypatch):
    taken = []
    attend = native.Library.attend
    monkeypatch.setattr(native.Library, 'attend',
                        lambda self, *rest: taken.append(self.name) or attend(self, *rest))
    for dtype in TOLERANCE:
        for head_dim in (8, 64):
            pages = make.pages(20, 2, head_dim, dtype=dtype)
            q = make.normal(3, 4, head_dim, dtype=dtype)
            paged_attention(q, pages.kv, pages.table, 20, 20, 1.0)
    half = make.pages(20, 2, 64, dtype=torch.float16)
    paged_attention(make.normal(3, 4, 64, dtype=torch.float16), half.kv, half.table, 20, 20, 1.0)
    assert len(taken) == 4


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize('dtype', [*TOLERANCE, 'int8'])
def test_without_a_library_torch_does_the_same(make, monkeypatch, dtype):
    pages = make.pages(100, 2, 64)
    kv, q = pages.kv, make.normal(5, 4, 64)
    if dtype == 'int8':
        kv = empty_plane(kv.shape, 'int8')
        slots = (pages.table[:, None] * 16 + torch.arange(16)).flatten()[:100]
        append_kv(pages.keys, pages.values, kv, slots)
    else:
        kv, q = kv.to(dtype), q.to(dtype)
    arguments = (kv, pages.table, 100, make.limits(5, 100), 0.1)
    by_kernel = paged_attention(q, *arguments)
    with monkeypatch.context() as patch:
        patch.setattr(native, 'for_head_dim', lambda head_dim: None)
        by_torch = paged_attention(q, *arguments)
    plan = plan_attention(kv, *arguments[1:4], 5)
    assert torch.equal(by_torch, cpu.attend_in_torch(q, kv, plan, 0.1, None))
    assert error_of(by_kernel, by_torch) <= (1e-2 if dtype == torch.bfloat16 else 1e-5)


def test_a_missing_library_is_said(tmp_path):
    with pytest.raises(native.NativeError, match='_attend_avx2.so was not built'):
        native.Library('avx2', tmp_path)


def test_a_library_of_another_machine_is_said(tmp_path):
    (tmp_path / build.file_name('avx2')).write_bytes(b'\x7fELF of something else')
    with pytest.raises(native.NativeError, match='not for this machine'):
        native.Library('avx2', tmp_path)


@pytest.mark.parametrize('exports,why', [
    ('unsigned long long attend_version(void) { return 1; }', 'other sources'),
    ('int attend(void) { return 0; }', 'not for this machine')])
def test_a_library_of_other_sources_is_refused(tmp_path, exports, why):
    if not build.find_compiler():
        pytest.skip('no C++ compiler to make such a library with')
    source = tmp_path / 'other.cpp'
    source.write_text(f'extern "C" {{ {exports} }}')
    subprocess.run([build.find_compiler(), '-shared', '-fPIC', source, '-o',
                    tmp_path / build.file_name('avx2')], check=True)
    with pytest.raises(native.NativeError, match=why):
        native.Library('avx2', tmp_path)


@pytest.mark.parametrize('lanes,name', [(4, 'sse2'), (8, 'avx2'), (16, 'avx512')])
def test_an_older_processor_gets_a_narrower_build(monkeypatch, lanes, name):
    if name not in BUILDS:
        pytest.skip(f'this processor has no {name}')
    library = native.Library

    def on_older(build_name):
        found = library(build_name)
        found.lanes_of_processor = lanes
        return found

    monkeypatch.setattr(native, 'Library', on_older)
    assert native._search.__wrapped__()[0].name == name


def test_the_environment_chooses(monkeypatch):
    monkeypatch.setenv('ROBOT_INFER_NATIVE', '0')
    assert native._search.__wrapped__() == (None, 'ROBOT_INFER_NATIVE=0')
    monkeypatch.setenv('ROBOT_INFER_NATIVE', BUILDS[-1])
    assert native._search.__wrapped__()[0].name == BUILDS[-1]
    monkeypatch.setenv('ROBOT_INFER_NATIVE', 'mmx')
    assert 'expected 0, 1 or one of' in native._search.__wrapped__()[1]


def test_without_a_compiler_nothing_is_built_and_nothing_old_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('CXX', 'no-such-compiler')
    old = tmp_path / build.file_name(next(iter(build.builds())))
    old.write_bytes(b'of last year')
    outcomes = build.build_all(tmp_path)
    assert not list(tmp_path.iterdir())
    assert all('no C++ compiler' in outcome.error for outcome in outcomes)
    build.report(outcomes)
    assert 'torch alone' in capsys.readouterr().err


def test_a_compiler_that_fails_is_quoted(tmp_path, monkeypatch):
    fails = tmp_path / 'fails'
    fails.write_text('#!/bin/sh\necho cannot do this >&2\nexit 3\n')
    fails.chmod(0o755)
    outcomes = build.build_all(tmp_path / 'made', str(fails))
    assert [outcome.error for outcome in outcomes] == ['cannot do this'] * len(build.builds())
    assert not list((tmp_path / 'made').iterdir())
