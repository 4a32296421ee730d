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

"""Compiles the C++ kernels beside it, several times for several instruction sets.

What lives here: compilers, flags and file names; it is run by setup.py (which loads this file by
its path, so it imports nothing of ours) and by hand:

    python -m robot_infer_kernels.cpu

What does not: the choice among the builds, and their use (native.py). A machine without a
compiler keeps torch's paths; nothing here raises for that.
"""

from __future__ import annotations

from dataclasses import dataclass
import hashlib
import os
from pathlib import Path
import platform
import shutil
import subprocess
import sys

HERE = Path(__file__).resolve().parent
SOURCES = ('attend.cpp', 'attend_few.h', 'attend_many.h', 'attend_work.h', 'attend_tiles.h',
           'attend_simd.h')
# Not -ffast-math: it would forget NaN and infinity, and change rounding for the whole process.
FLAGS = ('-std=c++17', '-O3', '-shared', '-fPIC', '-fvisibility=hidden', '-fno-math-errno',
         '-fno-trapping-math', '-fno-exceptions', '-fno-rtti', '-ffp-contract=fast', '-w')
# Builds by machine, widest first; the last runs on every processor of the kind.
BUILDS: dict[str, dict[str, tuple[str, ...]]] = {
    'x86_64': {
        'avx512': ('-mavx512f', '-mavx512vl', '-mavx512bw', '-mavx512dq', '-mavx2', '-mfma'),
        'avx2': ('-mavx2', '-mfma'),
        'sse2': ()},
    'aarch64': {'neon': ()},
}


@dataclass(frozen=True)
class Outcome:
    """What became of one build: '' or the compiler's words."""

    name: str
    file: Path
    error: str


def builds(machine: str = '') -> dict[str, tuple[str, ...]]:
    """Flags of each build for a machine (default: this one), widest first."""
    return BUILDS.get(machine or platform.machine(), {'plain': ()})


def file_name(build: str) -> str:
    """Name of the library of one build."""
    return f'_attend_{build}.so'


def source_version(folder: Path = HERE) -> int:
    """Hash of the sources, 64 bits: the same number is compiled into the libraries."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SOURCES:
        digest.update((folder / name).read_bytes())
    return int.from_bytes(digest.digest(), 'little')


def find_compiler() -> str:
    """Path of a C++ compiler: $CXX, else the first that is there; '' where there is none."""
    if os.environ.get('CXX'):
        return shutil.which(os.environ['CXX']) or ''
    return next(filter(None, map(shutil.which, ('c++', 'g++', 'clang++'))), '')


def command(compiler: str, build: str, target: Path, machine: str = '') -> list[str]:
    """The command that makes one library."""
    return [compiler, *FLAGS, *builds(machine)[build],
            f'-DROBOT_INFER_VERSION={source_version()}ull', str(HERE / SOURCES[0]), '-o',
            str(target)]


def build_all(folder: Path = HERE, compiler: str = '') -> list[Outcome]:
    """Make every library of this machine, all at once; those that fail are said, not raised.

    A library takes its place in one move, so a process that has the old one keeps it whole.
    """
    compiler = compiler or find_compiler()
    folder.mkdir(parents=True, exist_ok=True)
    running = []
    for name in builds():
        final = folder / file_name(name)
        if not compiler:
            running.append((name, final, None))
            continue
        draft = final.with_suffix(f'.{os.getpid()}')
        running.append((name, final, (draft, subprocess.Popen(
            command(compiler, name, draft), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True))))
    return [_finish(name, final, job) for name, final, job in running]


def _finish(name: str, final: Path, job: tuple[Path, subprocess.Popen] | None) -> Outcome:
    """Wait for one compiler and move its library into place; an old one does not stay."""
    if job is None:
        final.unlink(missing_ok=True)
        return Outcome(name, final, 'no C++ compiler: looked for $CXX, c++, g++ and clang++')
    draft, process = job
    words, _ = process.communicate()
    if process.returncode == 0:
        draft.replace(final)
        return Outcome(name, final, '')
    draft.unlink(missing_ok=True)
    final.unlink(missing_ok=True)
    return Outcome(name, final, words.strip() or f'{process.args[0]}: {process.returncode}')


def report(outcomes: list[Outcome]) -> None:
    """Say on standard error what failed, and what that means."""
    for outcome in outcomes:
        if outcome.error:
            print(f'robot_infer: the {outcome.name} build of the CPU kernels was left out: '
                  f'{outcome.error}', file=sys.stderr)
    if all(outcome.error for outcome in outcomes):
        print('robot_infer: attention on the CPU will run on torch alone, slower (see robot-infer '
              'doctor).', file=sys.stderr)


def main() -> int:
    """Build beside the sources; 1 where nothing could be built."""
    outcomes = build_all()
    report(outcomes)
    for outcome in outcomes:
        if not outcome.error:
            print(outcome.file)
    return int(all(outcome.error for outcome in outcomes))
