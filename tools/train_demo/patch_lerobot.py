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
"""Make lerobot 0.6.1 importable on Python 3.11, and torchvision beside a CPU build of torch.

Edits the installed packages of the interpreter that runs it; running it twice changes nothing.
lerobot asks for Python 3.12 because of a few PEP 695 lines; each has an older spelling.
torchvision's wheel holds CUDA operators that do not load beside a CPU torch; declaring the schemas
of two of them lets its Python part import.
"""

from __future__ import annotations

from pathlib import Path
import sysconfig

TYPE_ALIAS = [
    ('type NameOrID = ', 'NameOrID = '),
    ('type Value = ', 'Value = '),
]
LEROBOT = {
    'lerobot/processor/pipeline.py': [
        (
            'class DataProcessorPipeline[TInput, TOutput](HubMixin):',
            'class DataProcessorPipeline(HubMixin, Generic[TInput, TOutput]):',
        ),
        (
            'from typing import Any, TypedDict, TypeVar, cast',
            'from typing import Any, Generic, TypedDict, TypeVar, cast',
        ),
    ],
    'lerobot/motors/motors_bus.py': TYPE_ALIAS,
    'lerobot/datasets/streaming_dataset.py': [
        ('class Backtrackable[T]:', 'class Backtrackable(Generic[T]):'),
        (
            'from typing import Literal\n',
            "from typing import Generic, Literal, TypeVar\n\nT = TypeVar('T')\n",
        ),
    ],
    'lerobot/datasets/aggregate.py': [
        ('type FeatureDict = ', 'FeatureDict = '),
        ('type ChunkFile = ', 'ChunkFile = '),
        ('type VideoIndexState = ', 'VideoIndexState = '),
    ],
    'lerobot/utils/io_utils.py': [
        (
            'def deserialize_json_into_object[T: JsonLike](fpath: Path, obj: T) -> T:',
            'def deserialize_json_into_object(fpath: Path, obj: JsonLike) -> JsonLike:',
        ),
    ],
}
TORCHVISION = """import torch

if not hasattr(torch.ops.torchvision, 'nms'):
    _schemas = torch.library.Library('torchvision', 'DEF')
    for _name in ('nms', 'qnms'):
        _schemas.define(_name + '(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
"""


def replace(path: Path, edits: list[tuple[str, str]]) -> None:
    """Apply `edits` to the file, once; a line that is not there is an error."""
    text = path.read_text()
    for old, new in edits:
        if new in text and (old in new or old not in text):
            continue
        if old not in text:
            raise SystemExit(f'{path}: expected the line {old!r}; is this lerobot 0.6.1?')
        text = text.replace(old, new)
    path.write_text(text)


def main() -> None:
    """Patch the packages of this interpreter."""
    packages = Path(sysconfig.get_paths()['purelib'])
    for name, edits in LEROBOT.items():
        replace(packages / name, edits)
    replace(packages / 'torchvision/__init__.py', [('import torch\n', TORCHVISION)])
    print('patched', packages)


if __name__ == '__main__':
    main()
