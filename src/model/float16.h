// IEEE half precision and bfloat16 as bit patterns, converted without hardware help, so that every
// machine gives the same bits.
#ifndef TANDEM_MODEL_FLOAT16_H_
#define TANDEM_MODEL_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace tandem::model {

// Exact, subnormals, infinities and NaN payloads included.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // A subnormal half is a normal float: shift the leading one into place.
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21U;
  mantissa = (mantissa << shift) & 0x3FFU;
  return std::bit_cast<float>(sign | ((113U - shift) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even; overflow gives infinity.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U)
    return static_cast<uint16_t>(sign | 0x7C00U | (magnitude > 0x7F800000U ? 0x200U : 0U));
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // The result is subnormal: align the mantissa to 2^-24 and round what falls off.
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102U) return static_cast<uint16_t>(sign);
    const uint32_t full = (magnitude & 0x7FFFFFU) | 0x800000U;
    const uint32_t shift = 126U - exponent;
    const uint32_t kept = full >> shift;
    const uint32_t rest = full & ((1U << shift) - 1U);
    const uint32_t half = 1U << (shift - 1U);
    const bool up = rest > half || (rest == half && (kept & 1U) != 0);
    return static_cast<uint16_t>(sign | (kept + (up ? 1U : 0U)));
  }
  const uint32_t rebased = magnitude - 0x38000000U;
  const uint32_t rounded = rebased + 0xFFFU + ((rebased >> 13) & 1U);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

inline float Bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// E4M3 of "OCP 8-bit Floating Point Specification (OFP8)", but NaN, which becomes 480. Its bits are
// those of a half with fewer of them, 2^8 times as small.
inline float Fp8ToFloat(uint8_t bits) {
  return 256.0F * HalfToFloat(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7F) << 7));
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_FLOAT16_H_
