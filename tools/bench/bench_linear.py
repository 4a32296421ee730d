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


"""Weights in 8 and 4 bits against float32 and bfloat16: time and error, in one run.

    make bench-linear      or: python tools/bench/bench_linear.py [--policy demo] [--seconds 25]

Projections first: the forms take turns, each over as many copies of its weight as make 64 MB in
float32, so that every product has its weight come from memory, as in a policy. Then whole steps of
the demo policy and of a random SmolVLA of 100 M parameters, the forms in turns again, all on the
same observations. With one thread, times are of its CPU: what else the machine does counts less.
Errors are relative RMS against float32; those of random weights are about the
worst there are, for they have nothing that quantisation could spare.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import os
from pathlib import Path
import time

from bench_step import Steps, Times, host, random_100m
import numpy as np
import torch
from torch import Tensor

from robot_infer.engine import DEMO_CHECKPOINT
from robot_infer.models.linear import Linear
from robot_infer_kernels.cpu.linear import Int4Linear, Int8Linear, Scratch, why_not

COLD_BYTES = 64_000_000
# out x in: gate_up and down of the 100 M policy's language model, and of the published SmolVLA.
SHAPES = ((3072, 480), (480, 1536), (5120, 960), (960, 2560))
ROWS = (1, 16, 50, 139)  # the state; two suffixes; images and words
FORMS = ('fp32', 'bf16', 'int8', 'int4')
CASES = ('cold', 'new state')
MIN_ROUNDS, MAX_ROUNDS = 3, 200


def usable() -> tuple[str, ...]:
    """The forms that this torch can run; says why one is left out."""
    left_out = {form: why_not(form) for form in FORMS[2:]}
    for form, reason in left_out.items():
        if reason:
            print(f'{form} is left out: {reason}')
    return tuple(form for form in FORMS if not left_out.get(form))


def make(form: str, weight: Tensor, rows: int, scratch: Scratch) -> Callable[[Tensor], Tensor]:
    """One projection."""
    if form == 'int8':
        return Int8Linear(weight, scratch=scratch)
    if form == 'int4':
        return Int4Linear(weight)
    return Linear(weight.bfloat16() if form == 'bf16' else weight, rows=rows)


def clock() -> float:
    """Seconds: of this thread's CPU where it works alone, else of the wall."""
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


def projection(shape: tuple[int, int], rows: int, forms: tuple[str, ...], rounds: int) -> str:
    """One line: microseconds of each form, and how many times as fast as float32."""
    copies = -(-COLD_BYTES // (4 * shape[0] * shape[1]))
    generator, scratch = torch.Generator().manual_seed(0), Scratch()
    weight = torch.randn(shape, generator=generator) * shape[1] ** -0.5
    x = torch.randn(rows, shape[1], generator=generator)
    made = {form: [make(form, weight.clone(), rows, scratch) for _ in range(copies)]
            for form in forms}
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(rounds + 1):
        for form, layers in made.items():
            started = clock()
            for layer in layers:
                layer(x)
            seconds[form].append((clock() - started) / copies)
    wanted = x.double() @ weight.double().t()
    cells = []
    for form in forms:
        median = np.median(seconds[form][1:])
        ratio = np.median(np.divide(seconds['fp32'][1:], seconds[form][1:]))
        error = float((made[form][0](x).double() - wanted).norm() / wanted.norm())
        cells.append(f'{median * 1e6:9.0f} {ratio:5.2f} {error:8.1e}')
    return f'  {shape[0]:5} x {shape[1]:4} {rows:5}  ' + '  '.join(cells)


def show_projections(forms: tuple[str, ...], rounds: int) -> None:
    """The table of projections."""
    print('\nprojections, weights from memory: microseconds, times as fast as fp32, error')
    print('   out x in    rows  ' + '  '.join(f'{form:>24}' for form in forms))
    for shape in SHAPES:
        for rows in ROWS:
            print(projection(shape, rows, forms, rounds), flush=True)


def show_steps(title: str, checkpoint: Path, threads: int, forms: tuple[str, ...],
               budget_s: float) -> None:
    """Steps of one policy in all forms, and the errors of their chunks."""
    policies = {form: Steps(checkpoint, threads, **(
        {'dtype': form} if form in FORMS[:2] else {'weights': form})) for form in forms}
    times = {form: {case: Times() for case in CASES} for form in forms}
    chunks: dict[str, list[np.ndarray]] = {form: [] for form in forms}
    started = time.monotonic()
    for number in range(MAX_ROUNDS):
        if number > MIN_ROUNDS and time.monotonic() - started > budget_s:
            break
        for case in CASES:
            for form, steps in policies.items():  # the first round is not counted
                chunks[form].append(steps.run(
                    case, times[form][case] if number else None, clock))
    print(f'\n{title}: {threads} thread(s), {len(times["fp32"]["cold"].seconds)} rounds\n'
          f'  {"":5}' + ''.join(f'{case + ", ms":>16} {"x fp32":>7}' for case in CASES)
          + '  error of chunks  weights')
    wanted = np.stack(chunks['fp32'])
    for form in forms:
        cells = ''
        for case in CASES:
            mine, theirs = times[form][case].seconds, times['fp32'][case].seconds
            cells += f'{np.median(mine) * 1e3:16.1f} {np.median(np.divide(theirs, mine)):7.2f}'
        error = np.sqrt(((np.stack(chunks[form]) - wanted) ** 2).mean() / (wanted ** 2).mean())
        words = '; '.join(line.arithmetic for line in policies[form].info.weights[:1])
        print(f'  {form:5}{cells}  {error:15.2e}  {words}', flush=True)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--policy', choices=('demo', '100M', 'none'), action='append',
                        help='steps of this one only')
    parser.add_argument('--seconds', type=float, default=25.0, help='to measure, per policy')
    parser.add_argument('--rounds', type=int, default=7, help='of projections; 0 for none')
    parser.add_argument('--threads', type=int, default=max(1, (os.cpu_count() or 2) - 1),
                        help='of torch (default: cores less one)')
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f'host: {host()}')
    forms = usable()
    with torch.inference_mode():
        if arguments.rounds:
            show_projections(forms, arguments.rounds)
    for name in arguments.policy or ('demo', '100M'):
        if name != 'none':
            checkpoint = DEMO_CHECKPOINT if name == 'demo' else random_100m()
            show_steps(f'{name} policy', checkpoint, arguments.threads, forms, arguments.seconds)


if __name__ == '__main__':
    main()
