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

"""Write a SmolVLA checkpoint with random weights, as LeRobot would, without LeRobot.

    python tools/bench/random_checkpoint.py FOLDER [--seed 0]

The folder loads in robot_infer and in LeRobot 0.6.1. Random weights cost what trained ones cost,
and mean nothing: for timing only. What lives here: the names and shapes of the tensors and the
files beside them. What does not: what runs them (robot_infer/models).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
import json
import math
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
import torch
from torch import Tensor

_SPECIAL_TOKENS = ('<|endoftext|>', '<|im_start|>', '<|im_end|>', '<fake_token_around_image>',
                   '<global-img>', '<image>', '<end_of_utterance>')
_BEGIN, _PAD, _IMAGE = 1, 2, 5  # of the tokens above
_CORPUS = ('pick up the red cube and put it into the box on the left',)
_VLM = 'model.vlm_with_expert.vlm'
_EXPERT = 'model.vlm_with_expert.lm_expert'
_Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Shape:
    """Every number of the policy; those of SmolVLA as published, except where given.

    cameras see frames of 480 x 640 pixels; expert_width is three quarters of width.
    """

    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vision_width: int
    vision_hidden: int
    vision_layers: int
    vision_heads: int
    image_px: int = 512
    patch_px: int = 16
    scale_factor: int = 4
    vocabulary: int = 2048
    cameras: tuple[str, ...] = ('overhead', 'wrist')
    joints: int = 6
    max_dim: int = 32
    chunk: int = 50
    denoise_steps: int = 10

    @property
    def expert_width(self) -> int:
        """Width of the action expert."""
        return self.width * 3 // 4

    @property
    def expert_hidden(self) -> int:
        """Hidden width of its MLP, as LeRobot rounds it (`get_intermediate_size`)."""
        return 256 * math.ceil(4 * (2 * self.expert_width // 3) / 256)


# The published 450M policy made smaller in its proportions: 16 layers, heads of 64, 64 tokens a
# camera. The vocabulary is small so that the parameters sit in the layers.
HUNDRED_MILLION = Shape(
    width=480, hidden=1536, layers=16, heads=6, kv_heads=2, head_dim=64,
    vision_width=448, vision_hidden=1792, vision_layers=12, vision_heads=7)


def write(folder: Path, shape: Shape, seed: int = 0) -> int:
    """Write a complete checkpoint folder.

    :returns: the number of parameters without lm_head, which SmolVLA never uses.
    """
    (folder / 'vlm').mkdir(parents=True)
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: _draw(name, dims, generator) for name, dims in _tensor_shapes(shape).items()}
    save_file(tensors, folder / 'model.safetensors')
    features = _features(shape)
    _write_json(folder / 'config.json', _config(shape, features))
    _write_json(folder / 'vlm' / 'config.json', _backbone(shape))
    (folder / 'tokenizer.json').write_text(_tokenizer(shape.vocabulary).to_str())
    statistics = {f'{name}.{key}': torch.full((shape.joints,), value)
                  for name in ('observation.state', 'action')
                  for key, value in (('mean', 0.0), ('std', 1.0))}
    for name, steps in _processors(shape, features).items():
        _write_json(folder / f'{name}.json', {'name': name, 'steps': steps})
        for step in steps:
            if 'state_file' in step:
                save_file(statistics, folder / step['state_file'])
    return sum(tensor.numel() for name, tensor in tensors.items() if 'lm_head' not in name)


# --- weights ------------------------------------------------------------------------------------

def _tensor_shapes(shape: Shape) -> _Shapes:
    """Shape of every tensor LeRobot stores, by its name."""
    width, expert, text = shape.width, shape.expert_width, f'{_VLM}.model.text_model'
    found: _Shapes = {
        'model.state_proj.weight': (width, shape.max_dim),
        'model.state_proj.bias': (width,),
        'model.action_in_proj.weight': (expert, shape.max_dim),
        'model.action_in_proj.bias': (expert,),
        'model.action_time_mlp_in.weight': (expert, 2 * expert),
        'model.action_time_mlp_in.bias': (expert,),
        'model.action_time_mlp_out.weight': (expert, expert),
        'model.action_time_mlp_out.bias': (expert,),
        'model.action_out_proj.weight': (shape.max_dim, expert),
        'model.action_out_proj.bias': (shape.max_dim,),
        f'{_VLM}.lm_head.weight': (shape.vocabulary, width),
        f'{text}.embed_tokens.weight': (shape.vocabulary, width),
        f'{text}.norm.weight': (width,),
        f'{_EXPERT}.norm.weight': (expert,),
        **_vision_shapes(shape)}
    for number in range(shape.layers):
        found |= _layer_shapes(shape, f'{text}.layers.{number}', width, shape.hidden, width)
        # Every second layer of the expert re-projects the backbone's keys and values.
        kv_input = shape.kv_heads * shape.head_dim if number % 2 else expert
        found |= _layer_shapes(shape, f'{_EXPERT}.layers.{number}', expert, shape.expert_hidden,
                               kv_input)
    return found


def _layer_shapes(shape: Shape, name: str, width: int, hidden: int, kv_input: int) -> _Shapes:
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {
        f'{name}.input_layernorm.weight': (width,),
        f'{name}.self_attn.q_proj.weight': (q, width),
        f'{name}.self_attn.k_proj.weight': (kv, kv_input),
        f'{name}.self_attn.v_proj.weight': (kv, kv_input),
        f'{name}.self_attn.o_proj.weight': (width, q),
        f'{name}.post_attention_layernorm.weight': (width,),
        f'{name}.mlp.gate_proj.weight': (hidden, width),
        f'{name}.mlp.up_proj.weight': (hidden, width),
        f'{name}.mlp.down_proj.weight': (width, hidden)}


def _vision_shapes(shape: Shape) -> _Shapes:
    vision, width, hidden = f'{_VLM}.model.vision_model', shape.vision_width, shape.vision_hidden
    found: _Shapes = {
        f'{vision}.embeddings.patch_embedding.weight': (width, 3, shape.patch_px, shape.patch_px),
        f'{vision}.embeddings.patch_embedding.bias': (width,),
        f'{vision}.embeddings.position_embedding.weight': (
            (shape.image_px // shape.patch_px) ** 2, width),
        f'{vision}.post_layernorm.weight': (width,),
        f'{vision}.post_layernorm.bias': (width,),
        f'{_VLM}.model.connector.modality_projection.proj.weight': (
            shape.width, width * shape.scale_factor ** 2)}
    for number in range(shape.vision_layers):
        name = f'{vision}.encoder.layers.{number}'
        for part, dims in {
                'layer_norm1': (width,), 'layer_norm2': (width,),
                'self_attn.q_proj': (width, width), 'self_attn.k_proj': (width, width),
                'self_attn.v_proj': (width, width), 'self_attn.out_proj': (width, width),
                'mlp.fc1': (hidden, width), 'mlp.fc2': (width, hidden)}.items():
            found |= {f'{name}.{part}.weight': dims, f'{name}.{part}.bias': dims[:1]}
    return found


def _draw(name: str, dims: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Norms one, biases zero, matrices such that activations stay of order one."""
    if name.endswith('.bias'):
        return torch.zeros(dims)
    if len(dims) == 1:
        return torch.ones(dims)
    return torch.randn(dims, generator=generator).mul_(math.prod(dims[1:]) ** -0.5)


# --- the files beside them ----------------------------------------------------------------------

def _features(shape: Shape) -> dict[str, dict]:
    vector = {'shape': [shape.joints]}
    return {
        'observation.state': {'type': 'STATE', **vector},
        **{f'observation.images.{camera}': {'type': 'VISUAL', 'shape': [3, 480, 640]}
           for camera in shape.cameras},
        'action': {'type': 'ACTION', **vector}}


def _config(shape: Shape, features: dict[str, dict]) -> dict:
    """config.json; what is left out has LeRobot's default."""
    return {
        'type': 'smolvla', 'device': 'cpu', 'push_to_hub': False,
        'input_features': {name: features[name] for name in features if name != 'action'},
        'output_features': {'action': features['action']},
        'normalization_mapping': {'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD',
                                  'ACTION': 'MEAN_STD'},
        'chunk_size': shape.chunk, 'n_action_steps': shape.chunk,
        'num_steps': shape.denoise_steps,
        'max_state_dim': shape.max_dim, 'max_action_dim': shape.max_dim,
        'resize_imgs_with_padding': [shape.image_px, shape.image_px],
        'tokenizer_max_length': 48, 'pad_language_to': 'longest', 'prefix_length': -1,
        'vlm_model_name': 'vlm', 'load_vlm_weights': False, 'attention_mode': 'cross_attn',
        'num_vlm_layers': shape.layers, 'num_expert_layers': -1, 'self_attn_every_n_layers': 2,
        'expert_width_multiplier': 0.75, 'min_period': 0.004, 'max_period': 4.0}


def _backbone(shape: Shape) -> dict:
    """vlm/config.json, as Transformers writes it for a SmolVLM."""
    return {
        'model_type': 'smolvlm', 'scale_factor': shape.scale_factor, 'image_token_id': _IMAGE,
        'pad_token_id': _PAD, 'tie_word_embeddings': False,
        'text_config': {
            'model_type': 'llama', 'vocab_size': shape.vocabulary, 'hidden_size': shape.width,
            'intermediate_size': shape.hidden, 'num_hidden_layers': shape.layers,
            'num_attention_heads': shape.heads, 'num_key_value_heads': shape.kv_heads,
            'head_dim': shape.head_dim, 'hidden_act': 'silu', 'rms_norm_eps': 1e-5,
            'attention_bias': False, 'mlp_bias': False, 'tie_word_embeddings': False,
            'bos_token_id': _BEGIN, 'eos_token_id': _PAD, 'pad_token_id': _PAD},
        'vision_config': {
            'model_type': 'smolvlm_vision', 'hidden_size': shape.vision_width,
            'intermediate_size': shape.vision_hidden, 'num_hidden_layers': shape.vision_layers,
            'num_attention_heads': shape.vision_heads, 'num_channels': 3,
            'image_size': shape.image_px, 'patch_size': shape.patch_px,
            'hidden_act': 'gelu_pytorch_tanh', 'layer_norm_eps': 1e-6}}


def _tokenizer(size: int) -> Tokenizer:
    """A small byte-level BPE tokenizer in the manner of SmolVLM's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([f'{text}\n' for text in _CORPUS], trainers.BpeTrainer(
        vocab_size=size, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(text, special=True) for text in _SPECIAL_TOKENS]))
    return tokenizer


def _processors(shape: Shape, features: dict[str, dict]) -> dict[str, list[dict]]:
    """The steps of LeRobot's two processor pipelines, as it saves them."""
    norm_map = {'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD', 'ACTION': 'MEAN_STD'}

    def step(name: str, **config: object) -> dict:
        return {'registry_name': name, 'config': config}

    def scaling(name: str, file: str, wanted: dict[str, dict]) -> dict:
        return {**step(name, eps=1e-8, features=wanted, norm_map=norm_map), 'state_file': file}

    return {
        'policy_preprocessor': [
            step('rename_observations_processor', rename_map={}), step('to_batch_processor'),
            step('smolvla_new_line_processor'),
            step('tokenizer_processor', max_length=48, task_key='task', padding_side='right',
                 padding='longest', truncation=True, tokenizer_name='vlm'),
            step('device_processor', device='cpu', float_dtype=None),
            scaling('normalizer_processor',
                    'policy_preprocessor_step_5_normalizer_processor.safetensors', features)],
        'policy_postprocessor': [
            scaling('unnormalizer_processor',
                    'policy_postprocessor_step_0_unnormalizer_processor.safetensors',
                    {'action': features['action']}),
            step('device_processor', device='cpu', float_dtype=None)]}


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + '\n')


def main() -> None:
    """Read the command line and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('folder', type=Path, help='where to write; must not exist')
    parser.add_argument('--seed', type=int, default=0, help='of the random weights')
    arguments = parser.parse_args()
    if arguments.folder.exists():
        parser.error(f'{arguments.folder}: expected a new folder; got one that exists')
    count = write(arguments.folder, HUNDRED_MILLION, arguments.seed)
    print(f'{arguments.folder}: {count / 1e6:.1f} M parameters without lm_head')


if __name__ == '__main__':
    main()
