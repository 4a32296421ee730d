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

"""What the operations beside attention refuse, by name and before anything is written.

Also: what the watch of the interpreter sees of their kernels, and that warm-up knows their keys.
"""

from __future__ import annotations

import pytest
import torch

from robot_infer_kernels import (
    copy_blocks,
    gated_gelu,
    gated_silu,
    gather_rows,
    rms_norm,
    rope_append,
    rotate,
)

GPU = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
BF16 = torch.bfloat16
Q = torch.ones(3, 4, 16)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Zeros on the CPU."""
    return torch.zeros(shape, dtype=dtype)


def whole(*numbers: int) -> torch.Tensor:
    """int64 numbers."""
    return torch.tensor(numbers)


def refuse(call, arguments: dict, name: str, change: dict, written: tuple[str, ...]) -> None:
    """The call works, and with the change it is refused by name and writes nothing."""
    call(**arguments)
    changed = {**arguments, **change}
    before = {key: value.clone() for key in written
              if isinstance(value := changed.get(key), torch.Tensor)}
    with pytest.raises(ValueError, match=f'^{name}: expected'):
        call(**changed)
    assert all(torch.equal(changed[key], value) for key, value in before.items())


ROPE = [
    ('q', dict(q=zeros(3, 16))), ('q', dict(q=zeros(3, 4, 16, dtype=torch.int32))),
    ('q', dict(q=Q.double(), out=None)),
    ('cos_sin', dict(cos_sin=zeros(9, 18))), ('cos_sin', dict(cos_sin=zeros(9, 7))),
    ('cos_sin', dict(cos_sin=zeros(9, 0))), ('cos_sin', dict(cos_sin=zeros(9))),
    ('cos_sin', dict(cos_sin=zeros(9, 8, dtype=BF16))),
    ('cos_sin', dict(cos_sin=zeros(8, 9).t())),
    ('cos_sin', dict(cos_sin=zeros(2, 8), positions=None)),
    ('positions', dict(positions=whole(0, 1))), ('positions', dict(positions=whole(0, 1, 9))),
    ('positions', dict(positions=whole(0, -1, 2))),
    ('positions', dict(positions=whole(0, 1, 2).int())),
    ('positions', dict(positions=whole(0, 1, 2, 3, 4, 5)[::2])),
    ('out', dict(out=zeros(3, 4, 15))), ('out', dict(out=zeros(3, 4, 16, dtype=BF16))),
    ('out', dict(out=zeros(3, 8, 16)[:, :4])), ('out', dict(out=Q)),
    ('backend', dict(backend='cuda')),
]


@pytest.mark.parametrize('name,change', ROPE)
def test_rotate_refuses_by_name(name, change):
    arguments = dict(q=Q, cos_sin=zeros(9, 8), positions=whole(0, 8, 3), out=zeros(3, 4, 16))
    refuse(rotate, arguments, name, change, ('out',))


@pytest.mark.parametrize('name,change', ROPE + [
    ('kv', dict(kv=zeros(2, 5, 8, 16))), ('kv', dict(kv=zeros(3, 5, 8, 2, 16))),
    ('kv', dict(kv=zeros(2, 5, 8, 2, 24))), ('kv', dict(kv=zeros(2, 5, 8, 2, 16, dtype=BF16))),
    ('k', dict(k=zeros(2, 2, 16))), ('k', dict(k=zeros(3, 4, 16))),
    ('v', dict(v=zeros(3, 2, 16, dtype=BF16))), ('v', dict(v=zeros(3, 2, 8))),
    ('slots', dict(slots=whole(1, 2))), ('slots', dict(slots=whole(1, 2, 40))),
    ('slots', dict(slots=whole(1, -1, 3))), ('slots', dict(slots=whole(1, 2, 3).int())),
])
def test_rope_append_refuses_by_name(name, change):
    arguments = dict(q=Q, k=torch.ones(3, 2, 16), v=torch.ones(3, 2, 16), cos_sin=zeros(9, 8),
                     kv=zeros(2, 5, 8, 2, 16), slots=whole(1, 39, 3), positions=whole(0, 8, 3),
                     out=zeros(3, 4, 16))
    refuse(rope_append, arguments, name, change, ('out', 'kv'))


BUFFER = zeros(4, 64)


@pytest.mark.parametrize('name,change', [
    ('x', dict(x=zeros(24))), ('x', dict(x=zeros(24, 3).t())), ('x', dict(x=zeros(3, 16385))),
    ('x', dict(x=zeros(3, 24, dtype=torch.int64))), ('x', dict(x=zeros(3, 0))),
    ('weight', dict(weight=zeros(23))), ('weight', dict(weight=zeros(1, 24))),
    ('weight', dict(weight=zeros(48)[::2])), ('weight', dict(weight=zeros(24).int())),
    ('eps', dict(eps=-1.0)), ('eps', dict(eps=float('nan'))),
    ('residual', dict(residual=zeros(2, 24))), ('residual', dict(residual=zeros(24, 3).t())),
    ('residual', dict(x=BUFFER[:3, :24], residual=BUFFER[1:, :24])),
    ('out', dict(out=zeros(3, 25))), ('out', dict(out=zeros(3, 24).double())),
    ('out', dict(residual=(total := zeros(3, 24)), out=total)),
])
def test_norm_refuses_by_name(name, change):
    arguments = dict(x=torch.ones(3, 24), weight=torch.ones(24), eps=1e-6,
                     residual=torch.ones(3, 24), out=zeros(3, 24))
    refuse(rms_norm, arguments, name, change, ('residual', 'out'))


@pytest.mark.parametrize('gate', [gated_silu, gated_gelu])
@pytest.mark.parametrize('name,change', [
    ('gate_up', dict(gate_up=zeros(3, 15))), ('gate_up', dict(gate_up=zeros(3, 0))),
    ('gate_up', dict(gate_up=zeros(16))), ('gate_up', dict(gate_up=zeros(16, 3).t())),
    ('gate_up', dict(gate_up=zeros(3, 16, dtype=torch.int8))),
    ('out', dict(out=zeros(3, 16))), ('out', dict(out=zeros(3, 8, dtype=BF16))),
    ('out', dict(gate_up=BUFFER[:3, :16], out=BUFFER.view(-1)[:24].view(3, 8))),
])
def test_gates_refuse_by_name(gate, name, change):
    refuse(gate, dict(gate_up=torch.ones(3, 16), out=zeros(3, 8)), name, change, ('out',))


@pytest.mark.parametrize('name,change', [
    ('pages', dict(pages=zeros(2, 2, 6))), ('pages', dict(pages=zeros(2, 3, 6, 8, 1, 8))),
    ('pages', dict(pages=zeros(2, 2, 6, 8, 1, 16)[..., :8])),
    ('pairs', dict(pairs=whole(0, 1))), ('pairs', dict(pairs=whole(0, 1).view(2, 1))),
    ('pairs', dict(pairs=whole(0, 6).view(1, 2))), ('pairs', dict(pairs=whole(-1, 1).view(1, 2))),
    ('pairs', dict(pairs=whole(0, 1).view(1, 2).int())),
    ('pairs', dict(pairs=whole(0, 1, 2, 1).view(2, 2))),
    ('pairs', dict(pairs=whole(0, 1, 1, 2).view(2, 2))),
    ('pairs', dict(pairs=whole(3, 3).view(1, 2))),
    ('num_tokens', dict(num_tokens=9)), ('num_tokens', dict(num_tokens=-1)),
])
def test_copy_refuses_by_name(name, change):
    pages = torch.arange(2 * 2 * 6 * 8 * 8.0).view(2, 2, 6, 8, 1, 8)
    refuse(copy_blocks, dict(pages=pages, pairs=whole(0, 1, 0, 2).view(2, 2), num_tokens=8), name,
           change, ('pages',))


@pytest.mark.parametrize('name,change', [
    ('source', dict(source=zeros(8))), ('source', dict(source=zeros(8, 5).t())),
    ('rows', dict(rows=whole(0, 5))), ('rows', dict(rows=whole(-1, 4))),
    ('rows', dict(rows=whole(0, 1).view(2, 1))), ('rows', dict(rows=whole(0, 1).int())),
    ('out', dict(out=zeros(3, 8))), ('out', dict(out=zeros(2, 8, dtype=BF16))),
    ('out', dict(source=BUFFER[:, :8], rows=whole(3, 0), out=BUFFER.view(-1)[:16].view(2, 8))),
])
def test_gather_refuses_by_name(name, change):
    refuse(gather_rows, dict(source=torch.ones(5, 8), rows=whole(4, 0), out=zeros(2, 8)), name,
           change, ('out',))


def test_tensors_elsewhere_are_refused():
    away = torch.zeros(3, 24, device='meta')
    for call in (lambda: rms_norm(torch.ones(3, 24), away[0], 1e-6),
                 lambda: rotate(Q, away[:, :8].contiguous())):
        with pytest.raises(ValueError, match='expected it on cpu, as'):
            call()
    with pytest.raises(ValueError, match='expected cpu or cuda'):
        gated_silu(away)


def test_nothing_to_do_is_done():
    kv = zeros(2, 2, 8, 2, 16)
    assert rope_append(Q[:0], zeros(0, 2, 16), zeros(0, 2, 16), zeros(0, 16), kv,
                       whole()[:0].long()).shape == (0, 4, 16)
    assert rms_norm(zeros(0, 8), zeros(8), 1e-6).shape == (0, 8)
    assert gated_silu(zeros(0, 8)).shape == (0, 4)
    assert gather_rows(zeros(0, 8), whole()[:0].long()).shape == (0, 8)


@pytest.mark.gpu
def test_indices_outside_are_refused_on_a_gpu_in_debug_mode(debug):
    kv, ones = torch.zeros(2, 2, 8, 2, 16, device=GPU), torch.ones(1, 2, 16, device=GPU)
    cos_sin, away = torch.ones(1, 16, device=GPU), torch.tensor([16], device=GPU)
    pages = torch.zeros(1, 2, 2, 8, 16, device=GPU)
    for name, call in (
            ('slots', lambda: rope_append(ones, ones, ones, cos_sin, kv, away, backend='triton')),
            ('positions', lambda: rotate(ones, cos_sin, away, backend='triton')),
            ('rows', lambda: gather_rows(cos_sin, away, backend='triton')),
            ('pairs', lambda: copy_blocks(pages, away.repeat(1, 2), backend='triton'))):
        with pytest.raises(ValueError, match=f'^{name}: expected 0 to'):
            call()
    assert not kv.any()


@pytest.mark.gpu
@pytest.mark.parametrize('name,call', [
    ('q', lambda: rotate(torch.ones(2, 3, 22, device=GPU)[:, :, :16], torch.ones(
        2, 8, device=GPU), backend='triton')),
    ('q', lambda: rotate(torch.ones(100, device=GPU)[1:97].view(2, 3, 16), torch.ones(
        2, 8, device=GPU), backend='triton')),
    ('cos_sin', lambda: rotate(torch.ones(2, 3, 16, device=GPU), torch.ones(
        17, device=GPU)[1:].view(2, 8), backend='triton')),
    ('x', lambda: rms_norm(torch.ones(3, 30, device=GPU), torch.ones(30, device=GPU), 1e-6,
                           backend='triton')),
    ('gate_up', lambda: gated_silu(torch.ones(3, 12, dtype=BF16, device=GPU), backend='triton')),
    ('source', lambda: gather_rows(torch.ones(3, 6, device=GPU), torch.zeros(
        1, dtype=torch.int64, device=GPU), backend='triton')),
])
def test_what_the_gpu_cannot_load_16_bytes_at_a_time_is_refused(name, call):
    with pytest.raises(ValueError, match=f'^{name}: expected .* 16'):
        call()


@pytest.mark.gpu
def test_the_interpreter_sees_a_slot_outside_and_one_that_is_written_twice():
    if GPU.type != 'cpu':
        pytest.skip('on a GPU nothing watches addresses')
    import interpreter

    from robot_infer_kernels.gpu import elementwise

    ones, kv = torch.ones(2, 2, 16), zeros(2, 2, 8, 2, 16)
    arguments = (ones, ones, ones, torch.ones(2, 16), kv)
    for slots, words in ((whole(1, 40), 'outside'), (whole(5, 5), 'write race')):
        with pytest.raises(interpreter.BadAccess, match=f'kernel rope_append.*{words}'):
            elementwise.rope_append(*arguments, slots, None, False, zeros(2, 2, 16))


@pytest.mark.gpu
def test_warm_up_knows_every_key(monkeypatch):
    from robot_infer_kernels.gpu import launch, warm
    from robot_infer_kernels.gpu.warm_elementwise import (
        CopyShape,
        GateShape,
        GatherShape,
        NormShape,
        RopeShape,
    )

    ledger = launch.Ledger()
    for module in (launch, warm):
        monkeypatch.setattr(module, 'LEDGER', ledger)
    warm.warm_up([RopeShape(4, 2, 16, rotary_dim=8), RopeShape(4, 0, 16, interleaved=True),
                  NormShape(24, residual=torch.float32), GateShape(40), GateShape(40, 'gelu'),
                  CopyShape(8, 2, 16), GatherShape(24)], GPU)
    assert len(ledger.keys) == 7

    def made(*shape: int) -> torch.Tensor:
        return torch.ones(shape, dtype=BF16, device=GPU)

    def count(start: int, number: int) -> torch.Tensor:
        return torch.arange(64, device=GPU)[start:start + number]

    for number in (1, 2, 3, 16, 17, 5):
        fused, wide = made(number, 9, 16), made(number, 88)
        positions, slots = count(1, number), count(number, number)
        kv, cos_sin = made(2, 5 + number, 8, 2, 16), torch.ones(64, 8, device=GPU)
        rope_append(fused[:, :4], fused[:, 4:6], fused[:, 6:8], cos_sin, kv, slots, positions,
                    backend='triton')
        rotate(fused[:, 2:6], torch.ones(64, 16, device=GPU), positions, True, backend='triton')
        rms_norm(wide[:, :24], torch.ones(24, device=GPU), 0.1 * number,
                 torch.ones(number, 24, device=GPU), backend='triton')
        gated_silu(wide[:, :80], backend='triton')
        gated_gelu(wide[:, 8:], backend='triton')
        copy_blocks(kv[None], torch.stack([count(0, 1), count(number, 1)], 1), 1 + number % 8,
                    backend='triton')
        gather_rows(wide[:, :24], count(0, number), backend='triton')
    assert len(ledger.keys) == 7 and ledger.num_late == 0
