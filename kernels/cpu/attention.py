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

"""Paged attention and append on the CPU: by the C++ kernel (native.py) or by torch operations.

In torch, keys and values are read as strided views wherever their blocks are neighbours; else the
pages are gathered first; quantised ones are made plain (quantised.py). Only valid tokens are in
the view, so what lies in unused slots never meets a product (0 * NaN would be NaN).

Kernel or torch, by measurement (one thread of a Zen 4 server core with other work on it, torch
2.13, microseconds of processor time, quickest tenth; torch is what stands below, on pages in one
run; queries x keys x heads:kv heads x head_dim):

                               fp32: kernel   torch      bf16: kernel   torch
       1 x    1 x  4:4 x  64              8       9                 8      15
      16 x   64 x  4:4 x  64             25      29                25      39
       1 x  250 x  8:2 x  64             19      22                17      35
       1 x 1000 x 15:5 x  64            103     226                87     288
       1 x 4096 x 15:5 x  64            429    1260               317    2165
       1 x 4096 x 32:8 x 128           2704    5684              1340    8434
       1 x 4096 x  8:1 x 256            473     615               416     868
      50 x  250 x 15:5 x  64            585     736               595     769
     113 x  113 x 15:5 x  64            643     772               672     809
      64 x 4096 x 15:5 x  64          12449   16009             12188   17185
    1024 x 1024 x 15:5 x  64          46250   51700             45555   52197

so there is no length and no number of queries from which torch would be the better choice: the
kernel takes fp32, bf16 and int8 pages wherever it was built, and torch the rest (fp16, fp8, int4,
a machine without a compiler). Within the kernel the number of rows decides (attend.cpp).

Which operation of torch, measured likewise, fp32:

                             SDPA, heads as they are    SDPA, group as rows    bmm-softmax-bmm
    16 x  64 x  4:4 x 64              29                        30                   30
    same, rows with limits            35                        41                   41
    50 x 250 x 15:5 x 64             747                       762                  701
    64 x 4096 x 15:5 x 64          14034                                          22914
    1024 x 1024 x 15:5 x 64        48693                                         117318
     1 x 250 x  8:2 x 64              34                        21                   22
     1 x 1000 x 15:5 x 64            268                       227                  213

so: SDPA everywhere, with the heads of a group as rows for a single query (a view there, and the
keys are read once for the group). bmm-softmax-bmm only with a softcap, which SDPA lacks.

bf16 and fp16 are widened to fp32 first. In bf16, 4096 keys of 15:5 x 64, with the relative error:

                widened, SDPA          SDPA in bf16           bmm-softmax-bmm in bf16
      1 query       1306  1.6e-3          9557  2.1e-3            1575  9.6e-3
     50            13486  1.6e-3         15168  1.9e-3           10029  1.1e-2
    128            29639  1.6e-3         34334  1.9e-3           23437  1.1e-2

The last one rounds scores to bf16: quicker, and over the error of 1e-2 that is allowed.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from robot_infer_kernels.cpu import native, quantised
from robot_infer_kernels.pages import Plane, QuantisedPlane
from robot_infer_kernels.plan import AttentionPlan


def attend(
    q: torch.Tensor, kv: Plane, plan: AttentionPlan, scale: float, softcap: float | None,
) -> torch.Tensor:
    """See `attention.planned_attention`: by the C++ kernel where it is there and knows the types.

    :raises MemoryError: where there is none for the kernel's workspace.
    """
    key = (kv, q.shape[1], q.dtype)
    prepared = plan.prepared.get(key)
    library = native.for_head_dim(q.shape[2])
    if prepared is None and library is not None and native.takes(q, kv):
        prepared = plan.prepared[key] = native.prepare(q, kv, plan)
    if prepared is None or library is None:
        return attend_in_torch(q, kv, plan, scale, softcap)
    return library.attend(q, prepared, scale, softcap)


def attend_in_torch(
    q: torch.Tensor, kv: Plane, plan: AttentionPlan, scale: float, softcap: float | None,
) -> torch.Tensor:
    """The same by torch operations."""
    num_tokens, num_heads, head_dim = q.shape
    read = quantised.read if isinstance(kv, QuantisedPlane) else _read
    keys, values = read(kv, plan)
    work, mask = q, plan.mask
    if q.dtype != torch.float32:
        work, keys, values = q.float(), keys.float(), values.float()
    if softcap is not None:
        out = _softcapped(work, keys, values, mask, scale, softcap)
    elif num_tokens == 1:
        num_kv_heads = keys.shape[1]
        out = F.scaled_dot_product_attention(
            work.reshape(1, num_kv_heads, num_heads // num_kv_heads, head_dim), keys, values,
            scale=scale).reshape(1, num_heads, head_dim)
    else:
        out = F.scaled_dot_product_attention(
            work.transpose(0, 1).unsqueeze(0), keys, values, mask, scale=scale,
            enable_gqa=num_heads != keys.shape[1]).squeeze(0).transpose(0, 1)
    return out.contiguous() if out.dtype == q.dtype else out.to(q.dtype).contiguous()


def append(
    k: torch.Tensor, v: torch.Tensor, kv: Plane, slots: torch.Tensor, where: list[int],
) -> None:
    """See `attention.append_kv`; `where` is `slots` as a list, not empty."""
    if isinstance(kv, QuantisedPlane):
        quantised.append(k, v, kv, slots, where)
        return
    first = where[0]
    side, block, token, head, element = kv.stride()
    page_tokens = kv.shape[2]
    if block == page_tokens * token and where == list(range(first, first + len(where))):
        # Neighbouring slots: one strided copy (7.6 us for 50 tokens x 4 x 64, index_copy 14.9).
        offset = kv.storage_offset() + first * token
        kv.as_strided(k.shape, (token, head, element), offset).copy_(k)
        kv.as_strided(k.shape, (token, head, element), offset + side).copy_(v)
        return
    scatter(k, v, kv, slots)


def scatter(k: torch.Tensor, v: torch.Tensor, kv: torch.Tensor, slots: torch.Tensor) -> None:
    """Append to a plain plane without a look at the slots, by torch, on any device."""
    blocks = torch.div(slots, kv.shape[2], rounding_mode='floor')
    offsets = slots - blocks * kv.shape[2]
    kv[0].index_put_((blocks, offsets), k)
    kv[1].index_put_((blocks, offsets), v)


def _read(kv: torch.Tensor, plan: AttentionPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values that any row sees, each (1, num_kv_heads, high - begin, head_dim).

    Where their blocks are neighbours these are views, and the plan keeps them for the next call.
    """
    views = plan.views.get(kv)
    if views is not None:
        return views
    page_tokens, num_kv_heads, head_dim = kv.shape[2:]
    first_page, pages, plane = plan.begin // page_tokens, plan.seen_pages, kv
    first = pages[0]
    copied = len(pages) > 1 and (kv.stride(1) != page_tokens * kv.stride(2)
                                 or pages != list(range(first, first + len(pages))))
    if copied:
        plane, first = kv.index_select(1, plan.seen_index), 0
    side, block, token, head, element = plane.stride()
    shape, strides = (1, num_kv_heads, plan.high - plan.begin, head_dim), (0, head, token, element)
    offset = plane.storage_offset() + first * block
    offset += (plan.begin - first_page * page_tokens) * token
    views = (plane.as_strided(shape, strides, offset),
             plane.as_strided(shape, strides, offset + side))
    if not copied:
        plan.views[kv] = views
    return views


def _softcapped(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None,
    scale: float, softcap: float,
) -> torch.Tensor:
    """Attention with capped scores; all tensors float32, the heads of a group folded into rows."""
    num_tokens, num_heads, head_dim = q.shape
    num_kv_heads = keys.shape[1]
    group = num_heads // num_kv_heads
    rows = (q * (scale / softcap)).view(num_tokens, num_kv_heads, group, head_dim)
    rows = rows.transpose(0, 1).reshape(num_kv_heads, num_tokens * group, head_dim)
    scores = torch.bmm(rows, keys[0].transpose(1, 2)).tanh_().mul_(softcap)
    if mask is not None:
        scores.view(num_kv_heads, num_tokens, group, -1).add_(mask.unsqueeze(1))
    out = torch.bmm(torch.softmax(scores, dim=-1), values[0])
    return out.view(num_kv_heads, num_tokens, group, head_dim).transpose(0, 1).reshape(q.shape)
