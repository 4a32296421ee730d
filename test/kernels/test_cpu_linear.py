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


"""Projections in 8 and 4 bits: their definition in float64, sizes, fall-backs, and traps."""

from __future__ import annotations

import functools

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from robot_infer_kernels.cpu import linear
from robot_infer_kernels.cpu.linear import (
    GROUP,
    Int4Linear,
    Int8Linear,
    Scratch,
    quantise_int4,
    quantise_int8,
    unfit,
    why_not,
)

KINDS = {'int8': Int8Linear, 'int4': Int4Linear}
needs = {form: pytest.param(form, marks=pytest.mark.skipif(
    bool(why_not(form)), reason=f'{form} weights: {why_not(form)}')) for form in KINDS}
each_form = pytest.mark.parametrize('form', list(needs.values()))


def stands_for(form: str, weight: torch.Tensor) -> torch.Tensor:
    """What a quantised weight means, from codes, scales and zeros: float64."""
    if form == 'int8':
        codes, scales = quantise_int8(weight)
        return codes.double() * scales.double()[:, None]
    codes, scales, zeros = quantise_int4(weight)
    wide = [part.double().repeat_interleave(GROUP, dim=1) for part in (scales, zeros)]
    return (codes.double() - 8) * wide[0] + wide[1]


def one_way(project, unpack: bool):
    """The projection, made to take one of its two ways whatever the rows; int4 has one only."""
    project._unpack_from = 0 if unpack else 1 << 30
    return project


def check(form: str, weight, bias, x, got) -> None:
    """One rounding of the sum to bfloat16 (2^-8 of it), and what float32 loses in summing."""
    rounded, meant = x.bfloat16().double(), stands_for(form, weight)
    wanted = rounded @ meant.t()
    summed = rounded.abs() @ meant.abs().t()
    allowed = 1.01 * 2.0 ** -8 * wanted.abs() + 2.0 ** -20 * summed + 1e-30
    off = (got.double() - wanted - (0.0 if bias is None else bias.double())).abs()
    if bias is not None:
        allowed = allowed + 2.0 ** -23 * (wanted.abs() + bias.double().abs())
    assert (off <= allowed).all(), (off / allowed).max()


# --- the definition -----------------------------------------------------------------------------

def test_int8_codes_are_the_nearest_and_reach_the_end_of_their_range(make):
    weight = make.normal(40, 64) * make.normal(40, 1).exp()
    codes, scales = quantise_int8(weight)
    assert codes.dtype == torch.int8 and scales.dtype == torch.bfloat16
    step = scales.double()[:, None]
    off = (weight.double() - codes.double() * step).abs() / step
    # Of a scale that bfloat16 rounded (by 2^-8 at most), 127 may miss the largest by half a step.
    assert off.max() <= 0.5 + 127 / 256 and (off <= 0.5 + 1e-4).double().mean() > 0.98
    assert ((codes.abs() >= 126).sum(1) >= 1).all() and codes.min() >= -127


def test_int4_codes_are_the_nearest_and_use_both_ends(make):
    weight = make.normal(32, 96)
    codes, scales, zeros = quantise_int4(weight)
    assert codes.dtype == torch.int32 and scales.shape == zeros.shape == (32, 3)
    grouped = codes.unflatten(1, (3, GROUP))
    assert (grouped.amin(2) == 0).double().mean() > 0.9 and codes.min() >= 0
    assert (grouped.amax(2) == 15).double().mean() > 0.9 and codes.max() <= 15
    step = scales.double().repeat_interleave(GROUP, dim=1)
    off = (weight.double() - stands_for('int4', weight)).abs() / step
    assert off.max() < 0.6 and (off <= 0.5 + 1e-4).double().mean() > 0.98


@each_form
def test_rows_of_zeros_and_of_one_value_are_kept(form):
    weight = torch.zeros(16, 64)
    weight[3] = 0.75  # bfloat16 holds it
    got = stands_for(form, weight)
    assert torch.isfinite(got).all() and (got[0] == 0).all()
    torch.testing.assert_close(got[3], weight[3].double(), rtol=2 ** -8, atol=0.0)
    project = KINDS[form](weight)
    out = project(torch.ones(2, 64))
    assert (out[:, 0] == 0).all() and torch.isfinite(out).all()


@each_form
def test_error_against_float32_is_that_of_the_bits(form, make):
    """Gaussian weights, whose error is about the worst: 0.8 % in 8 bits, 8 % in 4."""
    weight, x = make.normal(256, 512), make.normal(8, 512)
    wanted = x.double() @ weight.double().t()
    error = (KINDS[form](weight)(x) - wanted).norm() / wanted.norm()
    low, high = {'int8': (0.004, 0.011), 'int4': (0.05, 0.09)}[form]
    assert low < error < high


# --- products -----------------------------------------------------------------------------------

@each_form
@pytest.mark.parametrize('rows', [1, 3, 13, 70])
@pytest.mark.parametrize('unpack', [False, True])
@pytest.mark.parametrize('with_bias', [False, True])
@pytest.mark.parametrize('sizes', [(16, 32), (48, 96), (640, 480), (80, 1536)])
def test_a_product_is_that_of_the_definition_for_any_number_of_rows(
        form, sizes, with_bias, unpack, rows, make):
    weight, x = make.normal(*sizes), make.normal(rows, sizes[1])
    bias = make.normal(sizes[0]) if with_bias else None
    check(form, weight, bias, x, one_way(KINDS[form](weight, bias), unpack)(x))


@each_form
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_size_that_fits(form, data, make_from):
    steps = {'int8': (1, 16), 'int4': (16, 32)}[form]
    sizes = tuple(step * data.draw(st.integers(1, 12)) for step in steps)
    make = make_from(data.draw(st.integers(0, 1000)))
    assert unfit(form, *sizes) == ''
    weight, x = make.normal(*sizes), make.normal(data.draw(st.integers(1, 40)), sizes[1])
    check(form, weight, None, x, one_way(KINDS[form](weight), data.draw(st.booleans()))(x))


@each_form
def test_what_the_kept_form_holds_is_what_was_quantised(form, make):
    weight = make.normal(64, 96)
    assert torch.equal(KINDS[form](weight).weight(), stands_for(form, weight))


@each_form
@pytest.mark.parametrize('rows', [2, 20])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_results_have_the_dtype_asked_for_whatever_comes(form, rows, dtype, make):
    weight, x = make.normal(32, 64), make.normal(rows, 64)
    project = KINDS[form](weight, dtype=dtype)
    strided = torch.stack([x, x], dim=1).bfloat16()[:, 0]
    assert not strided.is_contiguous() and project.dtype == dtype
    assert torch.equal(project(x), project(strided)) and project(x).dtype == dtype
    residual = make.normal(rows, 32)
    before = residual.clone()
    out = project.add_to(residual, x)
    assert out.dtype == torch.float32 and torch.equal(residual, before)
    torch.testing.assert_close(out, residual + project(x).float(), rtol=0, atol=0)


@pytest.mark.skipif(bool(why_not('int8')), reason=why_not('int8'))
def test_weights_are_unpacked_for_many_rows_and_the_larger_the_sooner(make):
    small, large = Int8Linear(make.normal(128, 128)), Int8Linear(make.normal(1024, 1024))
    assert large._unpack_from == 12 and 50 < small._unpack_from < 70
    for project in (small, large):
        few, many = (make.normal(rows, project.weight().shape[1])
                     for rows in (project._unpack_from - 1, project._unpack_from))
        again = Int8Linear(project.weight().float())
        assert torch.equal(project(few), one_way(again, False)(few))
        assert torch.equal(project(many), one_way(again, True)(many))


@each_form
def test_equal_inputs_give_equal_bits(form, make):
    weight = make.normal(96, 64)
    first, second = KINDS[form](weight), KINDS[form](weight)
    for rows in (1, 30):
        x = make.normal(rows, 64)
        assert torch.equal(first(x), second(x)) and torch.equal(first(x), first(x))


@pytest.mark.parametrize('make_layer, shape, words', [
    (linear.Int8Linear, (8, 20), 'in_features 20 is no multiple of 16'),
    (linear.Int4Linear, (16, 20), 'in_features 20 is no multiple of 32'),
    (linear.Int4Linear, (20, 32), 'out_features 20 is no multiple of 16'),
    (linear.Int8Linear, (8, 2, 16), r'expected \(out_features, in_features\)')])
def test_a_weight_that_does_not_fit_is_refused_and_not_read_beyond(make_layer, shape, words):
    with pytest.raises(ValueError, match=f'weight: expected.*{words}|weight: {words}'):
        make_layer(torch.zeros(shape))


@pytest.mark.parametrize('make_layer', [linear.Int8Linear, linear.Int4Linear])
def test_a_weight_may_lie_in_memory_in_any_way(make_layer, make):
    weight, x = make.normal(32, 64), make.normal(3, 64)
    assert torch.equal(make_layer(weight.t().contiguous().t())(x), make_layer(weight)(x))


def test_layers_share_one_buffer_as_large_as_the_largest(make):
    scratch = Scratch()
    weights = [make.normal(32, 64), make.normal(80, 96), make.normal(16, 16)]
    layers = [Int8Linear(weight, scratch=scratch) for weight in weights]
    buffer = scratch._buffer
    assert scratch.nbytes == 80 * 96 * buffer.itemsize
    for weight, layer in zip(weights, layers, strict=True):
        x = make.normal(20, weight.shape[1])
        check('int8', weight, None, x, one_way(layer, unpack=True)(x))
    assert scratch._buffer is buffer  # nothing is taken after load


@pytest.mark.parametrize('form, share', [('int8', 1.03), ('int4', 0.625)])
def test_bytes_for_each_entry(form, share, make):
    if why_not(form):
        pytest.skip(why_not(form))
    weight = make.normal(480, 960)
    assert KINDS[form](weight).nbytes == pytest.approx(share * weight.numel(), rel=0.03)


# --- sizes, fall-backs, traps -------------------------------------------------------------------

@pytest.mark.parametrize('form, sizes, words', [
    ('int8', (5, 4304), ''), ('int8', (5, 24), 'in_features 24 is no multiple of 16'),
    ('int4', (16, 64), ''), ('int4', (16, 48), 'in_features 48 is no multiple of 32'),
    ('int4', (24, 64), 'out_features 24 is no multiple of 16')])
def test_sizes_that_do_not_fit_are_named(form, sizes, words):
    assert unfit(form, *sizes) == words


@each_form
@pytest.mark.parametrize('rows', [1, 5, 11, 50])
def test_activations_never_reach_an_operation_in_float32(form, rows, make):
    """There they are 10 to 200 times slower."""
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            if 'pack_mm' in str(operation):
                seen.append(args[0].dtype)
            return operation(*args, **(kwargs or {}))

    project = KINDS[form](make.normal(32, 64))
    with Watch():
        project(make.normal(rows, 64))
    assert set(seen) <= {torch.bfloat16}
    assert seen


@pytest.fixture
def fresh():
    """Nothing that was found out about this torch is remembered, before and after."""
    caches = (why_not, linear._int4_operations)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def _missing(*args):
    raise NotImplementedError('no such operation on this backend\nand more words')


NAMES = {'int8': ('_weight_int8pack_mm',),
         'int4': ('_weight_int4pack_mm_for_cpu', '_weight_int4pack_mm')}


@each_form
def test_a_torch_without_the_operation_is_told_from_one_with(form, fresh, monkeypatch):
    assert why_not(form) == ''
    why_not.cache_clear()
    linear._int4_operations.cache_clear()
    for name in NAMES[form]:
        monkeypatch.setattr(torch.ops.aten, name, _missing)
    words = why_not(form)
    assert words.startswith(f'torch {torch.__version__}: ')
    assert 'no such operation on this backend' in words and 'more words' not in words


@each_form
def test_an_operation_that_computes_something_else_is_not_used(form, fresh, monkeypatch):
    for name in NAMES[form]:
        right = getattr(torch.ops.aten, name)
        monkeypatch.setattr(torch.ops.aten, name, functools.partial(
            lambda right, *args: right(*args) * 1.5, right))
    assert 'wrong numbers' in why_not(form)


@pytest.mark.skipif(bool(why_not('int4')), reason='this torch has no int4 product for the CPU')
@pytest.mark.parametrize('two_a_byte', [False, True])
def test_the_general_operations_of_older_versions_are_found(two_a_byte, fresh, monkeypatch, make):
    """As torch 2.4 and 2.5 have them: no names for the CPU; one code an int32, or two a byte."""
    pack, product = linear._int4_operations()
    linear._int4_operations.cache_clear()

    def older_pack(codes, tiles):
        assert codes.dtype == (torch.uint8 if two_a_byte else torch.int32), 'expected another'
        if two_a_byte:
            codes = torch.stack([codes >> 4, codes & 15], dim=-1).flatten(1).int()
        return pack(codes)

    def older(codes, tiles):
        try:
            return older_pack(codes, tiles)
        except AssertionError as error:
            raise RuntimeError(str(error)) from error

    monkeypatch.setattr(torch.ops.aten, '_weight_int4pack_mm_for_cpu', _missing)
    monkeypatch.setattr(torch.ops.aten, '_convert_weight_to_int4pack', older)
    monkeypatch.setattr(torch.ops.aten, '_weight_int4pack_mm', product)
    assert why_not('int4') == ''
    weight, x = make.normal(48, 64), make.normal(3, 64)
    check('int4', weight, None, x, Int4Linear(weight)(x))
