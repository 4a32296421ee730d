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

"""Devices: the table is as made from its sources; names are found; a wrong file says where."""

from __future__ import annotations

import csv
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from robot_infer.budget.devices import (
    GIB,
    TABLE,
    find_device,
    given_device,
    known_devices,
    load_devices,
)
from robot_infer.errors import ConfigError

TOOLS = Path(__file__).parents[2] / 'tools'


@pytest.fixture(scope='module')
def make_devices():
    spec = spec_from_file_location('make_devices', TOOLS / 'make_devices.py')
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_as_the_csv_makes_it(make_devices):
    assert TABLE.read_text() == make_devices.made_text()


def test_every_device_of_the_csv_is_known_with_its_numbers():
    with (TOOLS / 'devices.csv').open(newline='') as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(known_devices()) == 23
    for row in rows:
        device = find_device(row['device'])
        assert device.bandwidth == pytest.approx(float(row['mem_bw_gb_s']) * 1e9)
        assert device.rates['fp16'] == pytest.approx(
            float(row['fp16_bf16_dense_tflops_fp32acc']) * 1e12)
        assert ('fp8' in device.rates) == bool(row['fp8_dense_tflops_fp32acc'])
        assert device.unified == (row['unified_memory'] == '1')
        assert device.source and device.total_basis
        if row['mem_reported_gib']:
            assert device.total_bytes / GIB == pytest.approx(
                float(row['mem_reported_gib']), abs=0.006)
        # Less than is on the box, and never by more than a tenth.
        assert 0.9 < device.total_bytes / (float(row['mem_nominal_gb']) * GIB) <= 1


def test_memory_is_to_the_mebibyte_where_the_source_is():
    assert find_device('Jetson AGX Orin 64GB').total_bytes == 62841 * 2 ** 20
    assert find_device('Jetson Orin Nano 8GB Super (MAXN_SUPER, 1020 MHz)').total_bytes == (
        7620 * 2 ** 20)


def test_memory_that_nobody_has_shown_says_so():
    h200, h100 = find_device('h200'), find_device('h100')
    assert 'not seen' in h200.total_basis and h100.name in h200.total_basis
    share = h100.total_bytes / (80 * GIB)
    assert h200.total_bytes / (141 * GIB) == pytest.approx(share, abs=1e-4)


def test_fp32_is_that_of_the_plain_cores():
    """NVIDIA's own figures: 5.3 TFLOPS for AGX Orin 64, 82.6 for a 4090, 19.5 for an A100."""
    for name, tera in (('agx orin 64', 5.3), ('4090', 82.6), ('a100 80', 19.5)):
        assert find_device(name).rates['fp32'] == pytest.approx(tera * 1e12, rel=0.01)


@pytest.mark.parametrize('words,name', [
    ('4090', 'GeForce RTX 4090'), ('rtx4090', 'GeForce RTX 4090'),
    ('orin nano super', 'Jetson Orin Nano 8GB Super (MAXN_SUPER, 1020 MHz)'),
    ('AGX Orin 64', 'Jetson AGX Orin 64GB'), ('jetson-orin-nx-16gb', 'Jetson Orin NX 16GB'),
    ('thor t5000', 'Jetson AGX Thor T5000 128GB'), ('spark', 'DGX Spark GB10 128GB')])
def test_a_device_is_found_by_words_of_its_name(words, name):
    assert find_device(words).name == name


def test_words_of_several_devices_are_refused_with_their_names():
    with pytest.raises(ConfigError, match='2 of them: A100 40GB SXM, A100 80GB SXM'):
        find_device('a100')


def test_an_unknown_device_names_those_near_it_and_the_other_ways():
    with pytest.raises(ConfigError, match='Jetson Orin NX 16GB.*numbers.*device file.*auto'):
        find_device('jetson orin nx 61gb')
    with pytest.raises(ConfigError, match='GeForce RTX 4090'):
        find_device('')


FILE = """\
devices:
- name: lab box
  memory_gib: 23.5
  bandwidth_gb_s: 900
  tera_ops_per_s: {fp16: 150.0, int8: 600}
- {name: other, memory_gib: 8, bandwidth_gb_s: 60, unified: true, sm: 87}
"""


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / 'devices.yaml'
    path.write_text(text)
    return path


def test_a_file_of_ones_own_is_read(tmp_path):
    devices = load_devices(_file(tmp_path, FILE))
    box = find_device('lab', devices)
    assert (box.total_bytes, box.bandwidth) == (int(23.5 * GIB), 900e9)
    assert dict(box.rates) == {'fp16': 150e12, 'int8': 600e12}
    assert devices[1].unified and devices[1].sm == 87
    with pytest.raises(ConfigError, match='lab box'):
        find_device('4090', devices)


@pytest.mark.parametrize('old,new,words', [
    ('memory_gib: 23.5', 'memory_gb: 23.5', 'lab box.*Did you mean memory_gib'),
    ('bandwidth_gb_s: 900', 'bandwith_gb_s: 900', 'Did you mean bandwidth_gb_s'),
    ('bandwidth_gb_s: 900', 'bandwidth_gb_s: -900', 'bandwidth_gb_s.*greater than 0.*-900'),
    ('bandwidth_gb_s: 900', 'bandwidth_gb_s: .nan', 'bandwidth_gb_s.*finite'),
    ('bandwidth_gb_s: 900', 'bandwidth_gb_s: fast', 'bandwidth_gb_s.*number.*fast'),
    ('memory_gib: 23.5', 'memory_gib: 25232932864', r'memory_gib.*less than.*2\^30'),
    ('memory_gib: 23.5', 'memory_gib: true', 'memory_gib.*number.*True'),
    ('fp16: 150.0', 'f16: 150.0', 'tera_ops_per_s.f16.*Did you mean fp16'),
    ('fp16: 150.0', 'fp16: 0', 'tera_ops_per_s.fp16.*greater than 0'),
    ('  memory_gib: 23.5\n', '', 'the key memory_gib; got none'),
    ('sm: 87', 'sm: 8.7', 'sm.*87 for 8.7'),
    ('unified: true', 'unified: 1', 'other.*unified'),
    ('name: lab box', 'name: Other', 'each device once'),
    ('  memory_gib: 23.5\n', '  memory_gib: 23.5\n  memory_gib: 24\n', 'is given twice'),
    ('devices:', 'device:', 'the one key devices'),
    (FILE, '', 'got nothing'),
    (FILE, '- a\n- b\n', 'got a list'),
    (FILE, 'devices: []\n', 'a list below it'),
    (FILE, 'devices: [4090]\n', 'device 1: expected a device'),
    (FILE, 'devices: [unclosed\n', 'a YAML file that can be read'),
    (FILE, 'devices: !!python/object/apply:os.getcwd []\n', 'a YAML file that can be read'),
])
def test_a_wrong_file_is_refused_by_name(tmp_path, old, new, words):
    assert old in FILE
    with pytest.raises(ConfigError, match=words) as caught:
        load_devices(_file(tmp_path, FILE.replace(old, new, 1)))
    assert 'devices.yaml' in str(caught.value) and 'pydantic' not in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match='No such file'):
        load_devices(tmp_path / 'devices.yaml')
    (tmp_path / 'binary.yaml').write_bytes(b'\xff\xfe\x00\x01')
    with pytest.raises(ConfigError, match='a YAML file that can be read'):
        load_devices(tmp_path / 'binary.yaml')
    with pytest.raises(ConfigError, match='a YAML file that can be read'):
        load_devices(tmp_path)


def test_a_device_is_given_by_numbers():
    device = given_device(16, 448.0, {'fp16': 90.0})
    assert (device.total_bytes, device.bandwidth) == (16 * GIB, 448e9)
    assert device.rates == {'fp16': 90e12} and device.total_basis == 'given'


def test_numbers_replace_those_of_a_known_device():
    known = find_device('agx orin 64')
    given = given_device(None, 190.0, {'fp16': 30.0}, base=known)
    assert given.total_bytes == known.total_bytes and given.total_basis == known.total_basis
    assert given.bandwidth == 190e9
    assert given.rates == {**known.rates, 'fp16': 30e12}
    assert given.note.startswith('given: bandwidth_gb_s, tera_ops_per_s')
    assert given_device(None, None, base=known) == known


@pytest.mark.parametrize('memory,bandwidth,rates,words', [
    (None, 100, None, 'memory in GiB'), (8, None, None, 'bandwidth in GB/s'),
    (-8, 100, None, 'memory_gib.*greater than 0'), (8, -1, None, 'bandwidth_gb_s.*greater than 0'),
    (8, float('inf'), None, 'bandwidth_gb_s'), (8, 100, {'fp17': 1.0}, 'fp17.*Did you mean fp16'),
    (8, 100, {'fp16': -1.0}, 'fp16.*greater than 0'), (1e9, 100, None, 'memory_gib.*GiB')])
def test_absurd_numbers_are_refused(memory, bandwidth, rates, words):
    with pytest.raises(ConfigError, match=words):
        given_device(memory, bandwidth, rates)
    if memory is not None and bandwidth is not None:
        with pytest.raises(ConfigError, match=words):
            given_device(memory, bandwidth, rates, base=find_device('4090'))
