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

"""The sections of config.json files, as far as shapes depend on them: required, typed, in range.

A value that is missing, of another type or absurd is refused by file and key. Defaults are those
of the configuration classes that wrote the files (transformers 5.5, LeRobot 0.6.1), which leave
out what is as by default; a number that decides a shape has none here where any file may be meant.
"""

from __future__ import annotations

from collections.abc import Mapping
import reprlib
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robot_infer.budget.model_shape import KVGroup, Stack
from robot_infer.errors import CheckpointError

# No size in a checkpoint is larger; what is, would only exhaust the memory. Layers, heads and
# cameras are far fewer.
Size = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Pixels = Annotated[int, Field(ge=1, le=8192)]
Tokens = Annotated[int, Field(ge=1, le=100_000_000)]
_Kind = TypeVar('_Kind', bound=BaseModel)


class Section(BaseModel):
    """A JSON object; keys that shapes do not depend on are left alone."""

    model_config = ConfigDict(strict=True, extra='ignore', frozen=True)


def parse(kind: type[_Kind], values: Mapping[str, Any], where: str) -> _Kind:
    """Read a section.

    :param where: the file, and the place in it, for messages.
    :raises CheckpointError: for the first value that is missing or wrong.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = '.'.join(str(part) for part in first['loc'])
        missing = first['type'] == 'missing'
        raise wrong(where, key, f'a value for {key}' if missing else first['msg'],
                    'none' if missing else reprlib.repr(first['input'])) from error


def wrong(where: str, key: str, expected: str, got: object) -> CheckpointError:
    """The error for the value of a key."""
    return CheckpointError(
        f'{key} in {where}', expected=expected, got=str(got),
        remedy='Copy the file again from its source, or correct it there.')


class TextSection(Section):
    """A Llama, Qwen2 or what is built alike (transformers)."""

    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    vocab_size: Size
    max_position_embeddings: Tokens = 2048
    tie_word_embeddings: bool = False
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    use_sliding_window: bool = False
    sliding_window: Tokens | None = None
    max_window_layers: Annotated[int, Field(ge=0)] = 0

    def stack(self, name: str, where: str) -> Stack:
        """Its layers.

        :raises CheckpointError: where heads do not divide.
        """
        heads = self.num_attention_heads
        kv_heads = self.num_key_value_heads or heads
        if heads % kv_heads:
            raise wrong(where, 'num_key_value_heads', f'a divisor of the {heads} heads', kv_heads)
        if self.head_dim is None and self.hidden_size % heads:
            raise wrong(where, 'num_attention_heads',
                        f'a divisor of hidden_size {self.hidden_size}', heads)
        return Stack(name, self.num_hidden_layers, self.hidden_size, self.intermediate_size, heads,
                     kv_heads, self.head_dim or self.hidden_size // heads, vocab=self.vocab_size)

    def kv(self, stack: Stack, where: str) -> tuple[KVGroup, ...]:
        """What its layers cache; the first `max_window_layers` see all (Qwen2)."""
        if not self.use_sliding_window:
            return (KVGroup('language', stack.num_layers, stack.num_kv_heads, stack.head_dim),)
        if self.sliding_window is None:
            raise wrong(where, 'sliding_window', 'its tokens, as use_sliding_window is true',
                        'none')
        full = min(self.max_window_layers, stack.num_layers)
        groups = (
            KVGroup('language', full, stack.num_kv_heads, stack.head_dim),
            KVGroup('language, sliding window', stack.num_layers - full, stack.num_kv_heads,
                    stack.head_dim, self.sliding_window))
        return tuple(group for group in groups if group.num_layers)


class SiglipSection(Section):
    """A SigLIP-like encoder; what Idefics3VisionConfig leaves out is as by its defaults."""

    hidden_size: Size
    intermediate_size: Size = 3072
    num_hidden_layers: Count = 12
    num_attention_heads: Count
    image_size: Pixels
    patch_size: Pixels

    def stack(self, name: str, where: str) -> Stack:
        """Its layers.

        :raises CheckpointError: where heads or patches do not divide.
        """
        width, heads = self.hidden_size, self.num_attention_heads
        if width % heads:
            raise wrong(where, 'vision_config.num_attention_heads',
                        f'a divisor of hidden_size {width}', heads)
        if self.image_size < self.patch_size:
            raise wrong(where, 'vision_config.patch_size',
                        f'at most image_size {self.image_size}', self.patch_size)
        return Stack(name, self.num_hidden_layers, width, self.intermediate_size, heads, heads,
                     width // heads, gated=False)

    @property
    def num_patches(self) -> int:
        """Patches of an image of the trained size."""
        return (self.image_size // self.patch_size) ** 2


class QwenVisionSection(Section):
    """Qwen2.5-VL's encoder."""

    depth: Count
    hidden_size: Size
    intermediate_size: Size
    num_heads: Count
    out_hidden_size: Size
    patch_size: Pixels = 14
    spatial_merge_size: Count = 2
    temporal_patch_size: Count = 2


class Feature(Section):
    """An input or output of a LeRobot policy."""

    type: str
    shape: list[Size]


class LeRobotSection(Section):
    """What the LeRobot policies here have in common."""

    type: str
    input_features: dict[str, Feature]
    chunk_size: Tokens
    max_state_dim: Size = 32
    max_action_dim: Size = 32
    empty_cameras: Annotated[int, Field(ge=0, le=1000)] = 0
    tokenizer_max_length: Tokens

    def cameras(self, where: str) -> tuple[str, ...]:
        """Names of the camera inputs in the trained order, without those that stay empty."""
        empty = [f'observation.images.empty_camera_{number}'
                 for number in range(self.empty_cameras)]
        names = tuple(key.removeprefix('observation.images.')
                      for key, feature in self.input_features.items()
                      if feature.type == 'VISUAL' and key not in empty)
        if not names:
            raise wrong(where, 'input_features', 'at least one camera (type VISUAL)',
                        ', '.join(self.input_features) or 'none')
        return names


class SmolVLASection(LeRobotSection):
    """config.json of a SmolVLA."""

    num_steps: Tokens = 10
    resize_imgs_with_padding: Annotated[list[Pixels], Field(min_length=2, max_length=2)]
    num_vlm_layers: Annotated[int, Field(le=10_000)] = -1
    num_expert_layers: Annotated[int, Field(le=10_000)] = -1
    expert_width_multiplier: Annotated[float, Field(gt=0, le=100)]
    attention_mode: str = 'cross_attn'
    self_attn_every_n_layers: int = -1
    add_image_special_tokens: bool = False
    vlm_model_name: str = ''


class PiSection(LeRobotSection):
    """config.json of a pi0, pi0.5 or pi0-FAST (LeRobot)."""

    paligemma_variant: Literal['gemma_2b', 'gemma_300m'] = 'gemma_2b'
    action_expert_variant: Literal['gemma_2b', 'gemma_300m'] = 'gemma_300m'
    image_resolution: Annotated[list[Pixels], Field(min_length=2, max_length=2)] = [224, 224]
    num_inference_steps: Tokens = 10
    max_decoding_steps: Tokens = 256


class OpenVLASection(Section):
    """config.json of an OpenVLA."""

    vision_backbone_id: Literal['dinosiglip-vit-so-224px']
    llm_backbone_id: Literal['llama2-7b-pure']
    text_config: dict[str, Any] = {}
    llm_max_length: Tokens = 2048


class VLMSection(Section):
    """config.json of an Idefics3 or SmolVLM."""

    text_config: dict[str, Any]
    vision_config: dict[str, Any]
    scale_factor: Count
    tie_word_embeddings: bool = False
