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

"""Reading a LeRobot checkpoint folder: config.json, model.safetensors, processor files.

Safetensors only; nothing is executed or downloaded. Tensors are taken by name and shape, and a
tensor that nobody asked for is an error: a silently unmapped weight is a wrong policy.
"""

from __future__ import annotations

from collections.abc import Collection
import hashlib
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file
import torch
from torch import Tensor

from robot_infer.errors import CheckpointError, StatisticsError
from robot_infer.models.json_values import JsonValues


class CheckpointFolder:
    """A checkpoint on disk. Opening it reads only the small files."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise CheckpointError(
                f'checkpoint {self.path}', expected='a LeRobot checkpoint folder',
                got='a file' if self.path.exists() else 'no such folder',
                remedy='Set policy.checkpoint to the folder that holds config.json.')
        self.config = self.read_json('config.json')

    @property
    def family(self) -> str:
        """The policy family the checkpoint says it is, e.g. smolvla."""
        return str(self.config.get('type', 'unknown'))

    def read_json(self, name: str) -> dict:
        """Read one of the folder's JSON files."""
        path = self.path / name
        try:
            content = json.loads(path.read_text('utf-8'))
        except OSError as error:
            raise CheckpointError(
                f'checkpoint {self.path}', expected=f'a readable {name}', got=error.strerror or '',
                remedy='Copy the whole checkpoint folder.') from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f'checkpoint file {path}', expected='JSON', got=str(error),
                                  remedy='Copy the file again from its source.') from error
        if not isinstance(content, dict):
            raise CheckpointError(f'checkpoint file {path}', expected='a JSON object',
                                  got=type(content).__name__, remedy='Copy the file again.')
        return content

    def tensors(self) -> TensorReader:
        """Open model.safetensors."""
        return TensorReader(self.path / 'model.safetensors')

    def weights_digest(self) -> bytes:
        """SHA-256 of model.safetensors: part of every cache key."""
        digest = hashlib.sha256()
        with open(self.path / 'model.safetensors', 'rb') as file:
            while block := file.read(1 << 22):
                digest.update(block)
        return digest.digest()

    def statistics(self, processor: str, step: str) -> dict[str, NDArray[np.float32]]:
        """Statistics of a (un)normaliser step of a LeRobot processor pipeline.

        :param processor: policy_preprocessor or policy_postprocessor.
        :param step: registry name of the step, e.g. normalizer_processor.
        :raises StatisticsError: where the step's state file is missing or torn.
        """
        name = f'{processor}.json'
        for entry in JsonValues(f'{self.path}/{name}', self.read_json(name)).each('steps'):
            if entry.text('registry_name', '') == step and not entry.absent('state_file'):
                path = self.path / entry.text('state_file')
                try:
                    return load_file(path)
                except (OSError, SafetensorError) as error:
                    raise StatisticsError(
                        f'statistics {path}', expected='a readable safetensors file',
                        got=str(error), remedy='Copy the whole checkpoint folder.') from error
        return {}


class TensorReader:
    """Tensors of one safetensors file, each taken once, by name and shape."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = safe_open(str(path), framework='pt')
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f'weights {path}', expected='a readable safetensors file', got=str(error),
                remedy='Copy the whole checkpoint folder.') from error
        self._left = set(self._file.keys())

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, from the header; nothing is loaded."""
        self._require(name)
        return tuple(self._file.get_slice(name).get_shape())

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Load one tensor into memory of its own.

        :raises CheckpointError: where it is missing, was misshapen, or holds NaN or infinity.
        """
        self._require(name)
        found = self.shape(name)
        if found != shape:
            raise CheckpointError(
                f'tensor {name} in {self.path}', expected=f'shape {shape}', got=f'shape {found}',
                remedy='config.json and model.safetensors do not belong together.')
        self._left.discard(name)
        tensor = self._file.get_tensor(name)
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f'tensor {name} in {self.path}', expected='finite numbers',
                                  got='NaN or infinity', remedy='Copy the checkpoint again.')
        # A copy: the mapped file could be paged out, and be read again while the robot moves.
        return tensor.to(dtype, copy=True)

    def count(self, prefix: str) -> int:
        """How many numbered children (`prefix.0.`, `prefix.1.`, ...) the file holds."""
        children = {name[len(prefix) + 1:].split('.')[0]
                    for name in self._file.keys() if name.startswith(f'{prefix}.')}
        return max((int(child) for child in children if child.isdecimal()), default=-1) + 1

    def refuse_unmapped(self, known_unused: Collection[str]) -> None:
        """Refuse tensors nobody took, but for prefixes known to be stored and not used."""
        left = sorted(name for name in self._left
                      if not any(name.startswith(prefix) for prefix in known_unused))
        if left:
            more = f' and {len(left) - 3} more' if len(left) > 3 else ''
            raise CheckpointError(
                f'weights {self.path}', expected='only tensors this policy uses',
                got=', '.join(left[:3]) + more,
                remedy='The checkpoint has parts this build does not know; it would not run as '
                'it was trained.')

    def _require(self, name: str) -> None:
        if name not in self._file.keys():
            raise CheckpointError(
                f'weights {self.path}', expected=f'a tensor {name}', got='none of that name',
                remedy='The checkpoint is of another family or incomplete.')
