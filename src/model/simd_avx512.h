// The SIMD level AVX-512 (F, BW, DQ, VL, VNNI): vectors of 16. See simd_plain.h for what each
// operation means. Only for kernels_avx512.cc, as explained in simd_avx2.h.
#ifndef TANDEM_MODEL_SIMD_AVX512_H_
#define TANDEM_MODEL_SIMD_AVX512_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model/simd_common.h"
#include "model/simd_x86.h"

namespace tandem::model {

struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kMaxRows = 8;
  static constexpr size_t kAhead = 8192;
  using V = __m512;
  using I = __m512i;

  TANDEM_SIMD V Zero() { return _mm512_setzero_ps(); }
  TANDEM_SIMD V Set1(float x) { return _mm512_set1_ps(x); }
  TANDEM_SIMD V Load(const float* p) { return _mm512_loadu_ps(p); }
  TANDEM_SIMD void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
  TANDEM_SIMD V LoadHalf(const uint16_t* p) { return _mm512_cvtph_ps(Load256(p)); }
  TANDEM_SIMD void StoreHalf(uint16_t* p, V v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  TANDEM_SIMD V LoadBfloat16(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Load256(p)), 16));
  }
  // The sign is extended to bit 14 as well, from where it goes.
  TANDEM_SIMD V LoadFp8(const uint8_t* p) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_cvtph_ps(
        _mm256_andnot_si256(_mm256_set1_epi16(0x4000), _mm256_slli_epi16(wide, 7)));
  }
  TANDEM_SIMD V LoadInt8(const int8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  TANDEM_SIMD V Add(V a, V b) { return _mm512_add_ps(a, b); }
  TANDEM_SIMD V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
  TANDEM_SIMD V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
  TANDEM_SIMD V Div(V a, V b) { return _mm512_div_ps(a, b); }
  TANDEM_SIMD V Max(V a, V b) { return _mm512_max_ps(a, b); }
  TANDEM_SIMD V Min(V a, V b) { return _mm512_min_ps(a, b); }
  TANDEM_SIMD V Abs(V a) { return _mm512_abs_ps(a); }
  TANDEM_SIMD V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  TANDEM_SIMD float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
  TANDEM_SIMD V FromInt(I v) { return _mm512_cvtepi32_ps(v); }
  TANDEM_SIMD V SwapPairs(V v) { return _mm512_permute_ps(v, 0xB1); }
  TANDEM_SIMD V AddToExponent(V p, V shifted) {
    const I exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
  }
  TANDEM_SIMD V ZeroWhereLess(V x, V limit, V value) {
    return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), Zero());
  }
  TANDEM_SIMD void StoreBlock(int8_t* q, const V (&bits)[2], int32_t (&sums)[2]) {
    StoreBytesAndSums(q,
                      _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_castps_si512(bits[1])),
                                       _mm512_cvtepi32_epi8(_mm512_castps_si512(bits[0]))),
                      sums);
  }
  TANDEM_SIMD float ReduceAdd(const V (&v)[1]) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
  TANDEM_SIMD float ReduceMax(const V (&v)[1]) {
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    max = _mm_max_ps(max, _mm_movehl_ps(max, max));
    return _mm_cvtss_f32(_mm_max_ss(max, _mm_movehdup_ps(max)));
  }
  TANDEM_SIMD void Prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }

  TANDEM_SIMD I LoadBytes(const std::byte* p) { return _mm512_loadu_si512(p); }
  TANDEM_SIMD I Bits(I v, int from, int to, int mask) {
    const I moved = from > to   ? _mm512_srli_epi16(v, from - to)
                    : from < to ? _mm512_slli_epi16(v, to - from)
                                : v;
    return _mm512_and_si512(moved, _mm512_set1_epi8(static_cast<char>(mask << to)));
  }
  TANDEM_SIMD I Or(I a, I b) { return _mm512_or_si512(a, b); }
  TANDEM_SIMD V LoadUnsigned(const std::byte* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  TANDEM_SIMD I LoadPairs(const std::byte* p) { return _mm512_cvtepi8_epi16(Load256(p)); }
  TANDEM_SIMD I LoadUnsignedPairs(const std::byte* p) { return _mm512_cvtepu8_epi16(Load256(p)); }
  TANDEM_SIMD I DotPairs(I pairs, int32_t other) {
    return _mm512_madd_epi16(pairs, _mm512_set1_epi32(other));
  }
  TANDEM_SIMD I SubtractShifted(I a, I b, int shift) {
    return _mm512_sub_epi32(a, _mm512_slli_epi32(b, shift));
  }

  // Quads q and q + 4 may share bytes, so they follow each other.
  template <int R, int G, int kMost, class Load>
  TANDEM_SIMD void DotQuants(Load quants, const int8_t* x, size_t stride, I (&out)[R][G]) {
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) out[r][g] = _mm512_setzero_si512();
    }
    TANDEM_UNROLL
    for (int step = 0; step < 8; ++step) {
      const int quad = step / 2 + step % 2 * 4;
      I w[G];
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) w[g] = quants(g, quad);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const I four = Broadcast4(x + r * stride + quad * 4);
        TANDEM_UNROLL
        for (int g = 0; g < G; ++g) out[r][g] = _mm512_dpbusd_epi32(out[r][g], w[g], four);
      }
    }
  }

  TANDEM_SIMD void MixHalves(const int8_t* x, int8_t* mixed) { Mix(x, mixed); }
  // A pair sum belongs to one half: the widening multiply applies its factor.
  template <int R, int G, int kMost, class Load, class Factors>
  TANDEM_SIMD void DotHalves(Load quants, Factors factors, const int8_t (&mixed)[R][32],
                             I (&out)[R][G]) {
    constexpr int kRun = QuadsInInt16(kMost);
    I run[R][G];
    TANDEM_UNROLL
    for (int quad = 0; quad < 8; ++quad) {
      I w[G];
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) w[g] = quants(g, quad);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const I four = Broadcast4(mixed[r] + quad * 4);
        TANDEM_UNROLL
        for (int g = 0; g < G; ++g) {
          const I pairs = _mm512_maddubs_epi16(w[g], four);
          run[r][g] = quad % kRun == 0 ? pairs : _mm512_add_epi16(run[r][g], pairs);
          if (quad % kRun != kRun - 1) continue;
          const I before = quad < kRun ? _mm512_setzero_si512() : out[r][g];
          out[r][g] = _mm512_dpwssd_epi32(before, run[r][g], factors(g));
        }
      }
    }
  }

  // w xor 0x80 is w + 128 as an unsigned byte; the offset comes off through the sum of x.
  template <int R, int G, class Load>
  TANDEM_SIMD void DotBytes(Load bytes, const int8_t* x, size_t stride, const int32_t* sums,
                            size_t sums_stride, I (&out)[R][G]) {
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) out[r][g] = _mm512_set1_epi32(-128 * sums[r * sums_stride]);
    }
    TANDEM_UNROLL
    for (int quad = 0; quad < 8; ++quad) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) {
        const I weights =
            _mm512_xor_si512(bytes(g, quad), _mm512_set1_epi8(static_cast<char>(0x80)));
        TANDEM_UNROLL
        for (int r = 0; r < R; ++r)
          out[r][g] =
              _mm512_dpbusd_epi32(out[r][g], weights, Broadcast4(x + r * stride + quad * 4));
      }
    }
  }

 private:
  TANDEM_SIMD __m256i Load256(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  TANDEM_SIMD I Broadcast4(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
  }
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_AVX512_H_
