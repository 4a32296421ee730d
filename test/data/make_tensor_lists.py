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

"""Write tensor_lists.json: the tensors of each model, as the library that defines it names them.

    python test/data/make_tensor_lists.py

Needs torch, transformers 5.5.4, lerobot 0.6.1 and timm 0.9.16; no weights: models are made on the
meta device from the published numbers. Numbered layers of equal shape are one line.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
import json
from pathlib import Path
import re

from lerobot.configs.types import FeatureType, PolicyFeature
import timm
import torch
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)

_SIGLIP_B = {'hidden_size': 768, 'intermediate_size': 3072, 'num_hidden_layers': 12,
             'num_attention_heads': 12, 'image_size': 512, 'patch_size': 16}


def _llama(width: int, hidden: int, layers: int, heads: int, kv_heads: int) -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=128256, hidden_size=width, intermediate_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads))


def _smol(width: int, hidden: int, layers: int, heads: int, kv_heads: int) -> dict:
    return {'model_type': 'llama', 'hidden_size': width, 'intermediate_size': hidden,
            'num_hidden_layers': layers, 'num_attention_heads': heads, 'head_dim': 64,
            'num_key_value_heads': kv_heads, 'vocab_size': 49280}


def _qwen() -> Qwen2_5_VLForConditionalGeneration:
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config={'vocab_size': 151936, 'hidden_size': 2048, 'intermediate_size': 11008,
                     'num_hidden_layers': 36, 'num_attention_heads': 16, 'num_key_value_heads': 2,
                     'tie_word_embeddings': True},
        vision_config={'depth': 32, 'hidden_size': 1280, 'intermediate_size': 3420,
                       'num_heads': 16, 'out_hidden_size': 2048, 'patch_size': 14,
                       'spatial_merge_size': 2, 'temporal_patch_size': 2},
        tie_word_embeddings=True))


def _pi(folder: str, config: str, network: str, **more: object) -> torch.nn.Module:
    settings = getattr(import_module(f'lerobot.policies.{folder}.configuration_{folder}'), config)
    model = getattr(import_module(f'lerobot.policies.{folder}.modeling_{folder}'), network)
    return model(settings(
        input_features={'observation.state': PolicyFeature(FeatureType.STATE, (14,)),
                        'observation.images.base_0_rgb': PolicyFeature(
                            FeatureType.VISUAL, (3, 224, 224))},
        output_features={'action': PolicyFeature(FeatureType.ACTION, (14,))},
        device='cpu'), **more)


class _OpenVLAVision(torch.nn.Module):
    """The two encoders of OpenVLA; Prismatic renames the gamma of a layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.featurizer = timm.create_model(
            'vit_large_patch14_reg4_dinov2.lvd142m', num_classes=0, img_size=224)
        self.fused_featurizer = timm.create_model(
            'vit_so400m_patch14_siglip_224', num_classes=0, img_size=224)


MODELS = {
    'pi0': lambda: _pi('pi0', 'PI0Config', 'PI0Pytorch'),
    'pi0.5': lambda: _pi('pi05', 'PI05Config', 'PI05Pytorch'),
    'pi0-FAST': lambda: _pi('pi0_fast', 'PI0FastConfig', 'PI0FastPytorch',
                            paligemma_tokenizer=None),
    'OpenVLA-7B vision': _OpenVLAVision,
    'SmolVLM-256M': lambda: Idefics3ForConditionalGeneration(Idefics3Config(
        text_config=_smol(576, 1536, 30, 9, 3), vision_config=_SIGLIP_B, scale_factor=4)),
    'SmolVLM-500M': lambda: SmolVLMForConditionalGeneration(SmolVLMConfig(
        text_config=_smol(960, 2560, 32, 15, 5), vision_config=_SIGLIP_B, scale_factor=4)),
    'Llama-3-8B': lambda: _llama(4096, 14336, 32, 32, 8),
    'Llama-3-70B': lambda: _llama(8192, 28672, 80, 64, 8),
    'Qwen2.5-VL-3B': _qwen,
}


def main() -> None:
    """Make each model without memory for its weights, and write what its tensors are."""
    linspace = torch.linspace  # timm asks values of it
    torch.linspace = lambda *args, **rest: linspace(*args, **{**rest, 'device': 'cpu'})
    found = {}
    for name, make in MODELS.items():
        with torch.device('meta'):
            tensors = make().state_dict()
        lines: dict[tuple[str, tuple[int, ...]], int] = {}
        for key, tensor in tensors.items():
            if name == 'OpenVLA-7B vision':
                key = f'vision_backbone.{key}'.replace('.gamma', '.scale_factor')
            line = re.sub(r'\.(layers|blocks)\.\d+\.', r'.\1.*.', key), tuple(tensor.shape)
            lines[line] = lines.get(line, 0) + 1
        found[name] = [[key, list(shape), count] for (key, shape), count in sorted(lines.items())]
    made_with = {package: version(package) for package in (
        'lerobot', 'torch', 'transformers')} | {'timm': timm.__version__}
    rows = ',\n'.join(
        f' {json.dumps(name)}: [\n  ' + ',\n  '.join(map(json.dumps, lines)) + ']'
        for name, lines in found.items())
    Path(__file__).with_name('tensor_lists.json').write_text(
        f'{{"made_with": {json.dumps(made_with)},\n "models": {{\n{rows}}}}}\n', 'utf-8')


if __name__ == '__main__':
    main()
