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

"""Triton's interpreter, corrected and watched: each correction is needed, right, and awake."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.gpu
triton = pytest.importorskip(
    'triton', reason="triton is not installed: pip install 'robot_infer[check]'")
tl = triton.language
import interpreter  # noqa: E402 - conftest.py has loaded it, where there is a triton

only_interpreted = pytest.mark.skipif(
    not interpreter.interpreting(), reason='on a GPU there is no interpreter to look at')


@triton.jit
def dot_kernel(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
               PRECISION: tl.constexpr):
    """out = a @ b for one tile."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    product = tl.dot(left, right, input_precision=PRECISION)
    tl.store(out + m[:, None] * N + n[None, :], product)


@triton.jit
def cast_kernel(x, out, N: tl.constexpr):
    """out = x in the type of out."""
    n = tl.arange(0, N)
    tl.store(out + n, tl.load(x + n).to(out.dtype.element_ty))


@triton.jit
def double_kernel(x, out, N: tl.constexpr):
    """out = x + x in the type of x, which our kernels do in float32 only."""
    n = tl.arange(0, N)
    value = tl.load(x + n)
    tl.store(out + n, value + value)


@triton.jit
def largest_kernel(x, out, N: tl.constexpr):
    """out = max(x) by a reduction in the type of x."""
    value = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.reduce(value, 0, larger))


@triton.jit
def larger(a, b):
    """Larger of two."""
    return tl.where(a > b, a, b)


@triton.jit
def copy_kernel(x, out, count, SHIFT: tl.constexpr, N: tl.constexpr):
    """out[i] = x[i + SHIFT] for i < count, N to a program."""
    n = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + n, tl.load(x + n + SHIFT, mask=n < count), mask=n < count)


@triton.jit
def overlap_kernel(out, STRIDE: tl.constexpr, N: tl.constexpr):
    """Each program writes N numbers, STRIDE behind the one before."""
    program = tl.program_id(0)
    value = program.to(tl.float32) + tl.zeros([N], tl.float32)
    tl.store(out + program * STRIDE + tl.arange(0, N), value)


@triton.jit
def count_kernel(counter, last):
    """Each program counts itself; the last one says so (the pattern of a merge in one launch)."""
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        tl.store(last, tl.program_id(0))


@triton.jit
def count_far_kernel(counter, WHERE: tl.constexpr):
    """Counts at a place of its own choice."""
    tl.atomic_add(counter + WHERE, 1)


@triton.jit
def page_kernel(pool, page, STRIDE: tl.constexpr, WIDE: tl.constexpr):
    """Write to the start of a page; the offset is taken in int32 unless WIDE."""
    if WIDE:
        tl.store(pool + page.to(tl.int64) * STRIDE, 7)
    else:
        tl.store(pool + page * STRIDE, 7)


def matmul(device: torch.device, dtype: torch.dtype, precision: str = 'ieee',
           shape: tuple[int, int, int] = (16, 32, 64)) -> tuple[torch.Tensor, torch.Tensor]:
    """What tl.dot gives, and the same product in float64."""
    rows, columns, inner = shape
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(rows, inner, generator=generator).to(dtype)
    b = torch.randn(inner, columns, generator=generator).to(dtype)
    out = torch.empty(rows, columns, device=device)
    dot_kernel[(1,)](a.to(device), b.to(device), out, rows, columns, inner, precision)
    return out.cpu().double(), a.double() @ b.double()


def cast(values: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`values` cast to `dtype` by a kernel."""
    out = torch.empty(values.shape, dtype=dtype, device=device)
    cast_kernel[(1,)](values.to(device), out, values.numel())
    return out.cpu()


def error(out: torch.Tensor, wanted: torch.Tensor) -> float:
    """||out - wanted|| / ||wanted||."""
    return float((out - wanted).norm() / wanted.norm())


NARROW = [torch.bfloat16, torch.float8_e4m3fn]
HALFWAY = torch.tensor([1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, 1 + 2.0 ** -8 + 2.0 ** -20, -1.005,
                        0.0, -0.0, 3.4e38, 1e-40, float('inf'), float('nan'), 255.5, 1e-3, 2.71,
                        -448.1, 0.1, 65504.0])


@pytest.mark.parametrize('dtype', [torch.float32, torch.float16, *NARROW])
def test_a_dot_is_the_product(device, dtype):
    if device.type == 'cuda' and dtype is torch.float8_e4m3fn and (
            torch.cuda.get_device_capability() < (8, 9)):
        pytest.skip('this GPU has no fp8 (below sm_89)')
    out, wanted = matmul(device, dtype)
    assert error(out, wanted) < 1e-6


def test_a_dot_in_tf32_is_as_coarse_as_on_the_gpu(device):
    out, wanted = matmul(device, torch.float32, 'tf32')
    assert 1e-4 < error(out, wanted) < 2e-3


@only_interpreted
def test_a_dot_of_bfloat16_is_still_wrong_without_the_correction(device):
    """If this fails, Triton has learnt it: drop the correction of dots."""
    with interpreter.as_it_came():
        out, wanted = matmul(device, torch.bfloat16)
    assert not error(out, wanted) < 1.0


def test_a_cast_to_bfloat16_rounds_to_nearest_even(device):
    got = cast(HALFWAY, torch.bfloat16, device)
    torch.testing.assert_close(got, HALFWAY.to(torch.bfloat16), rtol=0, atol=0, equal_nan=True)


@only_interpreted
def test_a_cast_to_bfloat16_is_still_cut_off_without_the_correction(device):
    """If this fails, Triton has learnt it: drop the correction of casts."""
    with interpreter.as_it_came():
        got = cast(HALFWAY[:4], torch.bfloat16, device)
    assert not torch.equal(got, HALFWAY[:4].to(torch.bfloat16))


@pytest.fixture
def fp8_device(device):
    """The device, where it knows fp8."""
    if device.type == 'cuda' and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip('this GPU has no fp8 (below sm_89)')
    return device


def test_a_cast_to_fp8_rounds_and_saturates(fp8_device):
    values = torch.cat([HALFWAY[:6], torch.tensor([500.0, -1e6, 448.0, 464.0, 1.0625, 1.1875,
                                                   2.0 ** -9, 2.0 ** -10, 0.3, float('nan')])])
    wanted = values.clamp(-448, 448).to(torch.float8_e4m3fn)
    got = cast(values, torch.float8_e4m3fn, fp8_device)
    torch.testing.assert_close(got.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)


@only_interpreted
@pytest.mark.parametrize('value', [500.0, 1.99, 1.0625])  # no saturation, no carry, no tie
def test_a_cast_to_fp8_is_still_wrong_without_the_correction(device, value):
    """If this fails, Triton has learnt it: drop the correction of casts to fp8."""
    values = torch.full((16,), value)
    with interpreter.as_it_came():
        got = cast(values, torch.float8_e4m3fn, device)
    assert not torch.equal(got.float(), values.clamp(-448, 448).to(torch.float8_e4m3fn).float())


@pytest.mark.parametrize('source', NARROW)
@pytest.mark.parametrize('target', [torch.float32, torch.float16, torch.bfloat16])
def test_every_narrow_number_is_read_as_it_is(fp8_device, source, target):
    if source is torch.bfloat16:
        values = torch.arange(-2 ** 15, 2 ** 15, 16, dtype=torch.int16)[:4096].view(source)
    else:
        values = torch.arange(256, dtype=torch.uint8).view(source)
    got = cast(values, target, fp8_device)
    torch.testing.assert_close(got, values.to(target), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize('source', [torch.int8, torch.int32])
def test_integers_become_bfloat16(device, source):
    values = torch.arange(-128, 128, dtype=source)
    assert torch.equal(cast(values, torch.bfloat16, device), values.to(torch.bfloat16))


@only_interpreted
def test_integers_still_do_not_become_bfloat16_without_the_correction(device):
    """If this fails, Triton has learnt it: drop the correction of casts of integers."""
    values = torch.arange(-128, 128, dtype=torch.int8)
    with interpreter.as_it_came():
        got = cast(values, torch.bfloat16, device)
    assert not torch.equal(got, values.to(torch.bfloat16))


@only_interpreted
@pytest.mark.parametrize('kernel', [double_kernel, largest_kernel])
@pytest.mark.parametrize('dtype', NARROW)
def test_arithmetic_in_a_narrow_type_is_refused(device, kernel, dtype):
    x = torch.ones(16).to(dtype)
    with pytest.raises(interpreter.NarrowArithmetic, match=f'{kernel.__name__}.*float32'):
        kernel[(1,)](x, torch.empty_like(x), 16)


@only_interpreted
def test_arithmetic_in_bfloat16_is_still_wrong_without_the_refusal(device):
    """If this fails, Triton has learnt it, and the refusal is a matter of taste."""
    x = torch.ones(16, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    with interpreter.as_it_came():
        double_kernel[(1,)](x, out, 16)
    assert not torch.equal(out, x + x)


def test_a_kernel_that_keeps_to_its_arguments_runs(device):
    x, out = torch.arange(40.0, device=device), torch.zeros(40, device=device)
    copy_kernel[(3,)](x, out, 40, 0, 16)
    assert torch.equal(out, x)


@only_interpreted
@pytest.mark.parametrize('shift, program, offset', [(1, (2, 0, 0), 160), (-1, (0, 0, 0), -4)])
def test_a_load_outside_the_arguments_is_caught(shift, program, offset):
    x, out = torch.arange(40.0), torch.zeros(40)
    with pytest.raises(interpreter.BadAccess) as caught:
        copy_kernel[(3,)](x, out, 40, shift, 16)
    text = str(caught.value)
    assert f'copy_kernel, program {program}: load of 4 bytes' in text
    if offset > 0:  # which storage lies before x is the allocator's business
        assert f'byte offset {offset} of \'x\'' in text and '160 bytes (1 of 8 addresses' in text


@only_interpreted
def test_a_store_outside_the_arguments_is_caught():
    with pytest.raises(interpreter.BadAccess, match=r"program \(2, 0, 0\): store .* 'out'"):
        copy_kernel[(3,)](torch.arange(48.0), torch.zeros(40), 48, 0, 16)


@only_interpreted
def test_an_atomic_outside_the_arguments_is_caught():
    with pytest.raises(interpreter.BadAccess, match='atomic of 4 bytes at byte offset 16'):
        count_far_kernel[(1,)](torch.zeros(4, dtype=torch.int32), 4)


@only_interpreted
def test_two_programs_that_store_to_one_address_are_caught():
    with pytest.raises(interpreter.BadAccess) as caught:
        overlap_kernel[(3,)](torch.zeros(64), 15, 16)
    assert ('overlap_kernel: write race: programs (0, 0, 0) and (1, 0, 0) both store to byte '
            "offset 60 of 'out'") in str(caught.value)


def test_neighbours_that_do_not_overlap_are_no_race(device):
    out = torch.zeros(64, device=device)
    overlap_kernel[(4,)](out, 16, 16)
    assert torch.equal(out.cpu(), torch.arange(4.0).repeat_interleave(16))


def test_atomics_may_meet(device):
    counter = torch.zeros(1, dtype=torch.int32, device=device)
    last = torch.full((1,), -1, dtype=torch.int32, device=device)
    count_kernel[(5,)](counter, last)
    assert int(counter) == 5 and 0 <= int(last) < 5


@only_interpreted
def test_an_offset_that_overflows_int32_is_caught():
    """2 GiB of addresses; the kernel touches one page of memory."""
    pool = torch.empty(2 ** 31 + 4096, dtype=torch.int8)
    page_kernel[(1,)](pool, 2 ** 16, 2 ** 15, True)
    assert int(pool[2 ** 31]) == 7
    with pytest.raises(interpreter.BadAccess, match='page_kernel.*store of 1 bytes'):
        page_kernel[(1,)](pool, 2 ** 16, 2 ** 15, False)
