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

"""The plan: its lines against what the engine takes, its verdicts, its table, its JSON."""

from __future__ import annotations

from dataclasses import replace
import json
from pathlib import Path
import subprocess
import sys

import pytest

from robot_infer.budget.camera_rings import parse_ring
from robot_infer.budget.devices import GIB, Device, find_device, given_device
from robot_infer.budget.headers import read_headers
from robot_infer.budget.layout import Facts, lay_out
from robot_infer.budget.levers import Lever
from robot_infer.budget.machine import PROCESS_BYTES
from robot_infer.budget.plan import Verdict, Wish, in_words, make_plan, with_room
from robot_infer.budget.presets import PRESETS, find_preset
from robot_infer.budget.shapes import read_shape
from robot_infer.budget.table import HEAD, as_text, not_loaded, rows
from robot_infer.config import Config
from robot_infer.engine import Engine
from robot_infer.errors import BudgetError, CheckpointError, ConfigError
from robot_infer.footprint import measure_process
from robot_infer_kernels.gpu.check import triton_version

DEMO = Path(__file__).parents[2] / 'robot_infer' / 'assets' / 'demo_policy'
NANO = 'Jetson Orin Nano 8GB Super (MAXN_SUPER, 1020 MHz)'
CPU = replace(given_device(16.0, 20.0, {'fp32': 0.1}), unified=True)


def demo_facts(**more: object) -> Facts:
    return Facts(tensors={name: tensor.shape for name, tensor
                          in read_headers(DEMO).tensors.items()}, **more)


def plan_preset(name: str, device: str | Device, wish: Wish | None = None, **settings: object):
    shape = find_preset(name)
    config = Config.from_flat({'policy.dtype': 'bf16', **settings})
    found = device if isinstance(device, Device) else find_device(device)
    return make_plan(shape, with_room(shape, config, Facts()), found, Facts(), wish)


# --- the engine ---------------------------------------------------------------------------------

@pytest.mark.parametrize('settings', [
    {}, {'policy.dtype': 'bf16', 'cache.page_tokens': 16}, {'cache.kv_format': 'int8'},
    {'policy.horizon': 3, 'cache.embeddings_per_camera': 7}])
def test_the_pages_and_embeddings_are_those_that_the_engine_takes(settings):
    config = Config.from_flat({'policy.threads': 1, 'cache.budget_bytes': 1 << 23, **settings})
    layout = lay_out(read_shape(DEMO), config, CPU, demo_facts())
    engine = Engine.from_config(config)
    planned = {line.name: line for line in layout.lines}
    for line in engine.info.memory:
        assert planned[line.name].num_bytes == line.num_bytes
        assert planned[line.name].arithmetic == line.arithmetic
    assert layout.num_pages == engine.cache_stats().pages_total
    assert engine.info.taken_bytes == sum(
        line.num_bytes for line in layout.lines if line.kind in ('kv', 'embeddings'))


_RESIDENT = '''
import sys
import numpy as np
from robot_infer.config import Config
from robot_infer.control.memory import resident_bytes
from robot_infer.engine import Engine
from robot_infer.types import Frame, Observation, RobotState
config = Config.from_flat({'policy.threads': 1})
engine = Engine.from_config(config)
rng = np.random.default_rng(0)
for number in range(20):
    frames = {name: Frame(name, rng.integers(0, 255, (480, 640, 3), np.uint8), 0, 0)
              for name in config.cameras.names}
    state = RobotState(engine._policy.state_at(number / 20), 0, 0)
    engine.step(Observation(frames, state, 'push the block', 0))
print(resident_bytes())
'''


@pytest.mark.skipif(not Path('/proc/self/statm').exists(), reason='needs /proc: resident memory')
def test_the_process_of_the_demo_policy_holds_what_is_planned_within_a_twentieth():
    done = subprocess.run([sys.executable, '-c', _RESIDENT], capture_output=True, text=True,
                          check=True)
    measured = int(done.stdout.split()[-1])
    layout = lay_out(read_shape(DEMO), Config(), CPU, demo_facts(process_bytes=measure_process()))
    assert layout.engine_bytes == pytest.approx(measured, rel=0.05)


# --- lines --------------------------------------------------------------------------------------

def test_a_gpu_of_its_own_memory_has_the_host_lines_elsewhere():
    plan = plan_preset('SmolVLA', 'GeForce RTX 4090')
    places = {line.name: line.place for line in plan.lines}
    assert places['process of the policy'] == places['camera rings'] == 'host'
    assert places['CUDA context'] == places['graph capture'] == places['pages'] == 'device'
    assert plan.num_bytes == sum(line.num_bytes for line in plan.lines if line.place == 'device')
    assert plan.num_bytes + plan.host_bytes == sum(line.num_bytes for line in plan.lines)


def test_on_unified_memory_every_line_counts():
    plan = plan_preset('SmolVLA', NANO)
    assert plan.num_bytes == sum(line.num_bytes for line in plan.lines) and not plan.host_bytes
    assert plan.usable_bytes == 7620 * 2 ** 20
    assert {'CUDA context', 'graph capture', 'allocator rounding', 'rest of the robot',
            'camera rings', 'frame staging', 'process of the node', 'vision workspace',
            'pages', 'image embeddings', 'vision encoder', 'action head'} <= {
                line.name for line in plan.lines}


@pytest.mark.skipif(triton_version() is None, reason='triton is not installed')
@pytest.mark.parametrize('name', ['SmolVLA', 'pi0', 'OpenVLA-7B', 'Llama-3-8B'])
@pytest.mark.parametrize('device', [NANO, 'agx thor', 'GeForce RTX 4090', 'H200'])
def test_the_splits_of_attention_stay_in_their_bound(name, device):
    from robot_infer_kernels.gpu.attention import choose, room_needed
    plan, found = plan_preset(name, device), find_device(device)
    stack, (group, *_) = plan.shape.language, plan.shape.kv
    heads = (stack.num_heads, group.num_kv_heads, group.head_dim)
    most = 0
    for tokens in (1, 2, 3, 7, 16, 33, 50, 64, 65, 128, 177, 500):
        choice = choose(found.sm, found.num_sms, tokens, *heads, 64, plan.layout.num_pages, 2)
        most = max(most, 4 * sum(room_needed(tokens, *heads, choice)))
    line = next(line for line in plan.lines if line.name == 'attention workspace')
    assert most <= line.num_bytes
    assert most or device != 'H200', 'on a large chip there are splits'


def test_a_cpu_has_no_line_of_cuda():
    names = {line.name for line in lay_out(read_shape(DEMO), Config(), CPU, Facts()).lines}
    assert not names & {'CUDA context', 'graph capture'} and 'C library' in names


def test_every_line_says_how_well_it_is_known_and_from_where():
    for name in PRESETS:
        for line in plan_preset(name, NANO).lines:
            assert line.num_bytes > 0 and line.arithmetic and line.kind
            assert line.basis in ('exact', 'bound', 'estimate')


def test_what_is_available_now_is_usable_and_nothing_is_reserved_twice():
    here = replace(find_device(NANO), available_bytes=5 * GIB)
    plan = plan_preset('SmolVLA', here)
    assert plan.usable_bytes == 5 * GIB
    assert 'rest of the robot' not in {line.name for line in plan.lines}
    asked = make_plan(plan.shape, plan.config, here, Facts(reserve_bytes=GIB))
    assert asked.num_bytes == plan.num_bytes + GIB


def test_a_measured_process_takes_the_place_of_the_usual_one():
    usual = lay_out(read_shape(DEMO), Config(), CPU, Facts())
    measured = lay_out(read_shape(DEMO), Config(), CPU, Facts(process_bytes=PROCESS_BYTES + 5))
    assert measured.num_bytes == usual.num_bytes + 5


def test_the_rings_of_the_cameras_are_those_that_were_given():
    ring = parse_ring('overhead:1920x1080:nv12:8')
    layout = lay_out(read_shape(DEMO), Config(), CPU, Facts(rings=(ring,)))
    line = next(line for line in layout.lines if line.name == 'camera rings')
    assert line.per_camera == (8 * 3_110_400, 4 * 921_600)


# --- verdicts -----------------------------------------------------------------------------------

def test_smolvla_fits_an_orin_nano_and_says_so_in_one_sentence():
    plan = plan_preset('SmolVLA', NANO)
    assert (plan.verdict, plan.verdict.status) == (Verdict.FITS, 0)
    assert plan.headroom_bytes == plan.usable_bytes - plan.num_bytes > 0 and not plan.levers
    assert plan.words.startswith(f'SmolVLA on {NANO} fits: ') and plan.words.endswith('.')
    assert in_words(plan.headroom_bytes) in plan.words and '(asked: 30 Hz)' in plan.words


def test_pi0_does_not_fit_an_orin_nano():
    plan = plan_preset('pi0', NANO)
    assert (plan.verdict, plan.verdict.status) == (Verdict.TOO_BIG, 3)
    assert plan.headroom_bytes < 0 and all(isinstance(each, Lever) for each in plan.levers)
    assert 'does not fit' in plan.words and in_words(-plan.headroom_bytes) in plan.words


def test_a_rate_that_is_out_of_reach_is_another_verdict():
    plan = plan_preset('SmolVLA', NANO, Wish(rate_hz=1000.0))
    assert (plan.verdict, plan.verdict.status) == (Verdict.TOO_SLOW, 4)
    assert 'misses the rate' in plan.words and '1000 Hz were asked for' in plan.words
    assert not plan.levers
    assert plan_preset('SmolVLA', NANO, Wish(rate_hz=1.0)).verdict is Verdict.FITS


def test_a_larger_margin_leaves_a_lower_rate():
    rates = [plan_preset('SmolVLA', NANO, Wish(margin=margin)).reach.highest_hz
             for margin in (0.0, 0.2, 0.5)]
    assert rates[0] > rates[1] > rates[2] > 0
    assert rates[2] == pytest.approx(rates[0] / 2)


def test_a_chunk_that_is_void_before_the_next_is_there_misses_every_rate():
    plan = plan_preset('SmolVLA', NANO, **{'control.chunk_validity_s': 0.05})
    assert plan.verdict is Verdict.TOO_SLOW and plan.reach.highest_hz == 0
    assert 'control.chunk_validity_s' in plan.words


def test_of_a_model_that_does_not_act_no_rate_is_asked():
    plan = plan_preset('Llama-3-8B', 'H200')
    assert plan.verdict is Verdict.FITS and plan.reach.asked_hz == 0 and plan.history is None
    assert 'Hz' not in plan.words


# --- refusals -----------------------------------------------------------------------------------

@pytest.mark.parametrize('settings, device, kind, words', [
    ({'cache.budget_bytes': 10 ** 15}, NANO, BudgetError, 'cache.budget_bytes: expected at most'),
    ({'policy.horizon': 51}, NANO, CheckpointError, 'at most the model\'s 50'),
    ({'policy.weights': 'int8'}, NANO, ConfigError, 'as_loaded on Jetson Orin Nano'),
    ({'cache.kv_format': 'fp8'}, NANO, ConfigError, 'from sm_89 on; got fp8 on sm_87')])
def test_what_cannot_be_is_refused_by_name(settings, device, kind, words):
    with pytest.raises(kind, match=words):
        plan_preset('SmolVLA', device, **settings)


def test_a_budget_that_is_too_small_is_refused_as_by_the_engine():
    config = Config.from_flat({'cache.budget_bytes': 1000})
    with pytest.raises(BudgetError) as planned:
        lay_out(read_shape(DEMO), config, CPU, Facts())
    with pytest.raises(BudgetError) as taken:
        Engine.from_config(config)
    assert str(planned.value) == str(taken.value)


@pytest.mark.parametrize('wish', [
    Wish(rate_hz=-1.0), Wish(rate_hz=float('nan')), Wish(camera_rate_hz=0.0), Wish(margin=1.0),
    Wish(margin=-0.1), Wish(margin=float('nan'))])
def test_a_wish_that_makes_no_sense_is_refused(wish):
    with pytest.raises(ConfigError):
        plan_preset('SmolVLA', NANO, wish)


# --- table and JSON -----------------------------------------------------------------------------

def test_the_table_has_the_largest_line_first_and_ends_in_the_headroom():
    plan = plan_preset('SmolVLA', NANO)
    table = rows(plan)
    sizes = [float(row.cells[1].lstrip('<')) for row in table if row.kind == 'line']
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == len(plan.lines)
    assert [row.cells[0].split()[0] for row in table[-3:]] == ['all', 'usable', 'headroom']
    assert float(table[-1].cells[1]) == pytest.approx(plan.headroom_bytes / GIB, abs=5e-4)
    assert float(table[-1].cells[2]) == pytest.approx(plan.headroom_bytes / 1e9, abs=5e-4)


def test_what_is_missing_is_called_so_and_the_text_ends_in_the_verdict():
    plan = plan_preset('pi0', NANO)
    text = as_text(plan)
    assert '\nMISSING ' in text and text.splitlines()[-1] == plan.words
    assert text.splitlines()[0].split()[:3] == [HEAD[0], 'GiB', 'GB']
    assert all(line in as_text(plan) for line in as_text(plan, with_source=False).split('\n')[-1:])


def test_what_is_in_the_files_and_not_loaded_is_told_with_its_reason():
    words = not_loaded(plan_preset('SmolVLA', NANO))
    assert any(line.startswith('language head: 0.088 GiB') and 'unused' in line for line in words)


def test_the_json_has_every_line_and_goes_through_a_parser():
    plan = plan_preset('pi0', NANO)
    read = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert read['verdict'] == 'does not fit' and read['status'] == 3
    assert sum(line['num_bytes'] for line in read['lines']) == read['num_bytes']
    assert read['usable_bytes'] - read['num_bytes'] == read['headroom_bytes']
    assert read['settings']['kv_format'] == 'bf16' and read['settings']['num_pages'] > 0
    pages = [line for line in read['lines'] if line['kind'] == 'kv']
    assert pages[0]['num_bytes'] == (read['settings']['num_pages']
                                     * read['settings']['page_bytes'])
    assert {lever['name'] for lever in read['levers']} == {lever.name for lever in plan.levers}
    assert read['rate']['cold_s'] > read['rate']['reused_s'] > 0
