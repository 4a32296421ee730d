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

"""The arithmetic of keys and values: bytes of a token, of a sequence, and what a budget holds.

    bytes of a token = layers x 2 (K and V) x KV heads x (values of a head + their scales)

KV heads, never query heads: MHA has as many of both, GQA fewer, MQA one. Layers that cache alike
are one KVGroup; a sliding-window layer keeps its newest tokens only; what an action expert
projects anew from cached keys and values, for its cross-attention, is a group of its own. Memory
is taken by whole pages.

Across GPUs (tensor parallelism) heads are divided, and where there are more GPUs than heads each
head is held several times: a token then takes no less memory per GPU, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
import math

from robot_infer.budget.model_shape import KVGroup
from robot_infer.errors import ConfigError

_MOST = 1 << 50  # more bytes or tokens than any machine has


@dataclass(frozen=True)
class KVFormat:
    """How one value is kept.

    :param bits: of a value.
    :param scale_bytes: of one scale; 0: values stand for themselves.
    :param scale_group: values that share a scale; 0: all of a head.
    """

    name: str
    bits: int
    scale_bytes: int = 0
    scale_group: int = 0

    @property
    def values_only(self) -> KVFormat:
        """The same without scales: one scale for a whole tensor, as many other engines have."""
        return replace(self, scale_bytes=0, scale_group=0)

    def head_bytes(self, head_dim: int) -> int:
        """Bytes of one head's key, or value, of one token.

        :raises ConfigError: where a head of this size does not divide into whole scales or bytes.
        """
        _check('head size', head_dim)
        unit = self.scale_group or 8 // math.gcd(8, self.bits)
        if head_dim % unit:
            raise ConfigError(
                f'KV format {self.name}', expected=f'heads of a multiple of {unit} values, '
                f'{"which share a scale" if self.scale_group else "which fill whole bytes"}',
                got=f'{head_dim} values', remedy='Use int8.')
        scales = head_dim // self.scale_group if self.scale_group else 1
        return head_dim * self.bits // 8 + scales * self.scale_bytes


# The scales are those of this package's pages (kernels/pages.py): float32 one a head for 8 bits,
# float16 one for each 32 values for 4 bits.
FORMATS = {form.name: form for form in (
    KVFormat('fp32', 32), KVFormat('bf16', 16), KVFormat('fp16', 16),
    KVFormat('fp8', 8, scale_bytes=4), KVFormat('int8', 8, scale_bytes=4),
    KVFormat('int4', 4, scale_bytes=2, scale_group=32))}


def find_format(name: str) -> KVFormat:
    """A format by name.

    :raises ConfigError: where there is none.
    """
    if name not in FORMATS:
        raise ConfigError('KV format', expected=f'one of {", ".join(FORMATS)}', got=repr(name),
                          remedy='Choose one of these.')
    return FORMATS[name]


def heads_per_gpu(num_kv_heads: int, tp: int) -> int:
    """KV heads that each of `tp` GPUs holds: a share of them, or one that others hold too.

    :raises ConfigError: where heads do not divide among GPUs, nor GPUs among heads.
    """
    _check('KV heads', num_kv_heads)
    _check('GPUs of tensor parallelism', tp)
    if num_kv_heads % tp and tp % num_kv_heads:
        raise ConfigError(
            'GPUs of tensor parallelism', expected=f'a divisor or a multiple of {num_kv_heads} KV '
            'heads', got=str(tp), remedy='Choose another number of GPUs.')
    return max(1, num_kv_heads // tp)


def bytes_per_token(group: KVGroup, kv_format: str | KVFormat, tp: int = 1) -> int:
    """Bytes of one token's keys and values in all layers of a group, on each GPU."""
    _check(f'layers of {group.name}', group.num_layers)
    form = find_format(kv_format) if isinstance(kv_format, str) else kv_format
    heads = heads_per_gpu(group.num_kv_heads, tp)
    return group.num_layers * 2 * heads * form.head_bytes(group.head_dim)


def num_pages(tokens: int, page_tokens: int, window: int | None = None) -> int:
    """Pages that a sequence holds in one group of layers.

    A window moves over page edges: it holds at most one page more than it would fill.
    """
    _check('tokens', tokens, low=0)
    _check('tokens of a page', page_tokens)
    pages = -(-tokens // page_tokens)
    if window is None:
        return pages
    _check('window', window)
    return min(pages, -(-(window - 1) // page_tokens) + 1)


def kv_bytes(
    groups: Sequence[KVGroup], tokens: int, kv_format: str | KVFormat, page_tokens: int,
    tp: int = 1,
) -> int:
    """Bytes of one sequence's pages, on each GPU.

    :param tokens: of the sequence, at its longest.
    :param page_tokens: tokens of a page; 1 counts tokens without rounding.
    """
    return sum(num_pages(tokens, page_tokens, group.window) * page_tokens
               * bytes_per_token(group, kv_format, tp) for group in groups)


def tokens_that_fit(
    num_bytes: int, groups: Sequence[KVGroup], kv_format: str | KVFormat, page_tokens: int,
    tp: int = 1,
) -> int | None:
    """Tokens of the whole pages that fit, as one sequence.

    :param num_bytes: on each GPU.
    :return: None where every layer has a window and all of them fit: there is no limit.
    """
    _check('bytes of keys and values', num_bytes, low=0)

    def fits(pages: int) -> bool:
        return kv_bytes(groups, pages * page_tokens, kv_format, page_tokens, tp) <= num_bytes

    page_bytes = sum(page_tokens * bytes_per_token(group, kv_format, tp) for group in groups
                     if group.window is None)
    if page_bytes:
        high = num_bytes // page_bytes + 1
    else:
        high = 1 + max(num_pages(_MOST, page_tokens, group.window) for group in groups)
        if fits(high):
            return None
    low = 0  # fits; `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * page_tokens


def gpus_needed(num_bytes: int, gpu_bytes: int, share: float = 1.0) -> int:
    """GPUs of which `share` of the memory, all together, holds so many bytes."""
    _check('bytes', num_bytes, low=0)
    _check('bytes of a GPU', gpu_bytes)
    if not 0 < share <= 1:
        raise ConfigError('share of the memory', expected='above 0, and at most 1',
                          got=str(share), remedy='0.9 leaves a tenth.')
    # The share is meant as it is written: 0.9 is nine tenths, not the float beside it.
    return math.ceil(num_bytes / (gpu_bytes * Fraction(str(share))))


def _check(name: str, value: int, low: int = 1) -> None:
    if type(value) is not int or not low <= value <= _MOST:
        raise ConfigError(name, expected=f'a whole number from {low} to {_MOST}', got=repr(value),
                          remedy='Correct the value.')
