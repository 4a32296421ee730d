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

"""Asking this machine: its memory, and what it does in a short self-test.

    GPU      what CUDA says; bandwidth and rates from the table, where the chip is in it
    unified  min(CUDA total, MemAvailable) - reserve: what CUDA calls free is without page cache
    CPU      MemAvailable; bandwidth and rates are measured, as no data sheet has them

`measure_efficiency` replaces the usual efficiency by a measured one, of products as a step has
them: one row over a weight that no cache holds (memory), the rows of two cameras (compute), and
one so small that its launch is all (launch; one by one, without a CUDA graph). torch is imported
where a machine is asked, and nowhere else in this room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import os
from pathlib import Path
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import psutil

from robot_infer.budget.devices import GB, GIB, TERA, Device, known_devices
from robot_infer.budget.roofline import Efficiency
from robot_infer.errors import BudgetError, ConfigError

if TYPE_CHECKING:
    import torch

_ALIKE = 0.07  # memory of the same chip differs by no more: ECC, carve-outs
_CPU_COPY_BYTES, _GPU_COPY_BYTES = 64 * 2 ** 20, 512 * 2 ** 20  # larger than any cache
_CPU_SIDE, _GPU_SIDE = 768, 4096  # of the matrices that are multiplied
_SECONDS = 0.25  # for each measurement
_ROWS = 128  # two cameras of 64 tokens
_VALUE_BYTES = {'fp32': 4, 'fp16': 2}


def probe(
    device_name: str = 'auto', *, reserve_bytes: int = 0, threads: int = 0, measure: bool = True,
) -> Device:
    """This machine, as a device of the plan.

    :param device_name: auto (a GPU where there is one), cpu, cuda, or cuda:1.
    :param reserve_bytes: to be taken off what is available, on a CPU and on unified memory; 0
        where the plan has a line for it.
    :param threads: that a CPU computes with; 0: one less than there are cores, as the policy.
    :param measure: bandwidth and rates, where no table has them; else they are 0 and none.
    :raises ConfigError: where torch has no such device here.
    :raises BudgetError: where nothing is left beside the reserve.
    """
    if reserve_bytes < 0 or threads < 0:
        raise ConfigError('probe', expected='a reserve and a number of threads of at least 0',
                          got=f'{reserve_bytes} bytes, {threads} threads', remedy='Correct them.')
    device = _torch_device(device_name)
    if device.type == 'cuda':
        return _probe_cuda(device, reserve_bytes, measure)
    return _probe_cpu(reserve_bytes, threads, measure)


def measure_efficiency(
    device: Device, device_name: str = 'auto', *, maths: Literal['fp32', 'fp16'] = 'fp16',
    threads: int = 0, seconds: float = _SECONDS,
) -> Efficiency:
    """What products reach of a device's figures on this machine, in about a second.

    :param device: this machine, as `probe` or the table has it.
    :param maths: the format that the model is computed in.
    :raises ConfigError: where the device has no rate for it to compare with.
    """
    where, threads = _torch_device(device_name), threads or _default_threads()
    if maths not in device.rates:
        raise ConfigError(f'device {device.name!r}', expected=f'a rate for {maths}, to which the '
                          'measured one is compared', got=', '.join(device.rates) or 'none',
                          remedy='Give its rate, or leave the self-test out.')
    on_cpu = where.type == 'cpu'
    wide, side = (_CPU_SIDE * 8, _CPU_SIDE) if on_cpu else (_GPU_SIDE * 8, _GPU_SIDE)
    with _threads(threads if on_cpu else 0):
        streamed = _product_s(where, 1, (wide, wide // 2), maths, seconds)
        computed = _product_s(where, _ROWS, (side * 4, side), maths, seconds)
        launch_s = _product_s(where, 1, (64, 64), maths, seconds)
    reached = wide * wide // 2 * _VALUE_BYTES[maths] / streamed, 8.0 * _ROWS * side ** 2 / computed
    return Efficiency(
        compute=min(1.0, reached[1] / device.rates[maths]),
        memory=min(1.0, reached[0] / device.bandwidth), launch_s=min(1.0, launch_s),
        source=f'self-test: {reached[1] / TERA:.3g} TFLOP/s {maths}, {reached[0] / GB:.3g} GB/s')


def match_cuda(sm: int, num_sms: int, total_bytes: int) -> tuple[Device | None, str]:
    """The chip in the table, by what CUDA says of it; and a word where several are alike.

    Names do not tell: every Orin is named Orin, and a laptop's 4090 is another chip.
    """
    found = [known for known in known_devices() if (known.sm, known.num_sms) == (sm, num_sms)
             and abs(known.total_bytes / total_bytes - 1) <= _ALIKE]
    if not found:
        return None, ''
    slowest = min(found, key=lambda known: (known.bandwidth, known.rates.get('fp16', 0.0)))
    others = ' or '.join(known.name for known in found if known is not slowest)
    return slowest, f'may be {others} too; the slowest is taken' if others else ''


def _torch_device(name: str) -> torch.device:
    import torch
    wanted = name.strip().lower()
    if wanted == 'auto':
        wanted = 'cuda' if torch.cuda.is_available() else 'cpu'
    try:
        device = torch.device(wanted)
        if device.type not in ('cpu', 'cuda'):
            raise ValueError(f'a device of type {device.type}')
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ConfigError(f'device {name!r}', expected='auto, cpu, cuda or cuda:N that torch can '
                          'use here', got=str(error).splitlines()[0],
                          remedy='A device that is not here can be named from the table.'
                          ) from error
    return device


def _probe_cuda(device: torch.device, reserve_bytes: int, measure: bool) -> Device:
    import torch
    properties = torch.cuda.get_device_properties(device)
    unified = bool(getattr(properties, 'is_integrated', False))
    total, sm = properties.total_memory, properties.major * 10 + properties.minor
    free = torch.cuda.mem_get_info(device)[0]
    if unified:
        free = available_unified(total, psutil.virtual_memory().available, reserve_bytes)
    known, note = match_cuda(sm, properties.multi_processor_count, total)
    if known is not None:
        bandwidth, rates = known.bandwidth, known.rates
        source = f'CUDA; bandwidth and rates of {known.name}: {known.source}'
    else:
        bandwidth, measured = _measure(device, 0, _SECONDS) if measure else (0.0, {})
        rates, source = MappingProxyType(measured), 'CUDA; bandwidth and rates measured'
    return Device(
        name=properties.name, sm=sm, unified=unified, total_bytes=total,
        total_basis='CUDA total memory', bandwidth=bandwidth, rates=rates,
        num_sms=properties.multi_processor_count, source=source, note=note, available_bytes=free,
        measured=known is None)


def available_unified(total_bytes: int, available_bytes: int, reserve_bytes: int) -> int:
    """What may be taken of a memory that GPU and system share.

    :param available_bytes: MemAvailable, which counts what the system would give back.
    :raises BudgetError: where nothing is left.
    """
    left = min(total_bytes, available_bytes) - reserve_bytes
    if left <= 0:
        raise BudgetError('reserve', expected=f'less than {min(total_bytes, available_bytes)} '
                          'bytes, which this machine has available now',
                          got=f'{reserve_bytes} bytes', remedy='Lower the reserve, or end what '
                          'else takes memory.')
    return left


def _probe_cpu(reserve_bytes: int, threads: int, measure: bool) -> Device:
    import torch
    memory = psutil.virtual_memory()
    available = available_unified(memory.total, memory.available, reserve_bytes)
    count = threads or _default_threads()
    bandwidth, rates = (_measure(torch.device('cpu'), count, _SECONDS) if measure
                        else (0.0, {}))
    return Device(
        name=f'{_cpu_name()}, {count} threads', sm=None, unified=True, total_bytes=memory.total,
        total_basis='MemTotal', bandwidth=bandwidth, rates=MappingProxyType(rates), num_sms=None,
        source='/proc/meminfo; bandwidth and rates measured',
        note=f'a copy of {_CPU_COPY_BYTES / GIB:.3f} GiB, products of {_CPU_SIDE} x {_CPU_SIDE}',
        available_bytes=available, measured=True)


def _measure(
    device: torch.device, threads: int, seconds: float,
) -> tuple[float, dict[str, float]]:
    """Bytes a second of a copy, read and written; operations a second of large products."""
    on_cpu = device.type == 'cpu'
    num_bytes, side = (_CPU_COPY_BYTES, _CPU_SIDE) if on_cpu else (_GPU_COPY_BYTES, _GPU_SIDE)
    with _threads(threads if on_cpu else 0):
        return _copy_rate(device, num_bytes, seconds), {
            maths: 2.0 * side ** 3 / _product_s(device, side, (side, side), maths, seconds)
            for maths in _VALUE_BYTES}


def _copy_rate(device: torch.device, num_bytes: int, seconds: float) -> float:
    import torch
    source = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / _best_s(lambda: target.copy_(source), device, seconds)


def _product_s(
    device: torch.device, rows: int, weight: tuple[int, int], maths: str, seconds: float,
) -> float:
    """Seconds of rows times a weight of (outs, ins)."""
    import torch
    dtype = torch.float32 if maths == 'fp32' else torch.bfloat16
    with torch.inference_mode():
        matrix = torch.ones(weight, dtype=dtype, device=device)
        x = torch.ones(rows, weight[1], dtype=dtype, device=device)
        return _best_s(lambda: torch.nn.functional.linear(x, matrix), device, seconds)


def _best_s(run: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """The shortest of the runs that fit into some seconds: what others do only adds to a time."""
    import torch

    def finish() -> None:
        if device.type == 'cuda':
            torch.cuda.synchronize(device)

    run()
    finish()
    best, until = float('inf'), time.perf_counter() + seconds
    while True:
        started = time.perf_counter()
        run()
        finish()
        ended = time.perf_counter()
        best = min(best, ended - started)
        if ended >= until:
            return max(best, 1e-9)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """torch computes with so many threads for a while; 0: as it is."""
    import torch
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _default_threads() -> int:
    """As many as the policy takes when it is not told (engine.py)."""
    return max(1, (os.cpu_count() or 2) - 1)


def _cpu_name() -> str:
    """As /proc/cpuinfo has it; where that names no model, as on ARM, the board's."""
    for line in Path('/proc/cpuinfo').read_text(errors='replace').splitlines():
        key, _, value = line.partition(':')
        if key.strip() == 'model name' and value.strip():
            return value.strip()
    board = Path('/proc/device-tree/model')
    return board.read_text(errors='replace').strip('\0 \n') if board.is_file() else (
        f'{os.uname().machine} CPU')
