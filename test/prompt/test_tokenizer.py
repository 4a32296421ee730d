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

"""Ids come from the checkpoint's tokenizer; what does not fit is refused, not cut."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from robot_infer.errors import CheckpointError, InstructionError
from robot_infer.prompt.tokenizer import InstructionTokenizer


@pytest.fixture
def tokenizer_file(tmp_path):
    words = {'red': 0, 'cube': 1, 'the': 2, '[UNK]': 3}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token='[UNK]'))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=10)
    tokenizer.enable_truncation(2)
    path = tmp_path / 'tokenizer.json'
    tokenizer.save(str(path))
    return path


def test_padding_and_truncation_stored_in_the_file_are_switched_off(tokenizer_file):
    tokenizer = InstructionTokenizer(tokenizer_file, max_tokens=5, vocab_size=4)
    assert tokenizer.encode('the red cube') == (2, 0, 1)
    assert tokenizer.encode('the red cube') == (2, 0, 1)


def test_a_prompt_with_too_many_tokens_is_refused_with_the_numbers(tokenizer_file):
    tokenizer = InstructionTokenizer(tokenizer_file, max_tokens=5, vocab_size=4)
    with pytest.raises(InstructionError, match='at most 5 tokens; got 6 tokens'):
        tokenizer.encode('red red red red red red')


def test_an_id_beyond_the_embedding_is_refused(tokenizer_file):
    tokenizer = InstructionTokenizer(tokenizer_file, max_tokens=5, vocab_size=2)
    with pytest.raises(CheckpointError, match='got id 2'):
        tokenizer.encode('the cube')


def test_a_missing_special_token_is_named(tokenizer_file):
    tokenizer = InstructionTokenizer(tokenizer_file, max_tokens=5, vocab_size=4)
    with pytest.raises(CheckpointError, match='<global-img>'):
        tokenizer.special_id('<global-img>')


@pytest.mark.parametrize('content', [None, 'not json'])
def test_a_missing_or_broken_file_is_named(tmp_path, content):
    path = tmp_path / 'tokenizer.json'
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match='tokenizer.json'):
        InstructionTokenizer(path, max_tokens=5, vocab_size=4)
