// The SIMD level AVX2 + FMA + F16C: vectors of 8. See simd_plain.h for what each operation means.
// Only for kernels_avx2.cc: everything here is inlined, so that no function compiled with these
// instructions can be picked by the linker for another translation unit.
#ifndef TANDEM_MODEL_SIMD_AVX2_H_
#define TANDEM_MODEL_SIMD_AVX2_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model/simd_common.h"
#include "model/simd_x86.h"

namespace tandem::model {

struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr int kMaxRows = 8;
  static constexpr size_t kAhead = 8192;
  using V = __m256;
  using I = __m256i;

  TANDEM_SIMD V Zero() { return _mm256_setzero_ps(); }
  TANDEM_SIMD V Set1(float x) { return _mm256_set1_ps(x); }
  TANDEM_SIMD V Load(const float* p) { return _mm256_loadu_ps(p); }
  TANDEM_SIMD void Store(float* p, V v) { _mm256_storeu_ps(p, v); }
  TANDEM_SIMD V LoadHalf(const uint16_t* p) { return Widen(Load128(p)); }
  TANDEM_SIMD void StoreHalf(uint16_t* p, V v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  TANDEM_SIMD V LoadBfloat16(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load128(p)), 16));
  }
  // The sign is extended to bit 14 as well, from where it goes.
  TANDEM_SIMD V LoadFp8(const uint8_t* p) {
    const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return Widen(_mm_andnot_si128(_mm_set1_epi16(0x4000), _mm_slli_epi16(wide, 7)));
  }
  TANDEM_SIMD V LoadInt8(const int8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  TANDEM_SIMD V Add(V a, V b) { return _mm256_add_ps(a, b); }
  TANDEM_SIMD V Sub(V a, V b) { return _mm256_sub_ps(a, b); }
  TANDEM_SIMD V Mul(V a, V b) { return _mm256_mul_ps(a, b); }
  TANDEM_SIMD V Div(V a, V b) { return _mm256_div_ps(a, b); }
  TANDEM_SIMD V Max(V a, V b) { return _mm256_max_ps(a, b); }
  TANDEM_SIMD V Min(V a, V b) { return _mm256_min_ps(a, b); }
  TANDEM_SIMD V Abs(V a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  TANDEM_SIMD V Fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  TANDEM_SIMD float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
  TANDEM_SIMD V FromInt(I v) { return _mm256_cvtepi32_ps(v); }
  TANDEM_SIMD V SwapPairs(V v) { return _mm256_permute_ps(v, 0xB1); }
  TANDEM_SIMD V AddToExponent(V p, V shifted) {
    const I exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  }
  TANDEM_SIMD V ZeroWhereLess(V x, V limit, V value) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), value);
  }
  TANDEM_SIMD void StoreBlock(int8_t* q, const V (&bits)[4], int32_t (&sums)[2]) {
    I n[4];
    TANDEM_UNROLL
    for (int i = 0; i < 4; ++i)
      n[i] = _mm256_sub_epi32(_mm256_castps_si256(bits[i]),
                              _mm256_castps_si256(_mm256_set1_ps(kRound)));
    // Packing works on 128-bit halves: fours of all vectors, then their other fours.
    const I bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    StoreBytesAndSums(
        q, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), sums);
  }
  TANDEM_SIMD float ReduceAdd(const V (&v)[2]) {
    const V eight = _mm256_add_ps(v[0], v[1]);
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
  TANDEM_SIMD float ReduceMax(const V (&v)[2]) {
    const V eight = _mm256_max_ps(v[0], v[1]);
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    max = _mm_max_ps(max, _mm_movehl_ps(max, max));
    return _mm_cvtss_f32(_mm_max_ss(max, _mm_movehdup_ps(max)));
  }
  TANDEM_SIMD void Prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }

  TANDEM_SIMD I LoadBytes(const std::byte* p) { return Load256(p); }
  TANDEM_SIMD I Bits(I v, int from, int to, int mask) {
    const I moved = from > to   ? _mm256_srli_epi16(v, from - to)
                    : from < to ? _mm256_slli_epi16(v, to - from)
                                : v;
    return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask << to)));
  }
  TANDEM_SIMD I Or(I a, I b) { return _mm256_or_si256(a, b); }
  TANDEM_SIMD V LoadUnsigned(const std::byte* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  TANDEM_SIMD I LoadPairs(const std::byte* p) { return _mm256_cvtepi8_epi16(Load128(p)); }
  TANDEM_SIMD I LoadUnsignedPairs(const std::byte* p) { return _mm256_cvtepu8_epi16(Load128(p)); }
  TANDEM_SIMD I DotPairs(I pairs, int32_t other) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(other));
  }
  TANDEM_SIMD I SubtractShifted(I a, I b, int shift) {
    return _mm256_sub_epi32(a, _mm256_slli_epi32(b, shift));
  }

  template <int R, int G, int kMost, class Load>
  TANDEM_SIMD void DotQuants(Load quants, const int8_t* x, size_t stride, I (&out)[R][G]) {
    const auto ones = [](int) TANDEM_INLINE_LAMBDA { return _mm256_set1_epi16(1); };
    DotWidened<R, G, kMost>(quants, ones, x, stride, out);
  }
  TANDEM_SIMD void MixHalves(const int8_t* x, int8_t* mixed) { Mix(x, mixed); }
  // A pair sum belongs to one half: the widening multiply applies its factor.
  template <int R, int G, int kMost, class Load, class Factors>
  TANDEM_SIMD void DotHalves(Load quants, Factors factors, const int8_t (&mixed)[R][32],
                             I (&out)[R][G]) {
    DotWidened<R, G, kMost>(quants, factors, mixed[0], sizeof(mixed[0]), out);
  }

  // |w| as the unsigned operand, x with w's sign as the other: a pair is at most 2 * 128 * 127.
  template <int R, int G, class Load>
  TANDEM_SIMD void DotBytes(Load bytes, const int8_t* x, size_t stride, const int32_t* /*sums*/,
                            size_t /*sums_stride*/, I (&out)[R][G]) {
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) out[r][g] = _mm256_setzero_si256();
    }
    TANDEM_UNROLL
    for (int quad = 0; quad < 8; ++quad) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) {
        const I weights = bytes(g, quad);
        const I magnitude = _mm256_abs_epi8(weights);
        TANDEM_UNROLL
        for (int r = 0; r < R; ++r) {
          const I signed_x = _mm256_sign_epi8(Broadcast4(x + r * stride + quad * 4), weights);
          const I pairs = _mm256_maddubs_epi16(magnitude, signed_x);
          out[r][g] = _mm256_add_epi32(out[r][g], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
          if constexpr (R > 1) InOrder(out[r][g]);
        }
      }
    }
  }

 private:
  // The form with a memory operand is half again as slow on some CPUs (Zen 1), so the load is kept
  // apart from the conversion.
  TANDEM_SIMD V Widen(__m128i halves) {
    V result;
    asm("vcvtph2ps %1, %0" : "=x"(result) : "x"(halves));
    return result;
  }
  TANDEM_SIMD __m128i Load128(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  TANDEM_SIMD I Load256(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  TANDEM_SIMD I Broadcast4(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }
  // Pair sums are added in int16 as long as they fit, all of a block's for nibbles, and widened
  // after that. Quads q and q + 4 may share bytes, so they follow each other.
  template <int R, int G, int kMost, class Load, class Widen>
  TANDEM_SIMD void DotWidened(Load quants, Widen multiplier, const int8_t* x, size_t stride,
                              I (&out)[R][G]) {
    constexpr int kRun = QuadsInInt16(kMost);
    constexpr int kTogether =
        kRun == 2 && R > 1 ? 2 : 1;  // quads a row takes at once: no sums in between
    I run[R][G];
    TANDEM_UNROLL
    for (int step = 0; step < 8; step += kTogether) {
      I w[kTogether][G];
      TANDEM_UNROLL
      for (int t = 0; t < kTogether; ++t) {
        TANDEM_UNROLL
        for (int g = 0; g < G; ++g) w[t][g] = quants(g, QuadAt(step + t));
      }
      const bool first = step % kRun == 0;
      const bool last = step % kRun == kRun - kTogether;
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        TANDEM_UNROLL
        for (int g = 0; g < G; ++g) {
          TANDEM_UNROLL
          for (int t = 0; t < kTogether; ++t) {
            const I four = Broadcast4(x + r * stride + QuadAt(step + t) * 4);
            const I pairs = _mm256_maddubs_epi16(w[t][g], four);
            run[r][g] = first && t == 0 ? pairs : _mm256_add_epi16(run[r][g], pairs);
          }
          if constexpr (R > 1) InOrder(run[r][g]);
          if (!last) continue;
          const I wide = _mm256_madd_epi16(run[r][g], multiplier(g));
          out[r][g] = step < kRun ? wide : _mm256_add_epi32(out[r][g], wide);
        }
      }
    }
  }
  TANDEM_SIMD constexpr int QuadAt(int step) { return step / 2 + step % 2 * 4; }
  // Keeps the compiler from regrouping sums row by row, which would leave the multiplier waiting at
  // the end of each row: with the rows in turn, as written, tiles are 12 to 15 % faster.
  TANDEM_SIMD void InOrder(I& sum) { asm volatile("" : "+x"(sum)); }
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_AVX2_H_
