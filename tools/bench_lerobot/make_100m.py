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
"""Write a random SmolVLA of about 100 million parameters, to time one step on.

    python tools/bench_lerobot/make_100m.py FOLDER     (in the LeRobot environment)

Proportions are those of the published 450 M policy: two 512-pixel cameras of 64 tokens each, 12
vision layers, 16 text and 16 expert layers, heads of 64, a chunk of 50 actions in 10 denoising
steps. The vocabulary is small so that the parameters sit in the layers. The weights are LeRobot's
own initial ones: they cost what trained ones cost, and mean nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import checkpoint
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
import torch
from transformers import SmolVLMConfig

CAMERAS = ('observation.images.overhead', 'observation.images.wrist')
JOINTS = 6
VOCABULARY = 2048
CORPUS = ('pick up the red cube and put it into the box on the left',)


def config() -> SmolVLAConfig:
    """Return LeRobot's configuration of the policy, everything else at its default."""
    visual = {key: PolicyFeature(FeatureType.VISUAL, (3, 480, 640)) for key in CAMERAS}
    return SmolVLAConfig(
        input_features={
            'observation.state': PolicyFeature(FeatureType.STATE, (JOINTS,)),
            **visual,
        },
        output_features={'action': PolicyFeature(FeatureType.ACTION, (JOINTS,))},
        device='cpu',
        push_to_hub=False,
    )


def backbone() -> SmolVLMConfig:
    """Return the backbone's configuration."""
    ids = {name: index for index, name in enumerate(checkpoint.SPECIAL_TOKENS)}
    text = {
        'model_type': 'llama',
        'vocab_size': VOCABULARY,
        'hidden_size': 480,
        'intermediate_size': 1536,
        'num_hidden_layers': 16,
        'num_attention_heads': 6,
        'num_key_value_heads': 2,
        'head_dim': 64,
        'rms_norm_eps': 1e-5,
        'rope_theta': 100000.0,
        'pad_token_id': ids['<|im_end|>'],
    }
    vision = {
        'hidden_size': 448,
        'intermediate_size': 1792,
        'num_hidden_layers': 12,
        'num_attention_heads': 7,
        'image_size': 512,
        'patch_size': 16,
    }
    return SmolVLMConfig(
        text_config=text,
        vision_config=vision,
        scale_factor=4,
        image_token_id=ids['<image>'],
        pad_token_id=ids['<|im_end|>'],
    )


def count(policy: SmolVLAPolicy) -> int:
    """Return the number of parameters without lm_head, which SmolVLA never uses."""
    return sum(p.numel() for name, p in policy.named_parameters() if 'lm_head' not in name)


def main() -> None:
    """Read the command line and write the checkpoint folder."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('folder', type=Path, help='where to write the checkpoint')
    parser.add_argument('--seed', type=int, default=0, help='of the random weights')
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    joints = {'mean': torch.zeros(JOINTS), 'std': torch.ones(JOINTS)}
    policy = checkpoint.create(
        arguments.folder,
        config(),
        backbone(),
        checkpoint.tokenizer_json(CORPUS, VOCABULARY),
        {'observation.state': joints, 'action': joints},
        lambda policy: None,
    )
    print(f'{arguments.folder}: {count(policy) / 1e6:.1f} M parameters without lm_head')


if __name__ == '__main__':
    main()
