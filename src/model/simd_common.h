// What the SIMD levels share: inlining, rounding, and room in int16.
#ifndef TANDEM_MODEL_SIMD_COMMON_H_
#define TANDEM_MODEL_SIMD_COMMON_H_

#define TANDEM_SIMD [[gnu::always_inline]] static inline
#define TANDEM_INLINE_LAMBDA __attribute__((always_inline))
#define TANDEM_UNROLL _Pragma("clang loop unroll(full)")

namespace tandem::model {

// 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits of the sum.
inline constexpr float kRound = 12582912.0F;

// Four quants up to `most` times int8 (127 at the most) are two sums of a pair in int16: how many
// of a block's eight quads add up before these must be widened.
constexpr int QuadsInInt16(int most) {
  const int run = 32767 / (2 * most * 127);
  return run >= 8 ? 8 : (run >= 4 ? 4 : 2);
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_COMMON_H_
