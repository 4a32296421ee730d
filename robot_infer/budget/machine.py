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

"""What a machine takes whatever the policy: processes, CUDA, the C library, the rest of the robot.

What lives here: numbers that were measured or published, each with its source. What does not: what
follows from a model and its settings (layout.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from robot_infer.budget.devices import Device
from robot_infer.budget.lines import MemoryLine

MIB = 1 << 20
# Measured on x86-64 Linux with Python 3.11 and torch 2.13 for the CPU (robot_infer/footprint.py),
# and with rclpy on Fast DDS, its 32 MiB of shared memory and the reserve of 32 MiB included.
PROCESS_BYTES, NODE_BYTES = 277 * MIB, 164 * MIB
# Of PROCESS_BYTES: libraries and code that torch loads and makes when an operation is first used;
# a process that has imported the engine and computed nothing holds so much less.
FIRST_USE_BYTES = 25 * MIB
# PyTorch with lazily loaded modules: 300 to 400 MB (pytorch issues 107667, 109888), and cuBLAS's
# workspaces; on unified memory the host's side of the libraries comes from the same pool.
CONTEXT_BYTES, UNIFIED_CONTEXT_BYTES = 450 * MIB, 1280 * MIB
# Between a process with its freed memory given back, and the same some steps later.
KEPT_BYTES = 16 * MIB
# Of a GPU's attention in splits (kernels/gpu/attention.py, chips.py): at most so many blocks of so
# many rows on a multiprocessor; and multiprocessors where nobody says how many there are.
_SPLIT_BLOCKS, _SPLIT_ROWS, _MOST_SMS = 2, 128, 192
# TensorRT-LLM takes 60 MB for a captured graph (pull request 3362).
GRAPH_BYTES = 60_000_000
# An idle Orin Nano holds 0.6 to 0.9 GiB headless, 1.5 to 2.8 GiB with a desktop (tegrastats).
UNIFIED_RESERVE_BYTES, DISCRETE_RESERVE_BYTES = 2048 * MIB, 512 * MIB


def is_gpu(device: Device) -> bool:
    """Whether the policy runs on a CUDA device of it."""
    return device.sm is not None


def attention_lines(device: Device, head_dim: int) -> Sequence[MemoryLine]:
    """What the splits of attention leave for their merge, on a GPU."""
    if not is_gpu(device):
        return ()
    rows = _SPLIT_BLOCKS * (device.num_sms or _MOST_SMS) * _SPLIT_ROWS
    return (MemoryLine(
        'attention workspace', rows * 4 * (head_dim + 1) + 4 * rows,
        f'{_SPLIT_BLOCKS} blocks x {device.num_sms or _MOST_SMS} multiprocessors x {_SPLIT_ROWS} '
        f'rows x ({head_dim} averages + a sum + a counter) x 4 bytes', 'bound',
        kind='splits'),)


def machine_lines(
    device: Device, weights: int, num_tensors: int, *, process_bytes: int | None,
    reserve_bytes: int | None,
) -> Sequence[MemoryLine]:
    """What the processes, the device and the rest of the robot take.

    :param weights: bytes of all weights, and num_tensors of them.
    :param process_bytes: of the policy's process without a policy, where that was measured.
    :param reserve_bytes: for the rest of the robot; None: the device's usual.
    """
    measured = process_bytes is not None
    lines = [
        MemoryLine('process of the policy', process_bytes or PROCESS_BYTES,
                   'Python and torch without a policy, measured '
                   + ('here' if measured else 'on x86-64 with torch 2.13'), 'estimate', 'host',
                   'process'),
        MemoryLine('process of the node', NODE_BYTES, 'rclpy and Fast DDS with 32 MiB of shared '
                   'memory, and 32 MiB kept for messages; measured on x86-64', 'estimate', 'host',
                   'node')]
    if is_gpu(device):
        lines += [
            MemoryLine('CUDA context', UNIFIED_CONTEXT_BYTES if device.unified else CONTEXT_BYTES,
                       'context, cuBLAS workspaces and lazily loaded modules'
                       + (', the host\'s side of them too' if device.unified else ''),
                       'estimate', kind='context'),
            MemoryLine('graph capture', 3 * GRAPH_BYTES, f'3 stages x {GRAPH_BYTES} bytes, kept '
                       'free: this version captures none yet', 'estimate', kind='graphs'),
            MemoryLine('allocator rounding', 22 * MIB + weights // 50, 'a segment of 20 MiB and '
                       f'one of 2 MiB, and 2 % of {weights} bytes of weights (121 MiB were seen: '
                       'vllm issue 10637)', 'estimate', kind='rounding')]
    else:
        lines.append(MemoryLine(
            'C library', KEPT_BYTES, 'what a step freed and glibc keeps for the next one; 4 to 30 '
            'MiB were seen', 'estimate', 'host', 'rounding'))
        lines.append(MemoryLine(
            'allocator rounding', num_tensors * 4096,
            f'each of {num_tensors} tensors to whole pages of 4096 bytes', 'bound', 'host',
            'rounding'))
    reserve, words = _reserve(device, reserve_bytes)
    lines.append(MemoryLine('rest of the robot', reserve, words, 'estimate', kind='reserve'))
    return lines


def _reserve(device: Device, reserve_bytes: int | None) -> tuple[int, str]:
    if reserve_bytes is not None:
        return reserve_bytes, 'as asked'
    if device.available_bytes is not None:
        return 0, 'what runs now is not in what is available'
    if device.unified or not is_gpu(device):
        return UNIFIED_RESERVE_BYTES, ('operating system, desktop and other nodes; 0.6 to 2.8 GiB '
                                       'were seen on idle Jetsons')
    return DISCRETE_RESERVE_BYTES, 'desktop and other processes on the GPU'
