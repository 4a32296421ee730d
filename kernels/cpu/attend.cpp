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

// Paged attention on the CPU: a plain C interface, no Python and no torch in it.
//
// The work is cut into units by the shape of the call alone, never by the number of threads, and
// units are merged in their order: the same bits on any number of threads. Pages are only ever
// seen as pointers to rows: the same bits wherever they lie.
//
//   few rows    unit = a chunk of keys, all KV heads (whole token rows are read, in order)
//   many rows   unit = a KV head, a group of rows and a chunk of keys
//
// Threads are those of the caller's OpenMP runtime, torch's own (see attend_use_threads): no
// second pool fights for the cores. Memory is one buffer a calling thread, which only grows.

#include <sched.h>

#include <atomic>
#include <cstdlib>

#include "attend_tiles.h"

#ifndef ROBOT_INFER_VERSION
#error "build with kernels/cpu/build.py: it hashes the sources into the version"
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

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

// What changes: queries, where the result goes, and how many threads work.
struct Call {
    const void* q;
    int64_t q_token_stride, q_head_stride;
    void* out;             // (num_tokens, num_heads, head_dim)
    float scale, softcap;  // softcap 0: none
    int threads;
};

constexpr int kFewRows = 8;              // up to so many rows share a KV head in the form of few
constexpr int kFewChunks = 16;           // at most so many chunks of keys, of at least
constexpr int kFewChunkKeys = 4 * kTile;
constexpr int kManyUnits = 20;           // chunks of keys until there are so many units, of at
constexpr int kManyChunkKeys = 4 * kTile;  // least so many keys
constexpr int kManyFloats = 24576;       // queries of one unit: they and their sums stay in L2
constexpr double kSerialFlops = 2e6;     // less is not worth waking another thread

typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
Parallel parallel = nullptr;

int ceil_div(int a, int b) { return (a + b - 1) / b; }
int min(int a, int b) { return a < b ? a : b; }
int max(int a, int b) { return a > b ? a : b; }

// One buffer a calling thread, handed out in pieces of whole cache lines.
class Buffer {
  public:
    ~Buffer() { free(memory_); }

    bool reserve(size_t floats) {
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
          begin(static_cast<int>(plan.begin)), high(static_cast<int>(plan.high)) {}

    // Row r of a KV head is query r / group of head r % group; rows behind the last repeat it.
    void see(int32_t* begins, int32_t* ends, int padded) const {
        for (int r = 0; r < padded; r++) {
            const int64_t limit = plan.limits[min(r, rows - 1) / group];
            const int64_t first = plan.window > 0 ? limit - plan.window : 0;
            begins[r] = static_cast<int32_t>(first < plan.begin ? plan.begin : first);
            ends[r] = static_cast<int32_t>(limit);
        }
    }

    float query(int head, int row, int d) const {
        const int64_t at = row / group * call.q_token_stride
            + (head * group + row % group) * call.q_head_stride + d;
        return plan.query_format == kBFloat16
            ? simd::to_float(static_cast<const simd::bf16*>(call.q)[at])
            : static_cast<const float*>(call.q)[at];
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
};

// --- Few rows -----------------------------------------------------------------------------------

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
        if (!buffer.reserve(Buffer::line(all * row) + 2 * Buffer::line(this->rows) + units
                            * (Buffer::line(all * row) + Buffer::line(all * W)
                               + Buffer::line(all))))
            return false;
        queries_ = buffer.take(all * row);
        begins_ = reinterpret_cast<int32_t*>(buffer.take(this->rows));
        ends_ = reinterpret_cast<int32_t*>(buffer.take(this->rows));
        out_ = buffer.take(units * Buffer::line(all * row));
        sums_ = buffer.take(units * Buffer::line(all * W));
        tops_ = buffer.take(units * Buffer::line(all));
        this->see(begins_, ends_, this->rows);
        for (int r = 0; r < all_rows_; r++)
            for (int v = 0; v < vectors_; v++)
                for (int i = 0; i < W; i++) {
                    // Lanes that the vector before has already are 0 here.
                    const int d = tiles::vector_at(v, this->head_dim) + i;
                    queries_[(r * vectors_ + v) * W + i] = d < v * W ? 0.0f
                        : this->query(r / this->rows, r % this->rows, d);
                }
        return true;
    }

    void unit(int number, int) {
        const int first = this->begin + number * chunk_, end = min(this->high, first + chunk_);
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
        tiles::touch(both[0].keys, both[0].count, row_bytes);
        tiles::touch(both[0].values, both[0].count, row_bytes);
        for (int key = first, turn = 0; key < end; key += kTile, turn ^= 1) {
            tiles::Ahead<T> keys{nullptr, row_bytes, lines}, values{nullptr, row_bytes, lines};
            if (key + kTile < end) {
                tiles::Tile<T>& next = both[turn ^ 1];
                this->fill(key + kTile, end, &next);
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

    size_t scratch() const { return 0; }
    int units = 0, merges = 0;

  private:
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
    int32_t *begins_ = nullptr, *ends_ = nullptr;
    float *queries_ = nullptr, *out_ = nullptr, *sums_ = nullptr, *tops_ = nullptr;
};

// --- Many rows ----------------------------------------------------------------------------------

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
        const size_t block = size_t(this->head_dim) * lanes_;
        if (!buffer.reserve(2 * Buffer::line(padded) + units * (block + 2 * lanes_ + 16)
                            + max(1, this->call.threads) * scratch()))
            return false;
        begins_ = reinterpret_cast<int32_t*>(buffer.take(padded));
        ends_ = reinterpret_cast<int32_t*>(buffer.take(padded));
        state_ = buffer.take(units * state());
        scratch_ = buffer.take(max(1, this->call.threads) * scratch());
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
        // Rows are visible to themselves only: what lies behind the last is computed and dropped.
        for (int lane = 0; lane < lanes_; lane++) {
            const int row = min(group * lanes_ + lane, this->rows - 1);
            for (int d = 0; d < this->head_dim; d++)
                queries[d * lanes_ + lane] = this->query(head, row, d);
        }
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
    size_t state() const { return size_t(this->head_dim) * lanes_ + 2 * lanes_; }
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

// --- Threads ------------------------------------------------------------------------------------

// Every thread takes units until there are none, waits for the last of them, then merges.
template <class Form>
struct Team {
    Form& form;
    std::atomic<int> workers{0}, units{0}, done{0}, merges{0};

    static void work(void* self) {
        Team& team = *static_cast<Team*>(self);
        const int worker = team.workers.fetch_add(1);
        for (int u; (u = team.units.fetch_add(1)) < team.form.units;) {
            team.form.unit(u, worker);
            team.done.fetch_add(1, std::memory_order_release);
        }
        for (int turn = 0; team.done.load(std::memory_order_acquire) < team.form.units; turn++)
            turn % 1024 ? pause() : void(sched_yield());
        for (int m; (m = team.merges.fetch_add(1)) < team.form.merges;) team.form.merge(m, worker);
    }

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
};

template <class Form>
int run(Form form) {
    if (!form.reserve()) return 2;
    Team<Form> team{form};
    const double flops = 4.0 * form.heads * form.rows * form.head_dim * (form.high - form.begin);
    const int threads = form.call.threads;
    if (parallel == nullptr || threads < 2 || flops < kSerialFlops || form.units < 2)
        Team<Form>::work(&team);
    else
        parallel(Team<Form>::work, &team, threads, 0);
    return 0;
}

template <class T>
int run_form(const AttendPlan& plan, const Call& call) {
    const int64_t rows = plan.num_tokens * (plan.num_heads / plan.num_kv_heads);
    const bool few = plan.form == kAuto ? rows <= kFewRows : plan.form == kFew;
    return few ? run(Few<T>(plan, call)) : run(Many<T>(plan, call));
}

}  // namespace

// The hash of the sources, so that a library which does not fit its loader is noticed.
EXPORT uint64_t attend_version() { return ROBOT_INFER_VERSION; }

// Lanes of the widest build that this processor runs: 16, 8 or 4. Ask the plainest build.
EXPORT int attend_widest() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return 16;
    return avx2 ? 8 : 4;
#else
    return 4;
#endif
}

// GOMP_parallel of the OpenMP runtime whose threads are to work; without it, none but the caller.
EXPORT void attend_use_threads(void* gomp_parallel) {
    parallel = reinterpret_cast<Parallel>(gomp_parallel);
}

// 0; 1 where this build cannot (head_dim below W); 2 without memory.
EXPORT int attend(const AttendPlan* plan, const void* q, int64_t q_token_stride,
                  int64_t q_head_stride, void* out, float scale, float softcap, int threads) {
    if (plan->head_dim < W) return 1;
    const Call call{q, q_token_stride, q_head_stride, out, scale, softcap, threads};
    switch (plan->page_format) {
        case kFloat32: return run_form<float>(*plan, call);
        case kBFloat16: return run_form<simd::bf16>(*plan, call);
        default: return run_form<int8_t>(*plan, call);
    }
}
