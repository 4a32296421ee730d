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

"""The instruction in force: one text, checked when it comes.

A refused instruction ends the one before it. Whoever sent it wanted something else, so going on
with the old one would be a motion that nobody asks for any more; the robot holds until an
instruction is accepted.
"""

from __future__ import annotations

import unicodedata

from robot_infer.config import InstructionSettings
from robot_infer.errors import InstructionError

# Control and format characters and lone surrogates: what nobody sees must not move the robot.
# Joiners are format characters too, but parts of words in some scripts.
_REFUSED_CATEGORIES = ('Cc', 'Cf', 'Cs')
_JOINERS = '\u200c\u200d'


class InstructionStore:
    """Holds the instruction; set from any thread, read by the worker."""

    def __init__(self, settings: InstructionSettings) -> None:
        self._max_characters = settings.max_characters
        self._held: str | InstructionError = ''

    @property
    def text(self) -> str:
        """The instruction in force; '' where there is none."""
        held = self._held
        return held if isinstance(held, str) else ''

    def put(self, text: str) -> bool:
        """Take a new instruction, without the white space around it; a blank one means none.

        Returns whether it differs from the one in force.

        :raises InstructionError: where it is too long or has control characters; there is no
            instruction in force then.
        """
        try:
            accepted = self._checked(text)
        except InstructionError as error:
            self._held = error
            raise
        changed = self._held != accepted
        self._held = accepted
        return changed

    def current(self) -> str:
        """The instruction in force.

        :raises InstructionError: where there is none, or the last one was refused.
        """
        held = self._held
        if isinstance(held, InstructionError):
            raise held.anew()
        if not held:
            raise InstructionError(
                'instruction', expected='a text', got='none yet: waiting for an instruction',
                remedy='Publish one on the instruction topic, or set instruction.text.')
        return held

    def _checked(self, text: str) -> str:
        if len(text) > self._max_characters:
            raise InstructionError(
                'instruction', expected=f'at most {self._max_characters} characters',
                got=f'{len(text)}, beginning {text[:40]!r}',
                remedy='Shorten it, or raise instruction.max_characters.')
        text = text.strip()
        for character in text:
            if (unicodedata.category(character) in _REFUSED_CATEGORIES
                    and character not in _JOINERS):
                raise InstructionError(
                    'instruction', expected='text without control or invisible characters',
                    got=f'U+{ord(character):04X} in {text[:40]!r}',
                    remedy='Send one line of plain text.')
        if text and not any(character.isalnum() for character in text):
            raise InstructionError(
                'instruction', expected='words', got=f'{text[:40]!r}',
                remedy='Say in words what the robot should do.')
        return text
