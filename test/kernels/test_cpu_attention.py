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

"""The CPU backend: the kernel and torch, the same bits wherever pages lie, views for copies."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import torch

from robot_infer_kernels import paged_attention, plan_attention
from robot_infer_kernels.cpu import attention as cpu
from robot_infer_kernels.cpu import native


@pytest.fixture(params=['kernel', 'torch'])
def path(request, monkeypatch):
    """Both ways to attend on a CPU."""
    if request.param == 'torch':
        monkeypatch.setattr(native, 'for_head_dim', lambda head_dim: None)
    elif native.chosen() is None:
        pytest.skip(native.describe()[1])
    return request.param


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('num_tokens', [1, 3, 17, 50])
@pytest.mark.parametrize('page_tokens', [8, 64])
@pytest.mark.parametrize('softcap', [None, 20.0])
def test_bits_do_not_depend_on_the_blocks(path, make, put, dtype, num_tokens, page_tokens,
                                          softcap):
    length, blocks = 250, -(-250 // page_tokens)
    for head_dim, num_kv_heads, group in ((24, 1, 4), (64, 4, 1), (72, 5, 3)):
        keys, values = make.normal(2, length, num_kv_heads, head_dim, dtype=dtype)
        q = make.normal(num_tokens, num_kv_heads * group, head_dim, dtype=dtype)
        orders = [list(range(blocks)), list(range(5, 5 + blocks)),
                  list(range(blocks - 1, -1, -1)), [2 * block + 1 for block in range(blocks)]]
        for limit in (length, make.limits(num_tokens, length)):
            outs = []
            for order in [*orders, orders[0]]:
                pages = put(keys, values, page_tokens, order, 2 * blocks + 6)
                outs.append(paged_attention(q, pages.kv, pages.table, length, limit,
                                            head_dim ** -0.5, softcap=softcap))
            assert all(torch.equal(outs[0], out) for out in outs[1:])


def test_inference_mode_and_strided_queries_change_no_bit(path, make):
    pages = make.pages(100, 2, 32)
    fused = make.normal(9, 4 + 2 + 2, 32)
    for rows in (1, 9):
        view = fused[:rows, :4]
        out = paged_attention(view, pages.kv, pages.table, 100, 80, 0.2)
        with torch.inference_mode():
            assert torch.equal(out, paged_attention(view, pages.kv, pages.table, 100, 80, 0.2))
        dense = view.contiguous()
        assert torch.equal(out, paged_attention(dense, pages.kv, pages.table, 100, 80, 0.2))


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize('num_tokens', [1, 5, 50])
@pytest.mark.parametrize('window', [None, 30])
@pytest.mark.parametrize('softcap', [None, 5.0])
def test_values_on_both_paths(path, make, dtype, num_tokens, window, softcap):
    for head_dim, num_kv_heads, group in ((64, 5, 3), (24, 1, 8), (72, 4, 1)):
        pages = make.pages(200, num_kv_heads, head_dim, dtype=dtype)
        q = make.normal(num_tokens, num_kv_heads * group, head_dim, dtype=dtype)
        causal = torch.arange(200 - num_tokens + 1, 201)
        for limit in (200, 150, causal, make.limits(num_tokens, 200)):
            arguments = (pages.table, 200, limit, 0.1, window, softcap)
            out = paged_attention(q, pages.kv, *arguments)
            wanted = paged_attention(q.double(), pages.kv.double(), *arguments,
                                     backend='reference')
            error = float((out.double() - wanted).norm() / wanted.norm())
            assert error <= (1e-5 if dtype == torch.float32 else 1e-2)


def test_what_torchs_flash_operation_gets_wrong_does_not_reach_us(path, make):
    """Measured with torch 2.13; _scaled_dot_product_flash_attention_for_cpu itself.

    A fully masked row has an lse of 0, not -inf, so that merging counts it; an empty KV divides
    by zero and kills the process; is_causal begins at the first key, not at the last; and 7 query
    heads over 2 KV heads are accepted.
    """
    pages = make.pages(90, 2, 16)
    q = make.normal(40, 4, 16)
    arguments = (pages.kv, pages.table, 90)

    def error(limit, window=None):
        wanted = paged_attention(q.double(), pages.kv.double(), *arguments[1:], limit, 0.3,
                                 window, backend='reference')
        out = paged_attention(q, *arguments, limit, 0.3, window)
        return float((out.double() - wanted).norm() / wanted.norm())

    assert error(torch.arange(51, 91)) <= 1e-5  # causal, counted from the end
    assert error(torch.tensor([1] * 20 + [90] * 20), window=1) <= 1e-5  # tiles nobody sees
    with pytest.raises(ValueError, match='^limit: expected 1 to length = 0'):
        paged_attention(q, *arguments[:2], 0, 0, 0.3)  # an empty KV
    assert paged_attention(q[:0], *arguments[:2], 0, 0, 0.3).shape == (0, 4, 16)
    with pytest.raises(ValueError, match='^q: expected a number of heads divisible'):
        paged_attention(make.normal(1, 7, 16), *arguments, 90, 0.3)


@pytest.mark.skipif(not torch.__version__.startswith('2.13.'),
                    reason='says what torch 2.13 does; another may be better')
def test_the_traps_are_there():
    """Should this fail, torch has mended them and the docstring above may go."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k = torch.randn(1, 2, 4, 64), torch.randn(1, 2, 32, 64)
    mask = torch.zeros(1, 1, 4, 32)
    mask[..., 1, :] = -torch.inf
    _, lse = flash(q, k, k, 0.0, False, attn_mask=mask)
    assert not lse[0, :, 1].any()
    causal, _ = flash(q, k, k, 0.0, True)
    torch.testing.assert_close(causal[0, :, 0], k[0, :, 0])  # the first row sees the first key
    assert flash(torch.randn(1, 7, 4, 64), k, k, 0.0, False)[0].shape == (1, 7, 4, 64)
    dies = ('import torch; q = torch.randn(1, 2, 4, 64); k = q[:, :, :0]; '
            'torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, 0.0, False)')
    assert subprocess.run([sys.executable, '-c', dies], check=False,
                          stderr=subprocess.DEVNULL).returncode == -signal.SIGFPE


def read(kv, pages, begin, end):
    """Keys and values of tokens [begin, end), as attention reads them, twice by one plan."""
    plan = plan_attention(kv, torch.tensor(pages), end, end, 1, window=end - begin)
    first, again = cpu._read(kv, plan), cpu._read(kv, plan)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    return first


def is_view(tensor, kv):
    return tensor.untyped_storage().data_ptr() == kv.untyped_storage().data_ptr()


@pytest.mark.parametrize('pages,copied', [
    ([0], False), ([6], False), ([3, 4, 5], False), ([3, 5], True), ([5, 4], True)])
def test_neighbouring_blocks_are_read_without_a_copy(make, pages, copied):
    kv = make.normal(2, 8, 16, 2, 8)
    end = 16 * len(pages) - 3
    keys, values = read(kv, pages, 0, end)
    gathered = kv[:, pages].flatten(1, 2)[:, :end].transpose(1, 2)
    assert torch.equal(keys[0], gathered[0]) and torch.equal(values[0], gathered[1])
    assert is_view(keys, kv) is not copied


@pytest.mark.parametrize('pages', [[3, 4], [4, 3]])
def test_a_plan_sees_what_was_written_since_its_last_call(make, pages):
    kv = make.normal(2, 8, 16, 2, 8)
    plan = plan_attention(kv, torch.tensor(pages), 20, 20, 1)
    cpu._read(kv, plan)
    kv.normal_()
    gathered = kv[:, pages].flatten(1, 2)[:, :20].transpose(1, 2)
    assert all(torch.equal(got[0], wanted)
               for got, wanted in zip(cpu._read(kv, plan), gathered, strict=True))


def test_a_window_skips_the_pages_before_it(make):
    kv = make.normal(2, 8, 16, 2, 8)
    keys, values = read(kv, [7, 1, 2, 3], 20, 45)
    gathered = kv[:, [7, 1, 2, 3]].flatten(1, 2)[:, 20:45].transpose(1, 2)
    assert torch.equal(keys[0], gathered[0]) and torch.equal(values[0], gathered[1])
    assert is_view(keys, kv)


def test_a_plane_whose_blocks_lie_apart_is_read_right(make):
    """A slice of another tensor: neighbours in number, not in memory."""
    kv = make.normal(2, 8, 20, 2, 8)[:, :, :16]
    keys, _ = read(kv, [2, 3], 0, 32)
    assert torch.equal(keys[0], kv[0, 2:4].flatten(0, 1).transpose(0, 1))
