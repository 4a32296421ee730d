// Copyright 2026 The robot_infer authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// What both forms of attention share: what is asked, memory, and where keys, values, queries and
// results lie. What does not live here: the arithmetic (attend_tiles.h).

#pragma once

#include <cstdlib>

#include "attend_tiles.h"

using simd::Vec;
using simd::W;
using tiles::kTile;

enum Format : int32_t { kFloat32 = 0, kBFloat16 = 1, kInt8 = 2 };
enum Form : int32_t { kAuto = 0, kFew = 1, kMany = 2 };

// What does not change between the calls of one plan on one plane; native.py holds the same
// fields. Strides are in elements; pages[0] is the block of the page that holds key `begin`.
struct AttendPlan {
    int64_t num_tokens, num_heads, num_kv_heads, head_dim;
    const void *keys, *values;
    int64_t page_tokens, page_stride, token_stride, head_stride;
    const float *key_scales, *value_scales;  // of int8 pages
    int64_t scale_page_stride, scale_token_stride, scale_head_stride;
    int64_t begin, high;  // keys [begin, high) are those that any row sees
    int64_t window;       // 0: none
    const int64_t* pages;
    const int64_t* limits;
    int32_t query_format, page_format, form;
};

namespace {

constexpr double kSerialFlops = 2e6;  // less is not worth another thread

// What changes: queries, where the result goes, and how many threads work.
struct Call {
    const void* q;
    int64_t q_token_stride, q_head_stride;
    void* out;             // (num_tokens, num_heads, head_dim)
    float scale, softcap;  // softcap 0: none
    int threads;
};

int ceil_div(int a, int b) { return (a + b - 1) / b; }
int min(int a, int b) { return a < b ? a : b; }
int max(int a, int b) { return a > b ? a : b; }

// One buffer a calling thread, handed out in pieces of whole cache lines.
class Buffer {
  public:
    ~Buffer() { free(memory_); }

    bool reserve(size_t floats) {
        floats = line(floats);
        used_ = 0;
        if (floats <= size_) return true;
        free(memory_);
        memory_ = static_cast<float*>(aligned_alloc(64, floats * sizeof(float)));
        size_ = memory_ ? floats : 0;
        return memory_ != nullptr;
    }
    static size_t line(size_t floats) { return (floats + 15) / 16 * 16; }
    float* take(size_t floats) {
        float* piece = memory_ + used_;
        used_ += line(floats);
        return piece;
    }

  private:
    float* memory_ = nullptr;
    size_t size_ = 0, used_ = 0;
};

thread_local Buffer buffer;

// What both forms share: who sees what, where rows of keys lie, and where results go.
template <class T>
class Work {
  public:
    Work(const AttendPlan& plan, const Call& call)
        : plan(plan), call(call), logits(call.scale, call.softcap),
          head_dim(static_cast<int>(plan.head_dim)),
          group(static_cast<int>(plan.num_heads / plan.num_kv_heads)),
          heads(static_cast<int>(plan.num_kv_heads)),
          rows(static_cast<int>(plan.num_tokens) * group),
          begin(static_cast<int>(plan.begin)), high(static_cast<int>(plan.high)),
          threads(max(1, 4.0 * heads * rows * head_dim * (high - begin) < kSerialFlops
                         ? 1 : call.threads)) {}

    // Row r of a KV head is query r / group of head r % group; rows behind the last repeat it.
    void see(int32_t* begins, int32_t* ends, int padded) const {
        for (int r = 0; r < padded; r++) {
            const int64_t limit = plan.limits[min(r, rows - 1) / group];
            const int64_t first = plan.window > 0 ? limit - plan.window : 0;
            begins[r] = static_cast<int32_t>(first < plan.begin ? plan.begin : first);
            ends[r] = static_cast<int32_t>(limit);
        }
    }

    // Row r of a KV head as float32, element d to out[d * step].
    void query(int head, int row, int step, float* out) const {
        const int64_t at = row / group * call.q_token_stride
            + (head * group + row % group) * call.q_head_stride;
        if (plan.query_format == kBFloat16) {
            const simd::bf16* q = static_cast<const simd::bf16*>(call.q) + at;
            for (int d = 0; d < head_dim; d++) out[d * step] = simd::to_float(q[d]);
        } else {
            const float* q = static_cast<const float*>(call.q) + at;
            for (int d = 0; d < head_dim; d++) out[d * step] = q[d];
        }
    }

    // Element d lies at result[at(d)].
    template <class At>
    void write(int head, int row, const float* result, At at) const {
        const int64_t first = (row / group * plan.num_heads + head * group + row % group)
            * plan.head_dim;
        if (plan.query_format == kBFloat16)
            for (int d = 0; d < head_dim; d++)
                simd::from_float(result[at(d)], static_cast<simd::bf16*>(call.out) + first + d);
        else
            for (int d = 0; d < head_dim; d++)
                static_cast<float*>(call.out)[first + d] = result[at(d)];
    }

    // Keys [first, end) of all heads; the pointers behind the last repeat it.
    void fill(int first, int end, tiles::Tile<T>* tile) const {
        tile->first = first;
        tile->count = min(kTile, end - first);
        const int64_t first_page = plan.begin / plan.page_tokens;
        int64_t page = first / plan.page_tokens, token = first % plan.page_tokens;
        for (int j = 0; j < tile->count; j++) {
            const int64_t block = plan.pages[page - first_page];
            const int64_t at = block * plan.page_stride + token * plan.token_stride;
            tile->keys[j] = static_cast<const T*>(plan.keys) + at;
            tile->values[j] = static_cast<const T*>(plan.values) + at;
            if (sizeof(T) == 1) {
                const int64_t scale_at = block * plan.scale_page_stride
                    + token * plan.scale_token_stride;
                tile->key_scales[j] = plan.key_scales + scale_at;
                tile->value_scales[j] = plan.value_scales + scale_at;
            }
            if (++token == plan.page_tokens) token = 0, page++;
        }
        for (int j = tile->count; j < kTile; j++) {
            tile->keys[j] = tile->keys[tile->count - 1];
            tile->values[j] = tile->values[tile->count - 1];
        }
    }

    const AttendPlan& plan;
    const Call& call;
    const tiles::Logits logits;
    const int head_dim, group, heads, rows, begin, high;
    const int threads;  // that will work
};

}  // namespace
