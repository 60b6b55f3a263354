// What the SIMD levels of x86-64 share. Only for their translation units, like simd_avx2.h.
#ifndef TANDEM_MODEL_SIMD_X86_H_
#define TANDEM_MODEL_SIMD_X86_H_

#include <immintrin.h>

#include <cstdint>

#include "model/simd_common.h"

namespace tandem::model {

// Stores the 32 bytes of a quantised block and adds them up, each half for itself. The sums are
// exact, so their order is free.
TANDEM_SIMD void StoreBytesAndSums(int8_t* q, __m256i bytes, int32_t (&sums)[2]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4E));
  sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xB1));
  sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
  sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
}

// See MixHalves in simd_plain.h.
TANDEM_SIMD void Mix(const int8_t* x, int8_t* mixed) {
  const auto* from = reinterpret_cast<const __m128i*>(x);
  auto* to = reinterpret_cast<__m128i*>(mixed);
  const __m128i first = _mm_loadu_si128(from);
  const __m128i second = _mm_loadu_si128(from + 1);
  _mm_store_si128(to, _mm_unpacklo_epi16(first, second));
  _mm_store_si128(to + 1, _mm_unpackhi_epi16(first, second));
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_X86_H_
