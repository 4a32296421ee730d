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
"""Draw the learning curve of a training log: python plot.py log.csv learning_curve.png."""

from __future__ import annotations

import csv
import sys

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402


def main() -> None:
    """Losses on the left, success in the closed loop on the right."""
    with open(sys.argv[1], newline='') as file:
        rows = list(csv.DictReader(file))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), dpi=80)
    step = [int(row['step']) for row in rows]
    names = {'flow': 'flow matching', 'picture': 'blocks in pictures', 'named': 'named block'}
    for name, label in names.items():
        left.plot(step, [float(row[name]) for row in rows], label=label, linewidth=1)
    left.set(yscale='log', xlabel='step', ylabel='loss')
    left.legend(frameon=False)
    judged = [row for row in rows if row['still']]
    for name, label in (('still', 'blocks stay'), ('moved', 'named block moved')):
        values = [100 * float(row[name]) for row in judged]
        right.plot([int(row['step']) for row in judged], values, 'o-', label=label, markersize=3)
    right.set(ylim=(0, 103), xlabel='step', ylabel='success, %')
    right.legend(frameon=False, loc='lower right')
    figure.tight_layout()
    figure.savefig(sys.argv[2])


if __name__ == '__main__':
    main()
