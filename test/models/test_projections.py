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


"""Which projections of a policy are quantised, what is told of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from robot_infer.budget.weights import weight_lines
from robot_infer.engine import DEMO_CHECKPOINT
from robot_infer.errors import ConfigError
from robot_infer.models import projections
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.models.linear import Linear
from robot_infer.models.projections import LARGE, Projections
from robot_infer.models.shapes import read_shape
from robot_infer.models.smolvla import read_smolvla
from robot_infer_kernels.cpu.linear import Int4Linear, Int8Linear, why_not

CPU = torch.device('cpu')
KINDS = {'int8': Int8Linear, 'int4': Int4Linear}
each_form = pytest.mark.parametrize('form', [pytest.param(form, marks=pytest.mark.skipif(
    bool(why_not(form)), reason=why_not(form))) for form in KINDS])


def _weight(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def _read(folder: Path, made: Projections):
    opened = CheckpointFolder(folder)
    shape = read_shape(opened)
    return read_smolvla(opened, shape, (shape.denoise_steps,), made)


def test_as_loaded_is_what_it_was_before_there_was_a_choice():
    made = Projections(torch.bfloat16, CPU)
    assert made.read_as == torch.bfloat16
    assert type(made.make('a', _weight(256, 256).bfloat16(), rows=1)) is Linear
    assert made.tally.count == 0 and not made.tally.kept and weight_lines(made.tally) == ()


@each_form
def test_large_projections_that_fit_are_quantised_and_the_others_named(form):
    made = Projections(torch.float32, CPU, form)
    assert made.read_as == torch.float32
    assert type(made.make('large', _weight(256, 256), rows=1)) is KINDS[form]
    assert type(made.make('small', _weight(64, 64), rows=1)) is Linear
    assert type(made.make('odd', _weight(256, 255), rows=1)) is Linear
    odd = {'int8': 'in_features 255 is no multiple of 16',
           'int4': 'in_features 255 is no multiple of 32'}[form]
    assert made.tally.kept == {f'fewer than {LARGE} entries': ['small'], odd: ['odd']}


@each_form
def test_the_lines_of_the_plan_are_the_bytes_that_are_held(form):
    made = Projections(torch.float32, CPU, form)
    layers = [made.make(name, _weight(256, width), rows=1)
              for name, width in (('a', 256), ('b', 512), ('odd', 255))]
    lines = {line.name: line for line in weight_lines(made.tally)}
    first = lines[f'{form} weights']
    assert first.num_bytes == layers[0].nbytes + layers[1].nbytes
    whole = 4 * 256 * (256 + 512)
    assert first.arithmetic.startswith(f'2 projections, {whole // 4} entries: {whole} bytes as '
                                       f'loaded, {whole - first.num_bytes} saved; 1 kept')
    assert ('unpacked weight' in lines) is (form == 'int8')
    if form == 'int8':
        assert lines['unpacked weight'].num_bytes in (2 * 256 * 512, 4 * 256 * 512)


@each_form
def test_of_a_policy_the_heads_norms_and_embeddings_stay(form):
    made = Projections(torch.float32, CPU, form)
    model = _read(DEMO_CHECKPOINT, made)
    for layer in model.prefix_layers:
        for part in (layer.qkv, layer.o, layer.gate_up, layer.down):
            assert isinstance(part, KINDS[form])
    assert isinstance(model.vision.connector, KINDS[form])
    for layer in model.vision.layers:
        assert isinstance(layer.fc1, KINDS[form]) and isinstance(layer.qkv, KINDS[form])
    for stays in (model.state, model.action, model.action_embedding.outer):
        assert isinstance(stays, Linear)
    assert model.token_embedding.dtype == model.vision.patch[0].dtype == torch.float32
    (reason, names), = made.tally.kept.items()  # narrow ones of this small policy
    assert reason == f'fewer than {LARGE} entries' and all('layers' in name for name in names)
    everything = sum(part.numel() for part in _parts(DEMO_CHECKPOINT))
    assert 0.75 < made.tally.entries / everything < 1


def _parts(folder: Path) -> list[torch.Tensor]:
    tensors = CheckpointFolder(folder).tensors()
    names = [name for name in tensors._file.keys() if name.endswith('weight')
             and 'layers' in name and 'norm' not in name]
    return [tensors._file.get_tensor(name) for name in names]


def test_another_device_is_refused():
    with pytest.raises(ConfigError, match='policy.weights: expected as_loaded on meta.*got int8'):
        Projections(torch.float32, torch.device('meta'), 'int8')


@pytest.mark.parametrize('lacking, words', [
    (('int4',), 'expected int8 or as_loaded; got int4, which this torch cannot'),
    (('int8', 'int4'), 'expected as_loaded; got int4')])
def test_a_torch_that_lacks_an_operation_is_told_with_what_to_use(lacking, words, monkeypatch):
    monkeypatch.setattr(projections, 'why_not',
                        lambda form: 'torch 2.0: no such thing' if form in lacking else '')
    with pytest.raises(ConfigError, match=words) as refused:
        Projections(torch.float32, CPU, 'int4')
    assert 'torch 2.0: no such thing' in str(refused.value)
