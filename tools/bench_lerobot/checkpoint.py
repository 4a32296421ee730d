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
"""A SmolVLA checkpoint folder, written and opened by LeRobot itself, without a network.

The folder is what LeRobot's own `save_pretrained` writes (config.json, model.safetensors,
policy_preprocessor.json, policy_postprocessor.json and their statistics) and is complete in
itself: `tokenizer.json` lies beside it and `vlm/config.json` describes the backbone, which
config.json names by the relative path "vlm". Runs in the LeRobot environment only
(tools/train_demo/setup.sh); nothing of robot_infer is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import contextlib
from dataclasses import dataclass
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.smolvla import smolvlm_with_expert
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from lerobot.policies.smolvla.processor_smolvla import make_smolvla_pre_post_processors
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.processor import tokenizer_processor
import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, SmolVLMConfig

BACKBONE = 'vlm'
FAKE_IMAGE_TOKEN = '<fake_token_around_image>'
GLOBAL_IMAGE_TOKEN = '<global-img>'
SPECIAL_TOKENS = (
    '<|endoftext|>',
    '<|im_start|>',
    '<|im_end|>',
    FAKE_IMAGE_TOKEN,
    GLOBAL_IMAGE_TOKEN,
    '<image>',
    '<end_of_utterance>',
)
Statistics = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class Reference:
    """LeRobot's policy and its two processors, as read from one checkpoint folder."""

    policy: SmolVLAPolicy
    preprocess: Any
    postprocess: Any

    def batch(
        self, images: dict[str, NDArray[np.uint8]], state: NDArray[np.float32], instruction: str
    ) -> dict[str, Any]:
        """Return the model's batch for raw inputs, through LeRobot's own preprocessor.

        images: feature key -> (height, width, 3) uint8 RGB. state: (state_dim,) float32.
        """
        raw: dict[str, Any] = {**images, 'observation.state': state.copy()}
        device = torch.device('cpu')
        return self.preprocess(prepare_observation_for_inference(raw, device, task=instruction))


def create(
    folder: Path,
    config: SmolVLAConfig,
    backbone: SmolVLMConfig,
    tokenizer_json: str,
    statistics: Statistics,
    initialise: Callable[[SmolVLAPolicy], None],
    backbone_bf16: bool = False,
) -> SmolVLAPolicy:
    """Build a policy, let `initialise(policy)` set its weights, write the folder, return it.

    backbone_bf16: store the backbone in bfloat16, as training with load_vlm_weights does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'tokenizer.json').write_text(tokenizer_json)
    backbone.save_pretrained(folder / BACKBONE)
    config.vlm_model_name = BACKBONE
    with _offline(folder):
        policy = SmolVLAPolicy(config).eval()
        initialise(policy)
        preprocess, postprocess = make_smolvla_pre_post_processors(config, statistics)
    if backbone_bf16:
        policy.model.vlm_with_expert.vlm.to(torch.bfloat16)
        config.load_vlm_weights = True
    policy.save_pretrained(folder)
    preprocess.save_pretrained(folder)
    postprocess.save_pretrained(folder)
    return policy


def tokenizer_json(corpus: Iterable[str], size: int) -> str:
    """Return a small byte-level BPE tokenizer in the manner of SmolVLM's: digits stand alone."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(text, special=True) for text in SPECIAL_TOKENS],
        show_progress=False,
    )
    tokenizer.train_from_iterator([text + '\n' for text in corpus], trainer)
    return tokenizer.to_str()


def load(folder: Path) -> Reference:
    """Open a checkpoint folder with LeRobot: float32, on the CPU, ready for inference."""
    with _offline(folder):
        config = PreTrainedConfig.from_pretrained('.', cli_overrides=['--device=cpu'])
        if not isinstance(config, SmolVLAConfig):
            raise SystemExit(f'{folder}: expected a smolvla checkpoint, got {config.type}')
        config.load_vlm_weights = False  # the policy's own file holds the weights of the backbone
        policy = SmolVLAPolicy.from_pretrained('.', config=config, strict=True)
        preprocess, postprocess = make_pre_post_processors(
            config,
            pretrained_path='.',
            preprocessor_overrides={'device_processor': {'device': 'cpu'}},
        )
    return Reference(policy, preprocess, postprocess)


@contextlib.contextmanager
def _offline(folder: Path) -> Iterator[None]:
    """Make LeRobot find the tokenizer in `folder`, and the backbone by its relative name."""
    tokenizer = _tokenizer(folder)
    found = SimpleNamespace(from_pretrained=lambda name: tokenizer)
    processor = SimpleNamespace(from_pretrained=lambda name: SimpleNamespace(tokenizer=tokenizer))
    logging.getLogger('transformers').setLevel(logging.ERROR)
    with (
        mock.patch.object(smolvlm_with_expert, 'AutoProcessor', processor),
        mock.patch.object(tokenizer_processor, 'AutoTokenizer', found),
        contextlib.chdir(folder),
    ):
        yield


def _tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer as Transformers wraps it, with SmolVLM's two image token ids."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / 'tokenizer.json'))
    backbone = json.loads((folder / BACKBONE / 'config.json').read_text())
    pad_id = backbone['text_config'].get('pad_token_id', backbone.get('pad_token_id'))
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad_id)
    for name, text in (
        ('fake_image_token_id', FAKE_IMAGE_TOKEN),
        ('global_image_token_id', GLOBAL_IMAGE_TOKEN),
    ):
        setattr(tokenizer, name, tokenizer.convert_tokens_to_ids(text))
    return tokenizer
