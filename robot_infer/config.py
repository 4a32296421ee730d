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

"""Every setting, declared once.

From this table come the ROS parameters with their descriptors, the YAML keys, the command line
options and the table in the README. A setting is `group.name`; groups are the classes below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import difflib
from pathlib import Path
import typing
from typing import Literal, Tuple, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticUndefined

from robot_infer.config_checks import check_together
from robot_infer.errors import ConfigError
from robot_infer.parameter_file import placed, read_parameter_file

Value = Union[bool, int, float, str, Tuple[str, ...], Tuple[float, ...]]


def _setting(
    default: Value, help_text: str, *, unit: str = '', low: float | None = None,
    high: float | None = None, live: bool = False,
):  # noqa: ANN202 - pydantic's FieldInfo is what a class body needs here
    """Declare one setting; `live` ones may be changed while the node runs."""
    return Field(
        default, description=help_text, ge=low, le=high,
        json_schema_extra={'unit': unit, 'low': low, 'high': high, 'live': live},
    )


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra='forbid', strict=True, protected_namespaces=())


class PolicySettings(_Group):
    checkpoint: str = _setting(
        '', 'LeRobot checkpoint folder; empty means the demo policy that ships with the package.')
    dtype: Literal['fp32', 'bf16'] = _setting(
        'fp32', 'Precision of weights and pages. fp32 is exact against the reference.')
    weights: Literal['as_loaded', 'int8', 'int4'] = _setting(
        'as_loaded', 'Form of the large weights: as_loaded is that of policy.dtype; on a CPU also '
        'int8, a quarter of fp32, and int4, less than a sixth, at an error.')
    device: str = _setting(
        'cpu', 'Torch device the policy runs on: cpu, or cuda for an NVIDIA GPU from sm_80 on, '
        'whose kernels were run in Triton\'s interpreter and not yet on a card.')
    threads: int = _setting(
        0, 'Threads for the model; 0 means one less than there are cores, at least one. At most '
        'four for each core.', low=0, high=256)
    horizon: int = _setting(
        0, 'Actions per chunk; 0 means the checkpoint\'s own. Shorter chunks are exact for '
        'policies whose action tokens are causal.', unit='actions', low=0, high=1000)
    denoise_steps: int = _setting(
        0, 'Euler steps of the action head; 0 means the checkpoint\'s own. Fewer steps are an '
        'approximation.', unit='steps', low=0, high=1000)
    seed: int = _setting(
        0, 'Seed of the noise that the action head starts from; the noise follows from it and '
        'from what is observed.', low=0, high=2 ** 63 - 1)
    process: bool = _setting(
        True, 'Run the policy in a process of its own, so that neither its work nor its end can '
        'delay a control tick.')


class CameraSettings(_Group):
    names: Tuple[str, ...] = _setting(
        ('overhead', 'wrist'),
        'Cameras, bound by name: camera c is read from topic c/image and feeds the policy '
        'input of the same name.')
    policy_inputs: Tuple[str, ...] = _setting(
        (), 'Policy inputs in the order of cameras.names, where the names differ '
        '(observation.images.<input>); empty means the same names.')
    transport: Literal['raw', 'compressed'] = _setting(
        'raw', 'raw subscribes c/image (sensor_msgs/Image), compressed c/image/compressed.')
    reliability: Literal['best_effort', 'reliable'] = _setting(
        'best_effort', 'Reliability asked of the image topics; best_effort matches any camera.')
    encoding_override: Tuple[str, ...] = _setting(
        (), 'Encodings in the order of cameras.names that replace what the messages claim '
        '(\'\' keeps the claim); empty trusts all.')
    max_age_s: float = _setting(
        0.25, 'Frames older than this are stale and are not used.', unit='s', low=0.001, high=60.0,
        live=True)
    max_skew_s: float = _setting(
        0.15, 'Largest difference between the stamps of frames used together.', unit='s',
        low=0.0, high=60.0, live=True)


class StateSettings(_Group):
    joints: Tuple[str, ...] = _setting(
        ('slide_x', 'slide_y'),
        'Joint names of JointState, in the order of the policy\'s state vector.')
    max_age_s: float = _setting(
        0.25, 'A state older than this is stale and is not used.', unit='s', low=0.001, high=60.0,
        live=True)
    max_normalised: float = _setting(
        100.0, 'Largest normalised position: how far, in standard deviations, a joint may be from '
        'the mean of the training data; a state beyond is refused. 0 means no limit.', low=0.0,
        high=1e9)


class InstructionSettings(_Group):
    text: str = _setting('', 'Instruction at start; the instruction topic replaces it.', live=True)
    max_characters: int = _setting(
        500, 'Longer instructions are refused.', unit='characters', low=1, high=100_000)


class CacheSettings(_Group):
    budget_bytes: int = _setting(
        67_108_864, 'Memory for the pages of keys and values and the embedding cache, taken once '
        'at configure.', unit='bytes', low=1)
    page_tokens: int = _setting(
        64, 'Tokens per page of keys and values.', unit='tokens', low=1, high=1024)
    kv_format: Literal['auto', 'int8', 'fp8', 'int4'] = _setting(
        'auto', 'Format of the pages: auto is that of policy.dtype; int8 and fp8 take half of '
        'bf16, int4 a third, at an error. fp8 is for GPUs from sm_89 on, and slow on a CPU.')
    embeddings_per_camera: int = _setting(
        4, 'Image embeddings kept per camera, found again by the frame\'s digest.',
        unit='frames', low=1, high=1024)
    check_invariants: bool = _setting(
        False, 'Check the cache after every step (slow; for debugging).')


class InferenceSettings(_Group):
    rate_hz: float = _setting(
        10.0, 'Inference steps are started at most this often.', unit='Hz', low=0.01, high=1000.0,
        live=True)
    deadline_s: float = _setting(
        0.1, 'An inference step that takes longer is counted as late.', unit='s', low=0.001,
        high=60.0, live=True)
    ladder: bool = _setting(
        True, 'Where a step is predicted to be late, do less: a shorter chunk, then the last '
        'frames with the newest state, then fewer denoising steps where they are allowed.',
        live=True)
    ladder_memory_s: float = _setting(
        10.0, 'How long step times are remembered for the prediction; what was slow is tried '
        'again after that.', unit='s', low=0.1, high=3600.0)
    min_horizon: int = _setting(
        0, 'Shortest chunk of the ladder; 0 means what covers two deadlines and a period of '
        'inference.', unit='actions', low=0, high=1000)
    min_denoise_steps: int = _setting(
        0, 'Denoising steps of the last rung of the ladder, an approximation; 0 means that it is '
        'not allowed.', unit='steps', low=0, high=1000)


class ControlSettings(_Group):
    rate_hz: float = _setting(
        30.0, 'Control ticks per second: one action each.', unit='Hz', low=0.1, high=1000.0)
    deadline_s: float = _setting(
        0.01, 'A control tick that starts later than this after its time is a missed deadline.',
        unit='s', low=0.0001, high=10.0, live=True)
    chunk_validity_s: float = _setting(
        0.6, 'A chunk older than this, counted from its observation, is not used any more.',
        unit='s', low=0.001, high=60.0, live=True)
    fallback: Literal['hold', 'zero', 'stop'] = _setting(
        'hold', 'Action when there is no valid one: hold repeats the last position sent (at first '
        'the measured one), zero sends zeros, stop holds until activation or ~/reset.')
    output: Literal['joint_trajectory', 'float64_multi_array'] = _setting(
        'joint_trajectory', 'Message type of the action topic.')
    action_low: Tuple[float, ...] = _setting(
        (), 'Lowest allowed action per joint; empty means no limit. A chunk outside is refused '
        'whole.')
    action_high: Tuple[float, ...] = _setting(
        (), 'Highest allowed action per joint; empty means no limit.')
    max_jump: float = _setting(
        0.0, 'Largest allowed difference between the first action of a chunk still to be sent and '
        'the measured position, per joint; 0 means no limit.', unit='joint units', low=0.0)
    max_consecutive_misses: int = _setting(
        0, 'Control periods in a row that were late, skipped or without an action, after which '
        'the robot is stopped: the fallback is sent until activation or ~/reset. 0 means '
        'never.', unit='periods', low=0, live=True)
    deactivate_on_stop: bool = _setting(
        False, 'Deactivate the node when it has stopped the robot for good.', live=True)
    max_clock_jump_s: float = _setting(
        1.0, 'A ROS clock that jumps further forward makes frames, state and chunks void, as '
        'every jump back does.', unit='s', low=0.01, high=3600.0)


class DiagnosticsSettings(_Group):
    period_s: float = _setting(
        1.0, 'Period of /diagnostics and of ~/status.', unit='s', low=0.1, high=60.0)
    hardware_id: str = _setting('robot', 'Hardware id in the diagnostics.')
    publish_steps: bool = _setting(
        False, 'Publish one line of JSON per inference step on ~/step: stages, tokens, pages, '
        'ticks; the demo\'s report is made of them.')
    publish_debug: bool = _setting(
        False, 'Publish the times of every control tick and inference step below ~/debug '
        '(std_msgs/Float64, milliseconds), for plots.')
    memory_warn_bytes: int = _setting(
        134_217_728, 'WARN where the node and its policy hold more memory than when they were '
        'configured, with all of the plan, by more than this.', unit='bytes', low=0, live=True)
    input_age_warn_s: float = _setting(
        0.5, 'A control tick whose frames are older is a stale tick; WARN where the 99th '
        'percentile is.', unit='s', low=0.001, high=60.0, live=True)
    end_to_end_warn_s: float = _setting(
        0.7, 'WARN where the 99th percentile from oldest image to action is longer.', unit='s',
        low=0.001, high=60.0, live=True)
    periodicity_mean_error_warn_hz: float = _setting(
        5.0, 'WARN where the mean rate of control ticks is further off.', unit='Hz', low=0.0,
        high=1000.0, live=True)
    periodicity_mean_error_error_hz: float = _setting(
        10.0, 'ERROR where the mean rate of control ticks is further off.', unit='Hz', low=0.0,
        high=1000.0, live=True)
    periodicity_std_warn_s: float = _setting(
        0.005, 'WARN where the standard deviation of the control period is larger.', unit='s',
        low=0.0, high=10.0, live=True)
    periodicity_std_error_s: float = _setting(
        0.05, 'ERROR where the standard deviation of the control period is larger.', unit='s',
        low=0.0, high=10.0, live=True)
    execution_time_warn_s: float = _setting(
        0.005, 'WARN where the 99th percentile of a control tick\'s own time is longer.', unit='s',
        low=0.0, high=10.0, live=True)
    execution_time_error_s: float = _setting(
        0.02, 'ERROR where the 99th percentile of a control tick\'s own time is longer.',
        unit='s', low=0.0, high=10.0, live=True)


class RealtimeSettings(_Group):
    priority: int = _setting(
        0, 'SCHED_FIFO priority of the control tick and of the guard; 0 leaves the scheduler as '
        'it is. Stay below 50, where a real-time kernel runs its interrupts.', low=0, high=99)
    process_priority: int = _setting(
        0, 'SCHED_FIFO priority of the other threads of the node and of the guard (messages, '
        'decoding; not the policy\'s process): one that holds the interpreter is then not held '
        'up itself while a tick waits for it. Below priority; 0 leaves them as they are.',
        low=0, high=99)
    time_slice_s: float = _setting(
        0.0001, 'Time slice of the threads of the node and of the guard in the normal scheduler '
        '(Linux 6.12 and newer; no privilege needed): short ones are woken before busy '
        'neighbours. Below 0.1 ms means the usual slice.', unit='s', low=0.0, high=0.1)
    cpu_affinity: str = _setting(
        '', 'Cores for the control tick and the guard, as taskset takes them (0,2-3); empty '
        'means all.')
    lock_memory: bool = _setting(
        False, 'Keep what the process has touched in memory (mlockall).')
    freeze_gc: bool = _setting(
        True, 'Let the garbage collector forget what is there when the node is activated, so '
        'that its pauses stay short.')
    cuda_spin: bool = _setting(
        False, 'Let the policy wait for a CUDA device by spinning: less latency for one busy '
        'core.')


class GuardSettings(_Group):
    node: str = _setting(
        'robot_infer', 'Name of the node that is guarded; its lifecycle tells when actions are '
        'expected.')
    timeout_s: float = _setting(
        0.0, 'The guard takes over when no action came for this long; 0 means one and a half '
        'control periods.', unit='s', low=0.0, high=60.0)
    fallback: Literal['hold', 'zero', 'stop'] = _setting(
        'hold', 'What the guard sends: hold repeats the last action (at first the measured '
        'position), zero sends zeros, stop holds until activation or ~/reset.')
    paced: bool = _setting(
        False, 'Send on the guard\'s own schedule, half a period behind the node\'s, instead of '
        'passing actions on as they come: the robot gets them as evenly as a process can send '
        'them that does nothing else.')
    max_s: float = _setting(
        0.0, 'How long the guard sends its substitute; then it falls silent until actions come '
        'again. 0 means for ever.', unit='s', low=0.0, high=86_400.0)


class Config(_Group):
    """All settings; attribute access mirrors the dotted names: `config.control.rate_hz`."""

    policy: PolicySettings = PolicySettings()
    cameras: CameraSettings = CameraSettings()
    state: StateSettings = StateSettings()
    instruction: InstructionSettings = InstructionSettings()
    cache: CacheSettings = CacheSettings()
    inference: InferenceSettings = InferenceSettings()
    control: ControlSettings = ControlSettings()
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    realtime: RealtimeSettings = RealtimeSettings()
    guard: GuardSettings = GuardSettings()

    @classmethod
    def from_flat(cls, values: Mapping[str, object]) -> Config:
        """Make a Config from dotted names.

        :raises ConfigError: for an unknown name, a wrong type, a value out of range.
        """
        known = {setting.name: setting for setting in settings()}
        nested: dict[str, dict[str, object]] = {}
        for name, value in values.items():
            if name not in known:
                raise _unknown(name, known)
            group, key = name.split('.', 1)
            nested.setdefault(group, {})[key] = tuple(value) if isinstance(value, list) else value
        try:
            config = cls.model_validate(nested)
        except ValidationError as error:
            first = error.errors()[0]
            raise known['.'.join(str(part) for part in first['loc'][:2])].refusal(
                first['input']) from error
        check_together(config)
        return config

    @classmethod
    def from_yaml(cls, path: Path | str) -> Config:
        """Read a ROS 2 parameter file: `/**: ros__parameters: group: name: value`.

        :raises ConfigError: where the file is missing, is not such a file, or a key is wrong; it
            says in which line.
        """
        given = read_parameter_file(Path(path))
        try:
            return cls.from_flat({name: each.value for name, each in given.items()})
        except ConfigError as error:
            raise placed(error, given) from error

    def flat(self) -> dict[str, Value]:
        """All values by dotted name."""
        return {setting.name: getattr(getattr(self, setting.group), setting.key)
                for setting in settings()}


@dataclass(frozen=True)
class Setting:
    """One setting as data, for ROS parameters, the command line and the README."""

    group: str
    key: str
    type: Literal['bool', 'int', 'float', 'str', 'str_list', 'float_list']
    default: Value
    help: str
    unit: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    live: bool

    @property
    def name(self) -> str:
        """Dotted name, `group.key`."""
        return f'{self.group}.{self.key}'

    @property
    def wanted(self) -> str:
        """The expected value in words, with its range and unit."""
        if self.choices:
            return 'one of ' + ', '.join(self.choices)
        words = {'bool': 'true or false', 'int': 'a whole number', 'float': 'a number',
                 'str': 'text', 'str_list': 'a list of texts',
                 'float_list': 'a list of numbers'}[self.type]
        if self.low is not None and self.high is not None:
            words += f' from {self.low} to {self.high}'
        elif self.low is not None:
            words += f' of at least {self.low}'
        return f'{words} ({self.unit})' if self.unit else words

    def refusal(self, got: object) -> ConfigError:
        """The error for a value this setting does not take."""
        return ConfigError(
            f'parameter {self.name}', expected=self.wanted, got=repr(got),
            remedy=f'{self.help} Default: {self.default!r}.')


_TYPES = {bool: 'bool', int: 'int', float: 'float', str: 'str',
          Tuple[str, ...]: 'str_list', Tuple[float, ...]: 'float_list'}


def settings() -> Iterator[Setting]:
    """All settings, in the order they are declared above."""
    for group, group_field in Config.model_fields.items():
        model = group_field.annotation
        hints = typing.get_type_hints(model)
        for key, info in model.model_fields.items():
            assert info.default is not PydanticUndefined
            hint = hints[key]
            choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
            extra = info.json_schema_extra
            yield Setting(
                group=group, key=key, type='str' if choices else _TYPES[hint],
                default=info.default, help=info.description, unit=extra['unit'],
                low=extra['low'], high=extra['high'], choices=choices, live=extra['live'])


def _unknown(name: str, known: Mapping[str, Setting]) -> ConfigError:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f'Did you mean {close[0]}?' if close else 'config/robot_infer.yaml lists every key.'
    return ConfigError(f'parameter {name}', expected='a known name', got='an unknown one',
                       remedy=hint)
