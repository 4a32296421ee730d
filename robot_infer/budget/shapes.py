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

"""The shape of a model, from its checkpoint folder: config.json and headers; no tensor is loaded.

Every tensor in the files is counted once: in the portion its family has it in, in one that is not
kept because it is tied or unused, or among those that no list here has, which count as loaded.
The types are those of model_shape.py, which this file offers too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
import math
from pathlib import Path
import re
from typing import Any

from robot_infer.budget.family_openvla import openvla
from robot_infer.budget.family_pi import pi
from robot_infer.budget.family_smolvla import smolvla
from robot_infer.budget.family_words import llama, qwen2_5_vl, smolvlm
from robot_infer.budget.headers import Headers, TensorHeader, read_headers, read_json_file
from robot_infer.budget.model_shape import KVGroup, ModelShape, Part, Stack, WeightGroup
from robot_infer.budget.tensors import Blueprint, Portion
from robot_infer.errors import CheckpointError

__all__ = ['KVGroup', 'ModelShape', 'Part', 'Stack', 'WeightGroup', 'describe', 'read_shape',
           'weigh']

# `type` of a LeRobot config.json, or `model_type` of one of transformers.
_FAMILIES: Mapping[str, Callable[[Mapping[str, Any], str], Blueprint]] = {
    'pi0': pi, 'pi05': pi, 'pi0_fast': pi, 'openvla': openvla, 'smolvlm': smolvlm,
    'idefics3': smolvlm, 'llama': llama, 'qwen2_5_vl': qwen2_5_vl,
}
# The backbone of the published SmolVLA: config.json of
# HuggingFaceTB/SmolVLM2-500M-Video-Instruct.
SMOLVLM2_500M = {
    'scale_factor': 4,
    'text_config': {
        'hidden_size': 960, 'intermediate_size': 2560, 'num_hidden_layers': 32,
        'num_attention_heads': 15, 'num_key_value_heads': 5, 'head_dim': 64, 'vocab_size': 49280,
        'max_position_embeddings': 8192},
    'vision_config': {
        'hidden_size': 768, 'intermediate_size': 3072, 'num_hidden_layers': 12,
        'num_attention_heads': 12, 'image_size': 512, 'patch_size': 16},
}
_BACKBONES = {'HuggingFaceTB/SmolVLM2-500M-Video-Instruct': SMOLVLM2_500M}
_OTHER = Portion('other tensors', 'other', note='of no part that is known of this family; '
                 'counted as if loaded')


def read_shape(folder: Path | str) -> ModelShape:
    """Read the shape of a checkpoint.

    :raises CheckpointError: where a file is missing or lies, the family is unknown, a value of
        config.json is missing or absurd, or config.json and weights do not belong together.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(
            f'checkpoint {folder}', expected='a folder with config.json and safetensors',
            got='a file' if folder.exists() else 'no such folder',
            remedy='Give the folder that holds config.json.')
    path = folder / 'config.json'
    config = read_json_file(path)
    blueprint = describe(config, str(path), folder)
    headers = read_headers(folder)
    weights = _weights(blueprint, headers, packed='quantization_config' in config)
    return replace(blueprint.shape, name=folder.resolve().name, weights=weights,
                   source=f'config.json and safetensors headers in {folder}')


def weigh(blueprint: Blueprint, bytes_per_param: int) -> ModelShape:
    """A model as its list has it, where there are no files: each tensor in the same dtype."""
    tensors = ((spec.portion, TensorHeader(spec.name, '', spec.shape, 0))
               for spec in blueprint.tensors)
    counted = ((portion, replace(one, num_bytes=one.num_params * bytes_per_param))
               for portion, one in tensors)
    return replace(blueprint.shape, weights=_sum(blueprint, counted))


def describe(config: Mapping[str, Any], where: str, folder: Path | None = None) -> Blueprint:
    """What a model is made of, by its config.json.

    :param where: the file, for messages.
    :param folder: of the checkpoint, if there is one: what else it holds is read too.
    :raises CheckpointError: where the family is unknown, or a value missing or absurd.
    """
    kind = config.get('type', config.get('model_type'))
    if kind == 'smolvla':
        return smolvla(config, *_backbone(config, where, folder))
    family = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise CheckpointError(
            f'type or model_type in {where}', expected=f'one of smolvla, {", ".join(_FAMILIES)}',
            got=repr(kind), remedy='Models of other families cannot be planned.')
    return family(config, where)


def _backbone(
    config: Mapping[str, Any], where: str, folder: Path | None,
) -> tuple[Mapping[str, Any], str, str]:
    """Config of a SmolVLA's language model, `where`, and where the former is from."""
    if folder is not None and (folder / 'vlm' / 'config.json').is_file():
        path = folder / 'vlm' / 'config.json'
        return read_json_file(path), where, str(path)
    name = config.get('vlm_model_name')
    if not isinstance(name, str) or name not in _BACKBONES:
        raise CheckpointError(
            f'vlm_model_name in {where}', expected='vlm/config.json (the backbone\'s config) in '
            f'the same folder, or vlm_model_name {" or ".join(_BACKBONES)}',
            got=f'vlm_model_name {name!r}',
            remedy='Copy the config.json of the backbone to vlm/config.json in the folder.')
    return _BACKBONES[name], where, f'the known config of {name}'


def _weights(
    blueprint: Blueprint, headers: Headers, *, packed: bool,
) -> tuple[WeightGroup, ...]:
    """Every tensor of the files, in groups.

    :param packed: quantised by another tool: names go by module, shapes say nothing.
    :raises CheckpointError: where a tensor is missing, or has not the shape config.json says.
    """
    tensors = _renamed(blueprint, headers)
    if packed:
        return _packed(blueprint, tensors)
    known = {spec.name: spec for spec in blueprint.tensors}
    for spec in blueprint.tensors:
        tensor = tensors.get(spec.name)
        if tensor is None and not spec.optional:
            raise CheckpointError(
                f'weights {headers.path}', expected=f'a tensor {spec.name}, as config.json says',
                got=f'none of that name among {len(tensors)}',
                remedy='The checkpoint is of another family, or incomplete.')
        if tensor is not None and tensor.shape != spec.shape:
            raise CheckpointError(
                f'tensor {tensor.name} in {headers.path / tensor.file}',
                expected=f'shape {spec.shape}, as config.json says', got=f'shape {tensor.shape}',
                remedy='config.json and weights do not belong together.')
    return _sum(blueprint, ((known[name].portion if name in known else _OTHER, tensor)
                            for name, tensor in tensors.items()))


def _packed(
    blueprint: Blueprint, tensors: Mapping[str, TensorHeader],
) -> tuple[WeightGroup, ...]:
    """Bytes as stored, by module; parameters as there were before they were packed."""
    modules = {_module(spec.name): spec.portion for spec in blueprint.tensors}
    stored = {_module(name) for name in tensors}
    params: dict[tuple[str, str], int] = {}
    for spec in blueprint.tensors:
        if _module(spec.name) in stored:
            key = (spec.portion.name, spec.portion.part)
            params[key] = params.get(key, 0) + math.prod(spec.shape)
    groups = _sum(blueprint, ((modules.get(_module(name), _OTHER), tensor)
                              for name, tensor in tensors.items()))
    return tuple(replace(group, num_params=params.get((group.name, group.part), group.num_params))
                 for group in groups)


def _renamed(blueprint: Blueprint, headers: Headers) -> dict[str, TensorHeader]:
    """The tensors under the names that the family's list has."""
    tensors: dict[str, TensorHeader] = {}
    for tensor in headers.tensors.values():
        name = tensor.name
        for pattern, replacement in blueprint.renames:
            name = re.sub(pattern, replacement, name)
        if name in tensors:
            raise CheckpointError(
                f'weights {headers.path}', expected=f'one tensor {name}',
                got=f'two: {tensors[name].name} and {tensor.name}',
                remedy='The folder holds two checkpoints; copy one of them.')
        tensors[name] = tensor
    if blueprint.twins is not None:
        first, second = blueprint.twins
        if first not in tensors and second in tensors:
            tensors[first] = tensors.pop(second)
    return tensors


def _module(name: str) -> str:
    return name.rpartition('.')[0]


def _sum(
    blueprint: Blueprint, tensors: Iterable[tuple[Portion, TensorHeader]],
) -> tuple[WeightGroup, ...]:
    """One group for each portion that there is, in the order of the family's list."""
    sums = {spec.portion: (0, 0) for spec in blueprint.tensors} | {_OTHER: (0, 0)}
    for portion, tensor in tensors:
        params, size = sums[portion]
        sums[portion] = params + tensor.num_params, size + tensor.num_bytes
    return tuple(WeightGroup(portion.name, portion.part, params, size, portion.kept, portion.note)
                 for portion, (params, size) in sums.items() if size)
