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

"""Workspaces: never less than what torch was seen to hold in a stage, and not far above it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from robot_infer.budget.presets import find_preset
from robot_infer.budget.shapes import read_shape
from robot_infer.budget.workspace import Workspace, plan_workspace
from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.types import Frame, Observation, RobotState
from robot_infer_kernels.cpu.linear import why_not

DEMO = Path(__file__).parents[2] / 'robot_infer' / 'assets' / 'demo_policy'


def peak_bytes(run) -> int:
    """The most that torch holds at once while `run` runs, above what it held before."""
    with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [event for event in profiler.profiler.kineto_results.events()
              if event.name() == '[memory]']
    events.sort(key=lambda event: event.start_ns())
    held = np.cumsum([event.nbytes() for event in events])
    return int(held.max(initial=0))


@torch.inference_mode()
def peaks(engine: Engine, instruction: str) -> tuple[dict[str, int], int]:
    """Peaks of the stages of one cold step, and the length of its prefix."""
    policy, rng = engine._policy, np.random.default_rng(0)
    frames = {name: Frame(name, rng.integers(0, 255, (480, 640, 3), np.uint8), 0, 0)
              for name in policy.inputs}
    prepared = policy.prepare(
        Observation(frames, RobotState(policy.state_at(0.3), 0, 0), instruction, 0))
    keys = prepared.layout.keys(engine._storage.page_tokens)
    sequence, found = engine._cache.open(keys, 0), {}
    pixels = next(iter(prepared.frames.values())).pixels
    found['vision'] = peak_bytes(lambda: policy.encode(pixels)) + pixels.nbytes
    embedded, _ = policy.embed(prepared, engine._embeddings)
    (start, end), *rest = prepared.layout.pieces(0)
    found['prefill'] = peak_bytes(
        lambda: policy.prefill(prepared, embedded, engine._storage, sequence, start, end))
    for start, end in rest:
        policy.prefill(prepared, embedded, engine._storage, sequence, start, end)
    found['denoise'] = peak_bytes(lambda: policy.act(
        prepared, engine._storage, sequence, policy.horizon, policy.denoise_steps))
    sequence.release()
    return found, prepared.layout.length


@pytest.mark.parametrize('dtype, weights', [
    ('fp32', 'as_loaded'), ('bf16', 'as_loaded'), ('fp32', 'int8'), ('bf16', 'int8')])
def test_no_stage_holds_more_than_is_planned_and_the_plan_is_near(dtype, weights):
    if weights != 'as_loaded' and why_not(weights):
        pytest.skip(f'this torch has no {weights} weights: {why_not(weights)}')
    engine = Engine.from_config(Config.from_flat({
        'policy.dtype': dtype, 'policy.weights': weights, 'policy.threads': 1,
        'cache.budget_bytes': 1 << 23}))
    measured, tokens = peaks(engine, 'push the red block to the left ' * 2)
    shape = read_shape(DEMO)
    planned = stages(plan_workspace(
        shape, num_cameras=2, prefix_tokens=tokens, horizon=shape.horizon,
        denoise_steps=shape.denoise_steps, value_bytes=4 if dtype == 'fp32' else 2,
        quantised=weights != 'as_loaded', copied=dtype == 'bf16',
        action_width=engine._policy.shape.max_action_dim))
    for name, num_bytes in measured.items():
        # On so small a network oneDNN's own buffers weigh as much as the tensors.
        assert num_bytes <= planned[name] <= 2 * num_bytes + (1 << 16), (name, num_bytes, planned)


def stages(workspace: Workspace) -> dict[str, int]:
    return {name: num_bytes for name, num_bytes, _ in workspace.stages}


def plan(name: str, tokens: int, **more: int) -> Workspace:
    return plan_workspace(find_preset(name), num_cameras=1, prefix_tokens=tokens, horizon=50,
                          denoise_steps=10, value_bytes=2, **more)


def test_the_stages_share_their_memory():
    workspace = plan('SmolVLA', 177)
    assert sum(line.num_bytes for line in workspace.lines()) == workspace.num_bytes
    assert workspace.num_bytes == max(stages(workspace).values())
    (vision,) = workspace.lines()
    assert (vision.name, vision.basis) == ('vision workspace', 'bound')
    for name in ('prefill', 'denoise'):
        assert f'; {name} needs {stages(workspace)[name]} bytes of the same' in vision.arithmetic


def test_a_stage_that_needs_more_is_a_line_of_what_it_needs_more():
    workspace = plan('pi0', 800)
    vision, prefill = workspace.lines()
    assert vision.num_bytes == stages(workspace)['vision']
    assert vision.num_bytes + prefill.num_bytes == stages(workspace)['prefill']
    assert prefill.name == 'prefill workspace' and 'denoise needs' in prefill.arithmetic


def test_smolvla_vision_by_hand():
    patches, width, hidden = 1024, 768, 3072
    by_hand = patches * (12 * width + 2 * (5 * width + 2 * hidden)) + 3 * 512 * 512 * (4 + 2)
    assert stages(plan('SmolVLA', 177))['vision'] == by_hand


def test_a_model_that_decodes_has_logits_and_no_denoising():
    found = stages(plan('Llama-3-8B', 1000))
    assert set(found) == {'prefill', 'decode'}
    assert 8 * 128_256 < found['decode'] < found['prefill']


def test_prefill_grows_with_the_prefix():
    assert stages(plan('pi0', 800))['prefill'] == 2 * stages(plan('pi0', 400))['prefill']
