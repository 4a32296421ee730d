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

"""What the figures of the control ticks mean, by the thresholds of the diagnostics settings."""

from __future__ import annotations

from dataclasses import dataclass
import enum

from robot_infer.config import DiagnosticsSettings
from robot_infer.control.stats import DeadlineStatus

_ENOUGH_TICKS = 20  # before that a mean says nothing


class Severity(enum.IntEnum):
    """How bad it is."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """Something beyond its threshold, in words."""

    severity: Severity
    words: str


def judge_ticks(
    status: DeadlineStatus, wanted_hz: float, limits: DiagnosticsSettings,
) -> tuple[Finding, ...]:
    """Everything that is beyond its threshold, the worst first."""
    if status.period_s.count < _ENOUGH_TICKS:
        return ()
    measured_hz = 1.0 / status.period_s.mean
    std_s, execution_s = status.period_s.std, status.execution_s.p99
    missed = status.missed_in_window
    findings = [
        _judge(missed, 0, float('inf'),
               f'{missed} deadlines missed in the last {status.lateness_s.window} ticks'),
        _judge(abs(measured_hz - wanted_hz), limits.periodicity_mean_error_warn_hz,
               limits.periodicity_mean_error_error_hz,
               f'{measured_hz:.1f} Hz measured, {wanted_hz:.1f} Hz wanted'),
        _judge(std_s, limits.periodicity_std_warn_s, limits.periodicity_std_error_s,
               f'the period varies by {std_s * 1e3:.1f} ms (standard deviation)'),
        _judge(execution_s, limits.execution_time_warn_s, limits.execution_time_error_s,
               f'a tick takes up to {execution_s * 1e3:.1f} ms (p99)')]
    for name, summary, limit_s in (
            ('frames are up to', status.input_age_s, limits.input_age_warn_s),
            ('from image to action it takes up to', status.end_to_end_s,
             limits.end_to_end_warn_s)):
        if summary.count:
            findings.append(_judge(summary.p99, limit_s, float('inf'),
                                   f'{name} {summary.p99 * 1e3:.0f} ms (p99)'))
    found = [finding for finding in findings if finding.severity is not Severity.OK]
    return tuple(sorted(found, key=lambda finding: -finding.severity))


def _judge(value: float, warn: float, error: float, words: str) -> Finding:
    if value > error:
        return Finding(Severity.ERROR, words)
    return Finding(Severity.WARN if value > warn else Severity.OK, words)
