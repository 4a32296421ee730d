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

"""Real-time settings: obtained or not, each is told, and none is fatal."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import subprocess
import sys
import threading

import pytest

from robot_infer.config import Config, RealtimeSettings
from robot_infer.control import realtime, time_slice
from robot_infer.control.memory import CollectorWatch, resident_bytes
from robot_infer.control.realtime import Realtime, parse_cores
from robot_infer.control.time_slice import get_time_slice
from robot_infer.errors import ConfigError


def outcomes(applied: Realtime) -> dict[str, tuple[bool | None, str]]:
    return {outcome.name: (outcome.obtained, outcome.words) for outcome in applied.outcomes()}


def in_a_thread(work) -> None:  # noqa: ANN001
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize(('text', 'cores'), [
    ('', set()), ('3', {3}), ('0,2-4', {0, 2, 3, 4}), (' 1', {1})])
def test_cores_are_written_as_taskset_writes_them(text: str, cores: set[int]) -> None:
    assert parse_cores(text) == cores


@pytest.mark.parametrize('text', ['a', '1-', '-1', '3-1', '1;2'])
def test_what_is_no_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match='realtime.cpu_affinity'):
        Realtime(RealtimeSettings(cpu_affinity=text))


def test_nothing_is_touched_that_was_not_asked_for() -> None:
    applied = Realtime(RealtimeSettings(freeze_gc=False, time_slice_s=0.0))
    applied.enter_process()
    applied.enter_threads()
    applied.enter_thread()
    told = outcomes(applied)
    assert {name for name, (obtained, _) in told.items() if obtained is None} == {
        'scheduler', 'process_scheduler', 'time_slice', 'cpu_affinity', 'lock_memory',
        'freeze_gc', 'kernel'}
    assert told['kernel'][1].endswith(os.uname().release)


def test_the_thread_is_pinned_and_no_other_is() -> None:
    core = min(os.sched_getaffinity(0))
    everywhere = os.sched_getaffinity(0)
    applied, seen = Realtime(RealtimeSettings(cpu_affinity=str(core))), []
    in_a_thread(lambda: (applied.enter_thread(), seen.append(os.sched_getaffinity(0))))
    assert seen == [{core}] and os.sched_getaffinity(0) == everywhere
    assert outcomes(applied)['cpu_affinity'] == (True, str(core))


def test_a_core_that_is_not_there_is_told_not_fatal() -> None:
    applied = Realtime(RealtimeSettings(cpu_affinity='1000'))
    in_a_thread(applied.enter_thread)
    obtained, words = outcomes(applied)['cpu_affinity']
    assert obtained is False and 'may use cores' in words


def test_the_scheduler_is_obtained_or_the_limit_to_raise_is_named() -> None:
    applied, seen = Realtime(RealtimeSettings(priority=1)), []
    in_a_thread(lambda: (applied.enter_thread(), seen.append(os.sched_getscheduler(0))))
    obtained, words = outcomes(applied)['scheduler']
    if obtained:
        assert words == 'SCHED_FIFO 1' and seen[0] & os.SCHED_FIFO
    else:
        assert 'limits.conf' in words and '--ulimit rtprio=99' in words
    assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER


def test_a_refused_scheduler_says_what_to_do(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, 'Operation not permitted')
    monkeypatch.setattr(os, 'sched_setscheduler', refuse)
    applied = Realtime(RealtimeSettings(priority=40))
    applied.enter_thread()
    obtained, words = outcomes(applied)['scheduler']
    assert obtained is False
    assert words.startswith('Operation not permitted. rtprio is ')
    assert '--cap-add=sys_nice' in words


def test_the_other_threads_are_raised_too_and_lowered_again() -> None:
    applied, seen, done = Realtime(RealtimeSettings(process_priority=1)), [], threading.Event()

    def note() -> None:
        done.wait(20.0)
        seen.append(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)

    thread = threading.Thread(target=note)
    thread.start()
    applied.enter_threads()
    obtained, words = outcomes(applied)['process_scheduler']
    done.set()
    thread.join()
    assert (obtained, seen) in ((True, [os.SCHED_FIFO]), (False, [os.SCHED_OTHER]))
    assert words == 'SCHED_FIFO 1' or 'limits.conf' in words
    applied.leave_process()
    assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER


def test_slices_are_short_while_at_work_and_what_is_started_has_the_usual_ones() -> None:
    applied, usual = Realtime(RealtimeSettings(time_slice_s=0.0005)), get_time_slice(0)
    applied.enter_threads()
    obtained, words = outcomes(applied)['time_slice']
    if not obtained:  # an older kernel
        assert 'Linux has it from 6.12 on' in words
        return
    assert words == '0.5 ms' and get_time_slice(0) == 0.0005
    started: list[float] = []
    in_a_thread(lambda: started.append(get_time_slice(0)))
    in_a_thread(lambda: (applied.enter_thread(), started.append(get_time_slice(0))))
    assert started == [usual, 0.0005]
    applied.leave_process()
    assert get_time_slice(0) == usual and outcomes(applied)['time_slice'][0] is None


def test_a_kernel_that_takes_no_slice_is_found_out(monkeypatch) -> None:
    monkeypatch.setattr(time_slice, '_read', lambda thread: time_slice._Attributes(size=48))
    applied = Realtime(RealtimeSettings(time_slice_s=0.0005))
    applied.enter_threads()
    obtained, words = outcomes(applied)['time_slice']
    assert obtained is False and 'has no time slice to choose' in words
    monkeypatch.undo()
    applied.leave_process()
    if get_time_slice(0) > 0.0:
        time_slice.set_time_slice(0, 0.0)


def test_freed_memory_is_kept_for_the_next_message() -> None:
    script = (
        'import resource\n'
        'from robot_infer.control.memory import keep_freed_memory\n'
        'assert keep_freed_memory()\n'
        'def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n'
        'bytearray(2**21)\n'
        'before = faults()\n'
        'for _ in range(50): bytearray(2**21)\n'
        'print(faults() - before)\n')
    if not hasattr(ctypes.CDLL(None), 'mallopt'):
        pytest.skip('this C library has no mallopt')
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert int(done.stdout) < 50, done.stderr  # 512 each without it


def test_memory_is_locked_or_the_limit_to_raise_is_named(monkeypatch) -> None:
    applied = Realtime(RealtimeSettings(lock_memory=True))
    applied.enter_process()
    obtained, words = outcomes(applied)['lock_memory']
    if not obtained:
        assert 'memlock is ' in words and '--ulimit memlock=-1' in words
    applied.leave_process()
    with open('/proc/self/status') as status:
        locked = next(line for line in status if line.startswith('VmLck'))
    assert int(locked.split()[1]) == 0
    ctypes.CDLL(None).munlockall()

    def refuse() -> str:
        raise OSError(errno.ENOMEM, 'Cannot allocate memory')
    monkeypatch.setattr(realtime, '_lock_memory', refuse)
    applied.enter_process()
    assert outcomes(applied)['lock_memory'][0] is False


def test_what_is_there_is_frozen_and_thawed_again() -> None:
    applied = Realtime(RealtimeSettings(freeze_gc=True))
    applied.enter_process()
    assert gc.get_freeze_count() > 1000 and outcomes(applied)['freeze_gc'][0] is True
    applied.leave_process()
    assert gc.get_freeze_count() == 0 and outcomes(applied)['freeze_gc'][0] is None


def test_a_runtime_applies_them_and_tells(make_rig, wait_for, clock) -> None:
    core = min(os.sched_getaffinity(0))
    rig = make_rig(realtime__cpu_affinity=str(core))
    rig.runtime.start()
    wait_for(lambda: rig.runtime.status().deadline.counters.ticks == 1)
    told = {outcome.name: outcome for outcome in rig.runtime.status().realtime}
    assert told['cpu_affinity'].obtained and told['freeze_gc'].obtained
    gc.collect()
    assert rig.runtime.status().gc_pause_s.count == 1
    assert rig.runtime.status().resident_bytes > 2**20
    assert rig.runtime.stop(20.0)
    assert gc.get_freeze_count() == 0


def test_the_watch_ends_when_it_is_told() -> None:
    callbacks = len(gc.callbacks)
    watch = CollectorWatch()
    watch.start()
    watch.start()
    gc.collect()
    gc.collect()
    watch.stop()
    gc.collect()
    assert watch.pauses_s.summary().count == 2 and watch.pauses_s.summary().max > 0
    assert len(gc.callbacks) == callbacks


def test_resident_memory_of_a_process() -> None:
    assert resident_bytes() == resident_bytes(os.getpid()) > 2**20
    assert resident_bytes(2**22 + 1) == 0


def test_a_wrong_core_list_fails_the_configuration(make_rig) -> None:
    assert Config.from_flat({'realtime.cpu_affinity': '0'}).realtime.cpu_affinity == '0'
    with pytest.raises(ConfigError, match='lscpu'):
        make_rig(realtime__cpu_affinity='big cores')
