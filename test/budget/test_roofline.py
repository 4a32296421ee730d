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

"""The bound against one that was computed without this code, and by hand; what follows from it.

The table below is the roofline of a separate script of the project's research (per product
max(operations / peak, bytes / bandwidth), bf16), in milliseconds as it was printed: three digits.
"""

from __future__ import annotations

from dataclasses import replace
import math

from hypothesis import given
from hypothesis import strategies as st
import pytest

from robot_infer.budget.devices import find_device, given_device
from robot_infer.budget.operations import attention, decode, denoise, gemm, prefill, vision
from robot_infer.budget.presets import find_preset
from robot_infer.budget.roofline import (
    BOUND,
    USUAL,
    USUAL_MEASURED,
    USUAL_SM87,
    Efficiency,
    attention_times_s,
    decode_bound_s,
    predict,
    rate_of,
    stages,
    usual,
)
from robot_infer.budget.workload import Workload, workload
from robot_infer.config import Config
from robot_infer.errors import ConfigError

# Dense bf16 TFLOP/s and GB/s that the table was computed with.
PEAKS = {'Orin Nano': (17, 102.4), 'Orin NX': (25, 102.4), 'AGX Orin': (42.5, 204.8),
         'Thor': (258, 273), '4090': (165, 1008), '5090': (209, 1792), 'H200': (989, 4800)}
CASES = {
    'SmolVLA 1 cam, 12 lang': ('SmolVLA', Workload(1, 12, 50, 10)),
    'SmolVLA 2 cam, 12 lang': ('SmolVLA', Workload(2, 12, 50, 10)),
    'SmolVLA 3 cam, 48 lang': ('SmolVLA', Workload(3, 48, 50, 10)),
    'pi0 2 cam, empty, chunk 63': ('pi0', Workload(2, 0, 63, 10)),
    'pi0 2 cam, 20 lang, chunk 50': ('pi0', Workload(2, 20, 50, 10)),
    'pi0 3 cam, 48 lang': ('pi0', Workload(3, 48, 50, 10)),
    'same, 1-byte weights': ('pi0', Workload(3, 48, 50, 10, weight_bytes=1)),
    'pi0.5 2 cam, 10 lang, H10': ('pi0.5', Workload(2, 10, 10, 10)),
    'pi0.5 2 cam, 200 lang, H50': ('pi0.5', Workload(2, 200, 50, 10)),
    # 50 decoding steps, and the first token from the prefill.
    'pi0-FAST 2 cam, 50 tokens': ('pi0-FAST', Workload(2, 60, decoded_tokens=51)),
    'OpenVLA 7 tokens': ('OpenVLA-7B', Workload(1, 23, decoded_tokens=7)),
}
TOTALS_MS = {
    'SmolVLA 1 cam, 12 lang': (37.6, 33.6, 17.6, 11.4, 3.8, 2.5, 0.75),
    'SmolVLA 2 cam, 12 lang': (50.7, 42.6, 22.8, 13.0, 5.2, 3.5, 0.98),
    'SmolVLA 3 cam, 48 lang': (64.3, 51.9, 28.2, 14.7, 6.6, 4.7, 1.2),
    'pi0 2 cam, empty, chunk 63': (210, 164, 90.8, 48.7, 21.6, 15.5, 3.9),
    'pi0 2 cam, 20 lang, chunk 50': (213, 166, 91.9, 48.4, 21.9, 15.7, 3.9),
    'pi0 3 cam, 48 lang': (293, 221, 124, 52.1, 30.1, 22.2, 5.3),
    'same, 1-byte weights': (263, 190, 109, 32.3, 27.0, 20.5, 4.7),
    'pi0.5 2 cam, 10 lang, H10': (206, 161, 88.8, 46.9, 21.1, 15.2, 3.8),
    'pi0.5 2 cam, 200 lang, H50': (255, 194, 109, 49.9, 26.2, 19.2, 4.7),
    'pi0-FAST 2 cam, 50 tokens': (2619, 2567, 1293, 946, 266, 154, 55),
    'OpenVLA 7 tokens': (1025, 954, 490, 355, 105, 64, 21),
}
# Where the research states the stages: vision, prefill, denoise.
STAGES_MS = {
    ('SmolVLA 2 cam, 12 lang', 'Orin Nano'): (25.4, 3.6, 21.6),
    ('SmolVLA 2 cam, 12 lang', 'Thor'): (3.5, 1.4, 8.1),
    ('SmolVLA 2 cam, 12 lang', '4090'): (2.6, 0.4, 2.2),
    ('pi0 2 cam, empty, chunk 63', '4090'): (2.7, 11.8, 7.0),
    ('pi0 2 cam, 20 lang, chunk 50', 'Thor'): (5.3, 18.1, 25.0),
    ('pi0 2 cam, 20 lang, chunk 50', 'H200'): (0.5, 2.1, 1.4),
}
# The script leaves out one of pi0's time projections, and the logits of a prefill.
TOLERANCE = 0.006


def _device(name: str):
    tera, gb_s = PEAKS[name]
    return given_device(16, gb_s, {'fp16': tera}, name=name)


def _near(ms: float) -> object:
    """As printed: half of the last digit, and the tolerance."""
    text = f'{ms:g}'
    half = 0.5 * 10.0 ** -(len(text.partition('.')[2]))
    return pytest.approx(ms, abs=half + TOLERANCE * ms)


def test_the_bound_is_that_of_the_research(capsys):
    lines = ['case: ' + ', '.join(PEAKS) + '; ours/theirs in ms']
    for case, theirs in TOTALS_MS.items():
        model, load = CASES[case]
        ours = [predict(find_preset(model), load, _device(name), BOUND).cold_bound_s * 1e3
                for name in PEAKS]
        lines.append(f'{case}: ' + ', '.join(
            f'{our:.4g}/{their:g}' for our, their in zip(ours, theirs, strict=True)))
        assert ours == [_near(ms) for ms in theirs], case
    with capsys.disabled():
        print('\n' + '\n'.join(lines))


@pytest.mark.parametrize('case,name', STAGES_MS)
def test_so_are_its_stages(case, name):
    model, load = CASES[case]
    made = stages(find_preset(model), load, _device(name), BOUND)
    assert [stage.name for stage in made] == ['vision', 'prefill', 'denoise']
    assert [stage.bound_s * 1e3 for stage in made] == [
        _near(ms) for ms in STAGES_MS[case, name]]


def test_a_token_of_llama_3_8b_takes_as_long_as_its_weights_on_2000_gb_s():
    shape = find_preset('Llama-3-8B')
    seconds = decode_bound_s(shape.num_params * 2, 2000e9)
    assert f'{seconds * 1e3:.1f} ms, {1 / seconds:.0f} tokens/s' == '8.0 ms, 125 tokens/s'


def test_attention_that_keeps_its_scores_moves_longer_than_it_computes():
    moving, computing = attention_times_s(8192, 32, 128, 2, 989e12, 3.35e12)
    assert (f'{moving * 1e3:.1f}', f'{computing * 1e3:.1f}') == ('5.1', '1.1')
    load = Workload(1, 1)
    fused = attention('', 8192, 8192, (32, 32, 128), load)
    kept = attention('', 8192, 8192, (32, 32, 128), load, fused=False)
    assert fused.flops / 989e12 == pytest.approx(computing)
    assert (kept.num_bytes - fused.num_bytes) / 3.35e12 == pytest.approx(moving)


def test_a_product_is_counted_by_hand():
    load = Workload(1, 1, weight_bytes=1, value_bytes=2)
    made = gemm('', 3, 5, 7, load)
    assert (made.flops, made.num_bytes) == (2 * 3 * 5 * 7, 5 * 7 + (3 * 7 + 3 * 5) * 2)


def test_the_last_layer_of_a_prefill_makes_keys_and_values_only():
    """By hand for pi0: 17 whole layers and one of a single narrow product."""
    shape, load = find_preset('pi0'), Workload(2, 20, 50, 10)
    tokens, stack = 2 * 256 + 20, shape.language
    whole = 2 * tokens * stack.width * (
        (8 + 2) * 256 + 8 * 256 + 3 * stack.hidden) + 4 * tokens ** 2 * 8 * 256
    last = 2 * tokens * 2 * 256 * stack.width
    flops = sum(each.flops * each.count for each in prefill(shape, load, tokens))
    assert flops == 17 * whole + last


def test_what_the_expert_projects_from_the_prefix_is_made_once():
    shape, load = find_preset('SmolVLA'), Workload(2, 12, 50, 10)
    tokens = 2 * 64 + 12 + 1
    (cross,) = [each for each in prefill(shape, load, tokens) if 'cross' in each.name]
    assert (cross.count, cross.flops) == (2 * 8, 2 * tokens * 320 * 320)
    assert not [each for each in denoise(shape, load) if 'cross' in each.name]
    # Ten steps take ten times one step.
    one = sum(each.count for each in denoise(shape, replace(load, denoise_steps=1)))
    assert sum(each.count for each in denoise(shape, load)) == 10 * one


def test_a_reused_prefix_leaves_what_its_family_must_compute_anew():
    device = _device('4090')
    smolvla = predict(find_preset('SmolVLA'), CASES['SmolVLA 2 cam, 12 lang'][1], device, BOUND)
    assert [stage.name for stage in smolvla.reused] == ['prefill', 'denoise']  # the state token
    assert smolvla.reused[0].flops < smolvla.cold[1].flops / 100
    pi0 = predict(find_preset('pi0'), CASES['pi0 2 cam, 20 lang, chunk 50'][1], device, BOUND)
    assert [stage.name for stage in pi0.reused] == ['denoise']  # its state is in the suffix
    assert pi0.reused_bound_s * 1e3 == _near(6.9)
    pi05 = predict(find_preset('pi0.5'), CASES['pi0.5 2 cam, 10 lang, H10'][1], device, BOUND)
    assert [stage.name for stage in pi05.reused] == ['prefill', 'denoise']  # its state is words
    assert pi05.reused[0] == pi05.cold[1]
    openvla = predict(find_preset('OpenVLA-7B'), CASES['OpenVLA 7 tokens'][1], device, BOUND)
    assert [stage.name for stage in openvla.reused] == ['prefill', 'decode']
    assert openvla.reused_s < openvla.cold_s


@pytest.mark.parametrize('model', ['SmolVLA', 'pi0', 'pi0.5', 'pi0-FAST', 'OpenVLA-7B', 'demo',
                                   'SmolVLM-256M', 'SmolVLM-500M', 'Qwen2.5-VL-3B', 'Llama-3-8B'])
def test_every_model_has_a_time_on_every_kind_of_device(model):
    shape = find_preset(model)
    load = replace(workload(shape), prompt_tokens=20, decoded_tokens=0 if shape.denoise_steps
                   else 7)
    for name in ('agx orin 64', 'h200', '4090'):
        rate = predict(shape, load, find_device(name))
        assert 0 < rate.cold_bound_s < rate.cold_s < 60
        assert 0 < rate.reused_s <= rate.cold_s
        assert all(stage.bound_s <= stage.expected_s and stage.num_kernels
                   for stage in rate.cold)
        assert not rate.notes


def test_every_weight_is_read_at_least_once_and_the_experts_in_every_step():
    """At batch one and few tokens the bytes of a step are those of its weights."""
    shape = find_preset('pi0')
    load = Workload(1, 0, 1, 10, value_bytes=0, kv_bytes=0)
    per_part = {part: sum(group.num_params for group in shape.weights
                          if group.kept and group.part == part)
                for part in ('vision', 'action')}
    moved = sum(each.num_bytes * each.count for each in vision(shape, load)) / 2
    assert moved == pytest.approx(per_part['vision'], rel=0.02)  # less biases and positions
    moved = sum(each.num_bytes * each.count for each in denoise(shape, load)) / 2
    assert moved == pytest.approx(10 * per_part['action'], rel=0.02)
    llama = find_preset('Llama-3-8B')
    load = Workload(0, 5, decoded_tokens=2, value_bytes=0, kv_bytes=0)
    moved = sum(each.num_bytes * each.count for each in decode(llama, load)) / 2
    embedding = llama.language.vocab * llama.language.width
    assert moved == pytest.approx(llama.num_params - embedding, rel=0.001)  # rows are looked up


def test_expected_times_follow_from_named_factors():
    shape, load = find_preset('SmolVLA'), CASES['SmolVLA 2 cam, 12 lang'][1]
    device = find_device('4090')
    bound = predict(shape, load, device, BOUND)
    assert bound.cold_s == pytest.approx(bound.cold_bound_s)
    half = predict(shape, load, device, Efficiency(0.5, 0.5, 0.0, 'half'))
    assert half.cold_s == pytest.approx(2 * bound.cold_s)
    slow = predict(shape, load, device, Efficiency(1, 1, 1e-3, 'slow launches'))
    kernels = sum(stage.num_kernels for stage in bound.cold)
    assert slow.cold_s == pytest.approx(bound.cold_s + kernels * 1e-3)
    assert {stage.limited_by for stage in slow.cold} == {'launch'}
    assert predict(shape, load, device).efficiency == USUAL
    assert 'compute 0.80, memory 0.85, launch 3.0 us a kernel' in USUAL.words


def test_the_usual_efficiency_is_that_of_the_kind_of_device():
    assert usual(find_device('agx orin 64')) == USUAL_SM87
    assert usual(find_device('h200')) == USUAL
    assert usual(replace(find_device('h200'), measured=True)) == USUAL_MEASURED


@given(margin=st.floats(0, 0.9), period=st.floats(0, 2))
def test_a_chunk_at_the_highest_control_rate_lasts_until_the_next_with_its_margin(margin, period):
    rate = predict(find_preset('pi0'), Workload(2, 20, 50, 10), find_device('4090'))
    control = rate.control_rate_hz(margin, period)
    lasts = rate.horizon / control
    needed = 2 * rate.cold_s + period
    assert needed == pytest.approx(lasts * (1 - margin))
    assert rate.inference_rate_hz(margin) == pytest.approx((1 - margin) / rate.cold_s)
    assert rate.inference_rate_hz(margin, reused=True) > rate.inference_rate_hz(margin)


@pytest.mark.parametrize('margin', [-0.1, 1.0, float('nan')])
def test_an_absurd_margin_is_refused(margin):
    rate = predict(find_preset('pi0'), Workload(2, 20, 50, 10), find_device('4090'))
    with pytest.raises(ConfigError, match='margin'):
        rate.control_rate_hz(margin)


@pytest.mark.parametrize('values', [
    {'compute': 0.0}, {'compute': 1.1}, {'memory': -1.0}, {'memory': float('nan')},
    {'launch_s': -1e-6}, {'launch_s': float('inf')}])
def test_an_absurd_efficiency_is_refused(values):
    with pytest.raises(ConfigError, match=f'efficiency {next(iter(values)).partition("_")[0]}'):
        Efficiency(**{'compute': 0.5, 'memory': 0.5, 'launch_s': 0.0, 'source': ''} | values)


@pytest.mark.parametrize('values', [
    {'num_cameras': -1}, {'prompt_tokens': 10 ** 9}, {'weight_bytes': float('nan')},
    {'maths': 'bf16'}])
def test_an_absurd_workload_is_refused(values):
    with pytest.raises(ConfigError, match=f'workload {next(iter(values))}'):
        Workload(**{'num_cameras': 1, 'prompt_tokens': 5} | values)


def test_nothing_to_do_is_refused():
    with pytest.raises(ConfigError, match='at least one camera or word'):
        predict(find_preset('pi0'), Workload(0, 0, 50, 10), find_device('4090'))


def test_a_format_without_a_rate_is_computed_in_the_next_and_it_is_said():
    orin, load = find_device('agx orin 64'), Workload(2, 10, 10, 10, maths='fp8', weight_bytes=1)
    assert rate_of(orin, 'fp8') == ('fp16', orin.rates['fp16'])
    rate = predict(find_preset('pi0.5'), load, orin)
    assert rate.notes == ('Jetson AGX Orin 64GB: no rate known for fp8, that of fp16 taken',)
    bare = given_device(8, 100, name='bare')
    assert rate_of(bare, 'fp8') == ('', math.inf)
    rate = predict(find_preset('pi0.5'), load, bare)
    assert 'bare: no rate known for fp8, so only bytes were counted' in rate.notes
    assert all(stage.compute_s == 0 and stage.bound_s > 0 for stage in rate.cold)


def test_a_workload_follows_the_configuration():
    shape = find_preset('SmolVLA')
    plain = workload(shape)
    assert (plain.num_cameras, plain.prompt_tokens, plain.horizon) == (3, 48, 50)
    assert (plain.maths, plain.weight_bytes, plain.kv_bytes) == ('fp16', 2, 2)
    config = Config.from_flat({'policy.dtype': 'fp32', 'policy.weights': 'int8',
                               'policy.horizon': 20, 'policy.denoise_steps': 5,
                               'cache.kv_format': 'int8'})
    small = workload(shape, config, num_cameras=1, prompt_tokens=7)
    assert (small.num_cameras, small.prompt_tokens, small.horizon) == (1, 7, 20)
    assert (small.denoise_steps, small.maths, small.weight_bytes) == (5, 'fp32', 1)
    assert (small.value_bytes, small.kv_bytes) == (4, 1)
