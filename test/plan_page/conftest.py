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

"""What the tests of the page share: a plan, and a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
import sys
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
try:
    from chromium import NAMES, Chromium, find_chromium
    from page_plans import plan_of
finally:
    sys.path.pop(0)


@pytest.fixture(scope='session')
def smolvla_plan() -> Mapping[str, Any]:
    return plan_of('SmolVLA')


@pytest.fixture(scope='session')
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A Chromium without a window; skips where there is none."""
    program = find_chromium()
    if program is None:
        pytest.skip(f'no browser to show the page in: looked for {", ".join(NAMES)} '
                    '(apt install chromium)')
    chromium = Chromium(program, tmp_path_factory.mktemp('chromium'))
    try:
        yield chromium
    finally:
        chromium.close()
