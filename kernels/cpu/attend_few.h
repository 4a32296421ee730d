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

// Attention of few rows, as in decode. A unit is a chunk of keys for all KV heads, so that whole
// token rows are read, in the order of memory.

#pragma once

#include "attend_work.h"

namespace {

constexpr int kFewChunks = 16;             // at most so many chunks of keys, of at least
constexpr int kFewChunkKeys = 4 * kTile;

template <class T>
class Few : public Work<T> {
  public:
    using Work<T>::Work;

    bool reserve() {
        const int keys = this->high - this->begin;
        chunk_ = max(kFewChunkKeys, ceil_div(ceil_div(keys, kFewChunks), kTile) * kTile);
        units = ceil_div(keys, chunk_);
        merges = this->heads;
        vectors_ = tiles::num_vectors(this->head_dim);
        all_rows_ = this->heads * this->rows;
        const size_t row = static_cast<size_t>(vectors_) * W, all = all_rows_;
        const size_t unit = Buffer::line(all * row) + Buffer::line(all * W) + Buffer::line(all);
        if (!buffer.reserve(Buffer::line(this->threads) + Buffer::line(all * row)
                            + 2 * Buffer::line(this->rows) + units * unit))
            return false;
        fetched_ = reinterpret_cast<int32_t*>(buffer.take(this->threads));
        for (int worker = 0; worker < this->threads; worker++) fetched_[worker] = -1;
        queries_ = buffer.take(all * row);
        begins_ = reinterpret_cast<int32_t*>(buffer.take(this->rows));
        ends_ = reinterpret_cast<int32_t*>(buffer.take(this->rows));
        out_ = buffer.take(units * Buffer::line(all * row));
        sums_ = buffer.take(units * Buffer::line(all * W));
        tops_ = buffer.take(units * Buffer::line(all));
        this->see(begins_, ends_, this->rows);
        const int last = (vectors_ - 1) * W;
        for (int r = 0; r < all_rows_; r++) {
            float* q = queries_ + r * vectors_ * W;
            this->query(r / this->rows, r % this->rows, 1, q);
            // The last vector ends with the head; lanes that the one before it has too are 0.
            const int tail = this->head_dim - last;
            memmove(q + last + W - tail, q + last, tail * sizeof(float));
            memset(q + last, 0, (W - tail) * sizeof(float));
        }
        return true;
    }

    void unit(int number, int worker) {
        const int first = first_key(number), end = first_key(number + 1);
        const size_t row = static_cast<size_t>(vectors_) * W;
        memset(out(number), 0, all_rows_ * row * sizeof(float));
        memset(sums(number), 0, all_rows_ * W * sizeof(float));
        for (int r = 0; r < all_rows_; r++) tops(number)[r] = -INFINITY;
        const int row_bytes = static_cast<int>(
            ((this->heads - 1) * this->plan.head_stride + this->head_dim) * sizeof(T));
        const int blocks = ceil_div(this->rows, simd::kRows);
        const int lines = ceil_div(4 * ceil_div(row_bytes, tiles::kLine), this->heads * blocks);
        tiles::Tile<T> both[2];
        this->fill(first, end, &both[0]);
        if (fetched_[worker] != number) {
            tiles::touch(both[0].keys, both[0].count, row_bytes);
            tiles::touch(both[0].values, both[0].count, row_bytes);
        }
        // Behind the last tile comes the first of the unit that this thread is likely to get.
        const int likely = number + this->threads;
        fetched_[worker] = likely;
        for (int key = first, turn = 0; key < end; key += kTile, turn ^= 1) {
            tiles::Ahead<T> keys{nullptr, row_bytes, lines}, values{nullptr, row_bytes, lines};
            const bool last = key + kTile >= end;
            if (!last || likely < units) {
                tiles::Tile<T>& next = both[turn ^ 1];
                this->fill(last ? first_key(likely) : key + kTile,
                           last ? first_key(likely + 1) : end, &next);
                keys.rows = next.keys, values.rows = next.values;
            }
            for (int head = 0; head < this->heads; head++)
                for (int r = 0, count; r < this->rows; r += count) {
                    count = ceil_div(this->rows - r, ceil_div(this->rows - r, simd::kRows));
                    step(count, both[turn], number, head, r, &keys, &values);
                }
        }
    }

    void merge(int head, int) {
        const size_t row = static_cast<size_t>(vectors_) * W;
        alignas(64) float result[(256 + W)];
        for (int r = head * this->rows; r < (head + 1) * this->rows; r++) {
            float top = -INFINITY, sum = 0.0f;
            for (int u = 0; u < units; u++) top = tops(u)[r] > top ? tops(u)[r] : top;
            const Vec base = simd::all(top == -INFINITY ? 0.0f : top);
            memset(result, 0, row * sizeof(float));
            for (int u = 0; u < units; u++) {
                const Vec weight = simd::exp2(simd::all(tops(u)[r]) - base);
                sum += weight[0] * simd::sum_across(simd::load(sums(u) + r * W));
                for (int v = 0; v < vectors_; v++)
                    simd::store(result + v * W, simd::load(result + v * W)
                                + weight * simd::load(out(u) + r * row + v * W));
            }
            const float whole = sum == 0.0f ? 0.0f : 1.0f / sum;
            for (int i = 0; i < vectors_ * W; i++) result[i] *= whole;
            const int last = (vectors_ - 1) * W, shift = vectors_ * W - this->head_dim;
            this->write(head, r - head * this->rows, result,
                        [=](int d) { return d < last ? d : d + shift; });
        }
    }

    int units = 0, merges = 0;

  private:
    int first_key(int number) const { return min(this->high, this->begin + number * chunk_); }
    float* out(int u) { return out_ + u * Buffer::line(size_t(all_rows_) * vectors_ * W); }
    float* sums(int u) { return sums_ + u * Buffer::line(size_t(all_rows_) * W); }
    float* tops(int u) { return tops_ + u * Buffer::line(all_rows_); }

    void step(int count, const tiles::Tile<T>& tile, int number, int head, int r,
              tiles::Ahead<T>* keys, tiles::Ahead<T>* values) {
        const int all = head * this->rows + r, row = vectors_ * W;
        const tiles::FewRows rows{queries_ + all * row, out(number) + all * row,
                                  tops(number) + all, sums(number) + all * W,
                                  begins_ + r, ends_ + r};
        const int64_t at = head * this->plan.head_stride;
        const int64_t scale_at = head * this->plan.scale_head_stride;
        static_assert(simd::kRows <= 4, "a case for each number of rows");
        switch (count) {
            case 1: return tiles::few_step<T, 1>(tile, at, scale_at, this->head_dim, this->logits,
                                                 rows, keys, values);
            case 2: return tiles::few_step<T, 2>(tile, at, scale_at, this->head_dim, this->logits,
                                                 rows, keys, values);
            case 3: return tiles::few_step<T, 3>(tile, at, scale_at, this->head_dim, this->logits,
                                                 rows, keys, values);
            default: return tiles::few_step<T, 4>(tile, at, scale_at, this->head_dim,
                                                  this->logits, rows, keys, values);
        }
    }

    int chunk_ = 0, vectors_ = 0, all_rows_ = 0;
    int32_t *fetched_ = nullptr, *begins_ = nullptr, *ends_ = nullptr;
    float *queries_ = nullptr, *out_ = nullptr, *sums_ = nullptr, *tops_ = nullptr;
};

}  // namespace
