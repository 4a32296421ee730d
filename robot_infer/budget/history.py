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

"""How much of the past the pages hold: seconds of camera frames, and instructions beside them.

A step with new frames makes a new prefix. What was made for older frames stays in the pages until
they are needed, the least recently used first:

    pages of the pool = the prefix being made, one copied page, its suffix     (a step in progress)
                      + one copied page of the prefix being read
                      + older prefixes, each in whole pages

The page that a step copies is let go before the others of its prefix, and so is given up one step
before them. So of N pages, with p for a prefix, q for what of it is kept (a last token alone in
its page is not) and s for the longest suffix, (N - p - s - 1) // q prefixes can still be found
after a step, and one at least. In a causal model another instruction over the same frames costs
the pages of its words alone; where images and words see each other, a whole prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

from robot_infer.budget.model_shape import ModelShape
from robot_infer.errors import BudgetError, ConfigError

# Images and words of the prefix see each other: one new word is a new prefix.
_BIDIRECTIONAL = {'smolvla', 'pi0', 'pi05', 'pi0fast'}


@dataclass(frozen=True)
class History:
    """What can be found again.

    :param prefixes: sets of frames with their words, the newest included; at least so many.
    :param seconds: from the oldest of these frames to now.
    :param instructions: that can be held over the newest frames, were there no other frames.
    :param embeddings_per_camera: encoded frames that are kept beside the pages.
    :param embedding_seconds: from the oldest of these to now.
    """

    prefixes: int
    prefix_pages: int
    seconds: float
    instructions: int
    embeddings_per_camera: int
    embedding_seconds: float

    @property
    def words(self) -> str:
        """One sentence."""
        return (f'the pages hold {self.prefixes} sets of frames = {self.seconds:.1f} s '
                f'({self.prefix_pages} pages each), or {self.instructions} instructions over one '
                f'set; {self.embeddings_per_camera} encoded frames a camera = '
                f'{self.embedding_seconds:.1f} s')


def history(
    shape: ModelShape, *, num_blocks: int, page_tokens: int, num_cameras: int,
    prompt_tokens: int, suffix_tokens: int, embeddings_per_camera: int, camera_rate_hz: float,
    inference_rate_hz: float, instruction_rate_hz: float = 0.0,
) -> History:
    """How far back the pages and the embeddings reach.

    :param num_blocks: pages of the pool.
    :param suffix_tokens: action tokens of one step.
    :param camera_rate_hz: of the fastest camera; each new frame is a new prefix.
    :param inference_rate_hz: no more prefixes than this are made.
    :param instruction_rate_hz: how often the instruction changes.
    :raises ConfigError: where a rate or a count is absurd.
    :raises BudgetError: where the pages do not hold one step.
    """
    _check(camera_rate_hz, inference_rate_hz, instruction_rate_hz)
    image = num_cameras * (shape.image_tokens + shape.image_marks)
    prefix = image + prompt_tokens + shape.state_tokens
    if page_tokens < 1 or prefix < 1:
        raise ConfigError('history', expected='pages of at least one token, and a prefix',
                          got=f'pages of {page_tokens} tokens, a prefix of {prefix}',
                          remedy='Correct cache.page_tokens, or name cameras.')
    pages = math.ceil(prefix / page_tokens)
    suffix = math.ceil(suffix_tokens / page_tokens) + 1
    older = num_blocks - (pages + 1 + suffix) - 1
    if older < 0:
        raise BudgetError('pages', expected=f'at least {pages + 2 + suffix} for one step: '
                          f'{pages} of the prefix, {suffix} of the suffix, 2 copied',
                          got=str(num_blocks), remedy='Raise cache.budget_bytes.')
    kept = max(1, math.ceil((prefix - 1) / page_tokens))
    prefixes = max(1, (older + 1) // kept)
    new_hz = min(inference_rate_hz, camera_rate_hz + instruction_rate_hz)
    words = kept if shape.family in _BIDIRECTIONAL else kept - image // page_tokens
    return History(
        prefixes=prefixes, prefix_pages=pages, seconds=prefixes / new_hz,
        instructions=max(1, (older + 1) // max(1, words)),
        embeddings_per_camera=embeddings_per_camera,
        embedding_seconds=embeddings_per_camera / min(inference_rate_hz, camera_rate_hz))


def _check(camera_rate_hz: float, inference_rate_hz: float, instruction_rate_hz: float) -> None:
    for name, rate, low in (('camera rate', camera_rate_hz, 1e-6),
                            ('inference rate', inference_rate_hz, 1e-6),
                            ('rate of instructions', instruction_rate_hz, 0.0)):
        if not low <= rate <= 1e6:
            raise ConfigError(name, expected='a rate in Hz, positive and at most a million',
                              got=repr(rate), remedy='Say how many come each second.')
