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


"""What /diagnostics and ~/status say, made from the records that the other rooms give out.

Pure functions; what is said of topics stands in topic_diagnostics.py. Nothing is published or
looked up here.
Levels: ERROR where the robot does not follow the policy although it should, or would not; WARN
where it does, with loss; OK else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from robot_infer.config import DiagnosticsSettings
from robot_infer.control import Fault, Reason, RuntimeStatus, Summary
from robot_infer.control.verdict import Severity, judge_ticks
from robot_infer.errors import EngineError
from robot_infer.types import Source

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
NS_PER_S = 1_000_000_000
# A loop that made no tick for so long has ended, or hangs.
_SILENT_S, _SILENT_PERIODS = 1.0, 5
_LEVELS = {Severity.OK: OK, Severity.WARN: WARN, Severity.ERROR: ERROR}


@dataclass(frozen=True)
class Memory:
    """Memory at the end of configure.

    :param planned: bytes by name. taken_bytes: what was allocated for these.
    :param ready_bytes: what the node and the policy's process held then.
    """

    planned: Mapping[str, int]
    taken_bytes: int
    ready_bytes: int


@dataclass(frozen=True)
class NodeStatus:
    """What the node knows beside the runtime.

    :param state: lifecycle state. failure: why the last configure failed, '' where it did not.
    :param policy: facts on the loaded policy, by name.
    :param memory: what was planned and taken for it; None where none is loaded.
    :param rss_bytes: resident memory of the process, and of the policy's own.
    :param enabled: whether the policy is to be followed; an operator may have disabled it.
    :param resets: how often ~/reset was called; that it grows is what a guard goes by.
    """

    name: str
    state: str
    failure: str
    policy: Mapping[str, str]
    memory: Memory | None
    rss_bytes: int
    enabled: bool = True
    resets: int = 0


def make(
    name: str, level: bytes, message: str, hardware_id: str, values: Mapping[str, object],
) -> DiagnosticStatus:
    """One DiagnosticStatus; numbers have four significant digits, those unknown are ''."""
    return DiagnosticStatus(
        name=name, level=level, message=message, hardware_id=hardware_id,
        values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()])


def node(status: NodeStatus, hardware_id: str) -> DiagnosticStatus:
    """Lifecycle state and what is loaded."""
    level, message = (ERROR, status.failure) if status.failure else (OK, status.state)
    return make(f'{status.name}: node', level, message, hardware_id,
                {'state': status.state, **status.policy})


def faults(
    status: NodeStatus, active: Sequence[Fault], history: Sequence[Fault], hardware_id: str,
) -> DiagnosticStatus:
    """The faults that are there now, each with its last words, and the counts of all."""
    values: dict[str, object] = {}
    if status.failure:
        values['configure'] = status.failure
    for fault in active:
        values[fault.name] = fault.message
    for fault in history:
        values[f'{fault.name}.count'] = fault.count
    words = [status.failure] if status.failure else [
        fault.message for fault in sorted(active, key=lambda fault: fault.momentary)]
    more = f' (and {len(words) - 1} more)' if len(words) > 1 else ''
    level = ERROR if status.failure else fault_level(active)
    return make(f'{status.name}: faults', level,
                words[0] + more if words else 'none', hardware_id, values)


def fault_level(active: Sequence[Fault]) -> bytes:
    """ERROR for a fault that stands; WARN for one that is over, and told for a while."""
    if not active:
        return OK
    return WARN if all(fault.momentary for fault in active) else ERROR


def control(
    status: NodeStatus, runtime: RuntimeStatus, rate_hz: float, limits: DiagnosticsSettings,
    hardware_id: str,
) -> DiagnosticStatus:
    """Deadlines of the control tick, and what the robot is sent."""
    counters, command = runtime.deadline.counters, runtime.last_command
    source = command.source.value if command else 'nothing'
    reason = command.reason if command else ''
    level, message = OK, f'{source}, {counters.missed} of {counters.ticks} deadlines missed'
    if not runtime.running:
        message = 'no actions are sent while the node is not active'
    elif verdicts := _control_verdicts(runtime, rate_hz, limits):
        level = max(level for level, _ in verdicts)
        message = '; '.join(words for _, words in verdicts)
    return make(f'{status.name}: control', level, message, hardware_id, {
        'update_rate': rate_hz, 'source': source, 'reason': reason,
        'epoch': command.epoch if command else '', 'ticks': counters.ticks,
        'missed': counters.missed, 'skipped': counters.skipped,
        'consecutive': counters.consecutive, 'max_consecutive': counters.max_consecutive,
        'chunk_ticks': counters.chunk_ticks, 'fallback_ticks': counters.fallback_ticks,
        'stale_ticks': counters.stale, 'chunk_underruns': runtime.chunks.underruns,
        'chunk_remaining': runtime.chunk_remaining, 'clock_jumps': runtime.clock_jumps,
        **_milliseconds('periodicity', runtime.deadline.period_s),
        **_milliseconds('lateness', runtime.deadline.lateness_s),
        **_milliseconds('execution_time', runtime.deadline.execution_s),
        **_milliseconds('execution_time.decide', runtime.deadline.decide_s),
        **_milliseconds('execution_time.publish', runtime.deadline.publish_s),
        **_milliseconds('input_age', runtime.deadline.input_age_s),
        **_milliseconds('end_to_end', runtime.deadline.end_to_end_s)})


def _control_verdicts(
    runtime: RuntimeStatus, rate_hz: float, limits: DiagnosticsSettings,
) -> list[tuple[bytes, str]]:
    """What is not as it should be while control ticks are made, the weightiest first."""
    deadline, verdicts = runtime.deadline, []
    if runtime.latched:
        verdicts.append((ERROR, f'stopped ({runtime.latched}) until the node is activated again, '
                                'or ~/reset is called'))
    elif (following := _fallback(runtime)) is not None:
        verdicts.append(following)
    if deadline.started_ns is None:
        verdicts.append((WARN, 'no control tick yet'))
    else:
        silent_s = (runtime.time_ns - deadline.started_ns) / NS_PER_S
        if silent_s > max(_SILENT_S, _SILENT_PERIODS / rate_hz):
            verdicts.append((ERROR, f'no control tick for {silent_s:.1f} s'))
    if deadline.counters.consecutive:
        verdicts.append((WARN, f'{deadline.counters.consecutive} deadlines missed in a row'))
    return verdicts + [(_LEVELS[finding.severity], finding.words)
                       for finding in judge_ticks(deadline, rate_hz, limits)]


def _fallback(runtime: RuntimeStatus) -> tuple[bytes, str] | None:
    """The verdict on a robot that is sent a fallback; None for one that follows the policy.

    ERROR where the policy should have had an action; WARN where it is only waited for.
    """
    command = runtime.last_command
    if not runtime.running or command is None or command.source is Source.CHUNK:
        return None
    waiting = runtime.latched == '' and Reason(command.reason).waiting
    return WARN if waiting else ERROR, f'fallback {command.source.value}: {command.reason}'


def inference(status: NodeStatus, runtime: RuntimeStatus, hardware_id: str) -> DiagnosticStatus:
    """Inference steps: counts, stages and reuse."""
    figures = runtime.inference
    counters = figures.counters
    level, message = OK, f'{counters.steps} steps, {counters.late} late'
    broken = [fault.message for fault in runtime.faults if fault.name == EngineError.__name__]
    if runtime.running and not runtime.worker_alive:
        level, message = ERROR, 'the inference thread has ended'
    elif broken:
        level, message = ERROR, broken[0]
    elif counters.late_kernels:
        level, message = WARN, (f'{counters.late_kernels} GPU kernels were compiled in a step: '
                                'each stalls one, please report it')
    elif counters.failed:
        level, message = WARN, f'{counters.failed} of {counters.steps + counters.failed} failed'
    elif runtime.running and not status.enabled:
        message = 'no steps are made while the policy is disabled'
    elif runtime.running and not counters.steps:
        level, message = WARN, f'no step yet; {counters.blocked} times an input was missing or bad'
    if level == OK and status.enabled and figures.rung != 'full':
        level, message = WARN, f'{message}; steps are made on rung {figures.rung}'
    reused = counters.tokens_total - counters.tokens_computed
    stages = {key: value for name, stage in figures.stages_s.items()
              for key, value in _milliseconds(f'stage.{name}', stage).items()}
    return make(f'{status.name}: inference', level, message, hardware_id, {
        'steps': counters.steps, 'blocked': counters.blocked, 'failed': counters.failed,
        'late': counters.late, 'rung': figures.rung, 'predicted_ms': figures.predicted_s * 1e3,
        **{f'rung.{name}': number for name, number in figures.rungs.items()},
        'tokens_total': counters.tokens_total, 'tokens_reused': reused,
        'late_kernels': counters.late_kernels,
        **_milliseconds('step', figures.step_s), **stages})


def cache(status: NodeStatus, runtime: RuntimeStatus, hardware_id: str) -> DiagnosticStatus:
    """Pages of keys and values."""
    return make(f'{status.name}: cache', OK,
                f'{runtime.pages_used} of {runtime.pages_total} pages in use', hardware_id,
                {'pages_used': runtime.pages_used, 'pages_total': runtime.pages_total})


def realtime(
    status: NodeStatus, runtime: RuntimeStatus, hardware_id: str,
) -> DiagnosticStatus:
    """Real-time settings, obtained or not, and the pauses of the garbage collector."""
    refused = [outcome for outcome in runtime.realtime if outcome.obtained is False]
    message = '; '.join(f'{outcome.name}: {outcome.words}' for outcome in refused)
    return make(f'{status.name}: realtime', WARN if refused else OK,
                message or 'everything that was asked for', hardware_id, {
                    **{outcome.name: outcome.words for outcome in runtime.realtime},
                    **_milliseconds('gc_pause', runtime.gc_pause_s)})


def memory(status: NodeStatus, warn_bytes: int, hardware_id: str) -> DiagnosticStatus:
    """What was planned, what was taken, and what the processes hold since.

    What is planned is taken at configure, but the system may give it only when it is touched: so
    the processes may come to hold what they held when ready, and all of the plan.

    :param warn_bytes: what more than that is worth a warning.
    """
    plan, held = status.memory, status.rss_bytes
    level, message = OK, f'{_mib(held)} resident'
    if plan is None:
        return make(f'{status.name}: memory', level, message, hardware_id,
                    {'resident_bytes': held})
    planned = sum(plan.planned.values())
    limit = plan.ready_bytes + planned + warn_bytes
    message = f'{message}, {_mib(plan.taken_bytes)} taken as planned'
    if plan.taken_bytes != planned:
        level, message = WARN, f'{_mib(plan.taken_bytes)} taken, but {_mib(planned)} planned'
    if held > limit:
        level, message = WARN, (
            f'{_mib(held)} resident: {_mib(held - plan.ready_bytes)} more than when it was '
            f'configured, of which the plan explains {_mib(planned)} and '
            f'diagnostics.memory_warn_bytes allows {_mib(warn_bytes)}')
    return make(f'{status.name}: memory', level, message, hardware_id, {
        'resident_bytes': held, 'ready_bytes': plan.ready_bytes, 'planned_bytes': planned,
        'taken_bytes': plan.taken_bytes, 'warn_above_bytes': limit,
        **{f'planned.{name}_bytes': size for name, size in plan.planned.items()}})


def summary(
    status: NodeStatus, runtime: RuntimeStatus | None, hardware_id: str,
) -> DiagnosticStatus:
    """~/status: the whole node in one line."""
    values: dict[str, object] = {
        'state': status.state, 'enabled': status.enabled, 'resets': status.resets}
    level, message = OK, status.state if status.enabled else f'{status.state}, disabled'
    if runtime is not None:
        command, counters = runtime.last_command, runtime.deadline.counters
        values.update({
            'instruction': runtime.instruction,
            'source': command.source.value if command and runtime.running else 'nothing',
            'reason': command.reason if command and runtime.running else '',
            'epoch': command.epoch if command else '',
            'faults': ', '.join(fault.name for fault in runtime.faults),
            'ticks': counters.ticks, 'missed': counters.missed,
            'fallback_ticks': counters.fallback_ticks, 'steps': runtime.inference.counters.steps,
            'step_ms': runtime.inference.step_s.p50 * 1e3,
            'end_to_end_ms': runtime.deadline.end_to_end_s.p50 * 1e3})
        if (following := _fallback(runtime)) is not None:
            level, message = following[0], f'{status.state}, {following[1]}'
        if runtime.faults:
            level = max(level, fault_level(runtime.faults))
            message = min(runtime.faults, key=lambda fault: fault.momentary).message
    if status.failure:
        level, message = ERROR, status.failure
    return make(status.name, level, message, hardware_id, values)


def _milliseconds(name: str, summary: Summary) -> dict[str, object]:
    if not summary.count:
        return {}
    since = summary.since_reset
    return {f'{name}.{key}': seconds * 1e3 for key, seconds in {
        'average_ms': summary.mean, 'standard_deviation_ms': summary.std, 'min_ms': summary.min,
        'p50_ms': summary.p50, 'p95_ms': summary.p95, 'p99_ms': summary.p99,
        'max_ms': summary.max, 'since_reset.p99_ms': since.p99, 'since_reset.max_ms': since.max,
    }.items()}


def _mib(num_bytes: int) -> str:
    return f'{num_bytes / 2**20:.0f} MiB'


def _text(value: object) -> str:
    if isinstance(value, float):
        return f'{value:.4g}' if math.isfinite(value) else ''
    return str(value)
