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


"""The verdicts of /diagnostics on records made by hand; no ROS graph is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from diagnostic_msgs.msg import DiagnosticStatus

from robot_infer.config import DiagnosticsSettings
from robot_infer.control import ChunkCounters, Fault, Reason, RuntimeStatus, Summary
from robot_infer.control.realtime import Outcome
from robot_infer.control.stats import (
    DeadlineStatistics,
    InferenceCounters,
    StageStatistics,
    TickCounters,
)
from robot_infer.ros import diagnostics
from robot_infer.ros.diagnostics import Memory, NodeStatus
from robot_infer.types import Command, Source

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
MIB = 2**20
NODE = NodeStatus('/arm/robot_infer', 'active', '', {}, None, MIB)
LIMITS = DiagnosticsSettings()
NOW_NS = 10_000_000_000
CHUNK = Command(np.zeros(2), Source.CHUNK, '', 7, 1)
DEADLINE = replace(
    DeadlineStatistics().status(), counters=TickCounters(ticks=100), started_ns=NOW_NS - 10**7,
    period_s=Summary(count=99, window=99, mean=1 / 30, std=0.001),
    lateness_s=Summary(count=100, window=100, max=0.001),
    execution_s=Summary(count=100, window=100, p99=0.001))
INFERENCE = replace(StageStatistics().status(), counters=InferenceCounters(steps=40))
RUNTIME = RuntimeStatus(
    time_ns=NOW_NS, running=True, worker_alive=True, faults=(), fault_history=(),
    instruction='go', last_command=CHUNK, enabled=True, latched='', chunk_remaining=3,
    chunks=ChunkCounters(1, 0, 0, 0, 0, 0, 5), deadline=DEADLINE, inference=INFERENCE,
    cameras={}, camera_faults={}, pages_used=3, pages_total=16, clock_jumps=0,
    gc_pause_s=Summary(), resident_bytes=MIB, realtime=())


def control(rate_hz=30.0, **changes):
    return diagnostics.control(NODE, replace(RUNTIME, **changes), rate_hz, LIMITS, 'robot')


def fallback(reason: Reason, source=Source.HOLD) -> Command:
    return Command(np.zeros(2), source, reason.value, -1, 0)


def test_ticks_in_time_that_follow_the_policy_are_ok():
    status = control()
    assert (status.level, status.message) == (OK, 'chunk, 0 of 100 deadlines missed')
    assert status.name == '/arm/robot_infer: control' and status.hardware_id == 'robot'


@pytest.mark.parametrize('reason', Reason)
def test_a_fallback_is_an_error_unless_the_policy_is_only_waited_for(reason):
    status = control(last_command=fallback(reason))
    summary = diagnostics.summary(
        NODE, replace(RUNTIME, last_command=fallback(reason)), 'robot')
    assert status.level == summary.level == (WARN if reason.waiting else ERROR)
    assert f'fallback hold: {reason.value}' in status.message
    assert f'fallback hold: {reason.value}' in summary.message


def test_a_latched_stop_is_an_error_and_says_how_it_ends():
    status = control(latched='chunk_exhausted', last_command=fallback(
        Reason.CHUNK_EXHAUSTED, Source.STOP))
    assert status.level == ERROR
    assert status.message == (
        'stopped (chunk_exhausted) until the node is activated again, or ~/reset is called')


def test_any_missed_deadline_in_the_window_is_a_warning_and_all_findings_are_told():
    status = control(deadline=replace(
        DEADLINE, missed_in_window=2, execution_s=Summary(count=100, window=100, p99=0.03)))
    assert status.level == ERROR, 'that of the worst'
    assert 'a tick takes up to 30.0 ms (p99)' in status.message
    assert '2 deadlines missed in the last 100 ticks' in status.message
    assert control(deadline=replace(DEADLINE, missed_in_window=2)).level == WARN
    in_a_row = control(deadline=replace(DEADLINE, counters=TickCounters(ticks=9, consecutive=3)))
    assert in_a_row.level == WARN and '3 deadlines missed in a row' in in_a_row.message


def test_ticks_that_do_not_come_are_an_error_and_none_yet_a_warning():
    silent = control(deadline=replace(DEADLINE, started_ns=NOW_NS - 1_500_000_000))
    assert silent.level == ERROR and 'no control tick for 1.5 s' in silent.message
    slow = control(0.5, deadline=replace(
        DEADLINE, started_ns=NOW_NS - 1_500_000_000, period_s=Summary()))
    assert slow.level == OK, 'one every two seconds'
    none = control(deadline=DeadlineStatistics().status(), last_command=None)
    assert (none.level, none.message) == (WARN, 'no control tick yet')


def test_a_node_that_is_not_active_has_no_deadlines():
    status = control(running=False, last_command=fallback(Reason.CHUNK_EXHAUSTED),
                     deadline=replace(DEADLINE, missed_in_window=3))
    assert (status.level, status.message) == (
        OK, 'no actions are sent while the node is not active')


def inference(node=NODE, **changes):
    return diagnostics.inference(node, replace(RUNTIME, **changes), 'robot')


def test_steps_that_are_made_are_ok_and_what_stands_against_them_is_told():
    assert inference().level == OK and inference().message == '40 steps, 0 late'
    ended = inference(worker_alive=False)
    assert ended.level == ERROR and 'has ended' in ended.message
    hangs = inference(faults=(Fault('EngineError', 'it hangs', 1, 1, 1, True),))
    assert (hangs.level, hangs.message) == (ERROR, 'it hangs')
    none = inference(inference=replace(INFERENCE, counters=InferenceCounters(blocked=4)))
    assert none.level == WARN
    assert none.message == 'no step yet; 4 times an input was missing or bad'
    disabled = inference(replace(NODE, enabled=False), enabled=False)
    assert (disabled.level, disabled.message) == (
        OK, 'no steps are made while the policy is disabled')
    late = inference(inference=replace(INFERENCE, counters=InferenceCounters(40, late_kernels=1)))
    assert late.level == WARN and '1 GPU kernels were compiled in a step' in late.message
    less = inference(inference=replace(INFERENCE, rung='old_frames'))
    assert less.level == WARN and 'rung old_frames' in less.message


def memory(resident_mib: int, **changes):
    plan = replace(Memory({'pages': 60 * MIB, 'image embeddings': 4 * MIB}, 64 * MIB, 300 * MIB),
                   **changes)
    return diagnostics.memory(
        replace(NODE, memory=plan, rss_bytes=resident_mib * MIB), 100 * MIB, 'robot')


def test_memory_stands_beside_its_plan_and_what_is_beyond_it_is_a_warning():
    status = memory(464)
    values = {pair.key: pair.value for pair in status.values}
    assert (status.level, status.message) == (OK, '464 MiB resident, 64 MiB taken as planned')
    assert values['planned_bytes'] == values['taken_bytes'] == str(64 * MIB)
    assert values['planned.pages_bytes'] == str(60 * MIB)
    assert values['warn_above_bytes'] == str(464 * MIB), 'when ready, the plan, the threshold'
    grown = memory(465)
    assert grown.level == WARN and '165 MiB more than when it was configured' in grown.message
    assert 'diagnostics.memory_warn_bytes allows 100 MiB' in grown.message
    other = memory(300, taken_bytes=65 * MIB)
    assert (other.level, other.message) == (WARN, '65 MiB taken, but 64 MiB planned')
    assert diagnostics.memory(NODE, 0, 'robot').message == '1 MiB resident'


def test_real_time_settings_that_were_refused_are_a_warning_and_all_are_told():
    outcomes = (Outcome('priority', True, 'SCHED_FIFO 40'),
                Outcome('lock_memory', False, 'refused: raise memlock'),
                Outcome('cpu_affinity', None, 'not asked for'))
    status = diagnostics.realtime(NODE, replace(RUNTIME, realtime=outcomes), 'robot')
    assert (status.level, status.message) == (WARN, 'lock_memory: refused: raise memlock')
    assert {pair.key: pair.value for pair in status.values}['priority'] == 'SCHED_FIFO 40'
    fine = diagnostics.realtime(NODE, replace(RUNTIME, realtime=outcomes[::2]), 'robot')
    assert (fine.level, fine.message) == (OK, 'everything that was asked for')


def test_a_disabled_policy_is_told_in_every_state():
    off = replace(NODE, enabled=False)
    idle = diagnostics.summary(
        replace(off, state='inactive'), replace(RUNTIME, running=False), 'robot')
    assert (idle.level, idle.message) == (OK, 'inactive, disabled')
    assert {pair.key: pair.value for pair in idle.values}['enabled'] == 'False'


def test_the_first_fault_is_the_message_and_all_are_listed():
    late = Fault('StateError', 'state: expected a; got b. Do c.', 7, 1, 2, True)
    bad = Fault('FrameError', 'frame: expected d; got e. Do f.', 1, 3, 3, True)
    status = diagnostics.faults(NODE, (late, bad), (late, bad), 'robot')
    values = {pair.key: pair.value for pair in status.values}
    assert status.level == ERROR and status.message == f'{late.message} (and 1 more)'
    assert values['FrameError'] == bad.message and values['StateError.count'] == '7'
    assert diagnostics.faults(NODE, (), (late,), 'robot').level == OK


def test_a_fault_that_is_over_and_still_told_is_a_warning_behind_those_that_stand():
    jumped = Fault('ClockError', 'it jumped', 1, 1, 2, True, ends_ns=NOW_NS)
    bad = Fault('FrameError', 'it stands', 1, 3, 3, True)
    for active, level, first in (
            ((jumped,), WARN, 'it jumped'), ((jumped, bad), ERROR, 'it stands')):
        listed = diagnostics.faults(NODE, active, active, 'robot')
        summary = diagnostics.summary(NODE, replace(RUNTIME, faults=active), 'robot')
        assert listed.level == summary.level == level
        assert summary.message == first and listed.message.startswith(first)
    held = replace(RUNTIME, faults=(jumped,), last_command=fallback(Reason.CHUNK_EXHAUSTED))
    assert diagnostics.summary(NODE, held, 'robot').level == ERROR, 'the policy is not followed'


def test_a_failed_configure_is_an_error_everywhere():
    failed = replace(NODE, state='unconfigured', failure='configure failed: X: y')
    for status in (diagnostics.node(failed, 'r'), diagnostics.faults(failed, (), (), 'r'),
                   diagnostics.summary(failed, None, 'r')):
        assert (status.level, status.message) == (ERROR, failed.failure)
