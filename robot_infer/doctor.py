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


"""What was found on this computer, what is missing, and what to do about it.

Every check stands alone and survives anything that is not there, ROS and torch included. Nothing
is started or changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import importlib
import importlib.metadata
import os
from pathlib import Path
import platform
import resource
import shutil
import sys
from types import ModuleType
from typing import Literal

import psutil
from rich.console import Console
from rich.table import Table

from robot_infer import transport
from robot_infer.shared_files import DEMO_CHECKPOINT, shared_file

_GIB = 2**30
_MESSAGES = ('std_msgs', 'sensor_msgs', 'trajectory_msgs', 'diagnostic_msgs', 'lifecycle_msgs')


@dataclass(frozen=True)
class Finding:
    """One line of the table.

    :param state: ok; note: it works without, but see the remedy; missing: it does not work.
    """

    subject: str
    state: Literal['ok', 'note', 'missing']
    found: str
    remedy: str = ''


def examine() -> list[Finding]:
    """Run every check, in the order they are shown."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python, _libraries, _torch, _backends, _ros, _messages, _middleware, _profile,
        _shared_memory, _launch, _demo_policy, _gpu, _kernels, _processor, _memory, _real_time)
    return [_safely(check) for check in checks]


def report(findings: list[Finding], console: Console) -> bool:
    """Print the table; True where nothing that is needed is missing."""
    table = Table(title='robot_infer doctor', title_justify='left', show_lines=False)
    table.add_column('')
    table.add_column('what', no_wrap=True)
    table.add_column('found', overflow='fold')
    table.add_column('what to do', overflow='fold')
    colours = {'ok': 'green', 'note': 'yellow', 'missing': 'bold red'}
    for finding in findings:
        table.add_row(f'[{colours[finding.state]}]{finding.state}[/]', finding.subject,
                      finding.found, finding.remedy)
    console.print(table)
    missing = [finding.subject for finding in findings if finding.state == 'missing']
    console.print(f'Missing: {", ".join(missing)}.' if missing else 'Nothing is missing.')
    return not missing


def _safely(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # a broken installation is what this command is asked about
        name = check.__name__.strip('_').replace('_', ' ')
        return Finding(name, 'missing', f'{type(error).__name__}: {error}',
                       'This check itself failed; the message says on what.')


def _import(name: str) -> ModuleType | str:
    """The module, or why it cannot be imported (a broken library raises more than ImportError)."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        return f'{type(error).__name__}: {error}'


def _python() -> Finding:
    version = platform.python_version()
    found = f'{version}, {sys.executable}'
    if (3, 10) <= sys.version_info[:2] <= (3, 12):
        return Finding('Python', 'ok', found)
    return Finding('Python', 'missing', found, 'Use Python 3.10, 3.11 or 3.12.')


def _libraries() -> Finding:
    names = ('numpy', 'cv2', 'pydantic', 'yaml', 'safetensors', 'tokenizers', 'matplotlib',
             'rosbags', 'mcap', 'ddsketch')
    found, broken = [], []
    for name in names:
        module = _import(name)
        (broken if isinstance(module, str) else found).append(
            f'{name}: {module}' if isinstance(module, str)
            else f'{name} {getattr(module, "__version__", "?")}')
    if broken:
        return Finding('libraries', 'missing', '; '.join(broken),
                       f'Run make setup, or install them for {sys.executable}.')
    return Finding('libraries', 'ok', ', '.join(found))


def _torch() -> Finding:
    torch = _import('torch')
    if isinstance(torch, str):
        return Finding('torch', 'missing', torch, 'Run make setup, or install torch 2.4 or newer '
                       f'for {sys.executable} (on a Jetson NVIDIA\'s own build).')
    cuda = torch.version.cuda or 'none'
    found = f'{torch.__version__}, {torch.get_num_threads()} threads, CUDA {cuda}'
    if tuple(int(part) for part in torch.__version__.split('.')[:2]) < (2, 4):
        return Finding('torch', 'missing', found, 'Install torch 2.4 or newer.')
    return Finding('torch', 'ok', found)


def _backends() -> Finding:
    """Attend once over two pages with every backend that is there, and compare."""
    kernels, torch = _import('robot_infer_kernels'), _import('torch')
    if isinstance(torch, str):
        return Finding('backends', 'missing', 'unknown without torch', 'See torch above.')
    if isinstance(kernels, str):
        return Finding('backends', 'missing', kernels, 'Install the package: make setup, '
                       'colcon build or pip install.')
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, 4, 16, generator=generator)
    pages = torch.randn(2, 2, 8, 2, 16, generator=generator)
    result = {name: kernels.paged_attention(
        query, pages, torch.tensor([1, 0]), 13, 13, 0.25, backend=name)
        for name in ('cpu', 'reference')}
    error = float((result['cpu'] - result['reference']).abs().max())
    found = f'cpu, reference; they differ by {error:.0e}'
    if error > 1e-5:
        return Finding('backends', 'missing', found, 'This torch computes attention wrongly on '
                       'this processor: install another build.')
    return Finding('backends', 'ok', found)


def _ros() -> Finding:
    distribution = os.environ.get('ROS_DISTRO', '')
    rclpy = _import('rclpy')
    if isinstance(rclpy, str):
        remedy = (f'ROS 2 {distribution} is sourced but {sys.executable} cannot use it: build the '
                  'environment with the Python that ROS uses.' if distribution else
                  'Source ROS 2, or run make setup, which installs rclpy from wheels.')
        return Finding('ROS 2', 'missing', rclpy, remedy)
    place = Path(rclpy.__file__).parents[1]
    if distribution:
        return Finding('ROS 2', 'ok', f'{distribution}, rclpy in {place}')
    version = importlib.metadata.version('rclpy')
    return Finding('ROS 2', 'ok', f'rclpy {version} from wheels, in {place}')


def _messages() -> Finding:
    broken = [f'{name}: {module}' for name in _MESSAGES
              if isinstance(module := _import(f'{name}.msg'), str)]
    if broken:
        return Finding('messages', 'missing', '; '.join(broken),
                       'Install the packages named (ros-<distribution>-<name>).')
    return Finding('messages', 'ok', ', '.join(_MESSAGES))


def _middleware() -> Finding:
    rclpy = _import('rclpy')
    if isinstance(rclpy, str):
        return Finding('middleware', 'missing', 'unknown without rclpy', 'See ROS 2 above.')
    name = rclpy.get_rmw_implementation_identifier()
    domain = os.environ.get('ROS_DOMAIN_ID', '0')
    reach = os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE') or (
        'LOCALHOST' if os.environ.get('ROS_LOCALHOST_ONLY') == '1' else 'SUBNET (default)')
    return Finding('middleware', 'ok', f'{name}, domain {domain}, discovery {reach}')


def _profile() -> Finding:
    subject = 'Fast DDS profile'
    rclpy = _import('rclpy')
    if not isinstance(rclpy, str) and not transport.needs_profile(
            rclpy.get_rmw_implementation_identifier()):
        return Finding(subject, 'ok', 'not needed with this middleware')
    profile = transport.find_profile()
    if profile.carries_large_frames:
        return Finding(subject, 'ok', f'{profile.path}, shared memory of '
                       f'{profile.segment_bytes / 2**20:.0f} MiB')
    export = f'export FASTDDS_DEFAULT_PROFILES_FILE={shared_file("config/fastdds.xml")}'
    return Finding(subject, 'note', f'{profile.fault}: best-effort images above 0.5 MB, such as '
                   'raw 640x480, are nearly all lost', f'{export}  {transport.CURE}')


def _shared_memory() -> Finding:
    place = Path('/dev/shm')
    if not place.is_dir():
        return Finding('shared memory', 'note', 'no /dev/shm', 'Fast DDS will use UDP; mount '
                       'a tmpfs at /dev/shm for large images.')
    free = shutil.disk_usage(place).free
    found = f'/dev/shm, {free / 2**20:.0f} MiB free'
    if not os.access(place, os.W_OK):
        return Finding('shared memory', 'note', f'{found}, not writable', 'Give this user write '
                       'permission on /dev/shm.')
    if free < 256 * 2**20:
        return Finding('shared memory', 'note', found, 'Each process takes 32 MiB. Remove what '
                       'ended processes left (fastdds shm clean), or in Docker give --shm-size=1g '
                       'or --ipc=host.')
    return Finding('shared memory', 'ok', found)


def _launch() -> Finding:
    module = _import('launch_ros')
    if isinstance(module, str):
        return Finding('ros2 launch', 'note', 'launch_ros cannot be imported', 'Not needed for '
                       'make demo; launch files need a ROS 2 installation.')
    return Finding('ros2 launch', 'ok', 'launch and launch_ros')


def _demo_policy() -> Finding:
    weights = DEMO_CHECKPOINT / 'model.safetensors'
    if not weights.is_file():
        return Finding('demo policy', 'missing', f'no {weights}',
                       'Install the package anew; its data files were left out.')
    return Finding('demo policy', 'ok', f'{weights.stat().st_size / 1e6:.1f} MB, {weights.parent}')


def _gpu() -> Finding:
    torch = _import('torch')
    if isinstance(torch, str) or not torch.cuda.is_available():
        return Finding('GPU', 'note', 'none that torch can use', 'The policy runs on the CPU. For '
                       'a GPU: NVIDIA\'s driver, and a torch built with CUDA.')
    cards = []
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        cards.append(f'cuda:{index} {card.name}, {card.total_memory / _GIB:.1f} GiB, '
                     f'sm_{card.major}{card.minor}')
    return Finding('GPU', 'ok', '; '.join(cards))


def _kernels() -> Finding:
    """What the kernels run as here; `robot-infer kernels which` says more."""
    torch, which = _import('torch'), _import('robot_infer_kernels.which')
    if isinstance(torch, str) or isinstance(which, str):
        return Finding('kernels', 'missing', 'unknown without torch' if isinstance(torch, str)
                       else which, 'See torch and backends above.')
    native, words = importlib.import_module('robot_infer_kernels.cpu.native').describe()
    found = f'{words}; triton: {which.triton_words()}'
    if not which.triton_version():
        remedy = importlib.import_module('robot_infer_kernels.gpu.check').HOW_TO_GET_TRITON
        return Finding('kernels', 'note', found, 'Only for a GPU, or to check for one: '
                       f'{remedy}.')
    if not native:
        return Finding('kernels', 'note', found, 'Attention runs in torch, correctly and slower. '
                       'For the C++ kernel install with a compiler (g++) there.')
    return Finding('kernels', 'ok', found)


def _processor() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    load = os.getloadavg()[0]
    found = f'{platform.machine()}, {usable} cores usable, load {load:.1f}'
    if usable is not None and load > usable:
        return Finding('processor', 'note', found, 'Other programs are busy; expect late steps.')
    return Finding('processor', 'ok', found)


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    found = f'{memory.available / _GIB:.1f} GiB available of {memory.total / _GIB:.1f} GiB'
    if memory.available < 1 * _GIB:
        return Finding('memory', 'note', found, 'The demo needs about 1 GiB, a real policy more.')
    return Finding('memory', 'ok', found)


def _real_time() -> Finding:
    priority = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    realtime = Path('/sys/kernel/realtime')
    kernel = 'real-time kernel' if realtime.is_file() and realtime.read_text().strip() == '1' \
        else 'ordinary kernel'
    lock = 'unlimited' if locked == resource.RLIM_INFINITY else f'{locked // 1024} KiB'
    found = f'{kernel}, rtprio {priority}, memlock {lock}'
    if os.geteuid() != 0 and priority == 0:
        return Finding('real time', 'note', found, 'Not needed today. For real-time priorities '
                       'add the user to a group with rtprio and memlock in limits.conf.')
    return Finding('real time', 'ok', found)
