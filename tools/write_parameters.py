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


"""Write what follows from robot_infer/config.py: config/robot_infer.yaml and the README's table.

    make parameters
"""

from __future__ import annotations

from pathlib import Path
import re

from robot_infer.settings_text import parameters_markdown, parameters_yaml

ROOT = Path(__file__).parents[1]
_TABLE = re.compile(
    r'(<!-- parameters: [^\n]*-->\n).*?(<!-- end of parameters -->)', re.DOTALL)


def main() -> None:
    """Write both files where they differ."""
    _write(ROOT / 'config' / 'robot_infer.yaml', parameters_yaml())
    readme = (ROOT / 'README.md').read_text()
    table, count = _TABLE.subn(lambda m: m[1] + parameters_markdown() + m[2], readme)
    assert count == 1, 'README.md has one pair of parameter marks'
    _write(ROOT / 'README.md', table)


def _write(path: Path, text: str) -> None:
    if path.read_text() != text:
        path.write_text(text)
        print(f'wrote {path.relative_to(ROOT)}')


if __name__ == '__main__':
    main()
