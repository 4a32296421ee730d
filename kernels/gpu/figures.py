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

"""What a compiled kernel takes of a chip: registers, spills, shared memory, kinds of instructions.

Read from what Triton's compiler and ptxas left; ptxas and its options come with the triton wheel.
"""

from __future__ import annotations

from dataclasses import dataclass
import os
from pathlib import Path
import re
import subprocess
import tempfile

from robot_infer_kernels.gpu.ahead import Launch
from robot_infer_kernels.gpu.targets import Target

_SM_REGISTERS = 65536
_BLOCK_RESERVED = 1024  # shared memory that the driver takes of each block
_WIDTH = {'8': 1, '16': 2, '32': 4, '64': 8, '128': 16}


@dataclass(frozen=True)
class Figures:
    """Of one kernel on one chip.

    :param spill_bytes: stored to and loaded from memory for want of registers, a thread.
    :param mma, wgmma, tcgen05: matrix instructions of the three generations.
    :param wide_loads: loads from global memory of 16 bytes and more, of `loads` in all; wide_bytes
        of `loaded_bytes` are read by them, each instruction counted once.
    :param blocks: blocks that an SM can hold at once, and `bound`, what forbids more.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    warps: int
    stages: int
    mma: int
    wgmma: int
    tcgen05: int
    wide_loads: int
    loads: int
    wide_bytes: int
    loaded_bytes: int
    blocks: int
    bound: str


def read_figures(launch: Launch, target: Target) -> Figures:
    """Figures of what was compiled by a launch."""
    kernel = launch.compiled
    ptx, metadata = kernel.asm['ptx'], kernel.metadata
    log = _ptxas_log(launch, ptx, target.capability)
    registers = max((int(number) for number in re.findall(r'Used (\d+) registers', log)),
                    default=0)
    spills = re.findall(r'(\d+) bytes spill (?:stores|loads)', log)
    sizes = load_sizes(ptx)
    wide = [size for size in sizes if size >= 16]
    blocks, bound = occupancy(registers, metadata.num_warps, metadata.shared, target)
    return Figures(
        registers=registers, spill_bytes=sum(int(number) for number in spills),
        shared_bytes=metadata.shared, warps=metadata.num_warps,
        stages=getattr(metadata, 'num_stages', 0),
        mma=len(re.findall(r'\bmma\.sync', ptx)),
        wgmma=len(re.findall(r'\bwgmma\.mma_async', ptx)),
        tcgen05=len(re.findall(r'\btcgen05\.mma', ptx)),
        wide_loads=len(wide), loads=len(sizes), wide_bytes=sum(wide), loaded_bytes=sum(sizes),
        blocks=blocks, bound=bound)


def load_sizes(ptx: str) -> list[int]:
    """Bytes a thread reads by each instruction that loads from global memory.

    A bulk copy (TMA) counts as 16: it is made of nothing smaller.
    """
    sizes = []
    for options, width in re.findall(r'\bld\.global([\w.:]*)\.[bsuf](8|16|32|64|128)\b', ptx):
        lanes = re.search(r'\.v(\d)', options)
        sizes.append(_WIDTH[width] * (int(lanes[1]) if lanes else 1))
    copies = re.findall(r'\bcp\.async\.c[ag]\.shared\.global[^;]*?, (0x[0-9a-f]+|\d+)[,;]', ptx)
    sizes += [int(size, 0) for size in copies]
    sizes += [16] * len(re.findall(r'\bcp\.async\.bulk[\w.]*\.shared\S*\.global', ptx))
    return sizes


def occupancy(registers: int, warps: int, shared_bytes: int, target: Target) -> tuple[int, str]:
    """Blocks an SM of the chip can hold, and what forbids one more; 0 where none fits."""
    per_warp = max(256, -(-registers * 32 // 256) * 256)
    room = {
        'warps': target.sm_warps // warps,
        'blocks': target.sm_blocks,
        'registers': _SM_REGISTERS // per_warp // 4 * 4 // warps,
        'shared memory': target.sm_shared // (shared_bytes + _BLOCK_RESERVED),
    }
    if shared_bytes > target.block_shared:
        room['shared memory'] = 0
    bound = min(room, key=lambda name: room[name])
    return room[bound], bound


def _ptxas_log(launch: Launch, ptx: str, capability: int) -> str:
    """What `ptxas -v` says; kept beside Triton's cache, which keeps only the binary."""
    kept = Path(os.environ['TRITON_CACHE_DIR']) / 'ptxas' / f'{launch.compiled.hash}.log'
    if 'registers' in launch.log:
        _write(kept, launch.log)
        return launch.log
    if kept.is_file():
        return kept.read_text()
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / 'kernel.ptx'
        source.write_text(ptx)
        arch = re.search(r'^\.target (\w+)', ptx, re.MULTILINE)
        assert arch is not None, 'PTX without a target'
        log = subprocess.run(
            [get_ptxas(capability).path, '-v', '-lineinfo', '--regAllocOptLevel=2',
             f'--gpu-name={arch[1]}', str(source), '-o', str(source.with_suffix('.o'))],
            capture_output=True, text=True, check=True).stderr
    _write(kept, log)
    return log


def _write(path: Path, text: str) -> None:
    """Write a whole file or none: other processes may read it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile('w', dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
