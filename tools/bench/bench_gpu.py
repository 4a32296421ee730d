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

"""The one script for a lent GPU: are the kernels right, and how fast, beside torch's attention.

In this order, until the time is up (a case that no time was left for is named in the result):

    correctness   the Triton kernels against float64, per shape and kernel; a failure ends the run
    limits        what the card does at best: bytes a second of a copy, operations of a product
    decode        1 query over 1k to 128k tokens: share of the copy's bandwidth
    suffix        50 queries over a prefix: SmolVLA's 15:5 x 64 and pi0's 8:1 x 256
    prefill       causal, from an empty sequence: share of the product's operations
    choices       decode with other splits, stages and merges than the table's (chips.py)

Times are medians of CUDA graph replays, keys and values rotate through more memory than the L2
cache holds, pages lie in random order. The result is JSON with card, versions and date.
`--interpreter` runs the same code with tiny shapes in Triton's interpreter on the CPU: its times
mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
import datetime
import json
import os
from pathlib import Path
import sys
import time
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / 'bench' / 'results'
PAGE = 64


@dataclass(frozen=True)
class Heads:
    """Query heads, KV heads and columns of a head."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    def __str__(self) -> str:
        return f'{self.num_heads}:{self.num_kv_heads} x {self.head_dim}'


SMOLVLA, PI0, LARGE = Heads(15, 5, 64), Heads(8, 1, 256), Heads(32, 8, 128)


@dataclass(frozen=True)
class Case:
    """One measurement. causal: row i sees keys 0..i; else every row sees all keys."""

    kind: str
    heads: Heads
    num_tokens: int
    length: int
    causal: bool = False
    with_flex: bool = False

    def __str__(self) -> str:
        return f'{self.kind} {self.heads}, {self.num_tokens} over {self.length}'


def cases(tiny: bool) -> Iterator[Case]:
    """What is measured, the most telling first."""
    if tiny:
        heads = Heads(4, 2, 32)
        yield Case('decode', heads, 1, 100, with_flex=True)
        yield Case('suffix', heads, 5, 70)
        yield Case('prefill', heads, 40, 40, causal=True)
        return
    for length in (1, 4, 16, 32, 64, 128):
        for heads in (SMOLVLA, LARGE):
            yield Case('decode', heads, 1, 1024 * length, with_flex=length in (4, 32))
    for heads, prefixes in ((SMOLVLA, (256, 1024, 4096)), (PI0, (816, 1024, 4096))):
        for prefix in prefixes:
            yield Case('suffix', heads, 50, prefix + 50, with_flex=prefix == 1024)
    for heads in (SMOLVLA, LARGE, PI0):
        for length in (512, 2048, 8192):
            yield Case('prefill', heads, length, length, causal=True)


@dataclass
class Run:
    """What one run has found so far.

    :param began: time.monotonic() at the start. budget_s: after it no case is begun.
    """

    budget_s: float
    tiny: bool
    began: float = field(default_factory=time.monotonic)
    result: dict[str, Any] = field(default_factory=dict)

    def time_is_up(self, what: str) -> bool:
        """Whether a case must be left out; it is named then."""
        if time.monotonic() - self.began < self.budget_s:
            return False
        self.result.setdefault('left_out', []).append(what)
        return True


def about(device: Any) -> dict[str, Any]:
    """Card, versions, date."""
    import torch
    import triton

    card, capability = 'none: Triton interpreter on the CPU', None
    if device.type == 'cuda':
        card = torch.cuda.get_device_name(device)
        capability = list(torch.cuda.get_device_capability(device))
    return {'card': card, 'capability': capability, 'torch': torch.__version__,
            'triton': triton.__version__, 'cuda': torch.version.cuda,
            'python': sys.version.split()[0],
            'date': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')}


class Pages:
    """Planes of random keys and values in scattered pages, and the same without pages."""

    def __init__(self, case: Case, timer: Any, dtype: Any) -> None:
        from gpu_timing import Dense
        import torch

        heads, length = case.heads, case.length
        self.shape = (2, -(-length // PAGE), PAGE, heads.num_kv_heads, heads.head_dim)
        self.nbytes = 2 * length * heads.num_kv_heads * heads.head_dim * dtype.itemsize
        device = timer.device
        self.table = torch.randperm(self.shape[1], device=device)
        self.planes = [torch.randn(self.shape, device=device).to(dtype)
                       for _ in range(timer.turns(self.nbytes))]
        self.q = torch.randn(case.num_tokens, heads.num_heads, heads.head_dim,
                             device=device).to(dtype)
        self.length = torch.tensor([length], dtype=torch.int32, device=device)
        self.limit = (torch.arange(1, length + 1, device=device) if case.causal else
                      torch.full((case.num_tokens,), length, device=device))
        self.dense = []
        for plane in self.planes:
            keys, values = plane[:, self.table].flatten(1, 2)[:, :length].transpose(1, 2)
            self.dense.append(Dense(keys[None].contiguous(), values[None].contiguous()))


def ours(pages: Pages, choice: Any = None) -> list[Any]:
    """Our kernels, one step a plane."""
    from robot_infer_kernels import plan_attention, planned_attention
    from robot_infer_kernels.gpu.attention import attend

    plan = plan_attention(pages.planes[0], pages.table, pages.length, pages.limit,
                          pages.q.shape[0])
    if choice is not None:
        return [lambda plane=plane: attend(pages.q, plane, plan, 0.125, None, choice)
                for plane in pages.planes]
    return [lambda plane=plane: planned_attention(pages.q, plane, plan, 0.125, backend='triton')
            for plane in pages.planes]


def check(run: Run, timer: Any) -> None:
    """Every kernel against float64. :raises click.ClickException: where one is wrong."""
    import torch

    from robot_infer_kernels.gpu.attention import choose_for

    lengths = (70,) if run.tiny else (1, 63, 64, 65, 1000, 5000)
    heads_of = (Heads(4, 2, 32),) if run.tiny else (SMOLVLA, LARGE, PI0, Heads(6, 2, 96))
    worst: dict[str, float] = {}
    for dtype, most in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        for heads in heads_of:
            for length in lengths:
                for count in {1, min(length, 5 if run.tiny else 50)}:
                    case = Case('check', heads, count, length)
                    pages = Pages(case, timer, dtype)
                    table = choose_for(pages.q, pages.planes[0], pages.table.shape[0])
                    for choice in (table, replace(table, num_splits=1), replace(
                            table, num_splits=3, merge_here=False), replace(
                            table, num_splits=3, merge_here=True)):
                        error = _error(ours(pages, choice)[0](), pages)
                        name = f'{str(dtype)[6:]} {_name(choice)}'
                        worst[name] = max(worst.get(name, 0.0), error)
                        if not error <= most:
                            raise click.ClickException(
                                f'{case}, {dtype}, {choice}: error {error:.1e}, expected at most '
                                f'{most:.0e}')
    run.result['correctness'] = worst


def _name(choice: Any) -> str:
    if choice.num_splits == 1:
        return 'prefill'
    return 'decode, last split merges' if choice.merge_here else 'decode, merged after'


def _error(out: Any, pages: Pages) -> float:
    """||out - wanted|| / ||wanted||, every row seeing all keys, in float64."""
    q, keys, values = (x.double() for x in (pages.q, pages.dense[0].keys[0],
                                            pages.dense[0].values[0]))
    group = q.shape[1] // keys.shape[0]
    scores = q.transpose(0, 1) @ keys.repeat_interleave(group, 0).transpose(1, 2) * 0.125
    wanted = (scores.softmax(-1) @ values.repeat_interleave(group, 0)).transpose(0, 1)
    return float((out.double() - wanted).norm() / wanted.norm())


def limits(run: Run, timer: Any) -> None:
    """What the card does at best."""
    from gpu_timing import copy_bandwidth, matrix_rate
    import torch

    run.result['copy_bytes_per_s'] = copy_bandwidth(timer, 2 ** 16 if run.tiny else 2 ** 30)
    run.result['matrix_flop_per_s'] = matrix_rate(timer, 64 if run.tiny else 8192, torch.bfloat16)


def measure(run: Run, timer: Any, case: Case) -> dict[str, Any]:
    """One case: ours and torch's, microseconds; and our share of what the card can do."""
    from gpu_timing import rivals
    import torch

    pages = Pages(case, timer, torch.bfloat16)
    out = ours(pages)[0]()
    micros = timer.micros(ours(pages))
    found: dict[str, Any] = {'case': str(case), **vars(case), 'heads': vars(case.heads),
                             'planes': len(pages.planes), 'micros': {'ours': micros}}
    if case.causal:
        seen = case.length * (case.length + 1) // 2
        rate = 4 * seen * case.heads.num_heads * case.heads.head_dim / (1e-6 * micros)
        found['share_of_matrix_rate'] = rate / run.result['matrix_flop_per_s']
    else:
        found['share_of_copy'] = pages.nbytes / (1e-6 * micros) / run.result['copy_bytes_per_s']
    q = pages.q.transpose(0, 1)[None].contiguous()
    for name, steps in rivals(q, pages.dense, case.causal, case.with_flex):
        try:
            made = steps()
            theirs = made[0]()[0].transpose(0, 1)
            difference = float((out - theirs).norm() / theirs.norm())
            if not difference <= 2e-2:
                raise click.ClickException(f'{case}: {name} is not the same attention, difference '
                                           f'{difference:.1e}')
            found['micros'][name] = timer.micros(made)
        except (RuntimeError, torch._dynamo.exc.TorchDynamoException) as error:
            found.setdefault('unavailable', {})[name] = str(error).splitlines()[0]
    best = min((value for name, value in found['micros'].items() if name != 'ours'), default=None)
    found['speed_against_best_torch'] = best / micros if best else None
    return found


def try_choices(run: Run, timer: Any) -> list[dict[str, Any]]:
    """Decode with other choices than the table's, to correct the table by."""
    import torch

    from robot_infer_kernels.gpu.attention import choose_for

    found = []
    lengths = (100,) if run.tiny else (1024, 16384)
    for heads in (Heads(4, 2, 32),) if run.tiny else (SMOLVLA, LARGE):
        for length in lengths:
            case = Case('decode', heads, 1, length)
            pages = Pages(case, timer, torch.bfloat16)
            table = choose_for(pages.q, pages.planes[0], pages.table.shape[0])
            others = {table, replace(table, merge_here=True)}
            others |= {replace(table, num_splits=max(2, table.num_splits // share))
                       for share in (2, 4)}
            others |= {replace(table, tile=replace(table.tile, num_stages=stages))
                       for stages in (2, 3, 5)}
            for choice in sorted(others, key=str):
                if run.time_is_up(f'choice {case}: {choice}'):
                    continue
                found.append({'case': str(case), 'choice': str(choice), 'table': choice == table,
                              'micros': timer.micros(ours(pages, choice))})
    return found


def verdict(run: Run) -> list[str]:
    """Where a target is missed, in words."""
    missed = []
    for found in run.result['cases']:
        share = found.get('share_of_copy', 1.0)
        if found['kind'] == 'decode' and found['length'] >= 16384 and share < 0.85:
            missed.append(f"{found['case']}: {share:.0%} of copy, target 85 %")
        if (found['speed_against_best_torch'] or 1.0) < 1.0:
            missed.append(f"{found['case']}: {found['speed_against_best_torch']:.2f} times the "
                          'best of torch, target 1')
    return missed


def run_all(run: Run, device: Any) -> dict[str, Any]:
    """Everything; the result as it goes into the file."""
    from gpu_timing import Timer
    import torch

    torch.manual_seed(0)
    timer = Timer(device)
    run.result.update(about(device), interpreter=run.tiny)
    with torch.inference_mode():
        check(run, timer)
        limits(run, timer)
        run.result['cases'] = []
        for case in cases(run.tiny):
            if not run.time_is_up(str(case)):
                run.result['cases'].append(measure(run, timer, case))
                click.echo(describe(run.result['cases'][-1]))
        run.result['choices'] = try_choices(run, timer)
    run.result['missed'] = [] if run.tiny else verdict(run)
    run.result['seconds'] = time.monotonic() - run.began
    return run.result


def describe(found: dict[str, Any]) -> str:
    """One case in one line."""
    times = ', '.join(f'{name} {value:.1f} us' for name, value in found['micros'].items())
    share = found.get('share_of_copy', found.get('share_of_matrix_rate'))
    what = 'copy bandwidth' if 'share_of_copy' in found else 'matrix rate'
    return f"{found['case']}: {times}; {share:.0%} of the {what}"


def interpret() -> None:
    """Run kernels in Triton's interpreter, as corrected and watched for the tests."""
    os.environ['TRITON_INTERPRET'] = '1'
    sys.path.insert(0, str(ROOT / 'test' / 'kernels'))
    import interpreter

    interpreter.install()


@click.command(help=__doc__)
@click.option('--interpreter', is_flag=True, help='Tiny shapes on the CPU, no GPU needed.')
@click.option('--budget-s', default=300.0, show_default=True, help='Begin no case after that.')
@click.option('--out', type=click.Path(path_type=Path), help='File for the result; default: a '
              'file in bench/results named by card and date, in the interpreter none.')
def main(interpreter: bool, budget_s: float, out: Path | None) -> None:
    """Run the bench."""
    if interpreter:
        interpret()
    import torch

    if not interpreter and not torch.cuda.is_available():
        raise click.ClickException('this torch sees no CUDA device; --interpreter runs the same '
                                   'code without one')
    result = run_all(Run(budget_s, interpreter), torch.device('cpu' if interpreter else 'cuda'))
    if out is None and not interpreter:
        name = f"gpu_{result['card'].replace(' ', '_')}_{result['date'][:10]}.json"
        out = RESULTS / name
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + '\n')
        click.echo(f'written to {out}')
    for line in (*result['missed'], *(f'left out: {w}' for w in result.get('left_out', ()))):
        click.echo(line)


if __name__ == '__main__':
    main()
