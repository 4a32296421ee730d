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

"""Make robot_infer/budget/devices.yaml from tools/devices.csv, which has the sources.

    python tools/make_devices.py [--check]

What the csv says of memory is what a system showed (tegrastats, nvidia-smi, torch). Where nothing
was found for a device, its memory is the marketed size times the smallest share of it that the
devices of the same architecture show, and the basis says so.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
import re
import sys

import yaml

ROOT = Path(__file__).parents[1]
TABLE = ROOT / 'tools' / 'devices.csv'
MADE = ROOT / 'robot_infer' / 'budget' / 'devices.yaml'
HEAD = """\
# Made by tools/make_devices.py from tools/devices.csv: change the csv and make it again.
# memory_gib: as the system shows it, in GiB (2^30 bytes); memory_basis: where that comes from.
# bandwidth_gb_s: in GB/s (10^9 bytes); tera_ops_per_s: dense peaks in 10^12 operations a second,
# a multiplication and an addition being two. fp16 (and bf16) accumulate in fp32; fp32 is that of
# the plain cores: SMs x lanes x 2 x clock. Jetson rates are the GPU's alone, without the DLA.
"""
# Lanes for fp32 of one SM, by compute capability (CUDA programming guide).
FP32_LANES = {80: 64, 86: 128, 87: 128, 89: 128, 90: 128, 110: 128, 120: 128, 121: 128}
RATES = {'fp16': 'fp16_bf16_dense_tflops_fp32acc', 'int8': 'int8_dense_tops',
         'fp8': 'fp8_dense_tflops_fp32acc', 'fp4': 'fp4_dense_tflops'}


def main() -> None:
    """Write the file; with --check only say whether it is as it would be made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--check', action='store_true', help='exit 1 where the file differs')
    text = made_text()
    if parser.parse_args().check:
        sys.exit(0 if MADE.read_text() == text else f'{MADE.relative_to(ROOT)} is not as made')
    MADE.write_text(text)
    print(f'wrote {MADE.relative_to(ROOT)}')


def made_text() -> str:
    """The yaml for the csv as it is."""
    with TABLE.open(newline='') as file:
        rows = list(csv.DictReader(file))
    devices = [_device(row, rows) for row in rows]
    return HEAD + yaml.safe_dump({'devices': devices}, sort_keys=False, width=95)


def _device(row: dict[str, str], rows: list[dict[str, str]]) -> dict[str, object]:
    sm = int(row['sm'].removeprefix('sm_'))
    memory_gib, basis = _memory(row, rows)
    fp32 = int(row['sm_count']) * FP32_LANES[sm] * 2 * float(row['gpu_boost_mhz']) / 1e6
    rates = {'fp32': round(fp32, 1)}
    rates |= {name: float(row[column]) for name, column in RATES.items() if row[column]}
    return {
        'name': row['device'], 'sm': sm, 'unified': row['unified_memory'] == '1',
        'memory_gib': memory_gib, 'memory_basis': basis,
        'bandwidth_gb_s': float(row['mem_bw_gb_s']), 'tera_ops_per_s': rates,
        'num_sms': int(row['sm_count']), 'source': row['source'],
        'note': '; '.join(filter(None, (row['note'], f'checked: {row["checked"]}')))}


def _memory(row: dict[str, str], rows: list[dict[str, str]]) -> tuple[float, str]:
    """GiB as shown, and the basis."""
    if row['mem_reported_gib']:
        return _reported_gib(row), row['mem_reported_basis']
    alike = [other for other in rows if other['mem_reported_gib'] and other['sm'] == row['sm']]
    share, name = min((_reported_gib(other) / float(other['mem_nominal_gb']), other['device'])
                      for other in alike)
    nominal = float(row['mem_nominal_gb'])
    return round(nominal * share, 4), (
        f'not seen: {nominal:.0f} GiB x {share:.4f}, the share of its marketed size that '
        f'{name} shows, the smallest of {row["sm"]}')


def _reported_gib(row: dict[str, str]) -> float:
    """In MiB where the source has them: two decimals of a GiB are not enough."""
    gib = float(row['mem_reported_gib'])
    for mib in re.findall(r'(\d+) MiB', row['mem_reported_basis']):
        if abs(int(mib) / 1024 - gib) < 0.006:
            return int(mib) / 1024
    return gib


if __name__ == '__main__':
    main()
