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

// Attention of one tile of keys, for one KV head, online (Milakov & Gimelshein 2018), in float32.
// Two forms of the same steps:
//
//   Few   few rows (a row is one query and one of the heads that share the KV head, as in decode):
//         elements of the head in the lanes, keys and values straight from the pages, each read
//         once for up to kRows rows. Bound by memory.
//   Many  many rows (suffix, prefill): rows in the lanes, keys and values as scalars, so nothing
//         is ever summed across a vector and the softmax runs down the columns. Bound by
//         arithmetic: kKeys x kVecs accumulators stay in registers.
//
// What does not live here: pages, threads, splits and their merge (attend.cpp).

#pragma once

#include <cmath>

#include "attend_simd.h"

namespace tiles {

using simd::IVec;
using simd::Vec;
using simd::W;

constexpr int kTile = 64;  // keys
constexpr int kLine = 64;  // bytes
constexpr float kLog2e = 1.4426950408889634f;

// A head as vectors: the last one ends at the last element and may overlap the one before, so
// that nothing behind a row is read. Stored tensors of ours have vector v at v * W.
inline int num_vectors(int head_dim) { return (head_dim + W - 1) / W; }
inline int vector_at(int v, int head_dim) {
    return v * W + W <= head_dim ? v * W : head_dim - W;
}

// How scores become logits of base 2: factor * s, or softcap * log2e * tanh(factor * s).
struct Logits {
    float factor, cap;

    Logits(float scale, float softcap)
        : factor(softcap > 0.0f ? scale / softcap : scale * kLog2e), cap(softcap * kLog2e) {}

    Vec operator()(Vec scores) const {
        const Vec x = scores * factor;
        return cap > 0.0f ? simd::tanh(x) * cap : x;
    }
};

// One tile: the first key's number, how many keys, and where they lie. Rows behind the last key
// point at it again, so that kernels may read in steps; its weight there is 0.
template <class T>
struct Tile {
    int first, count;
    const T* keys[kTile];
    const T* values[kTile];
    const float* key_scales[kTile];    // of int8 pages
    const float* value_scales[kTile];
};

// --- Few ----------------------------------------------------------------------------------------

// Rows [0, R): queries of vectors * W floats each, their visible keys and their running state.
struct FewRows {
    const float* queries;
    float* out;
    float *top, *sums;  // a row has one top and W partial sums
    const int32_t *begin, *end;
};

// The rows of the next tile, all heads, brought near in the order of memory while this tile is
// computed. Into the second cache: what asks for the first one misses only a few lines at a time.
template <class T>
struct Ahead {
    const T* const* rows;  // of keys or values; null: none
    int row_bytes, lines;  // of a token; to fetch at a step
    int row = 0, byte = 0;

    void step() {
        int r = row, b = byte;  // in registers
        for (int left = lines; left > 0; left--) {
            __builtin_prefetch(reinterpret_cast<const char*>(rows[r]) + b, 0, 2);
            b += kLine;
            if (b >= row_bytes) b = 0, r += r + 1 < kTile;
        }
        row = r, byte = b;
    }
};

// Rows that are needed at once are loaded, in the order of memory, at the speed of a plain read.
template <class T>
void touch(const T* const* rows, int count, int row_bytes) {
    for (int j = 0; j < count; j++)
        for (int byte = 0; byte < row_bytes; byte += kLine) {
            const char loaded = *(reinterpret_cast<const char*>(rows[j]) + byte);
            asm volatile("" : : "r"(loaded));
        }
}

template <class T, int R>
void few_scores(const Tile<T>& tile, int64_t at, Ahead<T>* ahead, int head_dim,
                const float* queries, float* scores) {
    const int vectors = num_vectors(head_dim);
    for (int j = 0; j < tile.count; j += 4) {
        const T* k[4] = {tile.keys[j] + at, tile.keys[j + 1] + at, tile.keys[j + 2] + at,
                         tile.keys[j + 3] + at};
        Vec sums[4][R];
        ROBOT_INFER_UNROLL for (int i = 0; i < 4; i++)
            ROBOT_INFER_UNROLL for (int r = 0; r < R; r++) sums[i][r] = Vec{};
        for (int v = 0; v < vectors; v++) {
            const int offset = vector_at(v, head_dim);
            Vec key[4];
            ROBOT_INFER_UNROLL for (int i = 0; i < 4; i++) key[i] = simd::load(k[i] + offset);
            ROBOT_INFER_UNROLL for (int r = 0; r < R; r++) {
                const Vec query = simd::load(queries + (r * vectors + v) * W);
                ROBOT_INFER_UNROLL for (int i = 0; i < 4; i++) sums[i][r] += key[i] * query;
            }
        }
        if (ahead->rows != nullptr) ahead->step();
        ROBOT_INFER_UNROLL for (int r = 0; r < R; r++)
            simd::store_sums(scores + r * kTile + j, sums[0][r], sums[1][r], sums[2][r],
                             sums[3][r]);
    }
}

template <class T, int R>
void few_values(const Tile<T>& tile, int64_t at, Ahead<T>* ahead, int head_dim,
                const float* weights, float* out) {
    constexpr int K = simd::kValues;
    const int vectors = num_vectors(head_dim);
    for (int j = 0; j < tile.count; j += K) {
        const T* value[K];
        ROBOT_INFER_UNROLL for (int i = 0; i < K; i++) value[i] = tile.values[j + i] + at;
        for (int v = 0; v < vectors; v++) {
            const int offset = vector_at(v, head_dim);
            Vec x[K];
            ROBOT_INFER_UNROLL for (int i = 0; i < K; i++) x[i] = simd::load(value[i] + offset);
            ROBOT_INFER_UNROLL for (int r = 0; r < R; r++) {
                float* row = out + (r * vectors + v) * W;
                Vec sum = simd::load(row);
                ROBOT_INFER_UNROLL for (int i = 0; i < K; i++)
                    sum += weights[r * kTile + j + i] * x[i];
                simd::store(row, sum);
            }
        }
        if (ahead->rows != nullptr)
            for (int i = 0; i < K; i += 4) ahead->step();
    }
}

// Scales of the keys and values of one head of a tile; used of int8 pages only.
struct Scales {
    alignas(64) float keys[kTile], values[kTile];

    template <class T>
    void gather(const Tile<T>& tile, int64_t at) {
        for (int j = 0; j < tile.count; j++) {
            keys[j] = tile.key_scales[j][at];
            values[j] = tile.value_scales[j][at];
        }
        for (int j = tile.count; j % W; j++) keys[j] = values[j] = 0.0f;
    }
};

// Scores of one row become weights, in place; the row's state moves on.
template <class T>
void few_softmax(const Tile<T>& tile, const Scales& scales, const Logits& logits, int begin,
                 int end, int vectors, float* scores, float* out, float* top, float* sums) {
    const bool is_int8 = sizeof(T) == 1;
    const int steps = (tile.count + W - 1) / W;
    const Vec hidden = simd::all(-INFINITY);
    const bool seen = begin <= tile.first && tile.first + tile.count <= end
        && tile.count % W == 0;
    Vec high = hidden;
    for (int s = 0; s < steps; s++) {
        Vec x = simd::load(scores + s * W);
        x = logits(is_int8 ? x * simd::load(scales.keys + s * W) : x);
        if (!seen) {
            const IVec key = simd::iota() + (tile.first + s * W);
            const int last = end < tile.first + tile.count ? end : tile.first + tile.count;
            x = simd::select((key >= begin) & (key < last), x, hidden);
        }
        simd::store(scores + s * W, x);
        high = simd::larger(x, high);
    }
    high = simd::larger(simd::max_across(high), simd::all(*top));
    // No key seen so far: all weights are exp2(-inf - 0) = 0.
    const Vec base = simd::select(high == hidden, Vec{}, high);
    const Vec kept = simd::exp2(simd::all(*top) - base);
    Vec sum = simd::load(sums) * kept;
    for (int s = 0; s < steps; s++) {
        const Vec x = simd::exp2(simd::load(scores + s * W) - base);
        simd::store(scores + s * W, is_int8 ? x * simd::load(scales.values + s * W) : x);
        sum += x;
    }
    simd::store(sums, sum);
    if (kept[0] != 1.0f)
        for (int v = 0; v < vectors; v++)
            simd::store(out + v * W, simd::load(out + v * W) * kept);
    *top = high[0];
    for (int j = tile.count; j % simd::kValues; j++) scores[j] = 0.0f;
}

template <class T, int R>
void few_step(const Tile<T>& tile, int64_t at, int64_t scale_at, int head_dim,
              const Logits& logits, const FewRows& rows, Ahead<T>* keys, Ahead<T>* values) {
    const int vectors = num_vectors(head_dim);
    alignas(64) float scores[R * kTile];
    Scales scales;
    bool any = false;
    ROBOT_INFER_UNROLL for (int r = 0; r < R; r++)
        any |= rows.begin[r] < tile.first + tile.count && tile.first < rows.end[r];
    if (!any) return;
    if (sizeof(T) == 1) scales.gather(tile, scale_at);
    few_scores<T, R>(tile, at, keys, head_dim, rows.queries, scores);
    ROBOT_INFER_UNROLL for (int r = 0; r < R; r++)
        few_softmax(tile, scales, logits, rows.begin[r], rows.end[r], vectors,
                    scores + r * kTile, rows.out + r * vectors * W, rows.top + r,
                    rows.sums + r * W);
    few_values<T, R>(tile, at, values, head_dim, scores, rows.out);
}

// --- Many ---------------------------------------------------------------------------------------

// A block of N vectors of rows; row r of the block is lane r. All tensors have `lanes` columns.
struct ManyRows {
    const float* queries;  // (head_dim, lanes)
    float* out;            // (head_dim, lanes)
    float *top, *sums;     // (lanes)
    const int32_t *begin, *end;
    int lanes;
    int begin_low, begin_high, end_low, end_high;
};

// Rows of a widened tile lie one cache line more than head_dim apart: rows a power of two apart
// would share a few sets of the cache.
inline int tile_stride(int head_dim) { return (head_dim + 15) / 16 * 16 + 16; }

template <int M, int N>
void many_scores(const float* keys, const ManyRows& rows, int head_dim, float* scores) {
    const int stride = tile_stride(head_dim);
    Vec sums[M][N];
    ROBOT_INFER_UNROLL for (int i = 0; i < M; i++)
        ROBOT_INFER_UNROLL for (int v = 0; v < N; v++) sums[i][v] = Vec{};
    for (int d = 0; d < head_dim; d++) {
        Vec query[N];
        ROBOT_INFER_UNROLL for (int v = 0; v < N; v++)
            query[v] = simd::load(rows.queries + d * rows.lanes + v * W);
        ROBOT_INFER_UNROLL for (int i = 0; i < M; i++) {
            const float key = keys[i * stride + d];
            ROBOT_INFER_UNROLL for (int v = 0; v < N; v++) sums[i][v] += key * query[v];
        }
    }
    ROBOT_INFER_UNROLL for (int i = 0; i < M; i++)
        ROBOT_INFER_UNROLL for (int v = 0; v < N; v++)
            simd::store(scores + (i * N + v) * W, sums[i][v]);
}

template <int M, int N>
void many_values(const float* values, const float* weights, int count, int stride,
                 const Vec* kept, float* out, int lanes) {
    Vec sums[M][N];
    ROBOT_INFER_UNROLL for (int i = 0; i < M; i++)
        ROBOT_INFER_UNROLL for (int v = 0; v < N; v++)
            sums[i][v] = simd::load(out + i * lanes + v * W) * kept[v];
    for (int j = 0; j < count; j++) {
        Vec weight[N];
        ROBOT_INFER_UNROLL for (int v = 0; v < N; v++)
            weight[v] = simd::load(weights + (j * N + v) * W);
        ROBOT_INFER_UNROLL for (int i = 0; i < M; i++) {
            const float value = values[j * stride + i];
            ROBOT_INFER_UNROLL for (int v = 0; v < N; v++) sums[i][v] += value * weight[v];
        }
    }
    ROBOT_INFER_UNROLL for (int i = 0; i < M; i++)
        ROBOT_INFER_UNROLL for (int v = 0; v < N; v++)
            simd::store(out + i * lanes + v * W, sums[i][v]);
}

template <int N>
void many_softmax(int first, int count, const Logits& logits, const ManyRows& rows, float* scores,
                  Vec* kept) {
    const bool seen = rows.begin_high <= first && first + count <= rows.end_low;
    const Vec hidden = simd::all(-INFINITY);
    ROBOT_INFER_UNROLL for (int v = 0; v < N; v++) {
        IVec begin, end;
        memcpy(&begin, rows.begin + v * W, sizeof begin);
        memcpy(&end, rows.end + v * W, sizeof end);
        const Vec old = simd::load(rows.top + v * W);
        Vec high = old;
        for (int j = 0; j < count; j++) {
            Vec x = logits(simd::load(scores + (j * N + v) * W));
            if (!seen) {
                const IVec key = IVec{} + (first + j);
                x = simd::select((key >= begin) & (key < end), x, hidden);
            }
            simd::store(scores + (j * N + v) * W, x);
            high = simd::larger(x, high);
        }
        const Vec base = simd::select(high == hidden, Vec{}, high);
        kept[v] = simd::exp2(old - base);
        Vec sum = simd::load(rows.sums + v * W) * kept[v];
        for (int j = 0; j < count; j++) {
            const Vec x = simd::exp2(simd::load(scores + (j * N + v) * W) - base);
            simd::store(scores + (j * N + v) * W, x);
            sum += x;
        }
        simd::store(rows.top + v * W, high);
        simd::store(rows.sums + v * W, sum);
    }
}

// keys, values: kTile rows of head_dim, `count` of them valid; behind the last key zeros.
template <int N>
void many_step(const float* keys, const float* values, int first, int count, int head_dim,
               const Logits& logits, const ManyRows& rows) {
    constexpr int M = simd::kKeys;
    const int stride = tile_stride(head_dim);
    alignas(64) float scores[kTile * N * W];
    if (rows.end_high <= first || first + count <= rows.begin_low) return;
    for (int j = 0; j < count; j += M)
        many_scores<M, N>(keys + j * stride, rows, head_dim, scores + j * N * W);
    Vec kept[N];
    many_softmax<N>(first, count, logits, rows, scores, kept);
    int d = 0;
    for (; d + M <= head_dim; d += M)
        many_values<M, N>(values + d, scores, count, stride, kept, rows.out + d * rows.lanes,
                          rows.lanes);
    for (; d < head_dim; d++)
        many_values<1, N>(values + d, scores, count, stride, kept, rows.out + d * rows.lanes,
                          rows.lanes);
}

// One row of a page as float32.
template <class T>
void widen(const T* row, int head_dim, float scale, float* out) {
    const int vectors = num_vectors(head_dim);
    for (int v = 0; v < vectors; v++) {
        const int offset = vector_at(v, head_dim);
        const Vec x = simd::load(row + offset);
        simd::store(out + offset, sizeof(T) == 1 ? x * scale : x);
    }
}

}  // namespace tiles
