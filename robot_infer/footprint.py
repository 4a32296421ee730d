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

"""What the policy's process holds before any policy: Python, torch, and what torch loads in use.

    python -m robot_infer.footprint         prints bytes

A process of its own imports the engine and runs each kind of operation once on small numbers,
since libraries are loaded, and code is generated, at first use. What does not live here: the
memory of a policy (robot_infer/budget/).
"""

from __future__ import annotations

import subprocess
import sys

from robot_infer.errors import ConfigError

_TIMEOUT_S = 120.0


def measure_process() -> int:
    """Bytes that the policy's process holds on this machine, without a policy.

    :raises ConfigError: where the process does not come up: torch is missing, or no memory is
        left for it.
    """
    try:
        done = subprocess.run([sys.executable, '-m', 'robot_infer.footprint'], check=True,
                              capture_output=True, text=True, timeout=_TIMEOUT_S)
        return int(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        said = (getattr(error, 'stderr', '') or str(error)).strip().splitlines()
        raise ConfigError(
            'policy process', expected='one that comes up, to be measured',
            got=said[-1] if said else 'nothing', remedy='robot-infer doctor says what is missing.',
        ) from error


def _exercise() -> None:
    """One of each operation that a step makes."""
    import torch
    import torch.nn.functional as F

    from robot_infer import engine  # noqa: F401 - its imports are what is measured
    from robot_infer.cache import KVStorage
    from robot_infer.camera.preprocess import resize_with_pad
    from robot_infer.models.linear import Linear
    from robot_infer.prompt.tokenizer import InstructionTokenizer
    from robot_infer_kernels import append_kv, plan_attention, planned_attention

    with torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16):
            for rows, size in ((16, 64), (16, 384)):
                project = Linear(torch.ones(size, size, dtype=dtype), rows=rows)
                project.add_to(torch.ones(rows, size), torch.ones(rows, size, dtype=dtype))
            pixels = torch.ones(1, 3, 64, 64, dtype=dtype)
            F.conv2d(pixels, torch.ones(32, 3, 16, 16, dtype=dtype), stride=16)
            heads = torch.ones(1, 4, 64, 32, dtype=dtype)
            F.scaled_dot_product_attention(heads, heads, heads)
            F.gelu(torch.ones(64, 64, dtype=dtype), approximate='tanh')
            F.silu(torch.ones(64, 64, dtype=dtype))
            storage = KVStorage(1, 2, 16, 2, 32, dtype)
            rows = torch.ones(16, 2, 32, dtype=dtype)
            append_kv(rows, rows, storage.plane(0), torch.arange(16))
            plan = plan_attention(storage.plane(0), torch.zeros(1, dtype=torch.int64), 16, 16, 16)
            planned_attention(torch.ones(16, 4, 32, dtype=dtype), storage.plane(0), plan, 1.0)
        F.layer_norm(torch.ones(64, 64), (64,))
        torch.linalg.vector_norm(torch.ones(64, 64), dim=-1, keepdim=True).hypot_(torch.ones(1))
        torch.ones(64, 64, dtype=torch.float64) @ torch.ones(64, 64, dtype=torch.float64)
        resize_with_pad(torch.ones(1, 3, 48, 64), width=32, height=32)
        torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    tokenizer = InstructionTokenizer(
        engine.DEMO_CHECKPOINT / 'tokenizer.json', max_tokens=48, vocab_size=1 << 20)
    tokenizer.encode('a')


def main() -> int:
    """Print the resident bytes of this process, once everything was used."""
    from robot_infer.control.memory import give_back_memory, resident_bytes

    _exercise()
    give_back_memory()
    print(resident_bytes())
    return 0


if __name__ == '__main__':
    sys.exit(main())
