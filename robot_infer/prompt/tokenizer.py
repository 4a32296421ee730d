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

"""Words to token ids, from the tokenizer.json that lies beside a checkpoint."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from robot_infer.errors import CheckpointError, InstructionError


class InstructionTokenizer:
    """Encodes one instruction; ids are cached for the instruction in use.

    :param path: tokenizer.json as Hugging Face `tokenizers` writes it.
    :param max_tokens: longer prompts are refused, not cut.
    :param vocab_size: rows of the embedding table; an id outside it is refused.
    """

    def __init__(self, path: Path, *, max_tokens: int, vocab_size: int) -> None:
        if not path.is_file():
            raise CheckpointError(
                f'tokenizer {path}', expected='a tokenizer.json beside the checkpoint',
                got='no such file', remedy='Copy tokenizer.json of the checkpoint\'s '
                'vlm_model_name into the checkpoint folder.')
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception for any malformed file
            raise CheckpointError(
                f'tokenizer {path}', expected='a tokenizer.json', got=str(error),
                remedy='Copy the file again from its source.') from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._max_tokens = max_tokens
        self._vocab_size = vocab_size
        self._last: tuple[str, tuple[int, ...]] = ('', ())

    def encode(self, prompt: str) -> tuple[int, ...]:
        """Ids of the prompt, including the special tokens the tokenizer itself adds.

        :raises InstructionError: where the prompt has too many tokens or unknown ids.
        """
        if prompt == self._last[0]:
            return self._last[1]
        ids = tuple(self._tokenizer.encode(prompt).ids)
        if len(ids) > self._max_tokens:
            raise InstructionError(
                'instruction', expected=f'at most {self._max_tokens} tokens',
                got=f'{len(ids)} tokens', remedy='Shorten the instruction.')
        if ids and max(ids) >= self._vocab_size:
            raise CheckpointError(
                'tokenizer.json', expected=f'ids below the embedding\'s {self._vocab_size} rows',
                got=f'id {max(ids)}', remedy='Use the tokenizer this checkpoint was trained with.')
        self._last = (prompt, ids)
        return ids

    def special_id(self, token: str) -> int:
        """The id of a special token the policy needs by name."""
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise CheckpointError(
                'tokenizer.json', expected=f'a token {token}', got='none',
                remedy='Use the tokenizer this checkpoint was trained with.')
        return token_id
