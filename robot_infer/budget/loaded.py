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

"""Bytes of weights as the engine holds them, which is not as the files do.

What lives here: the arithmetic of models/smolvla.py, models/projections.py and models/linear.py,
from names and shapes of tensors alone. Norms and what leads into and out of state and actions are
float32, projections are in policy.dtype or in 8 or 4 bits, constants of the action head are
folded, and a large weight of an x86 CPU lies in oneDNN's blocks, whose edges are padded.
What does not: models that this engine does not run; of those the parameters are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import math

from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.model_shape import ModelShape, Part
from robot_infer.errors import CheckpointError

Shapes = Mapping[str, tuple[int, ...]]
VALUE_BYTES = {'fp32': 4, 'bf16': 2}
_PACK_FROM, _LARGE, _INT4_GROUP = 1 << 17, 1 << 14, 32
_VLM = 'model.vlm_with_expert.vlm.model'
_TEXT, _EXPERT = f'{_VLM}.text_model', 'model.vlm_with_expert.lm_expert'
_PARTS: dict[Part, str] = {'vision': 'vision encoder', 'language': 'language model',
                           'action': 'action head', 'other': 'other weights'}


@dataclass(frozen=True)
class Form:
    """How weights are kept.

    :param dtype: policy.dtype. weights: policy.weights.
    :param packed: large ones lie in oneDNN's blocks (an x86 CPU).
    :param unpacked_bytes: of a value in the buffer that 8-bit weights are unpacked to.
    """

    dtype: str = 'fp32'
    weights: str = 'as_loaded'
    packed: bool = False
    unpacked_bytes: int = 2

    @property
    def value_bytes(self) -> int:
        """Of a value in policy.dtype."""
        return VALUE_BYTES[self.dtype]


@dataclass
class _Sum:
    """Bytes of one part, and beside them the padding and the largest weight to unpack."""

    form: Form
    parts: dict[Part, int] = field(default_factory=dict)
    padding: int = 0
    largest: int = 0
    num_tensors: int = 0

    def add(self, part: Part, num_bytes: int) -> None:
        self.parts[part] = self.parts.get(part, 0) + num_bytes
        self.num_tensors += 1

    def norm(self, part: Part, width: int) -> None:
        """A scale for each column, and a floor."""
        self.add(part, 4 * width + 4)

    def linear(self, part: Part, rows: int, columns: int, bias: bool, value: int) -> None:
        """A weight as models.linear.Linear has it."""
        self.add(part, (rows * columns + (rows if bias else 0)) * value)
        if self.form.packed and rows * columns >= _PACK_FROM:
            padded = _up(rows, 64) * _up(columns, 64 // value)
            self.padding += (padded - rows * columns) * value

    def projection(self, part: Part, rows: int, columns: int, bias: bool = False) -> None:
        """A weight as models.projections.Projections makes it."""
        entries = rows * columns
        form = self.form
        if form.weights == 'int8' and entries >= _LARGE and columns % 16 == 0:
            self.add(part, entries + 6 * rows + (4 * rows if bias else 0))
            self.largest = max(self.largest, entries)
        elif (form.weights == 'int4' and entries >= _LARGE and columns % _INT4_GROUP == 0
                and rows % 16 == 0):
            self.add(part, entries // 2 + 4 * rows * (columns // _INT4_GROUP)
                     + (4 * rows if bias else 0))
        else:
            self.linear(part, rows, columns, bias, form.value_bytes)


@dataclass(frozen=True)
class LoadedWeights:
    """Lines of the weights, and how many tensors they are."""

    lines: tuple[MemoryLine, ...]
    num_tensors: int

    @property
    def num_bytes(self) -> int:
        """Of all of them."""
        return sum(line.num_bytes for line in self.lines)


def loaded_weights(
    shape: ModelShape, tensors: Shapes | None, form: Form, *, step_counts: tuple[int, ...] = (),
    positions: int = 0,
) -> LoadedWeights:
    """The lines of all weights as they will be held.

    :param tensors: names and shapes, from a checkpoint's header; None: counted by parameters.
    :param step_counts: every number of denoising steps that is made ready.
    :param positions: of the rotary table.
    :raises CheckpointError: where a tensor that the engine takes is missing.
    """
    if tensors is None or shape.family != 'smolvla':
        return _counted(shape, form)
    total = _Sum(form)
    try:
        _vision(total, shape, tensors)
        _language(total, shape, tensors)
        _action(total, shape, tensors, step_counts)
    except KeyError as error:
        raise CheckpointError(
            f'weights of {shape.source}', expected=f'a tensor {error.args[0]}',
            got='none of that name', remedy='The checkpoint is of another family or incomplete.',
        ) from error
    words = f'as {_words(form)} keeps them; norms, state and actions in fp32'
    lines = [MemoryLine(_PARTS[part], num_bytes, words, kind='weights')
             for part, num_bytes in total.parts.items()]
    if total.padding:
        lines.append(MemoryLine(
            'padding of weights', total.padding, 'large weights lie in blocks of 64 rows x '
            f'{64 // form.value_bytes} columns (oneDNN)', 'bound', kind='weights'))
    if total.largest:
        lines.append(MemoryLine(
            'unpacked weight', total.largest * form.unpacked_bytes, 'one buffer for all, as large '
            f'as the largest: {total.largest} x {form.unpacked_bytes} bytes', kind='weights'))
    if positions:
        head_dim = shape.language.head_dim
        lines.append(MemoryLine(
            'position table', 2 * positions * head_dim * 4,
            f'sine and cosine: 2 x {positions} positions x {head_dim} x 4 bytes', kind='weights'))
    return LoadedWeights(tuple(lines), total.num_tensors)


def loaded_bytes(num_params: int, form: Form, kept_as_loaded: int = 0) -> int:
    """About how much so many parameters take, of which some are never quantised."""
    rest = num_params - kept_as_loaded
    share = {'int8': 1.0, 'int4': 0.5 + 4 / _INT4_GROUP}.get(form.weights, form.value_bytes)
    return math.ceil(rest * share) + kept_as_loaded * form.value_bytes


def _counted(shape: ModelShape, form: Form) -> LoadedWeights:
    """By parameters: of models that this engine does not run, or has no header of."""
    embedding = shape.language.vocab * shape.language.width
    parts: dict[Part, tuple[int, int]] = {}
    for group in shape.weights:
        if group.kept:
            kept = min(embedding, group.num_params) if group.part == 'language' else 0
            embedding -= kept
            params, num_bytes = parts.get(group.part, (0, 0))
            parts[group.part] = (params + group.num_params,
                                 num_bytes + loaded_bytes(group.num_params, form, kept))
    lines = tuple(MemoryLine(
        _PARTS[part], num_bytes, f'{params} parameters as {_words(form)}',
        'exact' if form.weights == 'as_loaded' else 'estimate', kind='weights')
        for part, (params, num_bytes) in parts.items())
    return LoadedWeights(lines, 16 * sum(stack.num_layers for stack in (
        shape.vision, shape.language, shape.action) if stack is not None))


def _words(form: Form) -> str:
    return form.dtype if form.weights == 'as_loaded' else f'{form.weights} ({form.dtype} else)'


def _vision(total: _Sum, shape: ModelShape, tensors: Shapes) -> None:
    assert shape.vision is not None
    model, value = f'{_VLM}.vision_model', total.form.value_bytes
    rows, *rest = tensors[f'{model}.embeddings.patch_embedding.weight']
    total.add('vision', (rows * math.prod(rest) + rows) * value)
    total.add('vision', math.prod(
        tensors[f'{model}.embeddings.position_embedding.weight']) * value)
    for number in range(shape.vision.num_layers):
        name = f'{model}.encoder.layers.{number}'
        total.add('vision', 4 * 4 * shape.vision.width)  # two norms, weight and bias each
        q, width = tensors[f'{name}.self_attn.q_proj.weight']
        total.projection('vision', 3 * q, width, bias=True)
        for part in ('self_attn.out_proj', 'mlp.fc1', 'mlp.fc2'):
            total.projection('vision', *tensors[f'{name}.{part}.weight'], bias=True)
    total.add('vision', 2 * 4 * shape.vision.width)
    total.projection('vision', *tensors[f'{_VLM}.connector.modality_projection.proj.weight'])


def _language(total: _Sum, shape: ModelShape, tensors: Shapes) -> None:
    value, last = total.form.value_bytes, shape.language.num_layers - 1
    total.add('language', math.prod(tensors[f'{_TEXT}.embed_tokens.weight']) * value)
    for number in range(last):
        _layer(total, 'language', f'{_TEXT}.layers.{number}', tensors)
    name = f'{_TEXT}.layers.{last}'  # of the last layer nothing but keys and values is used
    kv, width = tensors[f'{name}.self_attn.k_proj.weight']
    total.norm('language', width)
    total.projection('language', 2 * kv, width)


def _layer(total: _Sum, part: Part, name: str, tensors: Shapes, cross: bool = False) -> None:
    q, width = tensors[f'{name}.self_attn.q_proj.weight']
    kv, kv_input = tensors[f'{name}.self_attn.k_proj.weight']
    hidden = tensors[f'{name}.mlp.gate_proj.weight'][0]
    total.norm(part, width)
    total.norm(part, width)
    if cross:
        total.projection(part, q, width)
        total.projection(part, kv, kv_input)
        total.projection(part, kv, kv_input)
    else:
        total.projection(part, q + 2 * kv, width)
    total.projection(part, width, q)
    total.projection(part, 2 * hidden, width)
    total.projection(part, width, hidden)


def _action(total: _Sum, shape: ModelShape, tensors: Shapes, counts: tuple[int, ...]) -> None:
    rows, columns = tensors['model.state_proj.weight']
    total.linear('action', rows, columns, True, 4)
    width, action_width = tensors['model.action_in_proj.weight']
    total.add('action', width * action_width * 4)  # folded with the first layer behind it
    for steps in counts:
        total.add('action', steps * width * 4)  # what time contributes, a row a step
    total.linear('action', width, width, True, 4)
    num_layers = shape.language.num_layers
    num_cross = sum(group.num_layers for group in shape.kv) - num_layers
    every = next((each for each in range(1, num_layers + 1)
                  if math.ceil(num_layers / each) == num_layers - num_cross), 0)
    for number in range(num_layers):
        _layer(total, 'action', f'{_EXPERT}.layers.{number}', tensors,
               cross=not every or number % every != 0)
    total.norm('action', width)
    total.linear('action', *tensors['model.action_out_proj.weight'], True, 4)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
