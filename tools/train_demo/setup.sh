#!/usr/bin/env bash
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
#
# Makes the training environment of the demo policy: lerobot 0.6.1 beside torch 2.13.
#   tools/train_demo/setup.sh [DIRECTORY]        (default: .venv-train; PYTHON=python3.11)
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
env="${1:-.venv-train}"
"${PYTHON:-python3.11}" -m venv "$env"
"$env/bin/pip" install -q -r "$here/requirements.txt"
# These two name versions of torch or of Python that this environment does not have, and work all the same.
"$env/bin/pip" install -q --no-deps torchvision==0.28.0
"$env/bin/pip" install -q --no-deps --ignore-requires-python lerobot==0.6.1
"$env/bin/python" "$here/patch_lerobot.py"
"$env/bin/python" -c 'from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy; print("ready")'
