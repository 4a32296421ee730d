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

"""What the engine will take, before it takes anything; and what it took, once it is ready.

The plan is that of `robot-infer plan` (budget/plan.py), without a rate. What does not live here:
its arithmetic, and the allocations themselves (engine.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from robot_infer.budget.headers import read_headers
from robot_infer.budget.layout import Facts
from robot_infer.budget.machine import FIRST_USE_BYTES, NODE_BYTES
from robot_infer.budget.plan import Plan, Verdict, make_plan
from robot_infer.budget.probe import probe
from robot_infer.budget.shapes import read_shape
from robot_infer.budget.table import as_text
from robot_infer.config import Config
from robot_infer.control.memory import held_bytes, resident_bytes, trim_memory
from robot_infer.engine_info import Measured
from robot_infer.errors import BudgetError


def plan_engine(config: Config, folder: Path, device: torch.device) -> Plan:
    """Plan the policy of a checkpoint folder on this machine, as it is now.

    What this process holds already and what the node beside it holds are lines of the plan, so
    they count as usable.

    :raises BudgetError: where it does not fit, with the table.
    """
    here, held = probe(str(device), measure=False), resident_bytes()
    facts = Facts(
        tensors=read_headers(folder).shapes, process_bytes=held + FIRST_USE_BYTES)
    if here.unified:  # a CPU is
        assert here.available_bytes is not None, 'it was asked for'
        here = replace(here, available_bytes=min(
            here.total_bytes, here.available_bytes + held + NODE_BYTES))
    plan = make_plan(read_shape(folder), config, here, facts, predicts=False)
    if plan.verdict is Verdict.TOO_BIG:
        raise BudgetError(
            'the plan', expected=f'at most {plan.usable_bytes} bytes, which this machine has '
            'available', got=f'{plan.num_bytes} bytes', remedy='robot-infer plan --config FILE '
            f'lists what would make it fit. Planned were\n{as_text(plan, with_source=False)}')
    return plan


class Meter:
    """Holds what was taken against its lines, as it is taken.

    On a CPU by the memory that is backed by no file, with what was freed given back; on a GPU
    by what torch has allocated there.
    """

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self._plan, self._device = plan, device
        self._before = self._held()
        self.found: list[Measured] = []

    def mark(self, name: str, *kinds: str) -> None:
        """What was taken since the last mark is what the lines of these kinds speak of."""
        held = self._held()
        self.found.append(Measured(name, self._planned(*kinds), held - self._before))
        self._before = held

    def close(self) -> tuple[Measured, ...]:
        """Mark the workspaces, once there were steps; all marks.

        Behind them the process as a whole, as the steps left it, where it is what takes memory.
        """
        resident = resident_bytes()
        self.mark('workspaces', 'workspace', 'staging')
        if self._device.type == 'cpu':
            self.found.append(Measured(
                'process of the policy', self._plan.engine_bytes, resident))
        return tuple(self.found)

    def _planned(self, *kinds: str) -> int:
        return sum(line.num_bytes for line in self._plan.lines if line.kind in kinds)

    def _held(self) -> int:
        trim_memory()
        if self._device.type == 'cuda':
            return torch.cuda.memory_allocated(self._device)
        try:
            return held_bytes('RssAnon')
        except OSError:
            return resident_bytes()
