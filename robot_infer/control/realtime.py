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

"""Real-time settings of this process and its threads: asked for, and reported as obtained or not.

None of them is needed to run and none is fatal. Nothing is set on import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import contextlib
import ctypes
from dataclasses import dataclass
import gc
import os
from pathlib import Path
import platform
import resource
import threading

from robot_infer.config import RealtimeSettings
from robot_infer.control.time_slice import SHORTEST_S, set_time_slice
from robot_infer.errors import ConfigError

_MCL_CURRENT, _MCL_ONFAULT = 1, 4  # linux/mman.h; the same on x86-64 and aarch64
_LIMITS = 'in /etc/security/limits.conf, or for a container'


@dataclass(frozen=True)
class Outcome:
    """What became of one real-time setting.

    :param obtained: None where it was not asked for.
    :param words: what is in force, or why not and what to do.
    """

    name: str
    obtained: bool | None
    words: str


def parse_cores(text: str) -> frozenset[int]:
    """Cores as taskset writes them: '0,2-3'; '' means none named.

    :raises ConfigError: for anything else.
    """
    cores: set[int] = set()
    try:
        for part in filter(None, text.split(',')):
            first, dash, last = part.partition('-')
            cores.update(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        cores = {-1}
    if any(core < 0 for core in cores) or (text and not cores):
        raise ConfigError(
            'parameter realtime.cpu_affinity', expected='cores such as 3 or 0,2-3', got=repr(text),
            remedy='lscpu lists the cores; empty means all.')
    return frozenset(cores)


class Realtime:
    """Applies the settings; `outcomes` tells of all of them, at any time, from any thread.

    :raises ConfigError: where cpu_affinity cannot be read.
    """

    def __init__(self, settings: RealtimeSettings) -> None:
        self._settings = settings
        self._cores = parse_cores(settings.cpu_affinity)
        self._frozen = self._collected = False
        self._outcomes: dict[str, Outcome] = {}
        for name, asked in (
                ('scheduler', settings.priority > 0),
                ('process_scheduler', settings.process_priority > 0),
                ('time_slice', settings.time_slice_s >= SHORTEST_S),
                ('cpu_affinity', bool(self._cores)),
                ('lock_memory', settings.lock_memory), ('freeze_gc', settings.freeze_gc)):
            self._note(name, None, 'asked for, not yet at work' if asked else 'not asked for')

    def outcomes(self) -> tuple[Outcome, ...]:
        """Every setting, and the kind of kernel."""
        return (*self._outcomes.values(), kernel())

    def enter_process(self) -> None:
        """Apply what concerns the whole process; when everything is loaded."""
        if self._settings.lock_memory:
            self._try('lock_memory', _lock_memory)
        if self._settings.freeze_gc and not self._frozen:
            if not self._collected:  # once is enough: a restart leaves little behind
                gc.collect()
            gc.freeze()
            self._frozen = self._collected = True
            self._note('freeze_gc', True, f'{gc.get_freeze_count()} objects')

    def enter_threads(self) -> None:
        """Apply what concerns every thread that is there now; before those with more begin."""
        if self._settings.time_slice_s >= SHORTEST_S:
            self._try('time_slice', self._shorten_slices)
        if self._settings.process_priority:
            self._try('process_scheduler', self._schedule_others)

    def leave_process(self) -> None:
        """Take back what would outlive its use."""
        if self._outcomes['process_scheduler'].obtained:
            _each(_threads(), lambda thread: os.sched_setscheduler(
                thread, os.SCHED_OTHER, os.sched_param(0)))
            self._note('process_scheduler', None, 'not at work')
        if self._outcomes['time_slice'].obtained:
            _each(_threads(), lambda thread: set_time_slice(thread, 0.0))
            self._note('time_slice', None, 'not at work')
        if self._settings.lock_memory and self._outcomes['lock_memory'].obtained:
            ctypes.CDLL(None).munlockall()
            self._note('lock_memory', None, 'not at work')
        if self._frozen:
            gc.unfreeze()
            self._frozen = False
            self._note('freeze_gc', None, 'not at work')

    def enter_thread(self) -> None:
        """Apply what concerns the thread that calls."""
        if self._cores:
            self._try('cpu_affinity', self._pin)
        if self._settings.priority:
            self._try('scheduler', self._schedule)
        elif self._settings.time_slice_s >= SHORTEST_S:
            self._try('time_slice', self._shorten_slice)

    def _pin(self) -> str:
        os.sched_setaffinity(0, self._cores)
        return ','.join(map(str, sorted(os.sched_getaffinity(0))))

    def _shorten_slice(self) -> str:
        return _shorten_slices((threading.get_native_id(),), self._settings.time_slice_s)

    def _shorten_slices(self) -> str:
        return _shorten_slices(_threads(), self._settings.time_slice_s)

    def _schedule(self) -> str:
        return _schedule(0, self._settings.priority)

    def _schedule_others(self) -> str:
        priority = self._settings.process_priority

        def schedule(thread: int) -> None:
            if os.sched_getparam(thread).sched_priority < priority:
                _schedule(thread, priority)
        _each(_threads(), schedule)
        return f'SCHED_FIFO {priority}'

    def _try(self, name: str, apply: Callable[[], str]) -> None:
        try:
            self._note(name, True, apply())
        except OSError as error:
            self._note(name, False, f'{error.strerror}. {_remedy(name)}')

    def _note(self, name: str, obtained: bool | None, words: str) -> None:
        self._outcomes[name] = Outcome(name, obtained, words)


def kernel() -> Outcome:
    """Whether the kernel is a real-time one."""
    try:
        preempt_rt = Path('/sys/kernel/realtime').read_text().strip() == '1'
    except OSError:
        preempt_rt = False
    return Outcome('kernel', None, ('PREEMPT_RT ' if preempt_rt else '') + platform.release())


def _threads() -> tuple[int, ...]:
    """Every thread of this process, as the kernel numbers them."""
    return tuple(map(int, os.listdir('/proc/self/task')))


def _each(threads: Iterable[int], apply: Callable[[int], None]) -> None:
    """Apply to each thread that has not ended meanwhile."""
    for thread in threads:
        with contextlib.suppress(ProcessLookupError):
            apply(thread)


def _schedule(thread: int, priority: int) -> str:
    # Not inherited by what the thread may start: least of all by the policy's process.
    os.sched_setscheduler(
        thread, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    return f'SCHED_FIFO {priority}'


def _shorten_slices(threads: Iterable[int], slice_s: float) -> str:
    def shorten(thread: int) -> None:
        if os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER:
            set_time_slice(thread, slice_s)
    _each(threads, shorten)
    return f'{slice_s * 1e3:g} ms'


def _lock_memory() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_ONFAULT):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return 'what is there now and what is touched later'


def _remedy(name: str) -> str:
    """What to do where the system refused."""
    if name.endswith('scheduler'):
        allowed = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
        return (f'rtprio is {_limit(allowed)}: allow it {_LIMITS} --cap-add=sys_nice '
                '--ulimit rtprio=99.')
    if name == 'time_slice':
        return 'Linux has it from 6.12 on; nothing is lost but evenness under load.'
    if name == 'lock_memory':
        allowed = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        return (f'memlock is {_limit(allowed)} bytes: set it to unlimited {_LIMITS} '
                '--ulimit memlock=-1.')
    return f'This process may use cores {sorted(os.sched_getaffinity(0))}.'


def _limit(value: int) -> str:
    return 'unlimited' if value == resource.RLIM_INFINITY else str(value)
