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

"""What transformers computes for each rotary scaling, written to data/rotary.json.

The tests read the file and need no transformers. To make it again, with the environment that
`tools/train_demo/setup.sh` sets up:

    .venv-train/bin/python test/kernels/make_rotary.py            # --check: compare, write nothing
"""

from __future__ import annotations

import json
from pathlib import Path
import sys

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.cohere import modeling_cohere
from transformers.models.llama import modeling_llama

PATH = Path(__file__).parent / 'data' / 'rotary.json'
LLAMA3 = {'factor': 8.0, 'original_max_position_embeddings': 8192, 'low_freq_factor': 1.0,
          'high_freq_factor': 4.0}
YARN = {'factor': 4.0, 'original_max_position_embeddings': 2048}
# Name, head_dim, base, longest position, rope_parameters, sequence length where it matters.
CASES = (
    ('default', 64, 10000.0, 2048, {}, None),
    ('default', 80, 500000.0, 2048, {}, None),
    ('linear', 64, 10000.0, 2048, {'factor': 4.0}, None),
    ('linear', 96, 10000.0, 2048, {'factor': 2.5, 'partial_rotary_factor': 0.5}, None),
    ('dynamic', 64, 10000.0, 2048, {'factor': 2.0}, 1000),
    ('dynamic', 64, 10000.0, 2048, {'factor': 2.0}, 2049),
    ('dynamic', 128, 1000000.0, 2048, {'factor': 4.0}, 3584),
    ('yarn', 64, 10000.0, 8192, YARN, None),
    ('yarn', 128, 1000000.0, 8192, {**YARN, 'beta_fast': 24.0, 'beta_slow': 2.0}, None),
    ('yarn', 96, 10000.0, 8192, {**YARN, 'truncate': False, 'partial_rotary_factor': 0.75}, None),
    ('yarn', 64, 10000.0, 8192, {**YARN, 'mscale': 0.707, 'mscale_all_dim': 1.2}, None),
    ('yarn', 64, 10000.0, 8192, {**YARN, 'attention_factor': 1.1}, None),
    ('yarn', 16, 100.0, 64, {'factor': 1.0, 'original_max_position_embeddings': 8}, None),
    ('llama3', 128, 500000.0, 131072, LLAMA3, None),
    ('llama3', 64, 500000.0, 131072, {**LLAMA3, 'factor': 32.0}, None),
    ('llama3', 80, 10000.0, 4096, {'factor': 4.0, 'original_max_position_embeddings': 512,
                                   'low_freq_factor': 2.0, 'high_freq_factor': 3.0}, None),
)


def config(name: str, head_dim: int, base: float, longest: int, parameters: dict) -> LlamaConfig:
    """A model of two heads with this scaling."""
    return LlamaConfig(
        hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim,
        max_position_embeddings=longest,
        rope_parameters={'rope_type': name, 'rope_theta': base, **parameters})


def scalings() -> list[dict]:
    """Inverse frequencies and attention factor of every case."""
    made = []
    for name, head_dim, base, longest, parameters, length in CASES:
        function = ROPE_INIT_FUNCTIONS.get(
            name, modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters)
        inverse, factor = function(config(name, head_dim, base, longest, parameters), None,
                                   seq_len=length)
        made.append({'name': name, 'rotary_dim': 2 * len(inverse), 'base': base,
                     'longest': longest, 'length': length, 'parameters': parameters,
                     'inverse': inverse.tolist(), 'attention_factor': float(factor)})
    return made


def rotations() -> list[dict]:
    """Queries before and after, half-split (Llama) and interleaved (Cohere), with YaRN."""
    made = []
    torch.manual_seed(1)
    positions, q = torch.tensor([0, 1, 7, 150]), torch.randn(4, 2, 8)
    for layout, module, embedding in (
            ('half-split', modeling_llama, modeling_llama.LlamaRotaryEmbedding),
            ('interleaved', modeling_cohere, modeling_cohere.CohereRotaryEmbedding)):
        model = config('yarn', 8, 100.0, 256, {
            'factor': 4.0, 'original_max_position_embeddings': 64})
        cos, sin = embedding(model)(q, positions[None])
        turned, _ = module.apply_rotary_pos_emb(q[None], q[None], cos, sin, unsqueeze_dim=2)
        made.append({'layout': layout, 'base': 100.0, 'factor': 4.0, 'trained_length': 64,
                     'positions': positions.tolist(), 'q': q.tolist(),
                     'rotated': turned[0].tolist()})
    return made


def main() -> int:
    """Write the file; with --check compare it."""
    torch.set_num_threads(1)
    made = {'made_with': {'transformers': transformers.__version__, 'torch': torch.__version__},
            'scalings': scalings(), 'rotations': rotations()}
    text = json.dumps(made, indent=None).replace('{"name"', '\n{"name"').replace(
        '{"layout"', '\n{"layout"') + '\n'
    if '--check' in sys.argv[1:]:
        same = PATH.read_text() == text
        print(f'{PATH.name}: {"the same" if same else "differs"}')
        return 0 if same else 1
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text)
    print(f'{PATH}: {len(text)} bytes')
    return 0


if __name__ == '__main__':
    sys.exit(main())
