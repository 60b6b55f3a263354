// The SIMD level that every machine has: arrays of 16 in plain C++. It also says what each
// operation means; simd_avx2.h and simd_avx512.h do the same with single instructions, bit for bit.
#ifndef TANDEM_MODEL_SIMD_PLAIN_H_
#define TANDEM_MODEL_SIMD_PLAIN_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "model/float16.h"
#include "model/simd_common.h"

namespace tandem::model {

// a * b + c rounded once, without the C library. The product of two floats is exact in double; the
// sum is rounded to odd there, so that the second rounding, to float, is the only one that counts.
inline float FusedMultiplyAdd(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  double sum = product + addend;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (addend - back);
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if ((error > 0.0 || error < 0.0) && (bits & 1) == 0) {
    // Toward the exact value: away from zero when the error has the sign of the sum.
    const bool away = (error > 0.0) == (sum > 0.0);
    sum = std::bit_cast<double>(away ? bits + 1 : bits - 1);
  }
  return static_cast<float>(sum);
}

struct Plain {
  static constexpr int kLanes = 16;
  static constexpr int kMaxRows = 4;
  static constexpr size_t kNibblesAhead = 0;
  struct V {
    float lane[16];
  };
  struct I {
    int32_t lane[16];
  };

  TANDEM_SIMD V Zero() { return V{}; }
  TANDEM_SIMD V Set1(float x) {
    return Each([&](int) { return x; });
  }
  TANDEM_SIMD V Load(const float* p) {
    return Each([&](int i) { return p[i]; });
  }
  TANDEM_SIMD void Store(float* p, V v) {
    for (int i = 0; i < 16; ++i) p[i] = v.lane[i];
  }
  TANDEM_SIMD V LoadHalf(const uint16_t* p) {
    return Each([&](int i) { return HalfToFloat(p[i]); });
  }
  TANDEM_SIMD void StoreHalf(uint16_t* p, V v) {
    for (int i = 0; i < 16; ++i) p[i] = FloatToHalf(v.lane[i]);
  }
  TANDEM_SIMD V LoadBfloat16(const uint16_t* p) {
    return Each([&](int i) { return Bfloat16ToFloat(p[i]); });
  }
  TANDEM_SIMD V Add(V a, V b) {
    return Each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  TANDEM_SIMD V Sub(V a, V b) {
    return Each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  TANDEM_SIMD V Mul(V a, V b) {
    return Each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  TANDEM_SIMD V Div(V a, V b) {
    return Each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  TANDEM_SIMD V Max(V a, V b) {
    return Each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  TANDEM_SIMD V Min(V a, V b) {
    return Each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  TANDEM_SIMD V Abs(V a) {
    return Each([&](int i) { return std::fabs(a.lane[i]); });
  }
  // a * b + c, rounded once.
  TANDEM_SIMD V Fma(V a, V b, V c) {
    return Each([&](int i) { return FusedMultiplyAdd(a.lane[i], b.lane[i], c.lane[i]); });
  }
  TANDEM_SIMD float SquareRoot(float x) { return std::sqrt(x); }
  TANDEM_SIMD V FromInt(I v) {
    return Each([&](int i) { return static_cast<float>(v.lane[i]); });
  }
  // Lanes 2i and 2i + 1 change places.
  TANDEM_SIMD V SwapPairs(V v) {
    return Each([&](int i) { return v.lane[i ^ 1]; });
  }
  // p * 2^n, where n is in the low bits of `shifted` (see Exp in kernels_rows.h).
  TANDEM_SIMD V AddToExponent(V p, V shifted) {
    return Each([&](int i) {
      return std::bit_cast<float>(std::bit_cast<uint32_t>(p.lane[i]) +
                                  (std::bit_cast<uint32_t>(shifted.lane[i]) << 23));
    });
  }
  // x < limit ? 0 : value.
  TANDEM_SIMD V ZeroWhereLess(V x, V limit, V value) {
    return Each([&](int i) { return x.lane[i] < limit.lane[i] ? 0.0F : value.lane[i]; });
  }
  // Stores the integers of a block, which are in the low bits (see kRound), as bytes, and adds up
  // each half.
  TANDEM_SIMD void StoreBlock(int8_t* q, const V (&bits)[2], int32_t (&sums)[2]) {
    for (int half = 0; half < 2; ++half) {
      sums[half] = 0;
      for (int i = 0; i < 16; ++i) {
        q[half * 16 + i] = static_cast<int8_t>(std::bit_cast<uint32_t>(bits[half].lane[i]) & 0xFFU);
        sums[half] += q[half * 16 + i];
      }
    }
  }
  // Lane i with lane i + 8, then + 4, + 2, + 1.
  TANDEM_SIMD float ReduceAdd(const V (&v)[1]) {
    V sum = v[0];
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) sum.lane[i] += sum.lane[i + width];
    return sum.lane[0];
  }
  TANDEM_SIMD float ReduceMax(const V (&v)[1]) {
    V max = v[0];
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i)
        max.lane[i] = max.lane[i] > max.lane[i + width] ? max.lane[i] : max.lane[i + width];
    return max.lane[0];
  }
  TANDEM_SIMD void Prefetch(const void*) {}

  // Integer dot products of one block of 32 inputs for G * 16 outputs and R rows of x. `w` points
  // at the block of a packed panel, at the first of these outputs.
  template <int R, int G>
  TANDEM_SIMD void DotNibbles(const std::byte* w, const int8_t* x, size_t stride, I (&out)[R][G]) {
    Dot(x, stride, out, [w](int o, int k) {
      const auto packed = static_cast<int>(w[(k / 4 % 4) * 128 + o * 4 + k % 4]);
      return k < 16 ? packed & 15 : packed >> 4;
    });
  }
  // Signed bytes. `sums` are the sums of the rows of x, for levels whose product needs an offset.
  template <int R, int G>
  TANDEM_SIMD void DotBytes(const std::byte* w, const int8_t* x, size_t stride,
                            const int32_t* /*sums*/, size_t /*sums_stride*/, I (&out)[R][G]) {
    Dot(x, stride, out, [w](int o, int k) {
      return static_cast<int>(static_cast<int8_t>(w[(k / 4) * 128 + o * 4 + k % 4]));
    });
  }
  // Weights (0..63 minus 32) times the int8 scale of their half. `w` is the start of the block and
  // `group` the first group of outputs, since scales and weights lie apart. `half_sums`: RowsView.
  template <int R, int G>
  TANDEM_SIMD void DotSixBits(const std::byte* w, int group, const int8_t* x, size_t stride,
                              const int32_t* /*half_sums*/, size_t /*sums_stride*/,
                              I (&out)[R][G]) {
    Dot(x, stride, out, [w, group](int output, int k) {
      const int o = group * 16 + output;
      const int quad = k / 4;
      const auto packed = static_cast<int>(w[(quad % 4) * 128 + o * 4 + k % 4]);
      const auto plane = static_cast<int>(w[kSixBitHigh + (quad % 2) * 128 + o * 4 + k % 4]);
      const int low = quad < 4 ? packed & 15 : packed >> 4;
      const int high = (plane >> (2 * (quad / 2))) & 3;
      const auto scale =
          static_cast<int>(static_cast<int8_t>(w[kSixBitScales + (k / 16) * kPanelOutputs + o]));
      return (low + 16 * high - 32) * scale;
    });
  }

 private:
  template <class F>
  TANDEM_SIMD V Each(F value) {
    V result;
    for (int i = 0; i < 16; ++i) result.lane[i] = value(i);
    return result;
  }
  template <int R, int G, class F>
  TANDEM_SIMD void Dot(const int8_t* x, size_t stride, I (&out)[R][G], F weight) {
    for (int r = 0; r < R; ++r)
      for (int g = 0; g < G; ++g) out[r][g] = I{};
    for (int g = 0; g < G; ++g)
      for (int k = 0; k < 32; ++k)
        for (int i = 0; i < 16; ++i) {
          const int w = weight(g * 16 + i, k);
          for (int r = 0; r < R; ++r) out[r][g].lane[i] += w * x[r * stride + k];
        }
  }
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_PLAIN_H_
