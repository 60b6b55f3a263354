// Test support: the AVX-512 instructions that simd_avx512.h uses, in plain C++ after the
// instruction manual, so that the logic of that level is tested on machines without it. Include
// this before simd_avx512.h, in one translation unit; the level is then called EmulatedAvx512.
#ifndef TANDEM_MODEL_AVX512_EMULATION_H_
#define TANDEM_MODEL_AVX512_EMULATION_H_

#include <immintrin.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tandem::model::emulated {

struct F512 {
  std::array<float, 16> f;
};
struct I512 {
  std::array<uint32_t, 16> u;
};
using Mask16 = uint16_t;

template <class F>
F512 EachFloat(F value) {
  F512 r;
  for (size_t i = 0; i < 16; ++i) r.f[i] = value(i);
  return r;
}
template <class F>
I512 EachWord(F value) {
  I512 r;
  for (size_t i = 0; i < 16; ++i) r.u[i] = value(i);
  return r;
}
inline uint32_t ByteOf(uint32_t word, size_t i) { return (word >> (8 * i)) & 0xFFU; }

inline F512 setzero_ps() { return F512{}; }
inline F512 set1_ps(float x) {
  return EachFloat([&](size_t) { return x; });
}
inline F512 loadu_ps(const void* p) {
  F512 r;
  std::memcpy(&r, p, 64);
  return r;
}
inline void storeu_ps(void* p, F512 v) { std::memcpy(p, &v, 64); }
inline F512 add_ps(F512 a, F512 b) {
  return EachFloat([&](size_t i) { return a.f[i] + b.f[i]; });
}
inline F512 sub_ps(F512 a, F512 b) {
  return EachFloat([&](size_t i) { return a.f[i] - b.f[i]; });
}
inline F512 mul_ps(F512 a, F512 b) {
  return EachFloat([&](size_t i) { return a.f[i] * b.f[i]; });
}
inline F512 div_ps(F512 a, F512 b) {
  return EachFloat([&](size_t i) { return a.f[i] / b.f[i]; });
}
inline F512 max_ps(F512 a, F512 b) {
  return EachFloat([&](size_t i) { return a.f[i] > b.f[i] ? a.f[i] : b.f[i]; });
}
inline F512 min_ps(F512 a, F512 b) {
  return EachFloat([&](size_t i) { return a.f[i] < b.f[i] ? a.f[i] : b.f[i]; });
}
inline F512 abs_ps(F512 a) {
  return EachFloat([&](size_t i) { return std::fabs(a.f[i]); });
}
inline F512 fmadd_ps(F512 a, F512 b, F512 c) {
  return EachFloat([&](size_t i) { return std::fma(a.f[i], b.f[i], c.f[i]); });
}
inline F512 cvtph_ps(__m256i halves) {
  std::array<__m128i, 2> parts;
  std::memcpy(&parts, &halves, 32);
  F512 r;
  for (size_t i = 0; i < 2; ++i) _mm256_storeu_ps(r.f.data() + 8 * i, _mm256_cvtph_ps(parts[i]));
  return r;
}
inline __m256i cvtps_ph(F512 v, int /*rounding*/) {
  std::array<__m128i, 2> parts;
  for (size_t i = 0; i < 2; ++i)
    parts[i] = _mm256_cvtps_ph(_mm256_loadu_ps(v.f.data() + 8 * i),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256i r;
  std::memcpy(&r, &parts, 32);
  return r;
}
inline F512 castsi512_ps(I512 v) { return std::bit_cast<F512>(v); }
inline I512 castps_si512(F512 v) { return std::bit_cast<I512>(v); }
inline __m256 castps512_ps256(F512 v) { return _mm256_loadu_ps(v.f.data()); }
inline __m256 extractf32x8_ps(F512 v, int high) { return _mm256_loadu_ps(v.f.data() + 8 * high); }
inline F512 cvtepi32_ps(I512 v) {
  return EachFloat([&](size_t i) { return static_cast<float>(static_cast<int32_t>(v.u[i])); });
}
// Two bits of `control` choose each element within its group of four.
inline F512 permute_ps(F512 v, unsigned control) {
  return EachFloat([&](size_t i) { return v.f[i / 4 * 4 + ((control >> (2 * (i % 4))) & 3U)]; });
}
inline Mask16 cmp_ps_mask(F512 a, F512 b, int predicate) {
  Mask16 mask = 0;
  for (size_t i = 0; i < 16; ++i)
    if (predicate == _CMP_LT_OQ && a.f[i] < b.f[i]) mask = static_cast<Mask16>(mask | (1U << i));
  return mask;
}
inline F512 mask_mov_ps(F512 otherwise, Mask16 mask, F512 chosen) {
  return EachFloat([&](size_t i) { return (mask >> i) & 1U ? chosen.f[i] : otherwise.f[i]; });
}

inline I512 setzero_si512() { return I512{}; }
inline I512 set1_epi32(int32_t x) {
  return EachWord([&](size_t) { return static_cast<uint32_t>(x); });
}
inline I512 set1_epi8(char x) {
  return EachWord([&](size_t) { return static_cast<uint8_t>(x) * 0x01010101U; });
}
inline I512 loadu_si512(const void* p) {
  I512 r;
  std::memcpy(&r, p, 64);
  return r;
}
inline I512 and_si512(I512 a, I512 b) {
  return EachWord([&](size_t i) { return a.u[i] & b.u[i]; });
}
inline I512 or_si512(I512 a, I512 b) {
  return EachWord([&](size_t i) { return a.u[i] | b.u[i]; });
}
inline I512 xor_si512(I512 a, I512 b) {
  return EachWord([&](size_t i) { return a.u[i] ^ b.u[i]; });
}
inline I512 add_epi32(I512 a, I512 b) {
  return EachWord([&](size_t i) { return a.u[i] + b.u[i]; });
}
inline I512 sub_epi32(I512 a, I512 b) {
  return EachWord([&](size_t i) { return a.u[i] - b.u[i]; });
}
inline I512 mullo_epi32(I512 a, I512 b) {
  return EachWord([&](size_t i) { return a.u[i] * b.u[i]; });
}
inline I512 srai_epi32(I512 a, unsigned n) {
  return EachWord(
      [&](size_t i) { return static_cast<uint32_t>(static_cast<int32_t>(a.u[i]) >> n); });
}
// Products of the int16 halves of each word, added.
inline I512 madd_epi16(I512 a, I512 b) {
  const auto half = [](uint32_t word, unsigned shift) {
    return static_cast<int32_t>(static_cast<int16_t>(static_cast<uint16_t>(word >> shift)));
  };
  return EachWord([&](size_t i) {
    return static_cast<uint32_t>(half(a.u[i], 0) * half(b.u[i], 0) +
                                 half(a.u[i], 16) * half(b.u[i], 16));
  });
}
inline I512 dpwssd_epi32(I512 sum, I512 a, I512 b) {
  const I512 products = madd_epi16(a, b);
  return EachWord([&](size_t i) { return sum.u[i] + products.u[i]; });
}
inline I512 add_epi16(I512 a, I512 b) {
  return EachWord([&](size_t i) {
    return ((a.u[i] + b.u[i]) & 0xFFFFU) | ((a.u[i] >> 16) + (b.u[i] >> 16)) << 16;
  });
}
// Products of unsigned bytes of a and signed ones of b, two of them added with saturation.
inline I512 maddubs_epi16(I512 a, I512 b) {
  const auto pair = [](uint32_t x, uint32_t y, size_t j) {
    const auto product = [&](size_t k) {
      return static_cast<int32_t>(ByteOf(x, k)) *
             static_cast<int8_t>(static_cast<uint8_t>(ByteOf(y, k)));
    };
    const int32_t sum = product(2 * j) + product(2 * j + 1);
    const int32_t bounded = sum > 32767 ? 32767 : (sum < -32768 ? -32768 : sum);
    return static_cast<uint32_t>(bounded) & 0xFFFFU;
  };
  return EachWord(
      [&](size_t i) { return pair(a.u[i], b.u[i], 0) | pair(a.u[i], b.u[i], 1) << 16; });
}
inline I512 slli_epi32(I512 a, unsigned n) {
  return EachWord([&](size_t i) { return a.u[i] << n; });
}
inline I512 slli_epi16(I512 a, unsigned n) {
  return EachWord([&](size_t i) {
    return ((a.u[i] & 0xFFFFU) << n & 0xFFFFU) | ((a.u[i] >> 16 << n & 0xFFFFU) << 16);
  });
}
inline I512 srli_epi16(I512 a, unsigned n) {
  return EachWord([&](size_t i) { return ((a.u[i] & 0xFFFFU) >> n) | (a.u[i] >> 16 >> n << 16); });
}
inline I512 cvtepu16_epi32(__m256i v) {
  std::array<uint16_t, 16> words;
  std::memcpy(&words, &v, 32);
  return EachWord([&](size_t i) { return uint32_t{words[i]}; });
}
inline I512 cvtepu8_epi32(__m128i v) {
  std::array<uint8_t, 16> bytes;
  std::memcpy(&bytes, &v, 16);
  return EachWord([&](size_t i) { return uint32_t{bytes[i]}; });
}
inline I512 cvtepu8_epi16(__m256i v) {
  std::array<uint8_t, 32> bytes;
  std::memcpy(&bytes, &v, 32);
  return EachWord([&](size_t i) { return bytes[2 * i] | uint32_t{bytes[2 * i + 1]} << 16; });
}
inline I512 cvtepi8_epi16(__m256i v) {
  std::array<int8_t, 32> bytes;
  std::memcpy(&bytes, &v, 32);
  return EachWord([&](size_t i) {
    return (static_cast<uint32_t>(int32_t{bytes[2 * i]}) & 0xFFFFU) |
           static_cast<uint32_t>(int32_t{bytes[2 * i + 1]}) << 16;
  });
}
inline I512 cvtepi8_epi32(__m128i v) {
  std::array<int8_t, 16> bytes;
  std::memcpy(&bytes, &v, 16);
  return EachWord([&](size_t i) { return static_cast<uint32_t>(int32_t{bytes[i]}); });
}
inline __m128i cvtepi32_epi8(I512 v) {
  std::array<uint8_t, 16> bytes;
  for (size_t i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(v.u[i] & 0xFFU);
  __m128i r;
  std::memcpy(&r, &bytes, 16);
  return r;
}
// Four products of an unsigned byte of a and a signed byte of b, added to each word, no saturation.
inline I512 dpbusd_epi32(I512 sum, I512 a, I512 b) {
  return EachWord([&](size_t i) {
    auto total = static_cast<int32_t>(sum.u[i]);
    for (size_t j = 0; j < 4; ++j)
      total += static_cast<int32_t>(ByteOf(a.u[i], j)) *
               static_cast<int8_t>(static_cast<uint8_t>(ByteOf(b.u[i], j)));
    return static_cast<uint32_t>(total);
  });
}

}  // namespace tandem::model::emulated

// From here on the names of the intrinsics mean the functions above.
#define Avx512 EmulatedAvx512
#define __m512 ::tandem::model::emulated::F512
#define __m512i ::tandem::model::emulated::I512
#undef _mm512_abs_ps
#define _mm512_abs_ps ::tandem::model::emulated::abs_ps
#undef _mm512_add_epi16
#define _mm512_add_epi16 ::tandem::model::emulated::add_epi16
#undef _mm512_add_epi32
#define _mm512_add_epi32 ::tandem::model::emulated::add_epi32
#undef _mm512_add_ps
#define _mm512_add_ps ::tandem::model::emulated::add_ps
#undef _mm512_and_si512
#define _mm512_and_si512 ::tandem::model::emulated::and_si512
#undef _mm512_castps512_ps256
#define _mm512_castps512_ps256 ::tandem::model::emulated::castps512_ps256
#undef _mm512_castps_si512
#define _mm512_castps_si512 ::tandem::model::emulated::castps_si512
#undef _mm512_castsi512_ps
#define _mm512_castsi512_ps ::tandem::model::emulated::castsi512_ps
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask ::tandem::model::emulated::cmp_ps_mask
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 ::tandem::model::emulated::cvtepi32_epi8
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps ::tandem::model::emulated::cvtepi32_ps
#undef _mm512_cvtepi8_epi16
#define _mm512_cvtepi8_epi16 ::tandem::model::emulated::cvtepi8_epi16
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 ::tandem::model::emulated::cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 ::tandem::model::emulated::cvtepu16_epi32
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16 ::tandem::model::emulated::cvtepu8_epi16
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 ::tandem::model::emulated::cvtepu8_epi32
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps ::tandem::model::emulated::cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph ::tandem::model::emulated::cvtps_ph
#undef _mm512_div_ps
#define _mm512_div_ps ::tandem::model::emulated::div_ps
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32 ::tandem::model::emulated::dpbusd_epi32
#undef _mm512_dpwssd_epi32
#define _mm512_dpwssd_epi32 ::tandem::model::emulated::dpwssd_epi32
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps ::tandem::model::emulated::extractf32x8_ps
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps ::tandem::model::emulated::fmadd_ps
#undef _mm512_loadu_ps
#define _mm512_loadu_ps ::tandem::model::emulated::loadu_ps
#undef _mm512_loadu_si512
#define _mm512_loadu_si512 ::tandem::model::emulated::loadu_si512
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 ::tandem::model::emulated::madd_epi16
#undef _mm512_maddubs_epi16
#define _mm512_maddubs_epi16 ::tandem::model::emulated::maddubs_epi16
#undef _mm512_mask_mov_ps
#define _mm512_mask_mov_ps ::tandem::model::emulated::mask_mov_ps
#undef _mm512_max_ps
#define _mm512_max_ps ::tandem::model::emulated::max_ps
#undef _mm512_min_ps
#define _mm512_min_ps ::tandem::model::emulated::min_ps
#undef _mm512_mul_ps
#define _mm512_mul_ps ::tandem::model::emulated::mul_ps
#undef _mm512_or_si512
#define _mm512_or_si512 ::tandem::model::emulated::or_si512
#undef _mm512_permute_ps
#define _mm512_permute_ps ::tandem::model::emulated::permute_ps
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 ::tandem::model::emulated::set1_epi32
#undef _mm512_set1_epi8
#define _mm512_set1_epi8 ::tandem::model::emulated::set1_epi8
#undef _mm512_set1_ps
#define _mm512_set1_ps ::tandem::model::emulated::set1_ps
#undef _mm512_setzero_ps
#define _mm512_setzero_ps ::tandem::model::emulated::setzero_ps
#undef _mm512_setzero_si512
#define _mm512_setzero_si512 ::tandem::model::emulated::setzero_si512
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 ::tandem::model::emulated::slli_epi16
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 ::tandem::model::emulated::slli_epi32
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 ::tandem::model::emulated::srli_epi16
#undef _mm512_storeu_ps
#define _mm512_storeu_ps ::tandem::model::emulated::storeu_ps
#undef _mm512_sub_epi32
#define _mm512_sub_epi32 ::tandem::model::emulated::sub_epi32
#undef _mm512_sub_ps
#define _mm512_sub_ps ::tandem::model::emulated::sub_ps
#undef _mm512_xor_si512
#define _mm512_xor_si512 ::tandem::model::emulated::xor_si512

#endif  // TANDEM_MODEL_AVX512_EMULATION_H_
