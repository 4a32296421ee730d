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

"""Every line of a plan: what a model, its settings and a device make of each other.

What lives here: which lines there are, and what the settings make of a model's shape. What does
not: the arithmetic of pages, weights, workspaces, cameras and the machine (in their own files);
whether it fits (plan.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import functools
from pathlib import Path
import platform

from robot_infer.budget.camera_rings import CameraRing, camera_rings, ring_lines
from robot_infer.budget.devices import Device
from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.loaded import VALUE_BYTES, Form, Shapes, loaded_weights
from robot_infer.budget.machine import attention_lines, is_gpu, machine_lines
from robot_infer.budget.model_shape import ModelShape
from robot_infer.budget.pages import PageNeed, need_pages, plan_pages
from robot_infer.budget.workspace import plan_workspace
from robot_infer.config import Config
from robot_infer.errors import BudgetError, CheckpointError, ConfigError

# Of the process that runs the engine: what is measured against its resident memory.
ENGINE_KINDS = ('weights', 'kv', 'embeddings', 'workspace', 'staging', 'process', 'rounding')
_PADDED_ACTION = 32  # columns of LeRobot's SmolVLA and pi0, where no header tells
_FP8_FROM_SM = 89


@dataclass(frozen=True)
class Facts:
    """What is known beside model, settings and device.

    :param tensors: names and shapes of a checkpoint's tensors; None: there is no checkpoint.
    :param cameras: of the robot that take part; None: all that the model was trained with.
    :param rings: what is known of the cameras' drivers.
    :param process_bytes: of the policy's process without a policy, where that was measured.
    :param reserve_bytes: that stay free for the rest of the robot; None: the device's usual.
    """

    tensors: Shapes | None = None
    cameras: tuple[str, ...] | None = None
    rings: tuple[CameraRing, ...] = ()
    process_bytes: int | None = None
    reserve_bytes: int | None = None


@dataclass(frozen=True)
class Layout:
    """All lines, and what the pages hold.

    :param one_memory: lines of the host take from the same memory as those of the device.
    """

    lines: tuple[MemoryLine, ...]
    num_pages: int
    page_tokens: int
    need: PageNeed
    cameras: tuple[str, ...]
    one_memory: bool

    @property
    def num_bytes(self) -> int:
        """Of the memory that the device has."""
        return sum(line.num_bytes for line in self.lines
                   if self.one_memory or line.place == 'device')

    @property
    def host_bytes(self) -> int:
        """Of the host's memory, where that is another."""
        return sum(line.num_bytes for line in self.lines
                   if not self.one_memory and line.place == 'host')

    @property
    def engine_bytes(self) -> int:
        """Of the process that runs the engine."""
        return sum(line.num_bytes for line in self.lines if line.kind in ENGINE_KINDS)


@dataclass(frozen=True)
class _Size:
    itemsize: int


@dataclass(frozen=True)
class PrefixNumbers:
    """What pages.py asks of a policy (policies.base.PrefixShape), from a model's shape."""

    num_planes: int
    num_kv_heads: int
    head_dim: int
    max_prefix: int
    image_tokens: int
    width: int
    dtype: _Size


def prefix_numbers(shape: ModelShape, num_cameras: int, value_bytes: int) -> PrefixNumbers:
    """The numbers of a model's prefix.

    :raises CheckpointError: where its layers do not all cache alike, as pages want it.
    """
    kinds = {(group.num_kv_heads, group.head_dim) for group in shape.kv}
    if len(kinds) != 1:
        raise CheckpointError(
            f'model {shape.name}', expected='layers whose keys and values have one size',
            got=f'{len(kinds)} sizes', remedy='This version keeps one kind of page.')
    (heads, head_dim), = kinds
    return PrefixNumbers(
        num_planes=sum(group.num_layers for group in shape.kv), num_kv_heads=heads,
        head_dim=head_dim, max_prefix=shape.prefix_tokens(num_cameras),
        image_tokens=shape.image_tokens, width=shape.language.width, dtype=_Size(value_bytes))


def suffix_tokens(shape: ModelShape, config: Config) -> int:
    """Tokens behind the prefix, with the configured horizon."""
    horizon = config.policy.horizon
    if not horizon or not shape.denoise_steps:
        return max(1, shape.suffix_tokens)
    return shape.suffix_tokens - shape.horizon + horizon


def page_need(shape: ModelShape, config: Config, num_cameras: int) -> PageNeed:
    """The pages that every step needs, whatever the budget."""
    numbers = prefix_numbers(shape, num_cameras, VALUE_BYTES[config.policy.dtype])
    return need_pages(numbers, num_cameras, suffix_tokens(shape, config), config.cache)


def lay_out(
    shape: ModelShape, config: Config, device: Device, facts: Facts, *, offered: bool = True,
) -> Layout:
    """All allocations of a model with these settings on this device.

    :param offered: refuse settings that this version does not run on this device.
    :raises ConfigError: where the settings do not go together with model or device.
    :raises BudgetError: where cache.budget_bytes is too small, or larger than the machine.
    """
    if offered:
        _refuse_what_is_not_offered(config, device)
    _check(shape, config, device)
    cameras = shape.cameras if facts.cameras is None else facts.cameras
    numbers = prefix_numbers(shape, len(cameras), VALUE_BYTES[config.policy.dtype])
    suffix = suffix_tokens(shape, config)
    pages = plan_pages(numbers, len(cameras), suffix, config.cache)
    form = _form(config, device)
    weights = loaded_weights(
        shape, facts.tensors, form, step_counts=_step_counts(shape, config),
        positions=numbers.max_prefix + shape.horizon)
    workspace = plan_workspace(
        shape, num_cameras=len(cameras), prefix_tokens=numbers.max_prefix, horizon=suffix,
        denoise_steps=config.policy.denoise_steps or shape.denoise_steps,
        value_bytes=numbers.dtype.itemsize, quantised=form.weights != 'as_loaded',
        copied=not is_gpu(device) and (form.packed or form.dtype == 'bf16'),
        action_width=_action_width(facts.tensors))
    lines = [
        *weights.lines, *pages.lines, *workspace.lines(),
        *ring_lines(camera_rings(cameras, facts.rings), shape.image_size),
        *attention_lines(device, numbers.head_dim),
        *machine_lines(device, weights.num_bytes, weights.num_tensors,
                       process_bytes=facts.process_bytes, reserve_bytes=facts.reserve_bytes)]
    return Layout(
        lines=tuple(line for line in lines if line.num_bytes), num_pages=pages.num_blocks,
        page_tokens=config.cache.page_tokens, need=page_need(shape, config, len(cameras)),
        cameras=cameras, one_memory=device.unified or not is_gpu(device))


def _form(config: Config, device: Device) -> Form:
    on_x86 = platform.machine().lower() in ('x86_64', 'amd64')
    return Form(config.policy.dtype, config.policy.weights, packed=on_x86 and not is_gpu(device),
                unpacked_bytes=2 if not on_x86 or _has_wide_registers() else 4)


@functools.cache
def _has_wide_registers() -> bool:
    """Whether this x86 CPU multiplies bfloat16 by oneDNN: AVX-512 for bytes and words."""
    try:
        return ' avx512bw' in Path('/proc/cpuinfo').read_text(errors='replace')
    except OSError:
        return False


def _step_counts(shape: ModelShape, config: Config) -> tuple[int, ...]:
    steps = config.policy.denoise_steps or shape.denoise_steps
    fewer = config.inference.min_denoise_steps
    return (steps, fewer) if fewer else (steps,)


def _action_width(tensors: Shapes | None) -> int:
    found = (tensors or {}).get('model.action_in_proj.weight')
    return found[1] if found else _PADDED_ACTION


def _check(shape: ModelShape, config: Config, device: Device) -> None:
    """Refuse what no device could run, before anything is counted."""
    if config.policy.horizon > shape.horizon > 0:
        raise CheckpointError(
            'parameter policy.horizon', expected=f'at most the model\'s {shape.horizon}',
            got=str(config.policy.horizon), remedy='0 takes the model\'s own.')
    num_bytes = config.cache.budget_bytes
    if num_bytes > device.total_bytes:
        raise BudgetError(
            'parameter cache.budget_bytes', expected=f'at most {device.total_bytes} bytes, all '
            f'that {device.name} has', got=f'{num_bytes} bytes',
            remedy='Lower the budget: it is for pages and image embeddings alone.')


def _refuse_what_is_not_offered(config: Config, device: Device) -> None:
    policy, cache = config.policy, config.cache
    if policy.weights != 'as_loaded' and is_gpu(device):
        raise ConfigError(
            'parameter policy.weights', expected=f'as_loaded on {device.name}: int8 and int4 '
            'weights are for the CPU', got=policy.weights,
            remedy='Use as_loaded, or plan for a CPU.')
    if cache.kv_format == 'fp8' and device.sm is not None and device.sm < _FP8_FROM_SM:
        raise ConfigError(
            'parameter cache.kv_format', expected=f'auto, int8 or int4 on {device.name}: fp8 is '
            f'for GPUs from sm_{_FP8_FROM_SM} on', got=f'fp8 on sm_{device.sm}',
            remedy='Use int8.')


def with_budget(config: Config, num_bytes: int) -> Config:
    """The same settings with another cache.budget_bytes."""
    return replace_settings(config, 'cache', budget_bytes=num_bytes)


def replace_settings(config: Config, group: str, **values: object) -> Config:
    """The same settings but for some of one group."""
    changed = getattr(config, group).model_copy(update=values)
    return config.model_copy(update={group: changed})


def with_cameras(facts: Facts, cameras: tuple[str, ...]) -> Facts:
    """The same with other cameras; what is known of the others stays behind."""
    return replace(facts, cameras=cameras,
                   rings=tuple(ring for ring in facts.rings if ring.name in cameras))
