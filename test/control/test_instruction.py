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

"""InstructionStore: one text in force, and none after a refusal."""

from __future__ import annotations

import pytest

from robot_infer.config import InstructionSettings
from robot_infer.control.instruction import InstructionStore
from robot_infer.errors import InstructionError


@pytest.fixture
def store() -> InstructionStore:
    return InstructionStore(InstructionSettings(max_characters=50))


def test_before_the_first_one_the_robot_waits_for_an_instruction(store: InstructionStore) -> None:
    with pytest.raises(InstructionError, match='waiting for an instruction'):
        store.current()
    assert store.text == ''


def test_the_newest_text_is_in_force_without_the_white_space_around_it(
    store: InstructionStore,
) -> None:
    assert store.put('  move to the red cube\n') is True
    assert store.current() == store.text == 'move to the red cube'
    assert store.put('pose la tasse à café, 杯子 ☕') is True
    assert store.current() == 'pose la tasse à café, 杯子 ☕'


def test_the_same_text_again_is_no_change(store: InstructionStore) -> None:
    store.put('move')
    assert store.put('move ') is False
    assert store.put('stay') is True


@pytest.mark.parametrize('blank', ['', '   ', '\n\t'])
def test_a_blank_text_ends_the_instruction_without_being_an_error(
    store: InstructionStore, blank: str,
) -> None:
    store.put('move')
    assert store.put(blank) is True
    assert store.put(blank) is False
    with pytest.raises(InstructionError, match='waiting for an instruction'):
        store.current()


@pytest.mark.parametrize(('text', 'words'), [
    ('x' * 51, 'at most 50 characters; got 51, beginning .x{40}.'),
    ('x' * 10_000, 'got 10000'),
    ('move\x00here', r'without control or invisible characters; got U\+0000'),
    ('\u202emove', r'invisible characters; got U\+202E'), ('\u200b', r'U\+200B'),
    ('...!', r'expected words'),
    ('move\nhere', r'got U\+000A'),
    ('move \x1b[31m', r'got U\+001B'),
    ('move \ud800', r'got U\+D800'),
])
def test_a_refused_text_is_named_and_ends_the_one_before(
    store: InstructionStore, text: str, words: str,
) -> None:
    store.put('move')
    with pytest.raises(InstructionError, match=words):
        store.put(text)
    assert store.text == ''
    with pytest.raises(InstructionError, match=words):
        store.current()
    assert store.put('move') is True
    assert store.current() == 'move'


def test_the_longest_text_allowed_is_accepted(store: InstructionStore) -> None:
    store.put('x' * 50)
    assert store.current() == 'x' * 50
