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
"""The list of tiny SmolVLAs whose golden values are committed, each with what it is there for.

Sizes are awkward on purpose: odd head counts, head sizes that are no power of two, hidden sizes
that are not heads x head_dim, a rope base in the backbone's configuration that SmolVLA ignores.
"""

from __future__ import annotations

from tiny import Case, Step

LONG = 'please pick up the green block, put it into the box and then close the top drawer again'


CASES = (
    Case(
        name='one_camera',
        note='3 query heads on 1 kv head; 4 of the 6 backbone layers are kept',
        cameras={'top': (48, 64)},
        steps=(
            Step('first', (0,), 0, 'move to the red cube'),
            Step('new_state', (0,), 1, 'move to the red cube'),
            Step('new_frame', (1,), 0, 'stack the 3 blocks\n'),
        ),
        heads=3,
        kv_heads=1,
        head_dim=16,
        hidden=48,
        layers=4,
        backbone_layers=6,
        image_px=32,
        patch_px=4,
    ),
    Case(
        name='two_cameras',
        note='head_dim 24, hidden size smaller than heads x head_dim; prompts padded to 24 '
        'tokens; a state dimension with std 0; one prompt is cut at 24 tokens',
        cameras={'overhead': (32, 32), 'wrist': (45, 80)},
        steps=(
            Step('first', (0, 0), 0, 'pick up the green block'),
            Step('new_state', (0, 0), 1, 'pick up the green block'),
            Step('cut_prompt', (0, 1), 1, LONG),
        ),
        heads=6,
        kv_heads=2,
        head_dim=24,
        hidden=48,
        layers=4,
        image_px=32,
        patch_px=4,
        expert_width=0.5,
        num_steps=7,
        constant_state=True,
        policy={'pad_language_to': 'max_length', 'tokenizer_max_length': 24},
    ),
    Case(
        name='three_cameras',
        note='15 query heads on 5 kv heads; images of three sizes, scaled up and down with odd '
        'results; an empty prompt; the backbone is stored in bfloat16, as smolvla_base has it',
        cameras={'left': (90, 121), 'right': (21, 13), 'wrist': (48, 101)},
        steps=(
            Step('first', (0, 0, 0), 0, 'push the yellow block to the left of the red one'),
            Step('empty_prompt', (0, 1, 0), 0, ''),
            Step('new_state', (0, 0, 0), 1, 'push the yellow block to the left of the red one'),
        ),
        heads=15,
        kv_heads=5,
        head_dim=8,
        hidden=60,
        layers=6,
        image_px=32,
        patch_px=4,
        pixel_shuffle=4,
        expert_width=0.5,
        state_dim=8,
        action_dim=3,
        chunk=8,
        num_steps=4,
        backbone_bf16=True,
    ),
    Case(
        name='empty_camera',
        note='a camera the policy knows and nobody has: masked, in the middle of the prefix; '
        'self-attention in layers 0 and 3 only',
        cameras={'front': (33, 47)},
        steps=(
            Step('first', (0,), 0, 'move to the blue cube and wait'),
            Step('new_state', (0,), 1, 'move to the blue cube and wait'),
        ),
        heads=3,
        kv_heads=3,
        head_dim=20,
        hidden=24,
        layers=4,
        image_px=32,
        patch_px=8,
        expert_width=0.5,
        chunk=12,
        num_steps=5,
        policy={'empty_cameras': 1, 'self_attn_every_n_layers': 3},
    ),
    Case(
        name='special_tokens',
        note='add_image_special_tokens: two tokens before and one after each image, not scaled',
        cameras={'top': (24, 32), 'side': (40, 40)},
        steps=(
            Step('first', (0, 0), 0, 'open the top drawer'),
            Step('new_state', (0, 0), 1, 'open the top drawer'),
        ),
        heads=5,
        kv_heads=1,
        head_dim=12,
        hidden=20,
        layers=2,
        image_px=32,
        patch_px=8,
        expert_width=0.5,
        num_steps=5,
        policy={'add_image_special_tokens': True},
    ),
    Case(
        name='self_only',
        note="attention_mode 'self_attn': no cross-attention layer in the expert",
        cameras={'top': (48, 64)},
        steps=(
            Step('first', (0,), 0, 'close the gripper'),
            Step('new_state', (0,), 1, 'close the gripper'),
        ),
        heads=4,
        kv_heads=2,
        head_dim=16,
        hidden=32,
        layers=2,
        image_px=32,
        patch_px=8,
        expert_width=0.5,
        num_steps=5,
        policy={'attention_mode': 'self_attn'},
    ),
    Case(
        name='smaller_images',
        note='images smaller than the backbone was made for: 6 x 6 patches take their positions '
        'from a table of 8 x 8',
        cameras={'top': (60, 80)},
        steps=(
            Step('first', (0,), 0, 'pick up the red cube'),
            Step('new_state', (0,), 1, 'pick up the red cube'),
        ),
        heads=3,
        kv_heads=1,
        head_dim=16,
        hidden=24,
        layers=2,
        image_px=48,
        patch_px=8,
        backbone_image_px=64,
        expert_width=0.5,
        num_steps=5,
    ),
)
