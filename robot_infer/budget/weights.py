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


"""The lines of the plan for weights that are kept in 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from robot_infer.budget.lines import MemoryLine


class _Tally(Protocol):
    form: str
    count: int
    entries: int
    nbytes: int
    loaded_nbytes: int
    unpacked_nbytes: int
    kept: Mapping[str, Sequence[str]]


def weight_lines(tally: _Tally) -> tuple[MemoryLine, ...]:
    """What quantised weights take and save; empty where all are as loaded.

    :param tally: of a policy that was read (models.projections.Tally).
    """
    if tally.form == 'as_loaded':
        return ()
    words = [f'{tally.count} projections, {tally.entries} entries: {tally.loaded_nbytes} bytes as '
             f'loaded, {tally.loaded_nbytes - tally.nbytes} saved']
    words += [f'{len(names)} kept as loaded: {reason}' for reason, names in tally.kept.items()]
    lines = [MemoryLine(f'{tally.form} weights', tally.nbytes, '; '.join(words))]
    if tally.unpacked_nbytes:
        lines.append(MemoryLine('unpacked weight', tally.unpacked_nbytes,
                                'one buffer for all, as large as the largest'))
    return tuple(lines)
