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

"""Weights as they are held: the arithmetic against every tensor of a policy that was loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
import importlib.util
from pathlib import Path
import platform
import sys

import pytest
import torch

from robot_infer.budget.headers import read_headers
from robot_infer.budget.loaded import Form, loaded_weights
from robot_infer.budget.presets import find_preset
from robot_infer.budget.shapes import read_shape
from robot_infer.errors import CheckpointError
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.policies.smolvla import SmolVLAPolicy
from robot_infer_kernels.cpu.linear import why_not

ROOT = Path(__file__).parents[2]
DEMO = ROOT / 'robot_infer' / 'assets' / 'demo_policy'
DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16}
ON_X86 = platform.machine().lower() in ('x86_64', 'amd64')


@pytest.fixture(scope='module')
def large(tmp_path_factory) -> Path:
    """A policy with weights that are large enough to be packed, and whose edges are padded."""
    spec = importlib.util.spec_from_file_location(
        'random_checkpoint_for_budget', ROOT / 'tools' / 'bench' / 'random_checkpoint.py')
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp('large') / 'policy'
    module.write(folder, module.Shape(
        width=368, hidden=720, layers=3, heads=6, kv_heads=2, head_dim=48, vision_width=176,
        vision_hidden=760, vision_layers=2, vision_heads=4, image_px=128, vocabulary=512))
    return folder


def held_bytes(policy: SmolVLAPolicy) -> int:
    """Of all tensors that a policy holds, each storage once; of packed ones, what they take."""
    found: dict[int, int] = {}
    for tensor in tensors_of(policy):
        if tensor.layout == torch._mkldnn:
            found[id(tensor)] = torch.ops.mkldnn._nbytes(tensor)
        else:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def tensors_of(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_of(each)
    elif type(value).__module__.startswith('robot_infer') and hasattr(value, '__dict__'):
        yield from tensors_of(vars(value))


def planned(folder: Path, form: Form, policy: SmolVLAPolicy) -> int:
    tensors = read_headers(folder).shapes
    return loaded_weights(
        read_shape(folder), tensors, form, step_counts=(policy.denoise_steps, 3),
        positions=policy.prefix_shape.max_prefix + policy.shape.horizon).num_bytes


@pytest.mark.parametrize('weights', ['as_loaded', 'int8', 'int4'])
@pytest.mark.parametrize('dtype', ['fp32', 'bf16'])
@pytest.mark.parametrize('name', ['demo', 'large'])
def test_every_byte_of_the_weights_is_planned(name, dtype, weights, request):
    if weights != 'as_loaded' and why_not(weights):
        pytest.skip(f'this torch has no {weights} weights: {why_not(weights)}')
    if not hasattr(torch.ops.mkldnn, '_nbytes'):
        pytest.skip('this torch does not tell the size of a packed weight')
    folder = DEMO if name == 'demo' else request.getfixturevalue('large')
    policy = SmolVLAPolicy(
        CheckpointFolder(folder), dtype=DTYPES[dtype], device=torch.device('cpu'),
        fewer_steps=3, weights=weights)
    packed = any(tensor.layout == torch._mkldnn for tensor in tensors_of(policy))
    assert not (packed and not ON_X86), 'only an x86 CPU packs'
    form = Form(dtype, weights, packed=packed, unpacked_bytes=_unpacked_bytes(policy))
    expected = held_bytes(policy)
    if not packed or _has_wide_registers():
        assert planned(folder, form, policy) == expected
    else:  # blocks of other sizes: never fewer bytes than the plain weights, nor far from it
        plain = planned(folder, replace(form, packed=False), policy)
        assert plain <= expected <= 1.15 * plain


def _unpacked_bytes(policy: SmolVLAPolicy) -> int:
    return 2 if any(tensor.dtype == torch.bfloat16 and tensor.dim() == 1
                    and tensor.numel() >= 1 << 14 for tensor in tensors_of(policy)) else 4


def _has_wide_registers() -> bool:
    flags = Path('/proc/cpuinfo')
    return flags.exists() and ' avx512bw' in flags.read_text()


def test_a_missing_tensor_is_named():
    tensors = read_headers(DEMO).shapes
    del tensors['model.action_out_proj.weight']
    with pytest.raises(CheckpointError, match='a tensor model.action_out_proj.weight'):
        loaded_weights(read_shape(DEMO), tensors, Form(), step_counts=(10,))


def test_without_a_header_the_parameters_that_are_kept_are_counted():
    shape = find_preset('Llama-3-8B')
    lines = loaded_weights(shape, None, Form('bf16')).lines
    assert sum(line.num_bytes for line in lines) == 2 * shape.num_params
    quantised = loaded_weights(shape, None, Form('bf16', 'int8'))
    embedding = shape.language.vocab * shape.language.width
    assert quantised.num_bytes == shape.num_params + embedding
    assert all(line.basis == 'estimate' for line in quantised.lines)
