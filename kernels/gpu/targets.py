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

"""The GPUs that kernels are checked for: what each is called and what it can hold.

Limits are those of the CUDA programming guide's table of compute capabilities. What does not live
here: which configuration a kernel uses on which chip (chips.py).
"""

from __future__ import annotations

from dataclasses import dataclass
import difflib
import re

FP8_FROM = 89


@dataclass(frozen=True)
class Target:
    """One compute capability.

    :param capability: 87 for sm_87.
    :param chip: where it is found.
    :param block_shared: most shared memory a block may take, bytes.
    :param sm_shared: shared memory of a multiprocessor (SM), bytes.
    :param sm_warps: most warps, and sm_blocks: most blocks that an SM holds at once.
    """

    capability: int
    chip: str
    block_shared: int
    sm_shared: int
    sm_warps: int
    sm_blocks: int

    @property
    def name(self) -> str:
        """E.g. sm_87."""
        return f'sm_{self.capability}'

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats of pages that this chip is offered."""
        plain = ('fp32', 'bf16', 'fp16', 'int8', 'int4')
        return plain if self.capability < FP8_FROM else (*plain, 'fp8')


_SMALL, _MIDDLE, _LARGE = (101376, 102400), (166912, 167936), (232448, 233472)

TARGETS = {target.capability: target for target in (
    Target(80, 'A100', *_MIDDLE, 64, 32),
    Target(86, 'RTX 30, A10', *_SMALL, 48, 16),
    Target(87, 'Jetson Orin', *_MIDDLE, 48, 16),
    Target(89, 'RTX 40, L4 (Ada)', *_SMALL, 48, 24),
    Target(90, 'H100, H200 (Hopper)', *_LARGE, 64, 32),
    Target(100, 'B200', *_LARGE, 64, 32),
    Target(103, 'B300', *_LARGE, 64, 32),
    Target(110, 'Jetson Thor', *_LARGE, 48, 24),
    Target(120, 'RTX 50', *_SMALL, 48, 24),
    Target(121, 'DGX Spark', *_SMALL, 48, 24),
)}
NAMES = {'orin': 87, 'thor': 110, 'ada': 89, 'hopper': 90, 'rtx50': 120, 'a100': 80, 'rtx30': 86,
         'rtx40': 89, 'h100': 90, 'h200': 90, 'b200': 100, 'b300': 103, 'spark': 121}
# What `all` means: one of each kind of machine code that the kernels are written for.
ALL = (80, 87, 89, 90, 100, 110, 120)


def find_targets(text: str) -> tuple[Target, ...]:
    """Targets by name: 'orin', 'sm_87', '87', 'all', or several with commas between.

    :raises ValueError: for a name that is none; it says which are.
    """
    found: dict[int, Target] = {}
    for word in text.lower().replace(' ', '').split(','):
        if word == 'all':
            found.update((capability, TARGETS[capability]) for capability in ALL)
            continue
        number = re.fullmatch(r'(?:sm_?)?(\d+)[af]?', word)
        capability = NAMES.get(word, int(number[1]) if number else 0)
        if capability not in TARGETS:
            raise ValueError(f'target: expected {known_targets()}; got {word!r}{_hint(word)}')
        found[capability] = TARGETS[capability]
    return tuple(found.values())


def known_targets() -> str:
    """Every name a target has, in words."""
    return f"{', '.join(NAMES)}, {', '.join(t.name for t in TARGETS.values())} or all"


def fp8_refusal(capability: int) -> str:
    """Why fp8 pages are not offered on a chip; empty where they are."""
    if capability >= FP8_FROM:
        return ''
    chip = TARGETS[capability].chip if capability in TARGETS else 'this chip'
    return (f'fp8 pages are not offered on sm_{capability} ({chip}): it has no fp8 e4m3, which '
            f'begins with sm_{FP8_FROM}. Use int8: the same size, on every chip.')


def _hint(word: str) -> str:
    if word in ('101', 'sm_101'):
        return '. Thor is sm_110 since CUDA 13'
    close = difflib.get_close_matches(word, NAMES, n=1)
    return f'. Did you mean {close[0]}?' if close else ''
