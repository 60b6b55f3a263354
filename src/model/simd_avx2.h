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
  static constexpr size_t kNibblesAhead = 4096;
  using V = __m256;
  using I = __m256i;

  TANDEM_SIMD V Zero() { return _mm256_setzero_ps(); }
  TANDEM_SIMD V Set1(float x) { return _mm256_set1_ps(x); }
  TANDEM_SIMD V Load(const float* p) { return _mm256_loadu_ps(p); }
  TANDEM_SIMD void Store(float* p, V v) { _mm256_storeu_ps(p, v); }
  // The form with a memory operand is half again as slow on some CPUs (Zen 1), so the load is kept
  // apart from the conversion.
  TANDEM_SIMD V LoadHalf(const uint16_t* p) {
    V result;
    const __m128i halves = Load128(p);
    asm("vcvtph2ps %1, %0" : "=x"(result) : "x"(halves));
    return result;
  }
  TANDEM_SIMD void StoreHalf(uint16_t* p, V v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  TANDEM_SIMD V LoadBfloat16(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load128(p)), 16));
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

  // Nibbles are at most 15, so the eight pair sums of a block stay inside int16:
  // 8 * 2 * 15 * 127 = 30480. Widening happens once per block.
  template <int R, int G>
  TANDEM_SIMD void DotNibbles(const std::byte* w, const int8_t* x, size_t stride, I (&out)[R][G]) {
    const I mask = _mm256_set1_epi8(15);
    I acc[R][G];
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) acc[r][g] = _mm256_setzero_si256();
    }
    TANDEM_UNROLL
    for (int quad = 0; quad < 4; ++quad) {
      I low[G];
      I high[G];
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) {
        const I packed = Load256(w + quad * 128 + g * 32);
        low[g] = _mm256_and_si256(packed, mask);
        high[g] = _mm256_and_si256(_mm256_srli_epi16(packed, 4), mask);
      }
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const I x_low = Broadcast4(x + r * stride + quad * 4);
        const I x_high = Broadcast4(x + r * stride + 16 + quad * 4);
        TANDEM_UNROLL
        for (int g = 0; g < G; ++g) {
          acc[r][g] = _mm256_add_epi16(acc[r][g], _mm256_maddubs_epi16(low[g], x_low));
          acc[r][g] = _mm256_add_epi16(acc[r][g], _mm256_maddubs_epi16(high[g], x_high));
          if constexpr (R > 1) InOrder(acc[r][g]);
        }
      }
    }
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) out[r][g] = _mm256_madd_epi16(acc[r][g], _mm256_set1_epi16(1));
    }
  }

  // |w| as the unsigned operand, x with w's sign as the other: a pair is at most 2 * 128 * 127.
  template <int R, int G>
  TANDEM_SIMD void DotBytes(const std::byte* w, const int8_t* x, size_t stride,
                            const int32_t* /*sums*/, size_t /*sums_stride*/, I (&out)[R][G]) {
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) out[r][g] = _mm256_setzero_si256();
    }
    TANDEM_UNROLL
    for (int quad = 0; quad < 8; ++quad) {
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) {
        const I weights = Load256(w + quad * 128 + g * 32);
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

  // Six-bit weights 0..63 with a signed scale per half. Two pair sums fit int16 (2 * 2 * 63 * 127);
  // the widening multiply applies the scale. The offset of 32 comes off through the sums of x.
  template <int R, int G>
  TANDEM_SIMD void DotSixBits(const std::byte* w, int group, const int8_t* x, size_t stride,
                              const int32_t* half_sums, size_t sums_stride, I (&out)[R][G]) {
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) {
      const I first = ScaleOf(w + kSixBitScales + (group + g) * 8);
      const I second = ScaleOf(w + kSixBitScales + kPanelOutputs + (group + g) * 8);
      const I offsets = _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xAA);
      const I scales[2] = {_mm256_blend_epi16(first, _mm256_slli_epi32(first, 16), 0xAA),
                           _mm256_blend_epi16(second, _mm256_slli_epi32(second, 16), 0xAA)};
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const I sums = _mm256_set1_epi32(half_sums[r * sums_stride]);
        out[r][g] = _mm256_sub_epi32(_mm256_setzero_si256(),
                                     _mm256_slli_epi32(_mm256_madd_epi16(offsets, sums), 5));
      }
      TANDEM_UNROLL
      for (int pair = 0; pair < 4; ++pair) {
        const I even = SixBits(w + (group + g) * 32, pair * 2);
        const I odd = SixBits(w + (group + g) * 32, pair * 2 + 1);
        TANDEM_UNROLL
        for (int r = 0; r < R; ++r) {
          const int8_t* xr = x + r * stride + pair * 8;
          const I sum = _mm256_add_epi16(_mm256_maddubs_epi16(even, Broadcast4(xr)),
                                         _mm256_maddubs_epi16(odd, Broadcast4(xr + 4)));
          out[r][g] = _mm256_add_epi32(out[r][g], _mm256_madd_epi16(sum, scales[pair / 2]));
          if constexpr (R > 1) InOrder(out[r][g]);
        }
      }
    }
  }

 private:
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
  // Keeps the compiler from regrouping sums row by row, which would leave the multiplier waiting at
  // the end of each row: with the rows in turn, as written, tiles are 12 to 15 % faster.
  TANDEM_SIMD void InOrder(I& sum) { asm volatile("" : "+x"(sum)); }
  TANDEM_SIMD I ScaleOf(const std::byte* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  // Weights of one quad (0..7) of 8 outputs; the layout is that of pack.h.
  TANDEM_SIMD I SixBits(const std::byte* w, int quad) {
    const I nibbles = Load256(w + (quad & 3) * 128);
    const I low =
        _mm256_and_si256(quad < 4 ? nibbles : _mm256_srli_epi16(nibbles, 4), _mm256_set1_epi8(15));
    const I plane = Load256(w + kSixBitHigh + (quad & 1) * 128);
    const int shift = 2 * (quad >> 1);
    const I moved = shift == 0   ? _mm256_slli_epi16(plane, 4)
                    : shift == 2 ? _mm256_slli_epi16(plane, 2)
                    : shift == 4 ? plane
                                 : _mm256_srli_epi16(plane, 2);
    return _mm256_or_si256(low, _mm256_and_si256(moved, _mm256_set1_epi8(0x30)));
  }
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_AVX2_H_
