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

"""Checks kernels before deployment: compiles them for chips that are not here, and judges.

What lives here: the request, the processes that compile (compile_worker.py), the verdict on what
they found. What does not: the words of the command line (robot_infer/kernel_command.py), and what
is compiled (cases.py). It imports no Triton; it says so where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
import contextlib
from dataclasses import asdict, dataclass, replace
import importlib.metadata
import importlib.util
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Literal

from robot_infer_kernels.gpu.cases import Shape
from robot_infer_kernels.gpu.targets import Target

State = Literal['ok', 'spills', 'does not fit', 'does not compile', 'not offered']
# Signals that no crash sends: whoever sends them wants an end.
_FROM_OUTSIDE = (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
CASES = 'robot_infer_kernels.gpu.cases:cases'
HOW_TO_GET_TRITON = ("pip install 'robot_infer[check]', or beside a CPU torch: "
                     'pip install --no-deps triton==3.7.1')


class TritonMissing(ImportError):
    """There is no Triton to compile with."""

    def __init__(self) -> None:
        super().__init__(f'triton is not installed: {HOW_TO_GET_TRITON}')


@dataclass(frozen=True)
class Result:
    """What came of one kernel of one case for one chip.

    :param cases: what was asked of the kernels, e.g. 'decode int8'; several where they run the
        same code. kernel: its function. key: of the code, Triton's.
    :param words: why it is not ok. figures: as figures.Figures has them; empty where nothing was
        compiled.
    """

    target: str
    shape: str
    cases: tuple[str, ...]
    kernel: str
    state: State
    words: str
    figures: dict[str, Any]
    key: str = ''

    @property
    def case(self) -> str:
        """All cases in words."""
        return ', '.join(self.cases)

    @property
    def failed(self) -> bool:
        """Whether it must not be deployed; what is not offered cannot be."""
        return self.state not in ('ok', 'not offered')


def check(targets: Sequence[Target], shapes: Sequence[Shape], jobs: int = 1, cases: str = CASES,
          progress: Callable[[Result], None] = lambda result: None) -> list[Result]:
    """Compile every case of every shape for every target, in processes of their own.

    :param jobs: processes at a time. cases: 'module:function' that gives the cases.
    :param progress: called with each result, from any thread.
    :returns: by target, in the order given.
    :raises TritonMissing: where there is none.
    """
    if importlib.util.find_spec('triton') is None:
        raise TritonMissing
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        done = pool.map(lambda target: _check_one(target, shapes, cases, progress, stopped),
                        targets)
        try:
            return [result for results in done for result in results]
        except BaseException:  # Ctrl-C, above all: nothing more is begun
            stopped.set()
            raise


def triton_version() -> str | None:
    """Version of the Triton that is installed; None where there is none."""
    try:
        return importlib.metadata.version('triton')
    except importlib.metadata.PackageNotFoundError:
        return None


def cache_folder() -> Path:
    """Where compiled kernels are kept: TRITON_CACHE_DIR, the user's cache, a temporary folder."""
    if given := os.environ.get('TRITON_CACHE_DIR'):
        return Path(given)
    base = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    folder = base / 'robot_infer' / 'triton'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass  # a read-only home: compiled kernels are then kept for as long as /tmp keeps them
    return Path(tempfile.gettempdir()) / f'robot_infer-triton-{os.getuid()}'


def _check_one(target: Target, shapes: Sequence[Shape], cases: str,
               progress: Callable[[Result], None], stopped: threading.Event) -> list[Result]:
    """All results of one target; a compiler that crashes costs its case, not the others."""
    results: list[Result] = []
    skip: list[tuple[str, str]] = []
    while not stopped.is_set():
        request = {'capability': target.capability, 'shapes': [asdict(shape) for shape in shapes],
                   'cases': cases, 'skip': skip}
        begun: tuple[str, str] | None = None
        for answer in _ask(request, stopped):
            if 'end' in answer:
                if answer['end'] == 0 or answer['end'] in _FROM_OUTSIDE or begun is None:
                    return _merged(results) + _unended(answer, target)
                answer = {'shape': begun[0], 'case': begun[1], 'kernel': '', 'error': answer[
                    'words']}
            elif answer.get('begun'):
                begun = (answer['shape'], answer['case'])
                skip.append(begun)
                continue
            else:
                skip.append((answer['shape'], answer['case']))
            results.append(judge(answer, target))
            progress(results[-1])
    return _merged(results)


def _merged(results: Sequence[Result]) -> list[Result]:
    """Cases that run the same code in one result, in the order they came."""
    by_code: dict[tuple[str, str], Result] = {}
    for number, result in enumerate(results):
        code = (result.shape, result.key or f'none {number}')
        first = by_code.get(code)
        by_code[code] = result if first is None else replace(
            first, cases=first.cases + result.cases)
    return list(by_code.values())


def _unended(answer: dict[str, Any], target: Target) -> list[Result]:
    """As a result, that a process failed before its first case, or was ended from outside."""
    if answer['end'] == 0:
        return []
    return [Result(target.name, '', ('the rest',), '', 'does not compile', answer['words'], {})]


def _ask(request: dict[str, Any], stopped: threading.Event) -> Iterator[dict[str, Any]]:
    """Answers of one process, at last its end: {'end': status, 'words': why}."""
    environment = {name: value for name, value in os.environ.items() if name != 'TRITON_INTERPRET'}
    environment['TRITON_CACHE_DIR'] = str(cache_folder())
    environment['PYTHONPATH'] = os.pathsep.join(path for path in sys.path if path)
    environment.setdefault('OMP_NUM_THREADS', '1')
    with tempfile.TemporaryFile('w+', errors='replace') as said, subprocess.Popen(
            [sys.executable, '-m', 'robot_infer_kernels.gpu.compile_worker'], text=True,
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), child.stdin as pipe:
                json.dump(request, pipe)  # where it ended at once, its status says why
            for line in child.stdout:
                if stopped.is_set():
                    return
                yield json.loads(line)
            status = child.wait()
        finally:
            child.kill()  # of a process that has ended: nothing
        said.seek(0)
        last = [line.strip() for line in said if line.strip()][-1:]
    end = (f'the compiler was ended by {signal.Signals(-status).name}' if status < 0
           else f'the compiler ended with status {status}')
    yield {'end': status, 'words': ': '.join([end, *last])[:300]}


def judge(answer: dict[str, Any], target: Target) -> Result:
    """The verdict on one answer of a compile process."""
    result = Result(target.name, answer['shape'], (answer['case'],), answer.get('kernel', ''),
                    'ok', '', answer.get('figures', {}), answer.get('key', ''))
    if 'refusal' in answer:
        return replace(result, state='not offered', words=answer['refusal'])
    if 'error' in answer:
        return replace(result, state='does not compile', words=answer['error'])
    figures = result.figures
    if figures['shared_bytes'] > target.block_shared:
        return replace(result, state='does not fit', words=(
            f"{figures['shared_bytes']} bytes of shared memory, {target.name} has "
            f'{target.block_shared} for a block'))
    if figures['blocks'] == 0:
        return replace(result, state='does not fit', words=(
            f"{figures['registers']} registers x {figures['warps'] * 32} threads, {target.name} "
            f"has 65536 ({figures['bound']})"))
    if figures['spill_bytes']:
        return replace(result, state='spills', words=(
            f"{figures['spill_bytes']} bytes a thread go to memory for want of registers"))
    return result
