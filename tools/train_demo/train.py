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
"""Train the demo policy by behaviour cloning; restartable, seeded, with a log and a curve.

    python train.py --out work/            # goes on where work/ left off

`work/` keeps the training state, the log and two checkpoints: `last/` and `best/` (by closed-loop
success on the seeds of EVAL_SEED, which neither training nor the final evaluation uses).
"""

from __future__ import annotations

import argparse
import copy
import csv
import math
from pathlib import Path
import sys
import time

import cv2
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from data import SceneBuffer  # noqa: E402
from evaluate import evaluate  # noqa: E402
import policy as demo  # noqa: E402
from probes import Probes  # noqa: E402

from robot_infer.sim.world import instructions  # noqa: E402

LOG = ('step', 'minutes', 'lr', 'flow', 'picture', 'named', 'error_m', 'still', 'moved')
EVAL_SEED = 2_000_000


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--steps', type=int, default=4000)
    parser.add_argument('--scenes', type=int, default=32, help='pictures in a batch')
    parser.add_argument('--repeat', type=int, default=2, help='instructions for each picture')
    parser.add_argument('--buffer', type=int, default=8192)
    parser.add_argument('--refresh', type=int, default=8, help='scenes rendered anew each step')
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--bf16-until', type=float, default=0.75, help='share of steps in bf16')
    parser.add_argument('--warmup', type=int, default=200)
    parser.add_argument('--eval-every', type=int, default=600)
    parser.add_argument('--episodes', type=int, default=60)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--minutes', type=float, default=1e9, help='stop after this long')
    return parser.parse_args()


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """Return the rate of `step`: linear warm-up, then a cosine down to 2 %."""
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    done = min(1.0, (step - args.warmup) / max(1, args.steps - args.warmup))
    return args.lr * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * done)))


class Trainer:
    """Policy, probes, optimiser and the running average of the weights."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Build everything out of the seed, or go on from the state in `args.out`."""
        self.args = args
        args.out.mkdir(parents=True, exist_ok=True)
        backbone = args.out / 'backbone'
        if not backbone.exists():
            demo.write_backbone(backbone, demo.train_tokenizer(instructions()))
        torch.manual_seed(args.seed)
        self.policy = demo.build(backbone)
        self.average = copy.deepcopy(self.policy)
        self.probes = Probes(self.policy)
        self.parameters = [p for p in self.policy.parameters() if p.requires_grad]
        self.parameters += list(self.probes.parameters())
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=args.lr, betas=(0.9, 0.98), weight_decay=1e-4, fused=True
        )
        self.step, self.minutes, self.best = 0, 0.0, -1.0
        self.state_path = args.out / 'state.pt'
        self.stats: dict[str, dict[str, torch.Tensor]] = {}
        if self.state_path.exists():
            self._restore()
        tokenizer = self.policy.model.vlm_with_expert.processor.tokenizer
        self.buffer = SceneBuffer(args.buffer, args.seed + self.step, tokenizer)
        self.buffer.stats = self.stats = self.stats or self.buffer.stats

    def _restore(self) -> None:
        state = torch.load(self.state_path, weights_only=True)
        self.policy.load_state_dict(state['policy'])
        self.average.load_state_dict(state['average'])
        self.probes.load_state_dict(state['probes'])
        self.optimiser.load_state_dict(state['optimiser'])
        self.stats = state['stats']
        self.step, self.minutes, self.best = state['step'], state['minutes'], state['best']
        torch.manual_seed(self.args.seed + self.step)
        print(f'going on from step {self.step}', flush=True)

    def store(self) -> None:
        """Write the training state, in one rename."""
        state = {
            'policy': self.policy.state_dict(),
            'average': self.average.state_dict(),
            'probes': self.probes.state_dict(),
            'optimiser': self.optimiser.state_dict(),
            'stats': self.stats,
            'step': self.step,
            'minutes': self.minutes,
            'best': self.best,
        }
        scratch = self.state_path.with_suffix('.new')
        torch.save(state, scratch)
        scratch.rename(self.state_path)

    def train_step(self) -> dict[str, float]:
        """Make one optimiser step; return its losses."""
        args = self.args
        self.policy.train()
        self.probes.train()
        self.probes.repeat = args.repeat
        rate = learning_rate(self.step, args)
        for group in self.optimiser.param_groups:
            group['lr'] = rate
        batch = self.buffer.batch(args.scenes, args.repeat)
        with torch.autocast('cpu', torch.bfloat16, self.step < args.bf16_until * args.steps):
            flow, _ = self.policy.forward(batch.policy)
        picture = self.probes.picture_loss(batch)
        named, error = self.probes.named_loss(batch)
        loss = flow + 0.5 * picture + 0.5 * named
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        decay = min(0.998, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            ours, theirs = self.average.state_dict(), self.policy.state_dict()
            torch._foreach_lerp_(
                [ours[k] for k in ours if ours[k].is_floating_point()],
                [theirs[k] for k in ours if ours[k].is_floating_point()],
                1.0 - decay,
            )
        self.step += 1
        self.buffer.refresh(args.refresh)
        values = (rate, float(flow.detach()), float(picture.detach()), float(named.detach()))
        return dict(zip(LOG[2:7], (*values, float(error)), strict=True))

    def judge(self) -> dict[str, float]:
        """Run the averaged weights in the world; save them, as best/ where nothing did better."""
        seeds = range(EVAL_SEED, EVAL_SEED + self.args.episodes)
        still = evaluate(self.average, self.stats, seeds, moved=False)
        moved = evaluate(self.average, self.stats, seeds, moved=True)
        print(f'step {self.step}: still {still}, moved {moved}', flush=True)
        score = still['success'] + moved['success']
        demo.save(self.average, self.stats, self.args.out / 'last')
        if score >= self.best:
            self.best = score
            demo.save(self.average, self.stats, self.args.out / 'best')
        return {'still': still['success'], 'moved': moved['success']}


def read_log(path: Path, last_step: int) -> list[dict[str, str]]:
    """Return the rows of an earlier log up to `last_step`, where the training goes on."""
    if not path.exists():
        return []
    with path.open(newline='') as file:
        return [row for row in csv.DictReader(file) if int(row['step']) <= last_step]


def run(trainer: Trainer) -> None:
    """Train until the last step, logging as it goes."""
    args = trainer.args
    path = args.out / 'log.csv'
    rows = read_log(path, trainer.step)
    begun, before = time.monotonic(), trainer.minutes
    sums: dict[str, float] = {}
    count = 0
    with path.open('w', newline='') as file:
        log = csv.DictWriter(file, LOG)
        log.writeheader()
        log.writerows(rows)
        while trainer.step < args.steps and trainer.minutes - before < args.minutes:
            for name, value in trainer.train_step().items():
                sums[name] = sums.get(name, 0.0) + value
            count += 1
            trainer.minutes = before + (time.monotonic() - begun) / 60.0
            judged = trainer.step % args.eval_every == 0 or trainer.step == args.steps
            if trainer.step % 50 and not judged:
                continue
            row: dict[str, object] = {k: f'{v / count:.5g}' for k, v in sums.items()}
            row |= {'step': trainer.step, 'minutes': f'{trainer.minutes:.2f}'}
            if judged:
                row |= trainer.judge()
                trainer.store()
            log.writerow(row)
            file.flush()
            print(row, flush=True)
            sums, count = {}, 0
    trainer.store()


def main() -> None:
    """Train."""
    args = arguments()
    torch.set_num_threads(args.threads)
    cv2.setNumThreads(1)
    run(Trainer(args))


if __name__ == '__main__':
    main()
