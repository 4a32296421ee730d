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

"""The most that one stage of a step holds at once besides weights, pages and embeddings.

Counted from the operations in the order they run (models/vision.py, models/decoder.py,
policies/smolvla.py): at the widest moment of a stage, which tensors are still held. v is the
bytes of a value in the dtype of the projections; the residual and the norms are float32.

    vision, at the GELU       x, the x it came from and its norm (4 w each); patches, qkv and
                              attended (v 5 w); the MLP before and after the GELU (v 2 h)
    decoder, at the end       x twice, and their sum (4 w each); the MLP's result (v w), and that
                              in float32 where v is not 4 (4 w); attended, rotated and projected
                              heads (v (3 q + 3 kv)); gate, up and silu(gate) (v 3 h)
    denoise                   as a decoder, with the queries of one layer more, and the noisy
                              actions after every step

Quantised weights round what they are given to bfloat16 and sum in float32, copies of both. oneDNN,
which multiplies bfloat16 and weights that lie in its blocks, copies what it is given. The stages
run one after the other in the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.shapes import ModelShape, Stack

_KEPT_VECTORS = 4  # noise, x, velocity, and the step's own
_ONEDNN_BYTES = 1 << 16  # accumulators and the like, whatever the number of rows
_INDEX_BYTES = 24  # slot, limit and position of a token, int64 each


@dataclass(frozen=True)
class Workspace:
    """Bytes of each stage at its widest moment, and how they come about."""

    stages: tuple[tuple[str, int, str], ...]

    @property
    def num_bytes(self) -> int:
        """Of the widest stage; the others use the same memory."""
        return max(num_bytes for _, num_bytes, _ in self.stages)

    def lines(self) -> tuple[MemoryLine, ...]:
        """A line for each stage that needs more than the stages before it: how much more.

        A stage that needs no more is named in the last line before it.
        """
        lines: list[MemoryLine] = []
        taken = 0
        for name, num_bytes, words in self.stages:
            if num_bytes <= taken:
                last = lines[-1]
                lines[-1] = replace(last, arithmetic=f'{last.arithmetic}; {name} needs '
                                    f'{num_bytes} bytes of the same memory')
                continue
            if taken:
                words += f' = {num_bytes} bytes, of which {taken} are those of the stages before'
            lines.append(MemoryLine(
                f'{name} workspace', num_bytes - taken, words, 'bound', kind='workspace'))
            taken = num_bytes
        return tuple(lines)


@dataclass(frozen=True)
class _Kind:
    """How projections compute."""

    value_bytes: int
    quantised: bool
    copied: bool


def plan_workspace(
    shape: ModelShape, *, num_cameras: int, prefix_tokens: int, horizon: int, denoise_steps: int,
    value_bytes: int, quantised: bool = False, copied: bool = False, action_width: int = 32,
) -> Workspace:
    """The widest moment of vision, prefill and denoise (or decode).

    :param prefix_tokens: of the longest prefix, computed at once.
    :param copied: products are oneDNN's, which copies what it is given.
    :param action_width: columns of an action as the network has it, padding included.
    """
    stages = []
    kind = _Kind(value_bytes, quantised, copied or quantised)
    if shape.vision is not None and num_cameras:
        stages.append(('vision', *_vision(shape, kind)))
    stages.append(('prefill', *_decoder(
        shape.language, prefix_tokens, kind, queries=3)))
    if shape.denoise_steps and shape.action is not None:
        num_bytes, words = _decoder(shape.action, horizon, kind, queries=4)
        kept = (denoise_steps + _KEPT_VECTORS) * horizon * action_width * 4
        stages.append(('denoise', num_bytes + kept, f'{words} + ({denoise_steps} steps + '
                       f'{_KEPT_VECTORS}) x {horizon} x {action_width} x 4'))
    else:
        num_bytes, words = _decoder(shape.language, 1, kind, queries=3)
        logits = 2 * 4 * shape.language.vocab  # as computed, and as float32 probabilities
        stages.append(('decode', num_bytes + logits,
                       f'{words} + logits 2 x 4 x {shape.language.vocab}'))
    return Workspace(tuple(stages))


def _vision(shape: ModelShape, kind: _Kind) -> tuple[int, str]:
    vision, value = shape.vision, kind.value_bytes
    assert vision is not None
    patches = (shape.image_size[0] // shape.patch) * (shape.image_size[1] // shape.patch)
    width, hidden = vision.width, vision.hidden
    around = max(2 * value, 8) if kind.quantised else 2 * value  # of the MLP, before and after
    row = 12 * width + 5 * value * width + around * hidden
    words = f'12 x {width} + {5 * value} x {width} + {around} x {hidden}'
    row, words = _copies(kind, width, hidden, row, words)
    pixels = 3 * shape.image_size[0] * shape.image_size[1] * (4 + (value if value != 4 else 0))
    more = pixels + (_ONEDNN_BYTES if kind.copied else 0)
    return patches * row + more, f'{patches} patches x ({words}) + pixels and buffers {more}'


def _decoder(stack: Stack, tokens: int, kind: _Kind, *, queries: int) -> tuple[int, str]:
    width, hidden, value = stack.width, stack.hidden, kind.value_bytes
    q, kv = stack.num_heads * stack.head_dim, stack.num_kv_heads * stack.head_dim
    floats = 12 if value == 4 else 16
    gates = 3 if stack.gated else 2
    row = floats * width + value * (width + queries * q + 3 * kv + gates * hidden)
    words = (f'{floats} x {width} + {value} x ({width} + {queries} x {q} + 3 x {kv} + {gates} x '
             f'{hidden})')
    # Where the MLP is narrow: queries and keys as they are rotated in float32.
    rotating = 8 * width + (4 + 2 * value) * (q + kv) + value * (q + 2 * kv)
    if rotating > row:
        row, words = rotating, f'8 x {width} + {4 + 2 * value} x {q + kv} + {value} x {q + 2 * kv}'
    if kind.quantised:
        row += 8 * width + 2 * hidden + (4 - value) * gates * hidden
        words += f' + 8 x {width} + {2 + (4 - value) * gates} x {hidden}'
    row, words = _copies(kind, width, hidden, row, words)
    more = _ONEDNN_BYTES if kind.copied else 0
    return (tokens * (row + _INDEX_BYTES) + more,
            f'{tokens} tokens x ({words} + {_INDEX_BYTES})' + (f' + {more}' if more else ''))


def _copies(kind: _Kind, width: int, hidden: int, row: int, words: str) -> tuple[int, str]:
    """What oneDNN copies of the widest input of a product."""
    if not kind.copied:
        return row, words
    value = 2 if kind.quantised else kind.value_bytes
    return row + value * max(width, hidden), f'{words} + {value} x {max(width, hidden)}'
