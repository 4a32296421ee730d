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

"""What this machine says of itself: real measurements, and the rules for what others would say."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import psutil
import pytest
import torch

from robot_infer.budget.devices import GIB, find_device, given_device
from robot_infer.budget.probe import (
    available_unified,
    match_cuda,
    measure_efficiency,
    probe,
)
from robot_infer.budget.roofline import usual
from robot_infer.errors import BudgetError, ConfigError


@pytest.fixture(scope='module')
def cpu():
    return probe('cpu', threads=1)


def test_a_cpu_says_its_memory_and_is_measured(cpu):
    assert cpu.total_bytes == psutil.virtual_memory().total
    assert 0 < cpu.available_bytes <= cpu.total_bytes
    assert cpu.measured and cpu.unified and cpu.sm is None
    # Between a small board's and more than any socket has.
    assert 0.1e9 < cpu.bandwidth < 5e12
    assert set(cpu.rates) == {'fp32', 'fp16'}
    assert all(1e8 < rate < 1e15 for rate in cpu.rates.values())
    assert cpu.name.endswith('1 threads')


def test_measuring_leaves_the_threads_of_torch_alone():
    before = torch.get_num_threads()
    probe('cpu', threads=before + 1)
    assert torch.get_num_threads() == before


def test_the_reserve_is_taken_off_what_is_available():
    now = psutil.virtual_memory().available
    reserved = probe('cpu', reserve_bytes=now // 2, threads=1)
    # Others take and free memory meanwhile, though not a quarter of all.
    assert reserved.available_bytes == pytest.approx(now / 2, abs=now / 4)


def test_a_reserve_that_leaves_nothing_is_refused():
    with pytest.raises(BudgetError, match='reserve.*available now'):
        probe('cpu', reserve_bytes=2 * psutil.virtual_memory().total, threads=1)


def test_unified_memory_is_the_smaller_of_both_less_the_reserve():
    # A Jetson with its page cache full: CUDA says 61 GiB in total, the system would free 40.
    assert available_unified(61 * GIB, 40 * GIB, 2 * GIB) == 38 * GIB
    # A board whose GPU may have a part of the memory only.
    assert available_unified(45 * GIB, 54 * GIB, 0) == 45 * GIB
    with pytest.raises(BudgetError):
        available_unified(8 * GIB, 3 * GIB, 3 * GIB)


@pytest.mark.parametrize('name', [
    'H200 141GB SXM', 'H100 80GB SXM', 'GeForce RTX 4090', 'Jetson AGX Orin 64GB',
    'Jetson AGX Orin 32GB', 'Jetson Orin NX 16GB', 'Jetson AGX Thor T5000 128GB',
    'DGX Spark GB10 128GB', 'A100 80GB SXM', 'A100 40GB SXM', 'L4 24GB'])
def test_a_chip_is_found_by_what_cuda_says_of_it(name):
    device = find_device(name)
    for total in (device.total_bytes, int(device.total_bytes * 0.98)):
        assert match_cuda(device.sm, device.num_sms, total) == (device, '')


def test_of_chips_that_look_alike_the_slowest_is_taken_and_it_is_said():
    nano = find_device('orin nano super')
    known, note = match_cuda(nano.sm, nano.num_sms, nano.total_bytes)
    assert known.name == 'Jetson Orin Nano 8GB (15 W, 625 MHz)'
    assert nano.name in note and 'slowest' in note


def test_a_chip_that_is_not_in_the_table_is_not_taken_for_another():
    assert match_cuda(89, 76, 16 * GIB) == (None, '')  # a 4090 of a laptop
    assert match_cuda(90, 132, 94 * GIB) == (None, '')  # an H100 NVL


def test_the_self_test_gives_shares_of_the_device(cpu):
    measured = measure_efficiency(cpu, 'cpu', maths='fp32', threads=1, seconds=0.05)
    assert 0 < measured.compute <= 1 and 0 < measured.memory <= 1
    assert 0 < measured.launch_s < 0.01
    assert measured.source.startswith('self-test: ') and 'GB/s' in measured.source
    assert measured != usual(cpu)


def test_the_self_test_says_less_where_the_figures_are_higher(cpu):
    """Ten times the figures, a tenth of the share: it is the machine that was measured."""
    boast = given_device(1, cpu.bandwidth / 1e9 * 100, {'fp32': cpu.rates['fp32'] / 1e12 * 100})
    measured = measure_efficiency(boast, 'cpu', maths='fp32', threads=1, seconds=0.05)
    assert measured.compute < 0.1 and measured.memory < 0.1


def test_a_self_test_without_a_rate_to_compare_with_is_refused():
    with pytest.raises(ConfigError, match='a rate for fp32'):
        measure_efficiency(given_device(8, 100, {'fp16': 10.0}), 'cpu', maths='fp32')


@pytest.mark.parametrize('name', ['gpu', 'cuda:99', 'meta', 'cpu:x', ''])
def test_a_device_that_is_not_here_is_refused(name):
    with pytest.raises(ConfigError, match='auto, cpu, cuda or cuda:N'):
        probe(name)


@pytest.mark.parametrize('values', [{'reserve_bytes': -1}, {'threads': -1}])
def test_negative_values_are_refused(values):
    with pytest.raises(ConfigError, match='at least 0'):
        probe('cpu', **values)


def test_torch_is_not_imported_before_a_machine_is_asked():
    script = ('import sys, robot_infer.budget.probe, robot_infer.budget.roofline, '
              'robot_infer.budget.history, robot_infer.budget.devices; '
              'sys.exit("torch" in sys.modules)')
    assert subprocess.run([sys.executable, '-c', script], check=False).returncode == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason='no CUDA device here')
def test_a_gpu_says_what_cuda_says():
    device = probe('cuda')
    properties = torch.cuda.get_device_properties(0)
    assert device.total_bytes == properties.total_memory
    assert device.num_sms == properties.multi_processor_count
    assert 0 < device.available_bytes <= device.total_bytes
    assert device.bandwidth > 1e10 and device.rates['fp16'] > 1e12
    measured = measure_efficiency(device, 'cuda')
    assert 0.05 < measured.compute <= 1 and 0.05 < measured.memory <= 1
    assert 1e-7 < measured.launch_s < 1e-3


def test_auto_is_what_torch_has():
    device = probe('auto', threads=max(1, (os.cpu_count() or 2) - 1))
    assert (device.sm is not None) == torch.cuda.is_available()
    assert math.isfinite(device.bandwidth)
