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

// Attention of many rows, as in the suffix and in prefill. A unit is a KV head, a group of rows
// and a chunk of keys.

#pragma once

#include "attend_work.h"

namespace {

constexpr int kManyUnits = 20;             // chunks of keys until there are so many units, of at
constexpr int kManyChunkKeys = 4 * kTile;  // least so many keys
constexpr int kManyFloats = 24576;         // queries of one unit: they and their sums stay in L2

template <class T>
class Many : public Work<T> {
  public:
    using Work<T>::Work;

    bool reserve() {
        const int vectors = ceil_div(this->rows, W);
        const int most = max(1, kManyFloats / (this->head_dim * W * simd::kVecs)) * simd::kVecs;
        groups_ = ceil_div(vectors, most);
        vectors_ = ceil_div(vectors, groups_);  // the last group may have fewer
        groups_ = ceil_div(vectors, vectors_);
        all_vectors_ = vectors;
        lanes_ = vectors_ * W;
        const int keys = this->high - this->begin;
        const int wanted = ceil_div(kManyUnits, this->heads * groups_);
        const int chunks = max(1, min(wanted, keys / kManyChunkKeys));
        chunk_ = ceil_div(ceil_div(keys, chunks), kTile) * kTile;
        chunks_ = ceil_div(keys, chunk_);
        units = this->heads * groups_ * chunks_;
        merges = this->heads * groups_ * vectors_;
        const size_t padded = size_t(groups_) * lanes_;
        if (!buffer.reserve(2 * Buffer::line(padded) + units * state()
                            + this->threads * scratch()))
            return false;
        begins_ = reinterpret_cast<int32_t*>(buffer.take(padded));
        ends_ = reinterpret_cast<int32_t*>(buffer.take(padded));
        state_ = buffer.take(units * state());
        scratch_ = buffer.take(this->threads * scratch());
        this->see(begins_, ends_, static_cast<int>(padded));
        return true;
    }

    void unit(int number, int worker) {
        const int chunk = number % chunks_, group = number / chunks_ % groups_;
        const int head = number / chunks_ / groups_;
        float* queries = scratch_ + worker * scratch();
        float* keys = queries + Buffer::line(size_t(this->head_dim) * lanes_);
        float* values = keys + tile_floats();
        float* out = state_ + number * state();
        float *tops = out + size_t(this->head_dim) * lanes_, *sums = tops + lanes_;
        memset(out, 0, size_t(this->head_dim) * lanes_ * sizeof(float));
        memset(sums, 0, lanes_ * sizeof(float));
        for (int lane = 0; lane < lanes_; lane++) tops[lane] = -INFINITY;
        // Lanes behind the last row repeat it; what they become is dropped.
        for (int lane = 0; lane < lanes_; lane++)
            this->query(head, min(group * lanes_ + lane, this->rows - 1), lanes_, queries + lane);
        tiles::ManyRows rows{queries, out, tops, sums, begins_ + group * lanes_,
                             ends_ + group * lanes_, lanes_, 0, 0, 0, 0};
        const int vectors = min(vectors_, all_vectors_ - group * vectors_);
        bound(0, vectors * W, &rows);
        const int begin = this->begin + chunk * chunk_;
        const int end = min(min(begin + chunk_, this->high), rows.end_high);
        // Tiles before the first that any row sees are skipped.
        const int first = begin + max(0, rows.begin_low - begin) / kTile * kTile;
        tiles::Tile<T> tile;
        for (int key = first; key < end; key += kTile) {
            if (key == first) this->fill(key, end, &tile);
            widen(tile, head, keys, values);
            const int tile_first = tile.first, tile_count = tile.count;
            if (key + kTile < end) {
                this->fill(key + kTile, end, &tile);
                fetch(tile, head);
            }
            for (int v = 0, count; v < vectors; v += count) {
                count = ceil_div(vectors - v, ceil_div(vectors - v, simd::kVecs));
                tiles::ManyRows block{queries + v * W, out + v * W, tops + v * W, sums + v * W,
                                      rows.begin + v * W, rows.end + v * W, lanes_, 0, 0, 0, 0};
                bound(0, count * W, &block);
                step(count, keys, values, tile_first, tile_count, block);
            }
        }
    }

    // Item: a vector of rows of one KV head.
    void merge(int item, int) {
        const int v = item % vectors_, unit = item / vectors_;
        const int head = unit / groups_, group = unit % groups_;
        const float* first = state_ + size_t(unit) * chunks_ * state();
        const size_t tops = size_t(this->head_dim) * lanes_ + v * W, sums = tops + lanes_;
        alignas(64) float result[256 * W];
        Vec weights[kManyUnits];
        Vec top = simd::all(-INFINITY), sum = {};
        for (int c = 0; c < chunks_; c++)
            top = simd::larger(simd::load(first + c * state() + tops), top);
        const Vec base = simd::select(top == simd::all(-INFINITY), Vec{}, top);
        for (int c = 0; c < chunks_; c++) {
            weights[c] = simd::exp2(simd::load(first + c * state() + tops) - base);
            sum += weights[c] * simd::load(first + c * state() + sums);
        }
        const Vec whole = simd::select(sum == Vec{}, Vec{}, 1.0f / sum);
        for (int d = 0; d < this->head_dim; d++) {
            Vec x = {};
            for (int c = 0; c < chunks_; c++)
                x += weights[c] * simd::load(first + c * state() + size_t(d) * lanes_ + v * W);
            simd::store(result + d * W, x * whole);
        }
        const int row = group * lanes_ + v * W;
        for (int lane = 0; lane < W && row + lane < this->rows; lane++)
            this->write(head, row + lane, result + lane, [](int d) { return d * W; });
    }

    int units = 0, merges = 0;

  private:
    size_t state() const { return Buffer::line(size_t(this->head_dim + 2) * lanes_); }
    size_t tile_floats() const { return size_t(kTile) * tiles::tile_stride(this->head_dim); }
    size_t scratch() const {
        return Buffer::line(size_t(this->head_dim) * lanes_) + 2 * tile_floats();
    }

    // Lowest and highest of what the lanes see.
    void bound(int from, int to, tiles::ManyRows* rows) const {
        rows->begin_low = rows->begin_high = rows->begin[from];
        rows->end_low = rows->end_high = rows->end[from];
        for (int lane = from; lane < to; lane++) {
            rows->begin_low = min(rows->begin_low, rows->begin[lane]);
            rows->begin_high = max(rows->begin_high, rows->begin[lane]);
            rows->end_low = min(rows->end_low, rows->end[lane]);
            rows->end_high = max(rows->end_high, rows->end[lane]);
        }
    }

    void widen(const tiles::Tile<T>& tile, int head, float* keys, float* values) const {
        const int dim = this->head_dim, stride = tiles::tile_stride(dim);
        const int64_t at = head * this->plan.head_stride;
        const int64_t scale_at = head * this->plan.scale_head_stride;
        for (int j = 0; j < tile.count; j++) {
            const bool scaled = sizeof(T) == 1;
            tiles::widen(tile.keys[j] + at, dim, scaled ? tile.key_scales[j][scale_at] : 1.0f,
                         keys + j * stride);
            tiles::widen(tile.values[j] + at, dim, scaled ? tile.value_scales[j][scale_at] : 1.0f,
                         values + j * stride);
        }
        for (int j = tile.count; j % simd::kKeys; j++)
            memset(keys + j * stride, 0, dim * sizeof(float));
    }

    // The rows of one head of the tile that comes next.
    void fetch(const tiles::Tile<T>& tile, int head) const {
        const int64_t at = head * this->plan.head_stride;
        for (int j = 0; j < tile.count; j++)
            for (int d = 0; d < this->head_dim; d += tiles::kLine / static_cast<int>(sizeof(T))) {
                __builtin_prefetch(tile.keys[j] + at + d, 0, 2);
                __builtin_prefetch(tile.values[j] + at + d, 0, 2);
            }
    }

    void step(int count, const float* keys, const float* values, int first, int tile_count,
              const tiles::ManyRows& block) const {
        static_assert(simd::kVecs <= 3, "a case for each number of vectors");
        switch (count) {
            case 1: return tiles::many_step<1>(keys, values, first, tile_count, this->head_dim,
                                               this->logits, block);
            case 2: return tiles::many_step<2>(keys, values, first, tile_count, this->head_dim,
                                               this->logits, block);
            default: return tiles::many_step<3>(keys, values, first, tile_count, this->head_dim,
                                                this->logits, block);
        }
    }

    int groups_ = 0, vectors_ = 0, all_vectors_ = 0, lanes_ = 0, chunk_ = 0, chunks_ = 0;
    int32_t *begins_ = nullptr, *ends_ = nullptr;
    float *state_ = nullptr, *scratch_ = nullptr;
};

}  // namespace
