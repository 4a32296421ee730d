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

"""A made-up run with every kind of record in it, for the tests of the report."""

import math

import cv2
import numpy as np
import pytest

from robot_infer.report.record import (
    EpisodeRecord,
    Mark,
    MemorySample,
    Picture,
    RunRecord,
    StepRecord,
    TickRecord,
)
from robot_infer.types import Source

ORIGIN_NS = 7_000_000_000_000


def make_step(number: int, rng: np.random.Generator) -> StepRecord:
    """One inference step at 10 Hz: every third finds its frames again, one in fifty is late."""
    started_ns = ORIGIN_NS + number * 100_000_000
    again = number % 3 == 2
    stages = {'observe': 0.0012, 'preprocess': 0.0021}
    if not again:
        stages['vision'] = float(rng.gamma(9.0, 0.0016))
    stages |= {'prefill': 0.002 if again else float(rng.gamma(9.0, 0.0008)),
               'denoise': float(rng.gamma(20.0, 0.0011)), 'postprocess': 0.0002}
    if number % 50 == 49:
        stages['denoise'] += 0.09
    ticks = tuple(
        TickRecord(started_ns - 100_000_000 + k * 33_333_333,
                   float(rng.lognormal(math.log(0.00012), 0.9)),
                   Source.HOLD if number < 2 else Source.CHUNK,
                   reason='no_chunk_yet' if number < 2 else '') for k in range(3))
    if number == 100:
        ticks += (TickRecord(started_ns, 0.019, Source.CHUNK, late=True, skipped=1),)
    return StepRecord(
        epoch=number + 1, started_ns=started_ns,
        ended_ns=started_ns + round(1e9 * sum(stages.values())), stages_s=stages,
        deadline_s=0.1, tokens_total=138, tokens_computed=1 if again else 138,
        cameras_encoded=0 if again else 2, pages_used=6 if number < 2 else 9, pages_total=24,
        frame_age_s=0.03 + sum(stages.values()), ticks=ticks)


def make_picture() -> Picture:
    """A grey table with a path over it."""
    encoded, jpeg = cv2.imencode('.jpg', np.full((480, 640, 3), 140, np.uint8))
    assert encoded
    path = tuple((100.0 + 4 * k, 80.0 + 2.5 * k) for k in range(100))
    marks = (Mark(100, 80, 'start'), Mark(500, 330, 'target'), Mark(300, 205, 'moved', 'moved'),
             Mark(200, 300, 'was'), Mark(496, 328, 'end'))
    return Picture(jpeg.tobytes(), 640, 480, 'at the end', path, marks)


@pytest.fixture(scope='session')
def run() -> RunRecord:
    """Twenty seconds, four episodes, of which one failed."""
    rng = np.random.default_rng(1)
    episodes = tuple(
        EpisodeRecord(k, 1_000_000 + k, f'move to the <{colour}> cube', k != 2, 5.0 * k,
                      5.0 * k + 4.6, 0.012 + 0.1 * (k == 2), 5.0 * k + 1.5 if k % 2 else None,
                      (make_picture(),))
        for k, colour in enumerate(('red', 'green', 'blue', 'yellow')))
    memory = tuple(
        MemorySample(0.5 * k, process, round(size * (1.0 - 0.2 * math.exp(-k / 4))))
        for k in range(40) for process, size in (('policy', 480 * 2**20), ('world', 96 * 2**20)))
    return RunRecord(
        title='robot_infer demo', started='2026-01-02 03:04:05', origin_ns=ORIGIN_NS,
        duration_s=20.0, steps=tuple(make_step(number, rng) for number in range(200)),
        episodes=episodes, memory=memory,
        settings={'control.rate_hz': '30.0', 'control.deadline_s': '0.01',
                  'policy.checkpoint': ''},
        versions={'python': '3.11.7', 'machine': 'two cores'},
        notes=('A note with <b>markup</b> & an ampersand.',))
