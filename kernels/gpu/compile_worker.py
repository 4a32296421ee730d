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

"""Compiles the cases of one chip and says what came of each: the process behind check.py.

Reads one request from standard input (JSON: capability, shapes, cases, skip) and writes one line
of JSON for each case begun and each kernel compiled. A process of its own, because compiling needs
a Triton that does not interpret, and because a compiler may crash: then check.py knows at what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import dataclasses
import importlib
import importlib.util
import json
import os
from pathlib import Path
import sys
from typing import Any

from robot_infer_kernels.gpu.cases import Case, Shape
from robot_infer_kernels.gpu.targets import TARGETS, Target


def main() -> None:
    """Serve the request on standard input."""
    request = json.load(sys.stdin)
    with os.fdopen(os.dup(1), 'w', buffering=1) as answers:
        os.dup2(2, 1)  # what compilers print is no answer
        find_cases = find(request['cases'])
        for answer in compile_cases(request, find_cases):
            answers.write(json.dumps(answer) + '\n')


def find(place: str) -> Callable[[Shape, Target], Iterator[Case]]:
    """The function that 'module:function' or 'path/to/file.py:function' names."""
    where, _, name = place.rpartition(':')
    if not where.endswith('.py'):
        return getattr(importlib.import_module(where), name)
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None and spec.loader is not None, where
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def compile_cases(request: dict[str, Any], find_cases: Callable[[Shape, Target], Iterator[Case]]
                  ) -> Iterator[dict[str, Any]]:
    """Compile every case of every shape but those to skip."""
    target = TARGETS[request['capability']]
    skip = {tuple(pair) for pair in request['skip']}
    for shape in (Shape(**fields) for fields in request['shapes']):
        for case in find_cases(shape, target):
            about = {'shape': shape.name, 'case': case.name}
            if (shape.name, case.name) in skip:
                continue
            if case.refusal:
                yield {**about, 'refusal': case.refusal}
                continue
            yield {**about, 'begun': True}
            yield from ({**about, **answer} for answer in compile_case(case, target))


def compile_case(case: Case, target: Target) -> Iterator[dict[str, Any]]:
    """One answer for each kernel that the case launches, or the error that came."""
    from robot_infer_kernels.gpu.ahead import compiling_for
    from robot_infer_kernels.gpu.figures import read_figures

    with compiling_for(target.capability) as launches:
        try:
            case.run()
        except Exception as error:  # whatever a compiler throws is the answer
            yield {'kernel': '', 'error': _words(error)}
            return
    if not launches.made:
        yield {'kernel': '', 'error': 'nothing was launched: this case does not use the GPU'}
    seen: set[str] = set()
    for launch in launches.made:
        if launch.compiled.hash not in seen:
            seen.add(launch.compiled.hash)
            yield {'kernel': launch.kernel, 'key': launch.compiled.hash,
                   'figures': dataclasses.asdict(read_figures(launch, target))}


def _words(error: BaseException) -> str:
    """What went wrong, in one line; Triton puts the cause last."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if 'fatal' in line or 'error' in line.lower()]
    return f'{type(error).__name__}: {(telling or lines or [""])[-1 if not telling else 0]}'[:300]


if __name__ == '__main__':
    main()
