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

What lives here: which lines there are, and where the numbers of those come from that nothing in
the settings tells. What does not: the arithmetic of pages, weights, workspaces and cameras (in
their own files); whether it fits (plan.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
import platform

from robot_infer.budget.camera_rings import CameraRing, camera_rings, ring_lines
from robot_infer.budget.devices import Device
from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.loaded import VALUE_BYTES, Form, Shapes, loaded_weights
from robot_infer.budget.model_shape import ModelShape
from robot_infer.budget.pages import PageNeed, need_pages, plan_pages
from robot_infer.budget.workspace import plan_workspace
from robot_infer.config import Config
from robot_infer.errors import BudgetError, CheckpointError, ConfigError

MIB = 1 << 20
# Of the process that runs the engine: what is measured against its resident memory.
ENGINE_KINDS = ('weights', 'kv', 'embeddings', 'workspace', 'staging', 'process', 'rounding')
# Measured on x86-64 Linux with Python 3.11 and torch 2.13 for the CPU (robot_infer/footprint.py),
# and with rclpy on Fast DDS, its 32 MiB of shared memory and the reserve of 32 MiB included.
PROCESS_BYTES, NODE_BYTES = 277 * MIB, 164 * MIB
# PyTorch with lazily loaded modules: 300 to 400 MB (pytorch issues 107667, 109888), and cuBLAS's
# workspaces; on unified memory the host's side of the libraries comes from the same pool.
CONTEXT_BYTES, UNIFIED_CONTEXT_BYTES = 450 * MIB, 1280 * MIB
# Between a process with its freed memory given back, and the same some steps later.
KEPT_BYTES = 16 * MIB
# TensorRT-LLM takes 60 MB for a captured graph (pull request 3362).
GRAPH_BYTES = 60_000_000
# An idle Orin Nano holds 0.6 to 0.9 GiB headless, 1.5 to 2.8 GiB with a desktop (tegrastats).
UNIFIED_RESERVE_BYTES, DISCRETE_RESERVE_BYTES = 2048 * MIB, 512 * MIB
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


def is_gpu(device: Device) -> bool:
    """Whether the policy runs on a CUDA device of it."""
    return device.sm is not None


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
        *_machine_lines(device, facts, weights.num_bytes, weights.num_tensors)]
    return Layout(
        # A workspace of 0 is all in those of the stages before, and says so.
        lines=tuple(line for line in lines if line.num_bytes or line.kind == 'workspace'),
        num_pages=pages.num_blocks,
        page_tokens=config.cache.page_tokens, need=page_need(shape, config, len(cameras)),
        cameras=cameras, one_memory=device.unified or not is_gpu(device))


def _machine_lines(
    device: Device, facts: Facts, weights: int, num_tensors: int,
) -> Sequence[MemoryLine]:
    """What the process, the device and the rest of the robot take."""
    measured = facts.process_bytes is not None
    lines = [
        MemoryLine('process of the policy', facts.process_bytes or PROCESS_BYTES,
                   'Python and torch without a policy, measured '
                   + ('here' if measured else 'on x86-64 with torch 2.13'), 'estimate', 'host',
                   'process'),
        MemoryLine('process of the node', NODE_BYTES, 'rclpy and Fast DDS with 32 MiB of shared '
                   'memory, and 32 MiB kept for messages; measured on x86-64', 'estimate', 'host',
                   'node')]
    if is_gpu(device):
        lines += [
            MemoryLine('CUDA context', UNIFIED_CONTEXT_BYTES if device.unified else CONTEXT_BYTES,
                       'context, cuBLAS workspaces and lazily loaded modules'
                       + (', the host\'s side of them too' if device.unified else ''),
                       'estimate', kind='context'),
            MemoryLine('graph capture', 3 * GRAPH_BYTES, f'3 stages x {GRAPH_BYTES} bytes, kept '
                       'free: this version captures none yet', 'estimate', kind='graphs'),
            MemoryLine('allocator rounding', 22 * MIB + weights // 50, 'a segment of 20 MiB and '
                       f'one of 2 MiB, and 2 % of {weights} bytes of weights (121 MiB were seen: '
                       'vllm issue 10637)', 'estimate', kind='rounding')]
    else:
        lines.append(MemoryLine(
            'C library', KEPT_BYTES, 'what a step freed and glibc keeps for the next one; 4 to 30 '
            'MiB were seen', 'estimate', 'host', 'rounding'))
        lines.append(MemoryLine(
            'allocator rounding', num_tensors * 4096,
            f'each of {num_tensors} tensors to whole pages of 4096 bytes', 'bound', 'host',
            'rounding'))
    reserve, words = _reserve(device, facts)
    lines.append(MemoryLine('rest of the robot', reserve, words, 'estimate', kind='reserve'))
    return lines


def _reserve(device: Device, facts: Facts) -> tuple[int, str]:
    if facts.reserve_bytes is not None:
        return facts.reserve_bytes, 'as asked'
    if device.available_bytes is not None:
        return 0, 'what runs now is not in what is available'
    if device.unified or not is_gpu(device):
        return UNIFIED_RESERVE_BYTES, ('operating system, desktop and other nodes; 0.6 to 2.8 GiB '
                                       'were seen on idle Jetsons')
    return DISCRETE_RESERVE_BYTES, 'desktop and other processes on the GPU'


def _form(config: Config, device: Device) -> Form:
    on_x86 = platform.machine().lower() in ('x86_64', 'amd64')
    return Form(config.policy.dtype, config.policy.weights, packed=on_x86 and not is_gpu(device),
                unpacked_bytes=2)


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
