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

"""What the Triton backend refuses before a launch, by name; and in debug mode by value."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from robot_infer_kernels import (
    append_kv,
    paged_attention,
    plan_attention,
    planned_attention,
    which_backend,
)

pytest.importorskip('triton', reason='triton is not installed')

pytestmark = pytest.mark.gpu

DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
META = torch.device('meta')


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, device=DEVICE)


def index(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def arguments(**change: object) -> dict:
    """A call that is right, but for what is changed."""
    return {**dict(q=zeros(3, 4, 16), kv=zeros(2, 9, 16, 2, 16), table=index(3, 4), length=20,
                   limit=index(5, 20, 20), scale=1.0, backend='triton'), **change}


@pytest.mark.parametrize('name,what,change', [
    # shape
    ('q', 'num_tokens, num_heads, head_dim', lambda: dict(q=zeros(3, 4))),
    ('q', 'head_dim 16', lambda: dict(q=zeros(3, 4, 24))),
    ('q', 'divisible by the 2 heads', lambda: dict(q=zeros(3, 5, 16))),
    ('kv', 'num_kv_heads', lambda: dict(kv=zeros(9, 16, 2, 16))),
    ('kv', 'head_dim 8..256', lambda: dict(q=zeros(3, 4, 264), kv=zeros(2, 9, 16, 2, 264))),
    ('kv', 'multiple of 8', lambda: dict(q=zeros(3, 4, 20), kv=zeros(2, 9, 16, 2, 20))),
    ('table', r'\(num_pages,\) int64', lambda: dict(table=index(3, 4).view(2, 1))),
    ('limit', r'\(3,\) int64', lambda: dict(limit=index(1, 2))),
    ('length', r'\(1,\) int32', lambda: dict(length=index(20, 20, dtype=torch.int32))),
    # dtype
    ('q', 'float32 as in kv', lambda: dict(q=zeros(3, 4, 16, dtype=torch.bfloat16))),
    ('q', 'float32, bfloat16 or float16', lambda: dict(
        q=zeros(3, 4, 16, dtype=torch.float64), kv=zeros(2, 9, 16, 2, 16, dtype=torch.float64))),
    ('table', 'int64', lambda: dict(table=index(3, 4, dtype=torch.int32))),
    ('limit', 'int64', lambda: dict(limit=index(5, 20, 20, dtype=torch.int32))),
    ('length', 'int32', lambda: dict(length=index(20))),
    # stride
    ('q', 'strides', lambda: dict(q=zeros(3, 16, 4).transpose(1, 2))),
    ('q', 'strides', lambda: dict(q=zeros(3, 4, 17)[..., :16])),
    ('q', 'multiple of 16 bytes', lambda: dict(q=zeros(3 * 64 + 4)[1:193].view(3, 4, 16))),
    ('kv', 'contiguous plane', lambda: dict(kv=zeros(2, 9, 16, 3, 16)[:, :, :, :2])),
    ('kv', 'multiple of 16 bytes', lambda: dict(
        kv=zeros(2 * 9 * 16 * 2 * 16 + 4)[1:-3].view(2, 9, 16, 2, 16))),
    ('table', 'contiguous', lambda: dict(table=index(3, 0, 4, 0)[::2])),
    ('limit', 'contiguous', lambda: dict(limit=index(5, 0, 20, 0, 20, 0)[::2])),
    # device
    ('q', 'it on', lambda: dict(q=zeros(3, 4, 16).to(META))),
    ('table', 'it on', lambda: dict(table=index(3, 4).to(META))),
    ('limit', 'it on', lambda: dict(limit=index(5, 20, 20).to(META))),
    ('length', 'it on', lambda: dict(length=index(20, dtype=torch.int32).to(META))),
    # range
    ('window', 'at least 1', lambda: dict(window=0)),
    ('softcap', 'positive', lambda: dict(softcap=-1.0)),
    ('backend', "'triton'", lambda: dict(backend='cuda')),
])
def test_a_wrong_argument_is_named_before_the_launch(name, what, change):
    paged_attention(**arguments())
    with pytest.raises(ValueError, match=f'^{name}: expected .*{what}.*; got'):
        paged_attention(**arguments(**change()))


PLANTED = [
    ('table', 'blocks from 0 to 8; got .*9', dict(table=(3, 9))),
    ('table', 'blocks from 0 to 8; got .*-1', dict(table=(-1, 3))),
    ('length', r'0 to 32 \(table has 2 pages of 16 tokens\); got 33', dict(length=33)),
    ('limit', 'never decrease; got 19 after 20 in row 2', dict(limit=(5, 20, 19))),
    ('limit', '1 to length = 20; got 5 to 21', dict(limit=(5, 20, 21))),
    ('limit', '1 to length = 20; got 0 to 20', dict(limit=(0, 20, 20))),
]


def planted(table=(3, 4), length=20, limit=(5, 20, 20)):
    """A live plan, as for a captured step: its values are read by the kernel alone."""
    kv = zeros(2, 9, 16, 2, 16)
    known = index(length, dtype=torch.int32)
    return kv, plan_attention(kv, index(*table), known, index(*limit), 3)


@pytest.mark.parametrize('name,what,values', PLANTED)
def test_debug_mode_refuses_bad_values_by_name(debug, name, what, values):
    kv, plan = planted(**values)
    with pytest.raises(ValueError, match=f'^{name}: expected .*{what}'):
        planned_attention(zeros(3, 4, 16), kv, plan, 1.0, backend='triton')


@pytest.mark.parametrize('name,what,values', PLANTED)
def test_debug_mode_sees_values_that_go_bad_after_the_plan_was_made(debug, name, what, values):
    kv, plan = planted()
    planned_attention(zeros(3, 4, 16), kv, plan, 1.0, backend='triton')
    (argument, value), = values.items()
    getattr(plan, argument).copy_(torch.tensor(value))
    with pytest.raises(ValueError, match=f'^{name}: expected .*{what}'):
        planned_attention(zeros(3, 4, 16), kv, plan, 1.0, backend='triton')


def test_a_limit_that_decreases_is_refused_on_the_host_too(debug):
    with pytest.raises(ValueError, match='^limit: expected .*never decrease'):
        paged_attention(torch.zeros(2, 2, 16), torch.zeros(2, 1, 16, 2, 16), torch.tensor([0]), 9,
                        torch.tensor([9, 8]), 1.0, backend='cpu')


def test_a_limit_beyond_the_length_reads_nothing_behind_it(make):
    """Without debug mode nothing is refused, but what is not valid is still not read."""
    pages = make.pages(20, 1, 16, 32)
    kv, q = pages.kv.to(DEVICE), make.normal(2, 2, 16).to(DEVICE)
    plan = plan_attention(kv, pages.table.to(DEVICE), index(20, dtype=torch.int32),
                          index(20, 25), 2)
    out = planned_attention(q, kv, plan, 0.3, backend='triton')
    wanted = paged_attention(q, kv, pages.table.to(DEVICE), 20, 20, 0.3, backend='triton')
    assert torch.equal(out, wanted)


def test_no_rows_launch_nothing():
    out = paged_attention(**arguments(q=zeros(0, 4, 16), limit=20))
    assert out.shape == (0, 4, 16)


@pytest.mark.skipif(DEVICE.type == 'cpu', reason='needs a GPU: appends there do not wait')
def test_append_on_a_gpu_writes_its_slots():
    kv = zeros(2, 5, 16, 2, 8)
    k = torch.ones(2, 2, 8, device=DEVICE)
    append_kv(k, 2 * k, kv, index(3, 40))
    flat = kv.flatten(1, 2)
    assert bool((flat[0, [3, 40]] == 1).all()) and bool((flat[1, [3, 40]] == 2).all())
    assert int(flat.count_nonzero()) == 2 * 2 * 2 * 8


def test_append_names_the_device():
    with pytest.raises(ValueError, match='^slots: expected it on'):
        append_kv(zeros(2, 2, 8), zeros(2, 2, 8), zeros(2, 5, 16, 2, 8), index(1, 2).to(META))


def run_python(code: str, **environment: str) -> str:
    """Output of a fresh Python; an empty value unsets a variable."""
    variables = {name: value for name, value in {**os.environ, **environment}.items() if value}
    done = subprocess.run([sys.executable, '-c', code], env=variables, text=True,
                          capture_output=True, check=True)
    return done.stdout.strip()


CALL = '''
import torch
from robot_infer_kernels import paged_attention, which_backend, why_no_triton
assert 'triton' not in __import__('sys').modules
print(which_backend('cpu'), '|', why_no_triton('cpu'))
try:
    paged_attention(torch.zeros(1, 2, 16), torch.zeros(2, 1, 16, 2, 16), torch.tensor([0]), 9, 9,
                    1.0, backend='triton')
except ValueError as error:
    print(error)
'''


def test_triton_on_a_cpu_needs_the_interpreter_and_says_so():
    first, second = run_python(CALL, TRITON_INTERPRET='').splitlines()
    assert first == 'cpu | Triton runs on cpu only in its interpreter (TRITON_INTERPRET=1)'
    assert second.startswith("backend: expected 'cpu' for tensors on cpu")


def test_everything_works_without_triton_but_triton():
    hide = '''
import sys, importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == 'triton' else find(name, *rest)
'''
    first, second = run_python(hide + CALL).splitlines()
    assert first.startswith('cpu | triton is not installed')
    assert second.startswith("backend: expected 'cpu' or 'reference', since triton is not")


def test_debug_mode_can_be_turned_on_from_outside():
    code = 'from robot_infer_kernels import debugging; print(debugging())'
    assert run_python(code, ROBOT_INFER_DEBUG='1') == 'True'
    assert run_python(code, ROBOT_INFER_DEBUG='') == 'False'


def test_a_device_without_a_backend_is_named():
    with pytest.raises(ValueError, match='no attention backend for device meta: expected cpu or'):
        which_backend('meta')
