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

"""What one inference step is asked to do: cameras, words, actions, and the formats of numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
import math
from typing import get_args

from robot_infer.budget.devices import RateName
from robot_infer.budget.model_shape import ModelShape
from robot_infer.config import Config
from robot_infer.errors import ConfigError

_VALUE_BYTES = {'fp32': 4.0, 'bf16': 2.0}
_WEIGHT_BYTES = {'int8': 1.0, 'int4': 0.5 + 4 / 32}  # int4: a scale and a zero for 32 entries
_KV_BYTES = {'int8': 1.0, 'fp8': 1.0, 'int4': 0.5}
_MOST = 10 ** 7


@dataclass(frozen=True)
class Workload:
    """One step.

    :param decoded_tokens: of an autoregressive policy; the prefill gives the first of them.
    :param maths: the format that products are computed in, which a device has a rate for.
    :param weight_bytes: of one weight; value_bytes: of one activation; kv_bytes: of one entry of
        the pages.
    """

    num_cameras: int
    prompt_tokens: int
    horizon: int = 0
    denoise_steps: int = 0
    decoded_tokens: int = 0
    maths: RateName = 'fp16'
    weight_bytes: float = 2.0
    value_bytes: float = 2.0
    kv_bytes: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != 'maths' and not (math.isfinite(value) and 0 <= value <= _MOST):
                raise ConfigError(f'workload {each.name}', expected=f'a number from 0 to {_MOST}',
                                  got=repr(value), remedy='Correct it.')
        if self.maths not in get_args(RateName):
            raise ConfigError('workload maths', expected=f'one of {", ".join(get_args(RateName))}',
                              got=repr(self.maths), remedy='bf16 is computed at the rate of fp16.')

    @property
    def attention_maths(self) -> RateName:
        """Attention is computed in the format of activations, whatever the weights have."""
        return 'fp32' if self.value_bytes > 2 else 'fp16'

    def prefix_tokens(self, shape: ModelShape) -> int:
        """Images, words, and the state where it is a token of the prefix."""
        return (self.num_cameras * (shape.image_tokens + shape.image_marks) + self.prompt_tokens
                + shape.state_tokens)


def workload(
    shape: ModelShape, config: Config | None = None, *, num_cameras: int | None = None,
    prompt_tokens: int | None = None,
) -> Workload:
    """The largest step of a model, with the settings of a configuration.

    :param config: bf16 and the model's own numbers, if not given.
    :param num_cameras: those that the model was trained with, if not given.
    :param prompt_tokens: the longest prompt, if not given.
    """
    policy = (config or Config()).policy
    dtype = policy.dtype if config else 'bf16'
    kv_format = config.cache.kv_format if config else 'auto'
    value_bytes = _VALUE_BYTES[dtype]
    return Workload(
        num_cameras=len(shape.cameras) if num_cameras is None else num_cameras,
        prompt_tokens=shape.max_prompt_tokens if prompt_tokens is None else prompt_tokens,
        horizon=policy.horizon or shape.horizon,
        denoise_steps=(policy.denoise_steps or shape.denoise_steps) if shape.denoise_steps else 0,
        decoded_tokens=0 if shape.denoise_steps else max(1, shape.action_tokens),
        # Kept in 8 or 4 bits, weights are unpacked to the format that is computed in.
        maths='fp32' if dtype == 'fp32' else 'fp16',
        weight_bytes=_WEIGHT_BYTES.get(policy.weights, value_bytes),
        value_bytes=value_bytes, kv_bytes=_KV_BYTES.get(kv_format, value_bytes))
