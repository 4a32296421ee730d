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
//   few rows    attend_few.h     unit = a chunk of keys, all KV heads
//   many rows   attend_many.h    unit = a KV head, a group of rows and a chunk of keys
//
// Threads are those of the caller's OpenMP runtime, torch's own (see attend_use_threads): no
// second pool fights for the cores. Memory is one buffer a calling thread, which only grows.

#include <sched.h>

#include <atomic>

#include "attend_few.h"
#include "attend_many.h"

#ifndef ROBOT_INFER_VERSION
#error "build with kernels/cpu/build.py: it hashes the sources into the version"
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Up to so many rows share a KV head in the form of few: from 10 or 12 rows on the form of many is
// faster with 8 and 16 lanes (512 keys of 5 heads x 64 and x 128), from 6 or 8 with 4.
constexpr int kFewRows = W > 4 ? 10 : 6;

typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
Parallel parallel = nullptr;

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
void share(Team<Form>* team, int threads) {
    if (parallel == nullptr || threads < 2)
        Team<Form>::work(team);
    else
        parallel(Team<Form>::work, team, threads, 0);
}

using simd::IVec;

struct Reader {
    static constexpr int64_t kPart = 1 << 16;
    const char* start;
    int64_t bytes;
    int units = static_cast<int>(bytes / kPart), merges = 0;

    void unit(int number, int) {
        IVec sums[4];
        ROBOT_INFER_UNROLL for (int k = 0; k < 4; k++) sums[k] = IVec{};
        for (int64_t at = number * kPart; at < (number + 1) * kPart; at += sizeof sums)
            ROBOT_INFER_UNROLL for (int k = 0; k < 4; k++) {
                IVec loaded;
                memcpy(&loaded, start + at + k * sizeof loaded, sizeof loaded);
                sums[k] += loaded;
            }
        const IVec sum = sums[0] + sums[1] + sums[2] + sums[3];
        volatile int32_t kept = sum[0];
        (void)kept;
    }
    void merge(int, int) {}
};

template <class Form>
int run(Form form) {
    if (!form.reserve()) return 2;
    Team<Form> team{form};
    share(&team, form.units > 1 ? form.threads : 1);
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

// Reads memory and does nothing else, on all threads: the floor that a benchmark holds against.
EXPORT void read_memory(const void* start, int64_t bytes, int threads) {
    Reader reader{static_cast<const char*>(start), bytes};
    Team<Reader> team{reader};
    share(&team, threads);
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
