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

"""Parity with LeRobot 0.6.1: every number on the way from frame to action, from golden files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
import sys

import pytest
import torch

from robot_infer.cache import BlockPool, EmbeddingCache, KVStorage, PagedCache, PrefixIndex
from robot_infer.errors import InstructionError
from robot_infer.models.checkpoint import CheckpointFolder
from robot_infer.policies.base import Prepared
from robot_infer.policies.smolvla import SmolVLAPolicy
from robot_infer.prompt.layout import Layout, Segment

sys.path.insert(0, str(Path(__file__).parent))
from golden_case import CASES, GoldenCase, GoldenStep  # noqa: E402

PAGE = 8
FP32 = 1e-5


@dataclass
class Run:
    """A policy with pages of its own, filled with NaN wherever nothing was written."""

    policy: SmolVLAPolicy
    storage: KVStorage
    cache: PagedCache
    embeddings: EmbeddingCache

    def prefill(self, step: GoldenStep):
        """Cold prefill of one observation; returns the sequence."""
        return self.prefill_prepared(self.policy.prepare(step.observation))

    def prefill_prepared(self, prepared: Prepared):
        """The same, of an observation made ready."""
        sequence = self.cache.open((), 0)
        embedded, _ = self.policy.embed(prepared, self.embeddings)
        for start, end in prepared.layout.pieces(0):
            self.policy.prefill(prepared, embedded, self.storage, sequence, start, end)
        return sequence

    def entries(self, sequence, plane: int) -> torch.Tensor:
        """Keys and values of a sequence in one plane: (2, tokens, kv_heads, head_dim)."""
        pages = self.storage.plane(plane)[:, sequence.table]
        return pages.flatten(1, 2)[:, :sequence.length]


def _run(case: GoldenCase, dtype: torch.dtype = torch.float32, **options) -> Run:
    policy = SmolVLAPolicy(CheckpointFolder(case.checkpoint), dtype=dtype,
                           device=torch.device('cpu'), **options)
    shape = policy.prefix_shape
    blocks = 4 * (shape.max_prefix // PAGE + 2)
    storage = KVStorage(shape.num_planes, blocks, PAGE, shape.num_kv_heads, shape.head_dim, dtype,
                        poison=True)
    pool = BlockPool(blocks)
    return Run(policy, storage, PagedCache(storage, pool, PrefixIndex(pool, PAGE), blocks),
               EmbeddingCache(policy.inputs, 4, shape.image_tokens, shape.width, dtype, 'cpu'))


def _usable(case: GoldenCase) -> list[GoldenStep]:
    """Steps whose prompt LeRobot did not cut: we refuse those (tested below)."""
    return [step for step in case.steps() if step.note['name'] != 'cut_prompt']


@pytest.fixture(autouse=True)
def _inference_mode():
    yield


@pytest.fixture(params=CASES)
def case(request) -> GoldenCase:
    return GoldenCase(request.param)


def _close(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got.float(), expected.float(), rtol=0, atol=FP32)


def _relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return ((got.float() - expected).norm() / expected.norm()).item()


def test_golden_files_are_there():
    assert {'one_camera', 'two_cameras', 'three_cameras', 'empty_camera', 'demo'} <= set(CASES)


def test_preprocessing_prompt_and_state(case):
    policy = _run(case).policy
    for step in _usable(case):
        prepared = policy.prepare(step.observation)
        for camera, frame in prepared.frames.items():
            _close(frame.pixels[0], step.of_image(camera, 'pixels'))
        mask = step['prompt_mask'].bool()
        assert prepared.word_ids.tolist() == step['prompt_ids'][mask].tolist()
        _close(prepared.state[0], step['state_normalised'])


def test_image_embeddings(case):
    policy = _run(case).policy
    for step in _usable(case):
        prepared = policy.prepare(step.observation)
        for camera, frame in prepared.frames.items():
            _close(policy.encode(frame.pixels), step.of_image(camera, 'embedding'))


def test_prefix_keys_and_values_of_each_layer(case):
    run = _run(case)
    for step in _usable(case):
        sequence = run.prefill(step)
        assert sequence.length == step.note['valid_tokens']
        for layer in range(run.policy.shape.num_layers):
            keys, values = run.entries(sequence, layer)
            _close(keys, step['keys'][layer])
            _close(values, step['values'][layer])
        sequence.release()


def test_velocity_of_each_denoising_step_given_the_references_own_points(case):
    run = _run(case)
    for step in _usable(case):
        sequence = run.prefill(step)
        noise = step['noise']
        suffix = run.policy.place(run.storage, sequence, noise.shape[0])
        points = [noise, *step['points'][:-1]]
        for number, point in enumerate(points):
            got = run.policy.velocity(suffix, point, number)
            _close(got, step['velocities'][number])
        sequence.release()


def test_actions(case):
    run = _run(case)
    for step in _usable(case):
        sequence = run.prefill(step)
        points = run.policy.denoise(run.storage, sequence, step['noise'])
        _close(torch.stack(points), step['points'])
        got = points[-1][:, :run.policy.action_dim]
        _close(got, step['actions_normalised'])
        physical = torch.from_numpy(run.policy._normalize_action.unnormalize(got.numpy()))
        torch.testing.assert_close(physical, step['actions'], rtol=1e-5, atol=FP32)
        sequence.release()
        run.cache.invariants()


def test_a_truncated_chunk_is_the_head_of_the_full_one(case):
    run = _run(case)
    for step in _usable(case):
        if 'truncated.actions_normalised' not in step:
            continue
        expected = step['truncated.actions_normalised']
        sequence = run.prefill(step)
        got = run.policy.denoise(run.storage, sequence, step['noise'][:len(expected)])[-1]
        _close(got[:, :run.policy.action_dim], expected)
        sequence.release()


def test_act_takes_the_head_of_its_noise_for_a_shorter_horizon_and_leaves_the_prefix():
    case = GoldenCase('one_camera')
    run = _run(case)
    prepared = run.policy.prepare(case.steps()[0].observation)
    sequence = run.prefill_prepared(prepared)
    length, before = sequence.length, run.entries(sequence, 0).clone()
    full = run.policy.act(prepared, run.storage, sequence, run.policy.horizon)
    head = run.policy.act(prepared, run.storage, sequence, 3)
    _close(torch.from_numpy(head), torch.from_numpy(full[:3]))
    assert sequence.length == length
    assert torch.equal(run.entries(sequence, 0), before)


def test_noise_follows_from_the_seed_and_from_what_is_observed():
    case = GoldenCase('one_camera')
    policy, other = _run(case).policy, _run(case, noise_seed=1).policy
    layouts = [policy.prepare(step.observation).layout for step in case.steps()]
    again = policy.prepare(case.steps()[0].observation).layout
    noise = policy.noise_for(layouts[0])
    assert torch.equal(noise, policy.noise_for(again))
    assert not torch.equal(noise, policy.noise_for(layouts[1]))  # only the state differs
    assert not torch.equal(noise, other.noise_for(layouts[0]))
    many = torch.cat([policy.noise_for(Layout(b'', (Segment('s', 1, 0, bytes([n])),))).flatten()
                      for n in range(200)])
    assert abs(many.mean()) < 0.03 and abs(many.std() - 1) < 0.03


def test_a_prompt_that_lerobot_would_cut_is_refused():
    case = GoldenCase('two_cameras')
    (step,) = [step for step in case.steps() if step.note['name'] == 'cut_prompt']
    with pytest.raises(InstructionError, match='at most 24 tokens'):
        _run(case).policy.prepare(step.observation)


def test_bf16_stays_within_the_references_own_bf16_noise():
    """Relative RMS against float32: pooled over all cases no larger than LeRobot's own.

    LeRobot's noise is that of its bfloat16 backbone and expert against its float32 self. A single
    step may fall on either side of it (it is noise); none may be twice as large.
    """
    ours, theirs = {'keys': [], 'actions': []}, {'keys': [], 'actions': []}
    for name in CASES:
        case = GoldenCase(name)
        run = _run(case, torch.bfloat16)
        for step in _usable(case):
            sequence = run.prefill(step)
            got = run.policy.denoise(run.storage, sequence, step['noise'])[-1]
            reference = step.note['bf16_vlm_expert']
            for layer in range(run.policy.shape.num_layers):
                ours['keys'].append(
                    _relative(run.entries(sequence, layer)[0], step['keys'][layer]))
            theirs['keys'] += reference['keys']
            ours['actions'].append(
                _relative(got[:, :run.policy.action_dim], step['actions_normalised']))
            theirs['actions'].append(reference['actions_normalised'])
            sequence.release()
    for part in ours:
        mine, reference = torch.tensor(ours[part]), torch.tensor(theirs[part])
        print(f'{part}: pooled relative RMS {mine.square().mean().sqrt():.5f}, '
              f'reference {reference.square().mean().sqrt():.5f}')
        assert mine.square().mean() <= reference.square().mean()
        assert (mine <= 2 * reference).all(), (part, (mine / reference).max())
