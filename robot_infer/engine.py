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

"""One inference step, from observation to action chunk, in memory that was taken at configure.

The engine knows no ROS and no clock but the one it times its stages with. It is used by one
thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
import os
from pathlib import Path
import time

import numpy as np
import torch

from robot_infer.budget.pages import plan_pages
from robot_infer.budget.plan import Plan
from robot_infer.budget.table import as_text
from robot_infer.budget.weights import weight_lines
from robot_infer.cache import (
    BlockPool,
    CacheStats,
    EmbeddingCache,
    KVStorage,
    PagedCache,
    PrefixIndex,
    Sequence,
)
from robot_infer.config import Config
from robot_infer.config_checks import bind_cameras
from robot_infer.cuda_spin import ask_to_spin, spinning
from robot_infer.engine_info import EngineInfo
from robot_infer.engine_plan import Meter, plan_engine
from robot_infer.errors import (
    ActionError,
    CheckpointError,
    ConfigError,
    InstructionError,
    StateError,
)
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.policies.base import Policy, Prepared
from robot_infer.policies.smolvla import SmolVLAPolicy
from robot_infer.shared_files import DEMO_CHECKPOINT
from robot_infer.types import ActionChunk, Frame, Observation, RobotState, StepBudget, StepReport
from robot_infer.warm_kernels import WarmKernels
from robot_infer_kernels import which_backend
from robot_infer_kernels.pages import refusal

FULL_CHUNK = StepBudget()
_SHORTEST = 'a'  # instruction: one that fits wherever any does
_DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16}
_FAMILIES = {'smolvla': SmolVLAPolicy}


class Engine:
    """A policy, its cache, and the prefixes that are alive."""

    def __init__(
        self, policy: Policy, config: Config, family: str, checkpoint: Path, whole: Plan,
        meter: Meter,
    ) -> None:
        """Take all memory, as planned; `from_config` is the way in."""
        self._policy, self._config = policy, config
        self._device = torch.device(config.policy.device)
        plan = plan_pages(policy.prefix_shape, len(policy.inputs), policy.horizon, config.cache)
        assert plan.num_blocks == whole.layout.num_pages, (plan, whole.layout)
        shape, page_tokens = policy.prefix_shape, config.cache.page_tokens
        kv_format = config.cache.kv_format
        form = 'plain' if kv_format == 'auto' else kv_format
        self._storage = KVStorage(
            shape.num_planes, plan.num_blocks, page_tokens, shape.num_kv_heads, shape.head_dim,
            shape.dtype, self._device, poison=config.cache.check_invariants,
            kv_format=form)
        pool = BlockPool(plan.num_blocks)
        self._cache = PagedCache(
            self._storage, pool, PrefixIndex(pool, page_tokens), plan.blocks_per_sequence)
        self._embeddings = EmbeddingCache(
            policy.inputs, config.cache.embeddings_per_camera, shape.image_tokens, shape.width,
            shape.dtype, self._device)
        self._read: Sequence | None = None  # the prefix the last chunk was made from
        self._epoch = 0
        self._camera_of = bind_cameras(config.cameras, policy.inputs)
        meter.mark('pages and image embeddings', 'kv', 'embeddings')
        self._kernels = WarmKernels(policy, self._device, page_tokens, plan, form)
        started = time.monotonic()
        self._warm_up(checkpoint)
        workspace_bytes = self._kernels.seal()
        warm_up_s = time.monotonic() - started
        self.info = EngineInfo(
            family=family, checkpoint=str(checkpoint), inputs=policy.inputs,
            state_dim=policy.state_dim, action_dim=policy.action_dim, horizon=policy.horizon,
            denoise_steps=policy.denoise_steps, dtype=config.policy.dtype,
            device=str(self._device), threads=torch.get_num_threads(),
            warm_up_s=warm_up_s, memory=plan.lines + self._kernels.lines,
            taken_bytes=self._storage.nbytes + self._embeddings.nbytes + workspace_bytes,
            realtime=(spinning(config.realtime.cuda_spin, self._device),),
            kv_format=config.policy.dtype if kv_format == 'auto' else kv_format,
            weights=weight_lines(policy.weights), plan=as_text(whole), measured=meter.close())

    @classmethod
    def from_config(cls, config: Config) -> Engine:
        """Load the checkpoint, check it against the configuration, take memory, warm up.

        :raises RobotInferError: a CheckpointError, StatisticsError, ConfigError or BudgetError
            that says what does not fit.
        """
        settings = config.policy
        torch.set_num_threads(settings.threads or max(1, (os.cpu_count() or 2) - 1))
        if config.realtime.cuda_spin:
            ask_to_spin()  # before anything is on the device
        device = _device(settings.device)
        _refuse_format(config.cache.kv_format, device)
        folder = CheckpointFolder(settings.checkpoint or DEMO_CHECKPOINT)
        if folder.family not in _FAMILIES:
            raise CheckpointError(
                f'checkpoint {folder.path}', expected='a policy of type '
                + ' or '.join(_FAMILIES), got=f'type {folder.family}',
                remedy='Other families are not supported by this version.')
        whole = plan_engine(config, folder.path, device)
        meter = Meter(whole, device)
        policy = _FAMILIES[folder.family](
            folder, dtype=_DTYPES[settings.dtype], device=device,
            horizon=settings.horizon, denoise_steps=settings.denoise_steps,
            fewer_steps=config.inference.min_denoise_steps, noise_seed=settings.seed,
            kv_format=config.cache.kv_format, weights=settings.weights)
        if len(config.state.joints) != policy.state_dim:
            raise StateError(
                'parameter state.joints', expected=f'{policy.state_dim} joint names, as the '
                'checkpoint was trained on', got=repr(config.state.joints),
                remedy='Name the joints in the order of the training data.')
        meter.mark('weights', 'weights')
        return cls(policy, config, folder.family, folder.path, whole, meter)

    @torch.inference_mode()
    def step(self, observation: Observation, budget: StepBudget = FULL_CHUNK) -> ActionChunk:
        """Compute one action chunk.

        :raises RobotInferError: where the observation or the actions are not fit for use; the
            cache is consistent afterwards.
        """
        policy, stages, late_kernels = self._policy, _Stages(self._device), self._kernels.num_late
        horizon = min(budget.horizon or policy.horizon, policy.horizon)
        steps = budget.denoise_steps or policy.denoise_steps
        with stages('preprocess'):
            prepared = policy.prepare(self._bind(observation))
            self._check_state(prepared, observation)
            layout = prepared.layout
            keys = layout.keys(self._storage.page_tokens)
        sequence = self._cache.open(keys, layout.length - 1)
        try:
            sequence.truncate(layout.resume_point(sequence.length))
            reused = sequence.length
            encoded = self._prefill(prepared, sequence, keys, stages)
            with stages('denoise'):
                normal = policy.act(prepared, self._storage, sequence, horizon, steps)
            with stages('postprocess'):
                values = _checked(normal)
        except BaseException:
            sequence.release()
            raise
        self._epoch += 1
        self._keep(sequence)
        pages = self._cache.stats
        return ActionChunk(
            values=values, period_s=1.0 / self._config.control.rate_hz, epoch=self._epoch,
            observed_ns=observation.observed_ns,
            frame_stamps_ns={name: frame.stamp_ns for name, frame in observation.frames.items()},
            state_stamp_ns=observation.state.stamp_ns,
            report=StepReport(
                epoch=self._epoch, stages_s=stages.seconds, tokens_total=layout.length,
                tokens_computed=layout.length - reused, cameras_encoded=encoded,
                pages_used=pages.pages_used, pages_total=pages.pages_total,
                late_kernels=self._kernels.num_late - late_kernels))

    def _check_state(self, prepared: Prepared, observation: Observation) -> None:
        """Refuse a state that is no robot's like the one trained on: degrees, a broken sensor."""
        limit = self._config.state.max_normalised
        distances = prepared.state[0].abs()
        if limit and distances.max() > limit:
            index = int(distances.argmax())
            raise StateError(
                f'joint {self._config.state.joints[index]}',
                expected=f'a position within {limit:g} standard deviations of the training data',
                got=f'{observation.state.values[index]:g}, which is {distances[index]:.3g}',
                remedy='Check the joint\'s unit and sensor, or raise state.max_normalised.')

    def _prefill(self, prepared: Prepared, sequence: Sequence, keys, stages: _Stages) -> int:  # noqa: ANN001
        """Compute what the pages do not hold yet, one attention group at a time."""
        embedded: Mapping[str, torch.Tensor] = {}
        encoded = 0
        if sequence.length == 0:
            with stages('vision'):
                embedded, encoded = self._policy.embed(prepared, self._embeddings)
        with stages('prefill'):
            for start, end in prepared.layout.pieces(sequence.length):
                self._policy.prefill(prepared, embedded, self._storage, sequence, start, end)
                if end < prepared.layout.length:
                    self._cache.publish(sequence, keys)
        return encoded

    def _keep(self, sequence: Sequence) -> None:
        """Let the new prefix live, and the one before it go.

        While a prefix is filled, the one before it stays whole: both are in the budget.
        """
        if self._read is not None:
            self._read.release()
        self._read = sequence
        if self._config.cache.check_invariants:
            self._cache.invariants()

    def _bind(self, observation: Observation) -> Observation:
        """Rename frames from the robot's camera names to the policy's inputs."""
        frames = {name: observation.frames[camera] for name, camera in self._camera_of.items()}
        return Observation(frames, observation.state, observation.instruction,
                           observation.observed_ns)

    def _warm_up(self, checkpoint: Path) -> None:
        """Run cold and warm steps on noise, so that nothing is slow or new after 'ready'.

        The state is one of the training data's middle: 0 may be no position of this robot.

        :raises CheckpointError: where the shortest instruction has too many tokens.
        """
        rng = np.random.default_rng(0)
        frames = {camera: Frame(camera, rng.integers(0, 255, (480, 640, 3), np.uint8), 0, 0)
                  for camera in self._camera_of.values()}
        for step in range(4):
            state = RobotState(self._policy.state_at(step % 2), 0, 0)
            try:
                self.step(Observation(frames, state, _SHORTEST, 0))
            except InstructionError as error:  # no word of the user's: none would fit
                raise CheckpointError(
                    f'tokenizer_max_length of checkpoint {checkpoint}',
                    expected=f'room for an instruction of one letter, {error.got}',
                    got=f'room for {error.expected}', remedy='Mend config.json.') from error
        self.reset()

    def forget(self) -> None:
        """Forget every prefix and every image embedding: the next step is a cold one."""
        if self._read is not None:
            self._read.release()
            self._read = None
        self._cache.clear()
        self._embeddings.clear()

    def reset(self) -> None:
        """Be as new: forget, and count epochs from the beginning."""
        self.forget()
        self._epoch = 0

    def cache_stats(self) -> CacheStats:
        """Pages used, cached, free; hits and evictions."""
        return self._cache.stats

    def invariants(self) -> None:
        """Check the cache; raises AssertionError in words."""
        self._cache.invariants()

    def close(self) -> None:
        """Give the memory back."""
        self.reset()
        del self._storage, self._cache, self._embeddings, self._policy


class _Stages:
    """Seconds per named stage; waits for the device at the end of each."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self._device = device

    @contextmanager
    def __call__(self, name: str):  # noqa: ANN204
        started = time.perf_counter()
        yield
        if self._device.type == 'cuda':
            torch.cuda.synchronize(self._device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def _checked(values: np.ndarray) -> np.ndarray:
    """Refuse actions that are not finite: they must never reach a joint."""
    if not np.isfinite(values).all():
        raise ActionError('action chunk', expected='finite numbers', got='NaN or infinity',
                          remedy='Check the inputs and the checkpoint; nothing was sent.')
    return np.ascontiguousarray(values, np.float32)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        which_backend(device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ConfigError('parameter policy.device', expected='a device that torch can use here '
                          'and the attention kernels run on: cpu, or cuda from sm_80 on',
                          got=f'{name} ({error})'.split('\n')[0], remedy='Use cpu.') from error
    return device


def _refuse_format(kv_format: str, device: torch.device) -> None:
    """Refuse pages of a format that the device is not offered."""
    words = '' if kv_format == 'auto' else refusal(kv_format, device)
    if words:
        raise ConfigError('parameter cache.kv_format', expected='a format that this device is '
                          f'offered: {words}', got=kv_format, remedy='Use int8, or auto.')
