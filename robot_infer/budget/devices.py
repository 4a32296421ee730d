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

"""What a plan must know of a computer: its memory, bandwidth and rates, from a table or by number.

The table is devices.yaml, which tools/make_devices.py makes; a file of one's own has the same
form. What a running machine says of itself is asked in probe.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
import difflib
from functools import lru_cache
from pathlib import Path
import re
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
import yaml

from robot_infer.errors import ConfigError

TABLE = Path(__file__).with_name('devices.yaml')
GIB = 2 ** 30
GB = 1e9
TERA = 1e12
RateName = Literal['fp32', 'fp16', 'int8', 'fp8', 'fp4']
_MOST_GIB = 65_536.0  # absurd beyond: a slip of the unit
_MOST_GB_S = 100_000.0
_MOST_TERA = 1_000_000.0


@dataclass(frozen=True)
class Device:
    """One computer's memory and speed.

    :param sm: compute capability, 87 for 8.7; None: no NVIDIA GPU, or not said.
    :param unified: GPU and CPU share one memory (every Jetson, DGX Spark).
    :param total_bytes: as the system shows it, less than what is marketed.
    :param bandwidth: bytes a second.
    :param rates: dense operations a second by number format, at most fp32, fp16 (bf16 too), int8,
        fp8 and fp4; a multiplication and an addition are two.
    :param available_bytes: free now; only where the machine itself was asked.
    :param measured: bandwidth and rates were measured on the machine; else from data sheets.
    """

    name: str
    sm: int | None
    unified: bool
    total_bytes: int
    total_basis: str
    bandwidth: float
    rates: Mapping[str, float] = field(hash=False)
    num_sms: int | None
    source: str
    note: str
    available_bytes: int | None = None
    measured: bool = False


_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Rate = Annotated[float, Field(gt=0, le=_MOST_TERA, allow_inf_nan=False)]


class _Entry(BaseModel):
    """A device as a file has it."""

    model_config = ConfigDict(frozen=True, extra='forbid', strict=True)

    name: _Name
    memory_gib: Annotated[float, Field(gt=0, le=_MOST_GIB, allow_inf_nan=False)]
    bandwidth_gb_s: Annotated[float, Field(gt=0, le=_MOST_GB_S, allow_inf_nan=False)]
    tera_ops_per_s: dict[RateName, _Rate] = {}
    sm: Annotated[int, Field(ge=10, le=999)] | None = None
    unified: bool = False
    memory_basis: str = 'given'
    num_sms: Annotated[int, Field(gt=0, le=10_000)] | None = None
    source: str = 'given'
    note: str = ''

    def device(self) -> Device:
        return Device(
            name=self.name, sm=self.sm, unified=self.unified,
            total_bytes=int(self.memory_gib * GIB), total_basis=self.memory_basis,
            bandwidth=self.bandwidth_gb_s * GB, num_sms=self.num_sms, source=self.source,
            rates=MappingProxyType({name: tera * TERA
                                    for name, tera in self.tera_ops_per_s.items()}),
            note=self.note)


@lru_cache(maxsize=1)
def known_devices() -> tuple[Device, ...]:
    """The devices of the table that ships with the package."""
    return load_devices(TABLE)


def load_devices(path: Path | str) -> tuple[Device, ...]:
    """Read a device file: `devices:` and below it a list of devices, as devices.yaml has them.

    :raises ConfigError: where it cannot be read, a key is unknown or missing, or a value is not
        what it should be; it names the device and the key.
    """
    path = Path(path)
    content = _yaml(path)
    rows = content.get('devices') if isinstance(content, dict) else None
    if not isinstance(rows, list) or not rows or set(content) != {'devices'}:
        raise ConfigError(
            f'device file {path}', expected='the one key devices: and a list below it',
            got=_kinds(content), remedy=f'{TABLE.name} of the package shows the form.')
    devices = tuple(_device(path, number, row) for number, row in enumerate(rows, 1))
    names = [_plain(device.name) for device in devices]
    for device in devices:
        if names.count(_plain(device.name)) > 1:
            raise ConfigError(f'device file {path}', expected='each device once',
                              got=f'{device.name!r} more than once', remedy='Rename one.')
    return devices


def find_device(name: str, devices: Sequence[Device] | None = None) -> Device:
    """The one device that a name means: all of its name, or words of it ('orin nx 16', '4090').

    :param devices: those of the shipped table, if not said.
    :raises ConfigError: where none or several have these words, with what there is.
    """
    devices = known_devices() if devices is None else devices
    wanted = _plain(name)
    exact = [device for device in devices if _plain(device.name) == wanted]
    found = exact or [device for device in devices if wanted and _is_called(device.name, name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f'device {name!r}', expected='words that one device alone has in its name',
            got=f'{len(found)} of them: {_listed(found)}', remedy='Say more of the name.')
    close = difflib.get_close_matches(wanted, [_plain(device.name) for device in devices],
                                      n=3, cutoff=0.4)
    near = [device for device in devices if _plain(device.name) in close] or devices
    raise ConfigError(
        f'device {name!r}', expected=f'a known device, such as {_listed(near)}',
        got='none of these words in any name',
        remedy='Or give its memory and bandwidth as numbers, or a device file, or ask the machine '
        'itself (auto).')


def given_device(
    memory_gib: float | None, bandwidth_gb_s: float | None,
    tera_ops_per_s: Mapping[str, float] | None = None, *, name: str = 'given by number',
    unified: bool = False, base: Device | None = None,
) -> Device:
    """A device by its numbers, as from a command line; of a known one, some may be replaced.

    :param base: the device whose numbers stay where none is given.
    :raises ConfigError: where memory or bandwidth is missing, or a number is absurd.
    """
    numbers = {'memory_gib': memory_gib, 'bandwidth_gb_s': bandwidth_gb_s,
               'tera_ops_per_s': dict(tera_ops_per_s or {}) or None}
    given = {key: value for key, value in numbers.items() if value is not None}
    subject = f'device {(base.name if base else name)!r}'
    if base is None:
        for key, words in (('memory_gib', 'memory in GiB'),
                           ('bandwidth_gb_s', 'bandwidth in GB/s')):
            if key not in given:
                raise ConfigError(subject, expected=f'its {words}', got='none', remedy='Give its '
                                  'memory and its bandwidth, or name a known device.')
        return _checked(subject, {'name': name, 'unified': unified, **given}).device()
    row = {'name': base.name, 'memory_gib': base.total_bytes / GIB,
           'bandwidth_gb_s': base.bandwidth / GB, **given}
    new = _checked(subject, row).device()
    device = replace(base, unified=base.unified or unified, bandwidth=new.bandwidth,
                     rates=MappingProxyType({**base.rates, **new.rates}))
    if memory_gib is not None:
        device = replace(device, total_bytes=new.total_bytes, total_basis='given',
                         available_bytes=None)
    if given:
        device = replace(device, note='; '.join(filter(None, (
            f'given: {", ".join(given)}', base.note))))
    return device


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is given twice, where YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(problem=f'the key {key} is given twice',
                                           problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def _yaml(path: Path) -> object:
    try:
        # A subclass of SafeLoader: no Python objects come out of it.
        return yaml.load(path.read_text(encoding='utf-8'), Loader=_StrictLoader)  # noqa: S506
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f'device file {path}', expected='a YAML file that can be read',
                          got=' '.join(str(error).split()) or type(error).__name__,
                          remedy=f'{TABLE.name} of the package shows the form.') from error


def _device(path: Path, number: int, row: object) -> Device:
    name = row.get('name') if isinstance(row, dict) else None
    subject = f'device file {path}, device {number}' + (f' ({name})' if name else '')
    if not isinstance(row, dict):
        raise ConfigError(subject, expected='a device: name, memory_gib, bandwidth_gb_s, ...',
                          got=repr(row)[:100], remedy=f'{TABLE.name} shows the form.')
    return _checked(subject, row).device()


def _checked(subject: str, row: Mapping[str, object]) -> _Entry:
    try:
        return _Entry.model_validate(row)
    except ValidationError as error:
        raise _refusal(subject, error) from error


def _refusal(subject: str, error: ValidationError) -> ConfigError:
    """The first fault, in the words of the file; a misspelt key before that it is missing."""
    first = min(error.errors(), key=lambda fault: fault['type'] == 'missing')
    where = [str(part) for part in first['loc'] if part != '[key]']
    known = list(_Entry.model_fields)
    if first['type'] == 'extra_forbidden' or '[key]' in first['loc']:
        if '[key]' in first['loc']:
            known = list(get_args(RateName))
        close = difflib.get_close_matches(where[-1], known, n=1)
        return ConfigError(f'{subject}: {".".join(where)}', expected=f'one of {", ".join(known)}',
                           got='an unknown key', remedy=f'Did you mean {close[0]}?' if close else
                           'Remove it, or see devices.yaml of the package.')
    if first['type'] == 'missing':
        return ConfigError(subject, expected=f'the key {".".join(where)}', got='none',
                           remedy='devices.yaml of the package shows what is needed.')
    return ConfigError(
        f'{subject}: {".".join(where)}', expected=first['msg'].removeprefix('Input should be '),
        got=repr(first['input'])[:100], remedy=_UNITS.get(where[0], 'Correct the value.'))


_UNITS = {
    'memory_gib': f'It is in GiB (2^30 bytes), above 0, at most {_MOST_GIB:.0f}.',
    'bandwidth_gb_s': f'It is in GB/s (10^9 bytes a second), above 0, at most {_MOST_GB_S:.0f}.',
    'tera_ops_per_s': f'Rates are in 10^12 a second, above 0, at most {_MOST_TERA:.0f}.',
    'sm': 'It is the compute capability as a whole number: 87 for 8.7.',
}


def _plain(name: str) -> str:
    """Letters and digits alone."""
    return re.sub(r'[^a-z0-9]', '', name.lower())


def _is_called(name: str, asked: str) -> bool:
    """Whether the asked words begin words of the name, or stand in it one after the other."""
    words = re.findall(r'[a-z0-9]+', name.lower())
    asked_words = re.findall(r'[a-z0-9]+', asked.lower())
    return _plain(asked) in _plain(name) or all(
        any(word.startswith(part) for word in words) for part in asked_words)


def _listed(devices: Sequence[Device]) -> str:
    return ', '.join(device.name for device in devices)


def _kinds(content: object) -> str:
    if isinstance(content, dict):
        return f'the keys {", ".join(map(str, content))}' if content else 'no key'
    return 'nothing' if content is None else f'a {type(content).__name__}'
