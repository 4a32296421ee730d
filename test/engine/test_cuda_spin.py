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

"""Spinning for a CUDA device: obtained, or told why not; never fatal."""

from __future__ import annotations

import pytest
import torch

from robot_infer.config import Config
from robot_infer.cuda_spin import ask_to_spin, spinning
from robot_infer.engine import Engine


def test_a_policy_on_the_cpu_cannot_have_it_and_runs_all_the_same() -> None:
    engine = Engine.from_config(Config.from_flat({'realtime.cuda_spin': True}))
    (outcome,) = engine.info.realtime
    assert outcome.obtained is False and 'policy.device' in outcome.words
    engine.close()
    assert spinning(False, torch.device('cpu')).obtained is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason='no CUDA device here')
def test_on_a_device_it_is_obtained() -> None:
    ask_to_spin()
    torch.zeros(1, device='cuda')
    outcome = spinning(True, torch.device('cuda'))
    assert outcome.obtained is True, outcome.words
