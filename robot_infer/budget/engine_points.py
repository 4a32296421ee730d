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

"""Our arithmetic against what other engines logged: KV tokens, weights, and the sum of all terms.

A line of a table is one log (test/data/engine_points.md). What follows from it, per GPU:

    KV bytes    as logged; else   total x utilisation - weights - non-torch - activation peak
    blocks      floor(KV bytes / (tokens of a block x bytes of a token))
    tokens      blocks x tokens of a block

Logs round to 0.01 GiB, so the count is only known within what that leaves; across GPUs the block
count is the least of all ranks, and the rank that was logged has up to a percent more. Where a
model's layers do not all cache alike and for ever, its pool is not a count of tokens: such a line
says why it is not predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import csv
from dataclasses import dataclass
from pathlib import Path
import re

from robot_infer.budget.devices import GIB
from robot_infer.budget.kv import KVFormat, bytes_per_token
from robot_infer.budget.model_shape import KVGroup
from robot_infer.budget.presets import find_preset
from robot_infer.errors import ConfigError

_ROUNDINGGIB = 0.005  # logs have two decimals
# Models whose layers do not all keep every token's keys and values, and what they keep instead.
_NOT_A_COUNT = (
    (r'hybrid|qwen3\.[5-9]|qwen3-next|mamba|jamba|bamba|falcon-h|nemotron-(h|nano)|granite-4|'
     r'kimi-linear|minimax-(m1|text)|lfm2',
     'hybrid: most layers keep a recurrent state, of one size whatever the length'),
    (r'gpt-oss|gemma-[234]|llama-4|phi-3-small|command-a',
     'sliding-window layers share the pool with full ones: no one count of tokens'),
    (r'deepseek|kimi-k|mla', 'latent attention (MLA): one compressed vector a token, not K and V'),
)
# Models of the same shape as a preset.
_SHAPES = ((r'llama-?3(\.1)?-8b', 'Llama-3-8B'), (r'llama-?3(\.[13])?-70b', 'Llama-3-70B'))


@dataclass(frozen=True)
class EnginePoint:
    """One log. Sizes are GiB of one GPU; None: the log does not say."""

    id: str
    model: str
    gpu: str
    tp: int
    weight_dtype: str
    note: str
    utilization: float | None
    total: float | None
    weights: float | None
    non_torch: float | None
    activation: float | None
    cudagraph: float | None
    kv: float | None
    num_blocks: int | None
    block_tokens: int | None
    tokens: int | None
    layers: int | None
    kv_heads: int | None
    head_dim: int | None
    value_bytes: float | None

    @property
    def bytes_per_token(self) -> int | None:
        """Bytes of a token on each GPU; None where the shape is not known."""
        if (self.layers is None or self.kv_heads is None or self.head_dim is None
                or self.value_bytes is None):
            return None
        group = KVGroup(self.model, self.layers, self.kv_heads, self.head_dim)
        bits = int(8 * self.value_bytes)
        return bytes_per_token(group, KVFormat(f'{bits} bits', bits), self.tp)

    @property
    def logged_tokens(self) -> int | None:
        """Tokens of the pool, as logged, or by its blocks."""
        if self.tokens is None and self.num_blocks is not None and self.block_tokens is not None:
            return self.num_blocks * self.block_tokens
        return self.tokens

    @property
    def kv_by_identity(self) -> float | None:
        """GiB that the other terms leave for the pool; below 0: the engine cannot start.

        Graphs are captured when the pool is taken, so they are in none of the terms.
        """
        if (self.total is None or self.utilization is None or self.weights is None
                or self.non_torch is None or self.activation is None):
            return None
        return (self.total * self.utilization
                - self.weights - self.non_torch - self.activation)

    @property
    def kv_of_tokens(self) -> float | None:
        """GiB that the logged tokens take."""
        if self.bytes_per_token is None or self.logged_tokens is None:
            return None
        return self.logged_tokens * self.bytes_per_token / GIB


@dataclass(frozen=True)
class EnginePrediction:
    """What is computed for a log.

    :param tokens: of the pool; None where `reason` says why not.
    :param fewest, most: what the log's rounding leaves.
    :param error: of the tokens against the log, as a share; None where it does not say.
    :param weights: GiB on each GPU; None where the model's shape is not known here.
    :param residual: GiB by which the log's own terms do not add up; None where one is missing.
    """

    point: EnginePoint
    tokens: int | None
    fewest: int
    most: int
    error: float | None
    weights: float | None
    residual: float | None
    reason: str = ''


def read_points(path: Path) -> tuple[EnginePoint, ...]:
    """Read a table of logs.

    :raises ConfigError: where a column is missing or a value is no number.
    """
    with open(path, newline='', encoding='utf-8') as file:
        return tuple(_read(row, f'line {number} of {path}')
                     for number, row in enumerate(csv.DictReader(file), start=2))


def predict(point: EnginePoint) -> EnginePrediction:
    """Compute a log's KV tokens, weights and the sum of its terms."""
    identity = point.kv_by_identity
    residual = None if identity is None or point.kv is None or point.kv == 0 else (
        identity - point.kv)
    reason, tokens, fewest, most = _why_not(point), None, 0, 0
    if not reason:
        kv = point.kv if point.kv is not None else identity
        assert kv is not None  # else there is a reason
        tokens = _tokens(point, kv)
        fewest, most = _tokens(point, kv - _ROUNDINGGIB), _tokens(point, kv + _ROUNDINGGIB)
    logged = point.logged_tokens
    error = None if tokens is None or not logged else tokens / logged - 1
    return EnginePrediction(point, tokens, fewest, most, error, _weights(point), residual, reason)


def table(predictions: Iterable[EnginePrediction]) -> str:
    """Predicted against logged, one line a log."""
    lines = [f'{"id":4} {"model":38.38} {"GPU":18.18} {"KV GiB":>7} {"tokens":>9} {"logged":>9} '
             f'{"(GiB)":>7} {"error":>8} {"weights GiB":>11} {"logged":>6} {"sum off GiB":>11}'
             '  not predicted']
    for one in predictions:
        point = one.point
        kv = point.kv if point.kv is not None else point.kv_by_identity
        lines.append(
            f'{point.id:4} {point.model:38.38} {point.gpu:18.18} {_show(kv, ".2f"):>7} '
            f'{_show(one.tokens, ","):>9} {_show(point.logged_tokens, ","):>9} '
            f'{_show(point.kv_of_tokens, ".2f"):>7} {_show(one.error, "+.2%"):>8} '
            f'{_show(one.weights, ".2f"):>11} {_show(point.weights, ".2f"):>6} '
            f'{_show(one.residual, "+.3f"):>11}  {one.reason}')
    return '\n'.join(lines)


def _why_not(point: EnginePoint) -> str:
    """Why tokens cannot be predicted; empty where they can."""
    words = f'{point.model} {point.note}'.lower()
    for pattern, reason in _NOT_A_COUNT:
        if re.search(pattern, words if 'hybrid' in pattern else point.model.lower()):
            return reason
    if point.bytes_per_token is None or point.block_tokens is None:
        return 'the model\'s layers, heads or block size are not known'
    if point.kv is None and point.kv_by_identity is None:
        return 'no KV bytes in the log, nor all the terms that would leave them'
    return ''


def _tokens(point: EnginePoint, kv_gib: float) -> int:
    assert point.bytes_per_token is not None and point.block_tokens is not None
    blocks = int(max(0.0, kv_gib) * GIB // (point.block_tokens * point.bytes_per_token))
    return blocks * point.block_tokens


def _weights(point: EnginePoint) -> float | None:
    """GiB of weights on each GPU; w8a8 keeps word table and head in 16 bits."""
    preset = next((name for pattern, name in _SHAPES if re.search(pattern, point.model.lower())),
                  None)
    if preset is None:
        return None
    shape = find_preset(preset)
    wide = sum(group.num_params for group in shape.weights
               if group.name in ('word table', 'language head'))
    if point.weight_dtype in ('bf16', 'fp16'):
        num_bytes = 2 * shape.num_params
    elif point.weight_dtype.startswith('int8'):
        num_bytes = shape.num_params + wide
    else:
        return None
    return num_bytes / point.tp / GIB


def _read(row: Mapping[str, str], where: str) -> EnginePoint:
    def text(key: str) -> str:
        value = row.get(key)
        if value is None:
            raise ConfigError(f'{key} in {where}', expected='a value for each column',
                              got='no such column', remedy='See test/data/engine_points.md.')
        return value

    def number(key: str) -> float | None:
        value = text(key)
        try:
            return float(value) if value else None
        except ValueError as error:
            raise ConfigError(f'{key} in {where}', expected='a number, or nothing', got=value,
                              remedy='Correct the table.') from error

    def whole(key: str) -> int | None:
        value = number(key)
        if value is not None and (value != int(value) or value < 0):
            raise ConfigError(f'{key} in {where}', expected='a whole number', got=str(value),
                              remedy='Correct the table.')
        # A pool of no blocks is how a table says that the engine did not start.
        return None if value is None else int(value)

    return EnginePoint(
        text('id'), text('model'), text('gpu'), whole('tp') or 1, text('weight_dtype'),
        text('note'), number('gpu_memory_utilization'), number('total_gib'), number('weights_gib'),
        number('non_torch_gib'), number('activation_gib'), number('cudagraph_gib'),
        number('kv_gib_logged'), whole('num_blocks'), whole('block_size'),
        whole('kv_tokens_logged'), whole('layers'), whole('kv_heads'), whole('head_dim'),
        number('kv_bytes_per_elem'))


def _show(value: float | None, form: str) -> str:
    return '' if value is None else format(value, form)
