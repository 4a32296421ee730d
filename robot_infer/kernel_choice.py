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

"""`robot-infer kernels which`: the backend of each operation on a device, and what led to it."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
import torch

from robot_infer.errors import ConfigError
from robot_infer_kernels import which
from robot_infer_kernels.cpu import native


def explain(device_name: str, console: Console) -> bool:
    """Print what runs on a device and why; True where every operation can run.

    :raises ConfigError: where there is no such device in torch.
    """
    device = _device(device_name)
    choices = list(which.choices(device))
    table = Table(title=f'on {device}', title_justify='left', box=box.SIMPLE_HEAD)
    for name in ('operation', 'backend', 'why'):
        table.add_column(name, no_wrap=name != 'why', overflow='fold')
    for choice in choices:
        backend = choice.backend or '[bold red]none[/]'
        table.add_row(choice.operation, backend, choice.why)
    console.print(table)
    offered, weights = list(which.formats(device)), list(which.weight_formats(device))
    for name, value in (
            ('GPU', which.chip_words(device if device.type == 'cuda' else torch.device('cuda'))),
            ('triton', which.triton_words()),
            ('attention on a CPU', native.describe()[1]),
            ('page formats', ', '.join(each.name for each in offered if each.offered)),
            ('weights', ', '.join(each.name.removesuffix(' weights') for each in weights
                                  if each.offered))):
        console.print(f'{name}: {value}', markup=False, soft_wrap=True)
    for each in (*offered, *weights):
        if each.why:
            console.print(f'{each.name if each.offered else "not offered: " + each.name}: '
                          f'{each.why}', markup=False, soft_wrap=True)
    return all(choice.backend for choice in choices)


def _device(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ConfigError('policy.device', expected='a torch device: cpu, cuda, cuda:1, ...',
                          got=repr(name), remedy='Name one in the parameter file or with '
                          '--device.') from error
