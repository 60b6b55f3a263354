// What the SIMD levels share: inlining, rounding, and offsets inside packed blocks (pack.h).
#ifndef TANDEM_MODEL_SIMD_COMMON_H_
#define TANDEM_MODEL_SIMD_COMMON_H_

#define TANDEM_SIMD [[gnu::always_inline]] static inline
#define TANDEM_UNROLL _Pragma("clang loop unroll(full)")

namespace tandem::model {

// 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits of the sum.
inline constexpr float kRound = 12582912.0F;

inline constexpr int kPanelOutputs = 32;
// Inside the 832 bytes of 32 six-bit weights of 32 outputs: nibbles, high bits, scales.
inline constexpr int kSixBitHigh = 512;
inline constexpr int kSixBitScales = 768;

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_COMMON_H_
