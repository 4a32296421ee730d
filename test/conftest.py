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

"""For all tests: one thread, and Triton's interpreter where there is no GPU.

More threads than idle cores slow tiny shapes down twentyfold. Triton decides between compiler and
interpreter when a kernel is defined, so the choice stands before anything may import one.
"""

from __future__ import annotations

import os

os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import torch  # noqa: E402 - the threads come first

if not torch.cuda.is_available():
    os.environ.setdefault('TRITON_INTERPRET', '1')
