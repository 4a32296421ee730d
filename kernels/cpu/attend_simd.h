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

// Vectors of W floats in the compiler's own vector extensions (GCC and Clang): one source for
// AVX-512, AVX2, SSE2 and NEON. What lives here: loads from every page format, sums and maxima
// across a vector, exp2 and tanh. What does not: attention.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace simd {

// W: lanes. kKeys x kVecs: accumulators of the kernels with rows in the lanes; kRows x 4: of those
// with elements in the lanes, which sum kValues values at a time. All of it fits the registers of
// the instruction set beside the operands.
#if defined(__AVX512F__)
constexpr int W = 16, kKeys = 8, kVecs = 3, kRows = 4, kValues = 8;
#define ROBOT_INFER_LO32 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define ROBOT_INFER_HI32 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define ROBOT_INFER_LO64 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define ROBOT_INFER_HI64 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define ROBOT_INFER_SWAP8 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7
#define ROBOT_INFER_SWAP4 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11
#define ROBOT_INFER_SWAP2 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define ROBOT_INFER_SWAP1 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#elif defined(__AVX2__)
constexpr int W = 8, kKeys = 4, kVecs = 3, kRows = 2, kValues = 4;
#define ROBOT_INFER_LO32 0, 8, 1, 9, 4, 12, 5, 13
#define ROBOT_INFER_HI32 2, 10, 3, 11, 6, 14, 7, 15
#define ROBOT_INFER_LO64 0, 1, 8, 9, 4, 5, 12, 13
#define ROBOT_INFER_HI64 2, 3, 10, 11, 6, 7, 14, 15
#define ROBOT_INFER_SWAP4 4, 5, 6, 7, 0, 1, 2, 3
#define ROBOT_INFER_SWAP2 2, 3, 0, 1, 6, 7, 4, 5
#define ROBOT_INFER_SWAP1 1, 0, 3, 2, 5, 4, 7, 6
#else
#if defined(__aarch64__)
constexpr int W = 4, kKeys = 8, kVecs = 3, kRows = 4, kValues = 8;
#else
constexpr int W = 4, kKeys = 4, kVecs = 2, kRows = 2, kValues = 4;
#endif
#define ROBOT_INFER_LO32 0, 4, 1, 5
#define ROBOT_INFER_HI32 2, 6, 3, 7
#define ROBOT_INFER_LO64 0, 1, 4, 5
#define ROBOT_INFER_HI64 2, 3, 6, 7
#define ROBOT_INFER_SWAP2 2, 3, 0, 1
#define ROBOT_INFER_SWAP1 1, 0, 3, 2
#endif

typedef float Vec __attribute__((vector_size(4 * W)));
typedef int32_t IVec __attribute__((vector_size(4 * W)));
typedef uint32_t UVec __attribute__((vector_size(4 * W)));

#if defined(__clang__) || __GNUC__ >= 12
#define ROBOT_INFER_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define ROBOT_INFER_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, simd::IVec{__VA_ARGS__})
#endif

// Before a loop over an array of vectors: unrolled early, the array lives in registers.
#if defined(__clang__)
#define ROBOT_INFER_UNROLL _Pragma("unroll")
#else
#define ROBOT_INFER_UNROLL _Pragma("GCC unroll 16")
#endif

struct bf16 { uint16_t bits; };

inline float to_float(float x) { return x; }
inline float to_float(bf16 x) {
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

inline void from_float(float x, float* out) { *out = x; }
inline void from_float(float x, bf16* out) {  // to nearest, ties to even; NaN stays NaN
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    out->bits = x != x ? 0x7fc0 : static_cast<uint16_t>(rounded);
}

inline Vec load(const float* p) {
    Vec out;
    memcpy(&out, p, sizeof out);
    return out;
}
// Widening needs names of instructions: GCC 12 takes ten where one does it.
#if defined(__AVX512F__)
inline Vec load(const bf16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return reinterpret_cast<Vec>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec load(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return reinterpret_cast<Vec>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}
#elif defined(__AVX2__)
inline Vec load(const bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return reinterpret_cast<Vec>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec load(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return reinterpret_cast<Vec>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
}
#elif defined(__aarch64__)
inline Vec load(const bf16* p) {
    return reinterpret_cast<Vec>(vshll_n_u16(vld1_u16(&p->bits), 16));
}
inline Vec load(const int8_t* p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return reinterpret_cast<Vec>(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
}
#elif defined(__x86_64__)
inline Vec load(const bf16* p) {
    const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return reinterpret_cast<Vec>(_mm_unpacklo_epi16(_mm_setzero_si128(), bits));
}
inline Vec load(const int8_t* p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    __m128i x = _mm_cvtsi32_si128(four);
    x = _mm_unpacklo_epi8(x, x);
    x = _mm_srai_epi32(_mm_unpacklo_epi16(x, x), 24);
    return reinterpret_cast<Vec>(_mm_cvtepi32_ps(x));
}
#else
inline Vec load(const bf16* p) {
    return Vec{to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])};
}
inline Vec load(const int8_t* p) {
    return __builtin_convertvector(IVec{p[0], p[1], p[2], p[3]}, Vec);
}
#endif
inline void store(float* p, Vec x) { memcpy(p, &x, sizeof x); }

inline Vec all(float x) { return x - Vec{}; }
inline Vec select(IVec where, Vec yes, Vec no) { return where ? yes : no; }
inline Vec larger(Vec a, Vec b) { return select(a > b, a, b); }

inline IVec iota() {
    IVec out;
    for (int i = 0; i < W; i++) out[i] = i;
    return out;
}

#if defined(__AVX512F__)
#define ROBOT_INFER_FOLD(op) \
    x = op(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP8)); \
    x = op(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP4));
#elif defined(__AVX2__)
#define ROBOT_INFER_FOLD(op) x = op(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP4));
#else
#define ROBOT_INFER_FOLD(op)
#endif

inline Vec plus(Vec a, Vec b) { return a + b; }

// Largest lane, in every lane.
inline Vec max_across(Vec x) {
    ROBOT_INFER_FOLD(larger)
    x = larger(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP2));
    return larger(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP1));
}

inline float sum_across(Vec x) {
    ROBOT_INFER_FOLD(plus)
    x = plus(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP2));
    x = plus(x, ROBOT_INFER_SHUFFLE(x, x, ROBOT_INFER_SWAP1));
    return x[0];
}

// The sums across four vectors, side by side.
inline void store_sums(float* out, Vec a, Vec b, Vec c, Vec d) {
    const Vec ab = ROBOT_INFER_SHUFFLE(a, b, ROBOT_INFER_LO32)
        + ROBOT_INFER_SHUFFLE(a, b, ROBOT_INFER_HI32);
    const Vec cd = ROBOT_INFER_SHUFFLE(c, d, ROBOT_INFER_LO32)
        + ROBOT_INFER_SHUFFLE(c, d, ROBOT_INFER_HI32);
    Vec x = ROBOT_INFER_SHUFFLE(ab, cd, ROBOT_INFER_LO64)
        + ROBOT_INFER_SHUFFLE(ab, cd, ROBOT_INFER_HI64);
    ROBOT_INFER_FOLD(plus)
    memcpy(out, &x, 16);
}

// 2 ** x to 3e-9 relative before rounding, for x <= 127; 0 below -126, NaN for NaN.
inline Vec exp2(Vec x) {
    const Vec low = all(-127.0f), magic = all(12582912.0f);  // 1.5 * 2 ** 23: rounds to integers
    const Vec clamped = select(x < low, low, x);
    const Vec shifted = clamped + magic;
    const Vec f = clamped - (shifted - magic);
    Vec y = 1.5469732170458883e-4f * f + 1.3400432653725147e-3f;
    y = y * f + 9.61802527308464e-3f;
    y = y * f + 5.550327152013779e-2f;
    y = y * f + 0.24022650718688965f;
    y = y * f + 0.6931471824645996f;
    y = y * f + 1.0f;
    const IVec power = (reinterpret_cast<IVec>(shifted) << 23) + 0x3f800000;
    return select(x < all(-126.0f), Vec{}, y * reinterpret_cast<Vec>(power));
}

// tanh: near 0 by an odd polynomial (Cephes, S. Moshier), else 1 - 2 / (exp(2 |x|) + 1).
inline Vec tanh(Vec x) {
    const IVec sign = reinterpret_cast<IVec>(x) & INT32_MIN;
    const Vec size = reinterpret_cast<Vec>(reinterpret_cast<IVec>(x) & INT32_MAX);
    const Vec top = all(10.0f);  // tanh is 1 in float32 from 9.02 on
    const Vec square = exp2(2.885390081777927f * select(size > top, top, size));  // exp(2 |x|)
    const Vec far = 1.0f - 2.0f / (square + 1.0f);
    const Vec z = x * x;
    Vec near = -5.70498872745e-3f * z + 2.06390887954e-2f;
    near = near * z - 5.37397155531e-2f;
    near = near * z + 1.33314422036e-1f;
    near = near * z - 3.33332819422e-1f;
    near = near * z * x + x;
    const Vec signed_far = reinterpret_cast<Vec>(reinterpret_cast<IVec>(far) | sign);
    return select(size < all(0.625f), near, signed_far);
}

}  // namespace simd
