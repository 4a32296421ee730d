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

"""Warm-up knows every compile key: counted here, and by Triton's own rules in a process apart.

In the interpreter nothing is compiled, but the keys are the same; in a process that compiles for a
chip that is not here (ahead.py), Triton's own launcher says what it would have had to compile.
"""

from __future__ import annotations

from collections.abc import Iterator
import json
import os
import subprocess
import sys

import pytest
import torch

from robot_infer_kernels import debugging, plan_attention, planned_attention, set_debug

pytest.importorskip('triton', reason='triton is not installed')

from robot_infer_kernels.gpu import launch, warm  # noqa: E402
from robot_infer_kernels.gpu.warm import AttentionShape, warm_up  # noqa: E402

pytestmark = pytest.mark.gpu

DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
SHAPE = AttentionShape(num_heads=4, num_kv_heads=2, head_dim=32, page_tokens=64, max_pages=4,
                       tokens=(1, 3, 19), dtype=torch.float32)


@pytest.fixture
def ledger(monkeypatch) -> Iterator[launch.Ledger]:
    """A ledger and workspaces of this test's own, and debug mode off."""
    fresh, before = launch.Ledger(), debugging()
    for module in (launch, warm):
        monkeypatch.setattr(module, 'LEDGER', fresh)
    monkeypatch.setattr(launch, '_WORKSPACES', {})
    set_debug(False)
    yield fresh
    set_debug(before)


def step(num_tokens: int, length: int, pages: int, shape: AttentionShape = SHAPE,
         window: int | None = None) -> torch.Tensor:
    """One call with numbers of its own, as a robot's step makes it."""
    kv = torch.zeros(2, 6, shape.page_tokens, shape.num_kv_heads, shape.head_dim,
                     dtype=shape.dtype, device=DEVICE)
    table = torch.zeros(8, dtype=torch.int64, device=DEVICE)[3:3 + pages]
    limits = torch.full((num_tokens + 1,), length, device=DEVICE)[1:]
    q = torch.ones(num_tokens, shape.num_heads, shape.head_dim, dtype=shape.dtype, device=DEVICE)
    plan = plan_attention(kv, table, torch.tensor([length], dtype=torch.int32, device=DEVICE),
                          limits, num_tokens, window)
    return planned_attention(q, kv, plan, 0.3, backend='triton')


def test_nothing_is_new_after_warm_up(ledger):
    report = warm_up([SHAPE], DEVICE)
    known = len(ledger.keys)
    assert report.num_keys == known > 2 and report.workspace_bytes > 0
    set_debug(True)
    for number in range(2000 if DEVICE.type == 'cuda' else 12):
        pages = 1 + number % 4
        step((1, 3, 19)[number % 3], 1 + number * 11 % (pages * 64), pages)
    assert len(ledger.keys) == known and ledger.num_late == 0


def test_a_key_that_warm_up_did_not_see_is_counted_once(ledger):
    warm_up([SHAPE], DEVICE)
    for _ in range(3):
        step(3, 50, 1, window=8)
    assert ledger.num_late == 1 and 'decode: a compile key' in ledger.late[0]


def test_a_key_that_warm_up_did_not_see_is_an_error_in_debug_mode(ledger):
    warm_up([SHAPE], DEVICE)
    set_debug(True)
    for _ in range(2):
        with pytest.raises(launch.LateCompile, match='decode: .*add the shape to warm_up'):
            step(3, 50, 1, window=8)
    warm_up([SHAPE, AttentionShape(**{**vars(SHAPE), 'window': 100})], DEVICE)
    step(3, 50, 1, window=8)


def test_a_longer_table_than_was_said_shows_as_a_workspace_that_grows(ledger):
    few = AttentionShape(**{**vars(SHAPE), 'tokens': (1,)})
    warm_up([few], DEVICE)
    step(1, 50, 5)
    assert ledger.num_late == 2 and all('workspace' in event for event in ledger.late)
    set_debug(True)
    with pytest.raises(launch.LateCompile, match='workspace averages: grows'):
        step(19, 50, 5)


def test_a_step_is_captured_before_the_seal_and_replayed_after_it(ledger):
    kv = torch.ones(2, 2, 64, 2, 32, device=DEVICE)
    table = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    length = torch.ones(1, dtype=torch.int32, device=DEVICE)
    limits = torch.ones(1, dtype=torch.int64, device=DEVICE)
    q, out = torch.ones(1, 4, 32, device=DEVICE), torch.zeros(1, 4, 32, device=DEVICE)
    plan = plan_attention(kv, table, length, limits, 1)
    captured = warm.capture(
        lambda: out.copy_(planned_attention(q, kv, plan, 1.0, backend='triton')), DEVICE)
    assert captured.is_graph is (DEVICE.type == 'cuda')
    warm_up([SHAPE], DEVICE)
    set_debug(True)
    for known in (1, 64, 128):
        length.fill_(known)
        limits.fill_(known)
        kv[1, 0, :known] = known
        out.zero_()
        captured.replay()
        assert float((out - known).abs().max()) <= 1e-5 * known
    with pytest.raises(launch.LateCompile, match='a step is captured'):
        warm.capture(lambda: None, DEVICE)


def test_the_key_knows_what_triton_specialises_on():
    import triton
    import triton.language as tl

    @triton.jit(do_not_specialize=['free'], do_not_specialize_on_alignment=['any'])
    def kernel(pointer, any, number, free, factor, SIZE: tl.constexpr):
        pass

    whole = torch.zeros(64)

    def key(pointer=whole, any=whole, number=3, free=3, factor=0.5, size=4, warps=4):
        return launch.compile_key(kernel, (pointer, any, number, free, factor), {'SIZE': size},
                                  warps, 3)

    for same in (dict(number=5), dict(free=1), dict(free=16), dict(factor=1.0),
                 dict(any=whole[1:]), dict(pointer=whole[4:])):
        assert key(**same) == key(), same
    for other in (dict(number=1), dict(number=16), dict(number=2 ** 31), dict(free=2 ** 31),
                  dict(pointer=whole[1:]), dict(pointer=whole.half()), dict(size=8),
                  dict(warps=8), dict(any=whole.half())):
        assert key(**other) != key(), other


# Triton's launcher chooses the key, for a chip that is not here; nothing runs.
STEPS = '''
import json, sys, torch
torch.set_num_threads(1)
from robot_infer_kernels import plan_attention, planned_attention, set_debug
from robot_infer_kernels.gpu.ahead import compiling_for
from robot_infer_kernels.gpu.warm import AttentionShape, late_events, warm_up

shape = AttentionShape(15, 5, 64, 64, 8, range(1, 60))
kv = torch.zeros(2, 9, 64, 5, 64, dtype=torch.bfloat16)
tables, limits = torch.zeros(32, dtype=torch.int64), torch.ones(256, dtype=torch.int64)
fused = torch.zeros(60, 25, 64, dtype=torch.bfloat16)
with compiling_for(87) as launches:
    warm_up([shape], 'cpu')
    compiled = len(launches.new)
    set_debug(True)
    length = torch.ones(1, dtype=torch.int32)
    for step in range(2000):
        count, pages, start = 1 + step * 7 % 59, 1 + step % 8, step % 11
        plan = plan_attention(kv, tables[start:start + pages], length,
                              limits[start:start + count], count)
        q = fused[:count, :15] if step % 2 else torch.zeros(count, 15, 64, dtype=torch.bfloat16)
        planned_attention(q, kv, plan, 0.125 + step, backend='triton')
print(json.dumps({
    'compiled': compiled, 'later': len(launches.new) - compiled, 'launched': len(launches.made),
    'keys': len(late_events().keys), 'late': late_events().num_late}))
'''


def test_triton_itself_compiles_nothing_in_2000_steps_after_warm_up(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != 'TRITON_INTERPRET'}
    environment['TRITON_CACHE_DIR'] = str(tmp_path)
    done = subprocess.run([sys.executable, '-c', STEPS], env=environment, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen['later'] == 0 and seen['late'] == 0
    assert seen['compiled'] == seen['keys'] > 2, 'our keys and those of Triton differ'
    assert seen['launched'] >= 2000
