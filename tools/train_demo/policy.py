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
"""The demo policy: its shapes, its tokenizer, and how a checkpoint folder is written and read.

The network is LeRobot's own SmolVLAPolicy; only sizes are chosen here. A checkpoint folder is what
LeRobot writes (config.json, model.safetensors, processors with their statistics), with
tokenizer.json beside it and the backbone's configuration in `vlm/`.
"""

from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
import shutil
import tempfile

from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.smolvla import smolvlm_with_expert
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from lerobot.policies.smolvla.processor_smolvla import make_smolvla_pre_post_processors
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
import torch
from transformers import AutoTokenizer, SmolVLMConfig

IMAGE_PX = 64
CHUNK = 16
NUM_LAYERS = 6
HIDDEN = 128
OVERHEAD = 'observation.images.overhead'
WRIST = 'observation.images.wrist'
STATE = 'observation.state'
ACTION = 'action'
SPECIAL = {
    'pad_token': '<pad>',
    'bos_token': '<bos>',
    'eos_token': '<eos>',
    'image_token': '<image>',
    'fake_image_token': '<fake_token_around_image>',
    'global_image_token': '<global-img>',
}
_EXTRA = ('image_token', 'fake_image_token', 'global_image_token')


class _Processor:
    """Stands in for SmolVLM's processor: the policy asks it for the tokenizer and nothing else."""

    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    @classmethod
    def from_pretrained(cls, folder: str) -> _Processor:
        return cls(folder)


smolvlm_with_expert.AutoProcessor = _Processor


def train_tokenizer(texts: tuple[str, ...]) -> Tokenizer:
    """Return a byte-level BPE tokenizer of about 320 entries; any text has tokens in it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(text, special=True) for text in SPECIAL.values()],
        show_progress=False,
    )
    tokenizer.train_from_iterator([text + '\n' for text in texts], trainer)
    return tokenizer


def write_backbone(folder: Path, tokenizer: Tokenizer) -> None:
    """Write `folder`: the backbone's configuration and the tokenizer files Transformers wants."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {name: tokenizer.token_to_id(text) for name, text in SPECIAL.items()}
    text = {
        'model_type': 'llama',
        'vocab_size': tokenizer.get_vocab_size(),
        'hidden_size': HIDDEN,
        'intermediate_size': 352,
        'num_hidden_layers': NUM_LAYERS,
        'num_attention_heads': 4,
        'num_key_value_heads': 2,
        'head_dim': 32,
        'rms_norm_eps': 1e-5,
        'rope_theta': 10000.0,
        'max_position_embeddings': 512,
        'pad_token_id': ids['pad_token'],
        'bos_token_id': ids['bos_token'],
        'eos_token_id': ids['eos_token'],
    }
    vision = {
        'hidden_size': 96,
        'intermediate_size': 384,
        'num_hidden_layers': 3,
        'num_attention_heads': 3,
        'image_size': IMAGE_PX,
        'patch_size': 8,
    }
    SmolVLMConfig(
        text_config=text,
        vision_config=vision,
        scale_factor=2,
        image_token_id=ids['image_token'],
        pad_token_id=ids['pad_token'],
    ).save_pretrained(folder)
    tokenizer.save(str(folder / 'tokenizer.json'))
    special = {name: text for name, text in SPECIAL.items() if name not in _EXTRA}
    extra = {name: SPECIAL[name] for name in _EXTRA}
    config = {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'model_max_length': 512,
        'extra_special_tokens': extra,
        **special,
    }
    (folder / 'tokenizer_config.json').write_text(json.dumps(config, indent=2) + '\n')


def build(backbone: Path, device: str = 'cpu') -> SmolVLAPolicy:
    """Return an untrained policy over the backbone described in the folder `backbone`."""
    config = SmolVLAConfig(
        input_features={
            STATE: PolicyFeature(FeatureType.STATE, (2,)),
            OVERHEAD: PolicyFeature(FeatureType.VISUAL, (3, 480, 640)),
            WRIST: PolicyFeature(FeatureType.VISUAL, (3, 240, 320)),
        },
        output_features={ACTION: PolicyFeature(FeatureType.ACTION, (2,))},
        device=device,
        push_to_hub=False,
        chunk_size=CHUNK,
        n_action_steps=CHUNK,
        max_state_dim=2,
        max_action_dim=2,
        resize_imgs_with_padding=(IMAGE_PX, IMAGE_PX),
        vlm_model_name=str(backbone),
        load_vlm_weights=False,
        freeze_vision_encoder=False,
        train_expert_only=False,
        num_vlm_layers=NUM_LAYERS,
        expert_width_multiplier=0.75,
    )
    policy = SmolVLAPolicy(config).to(device)
    # LeRobot freezes the last layer of the backbone; its keys and values feed the action expert.
    for parameter in policy.model.vlm_with_expert.vlm.model.parameters():
        parameter.requires_grad_(True)
    return policy


def save(
    policy: SmolVLAPolicy, stats: Mapping[str, dict[str, torch.Tensor]], folder: Path
) -> None:
    """Write a whole checkpoint folder, replacing `folder` in one rename at the end."""
    backbone = Path(policy.config.vlm_model_name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix='.saving-') as scratch:
        new = Path(scratch) / 'new'
        policy.save_pretrained(new)
        pre, post = make_smolvla_pre_post_processors(policy.config, dict(stats))
        pre.save_pretrained(new)
        post.save_pretrained(new)
        shutil.copytree(backbone, new / 'vlm')
        shutil.copy(backbone / 'tokenizer.json', new / 'tokenizer.json')
        for name in ('config.json', 'policy_preprocessor.json'):
            text = (new / name).read_text().replace(json.dumps(str(backbone)), '"vlm"')
            (new / name).write_text(text)
        new.chmod(0o755)
        for path in new.rglob('*.safetensors'):
            path.chmod(0o644)
        if folder.exists():
            folder.rename(Path(scratch) / 'old')
        new.rename(folder)


def load(folder: Path, device: str = 'cpu') -> SmolVLAPolicy:
    """Return the policy of a checkpoint folder, in evaluation mode."""
    policy = build(folder / 'vlm', device)
    fresh = SmolVLAPolicy.from_pretrained(folder, config=policy.config)
    return fresh.to(device).eval()
