// The SIMD level that every machine has: arrays of 16 in plain C++. It also says what each
// operation means; simd_avx2.h and simd_avx512.h do the same with single instructions, bit for bit.
#ifndef TANDEM_MODEL_SIMD_PLAIN_H_
#define TANDEM_MODEL_SIMD_PLAIN_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

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
  static constexpr size_t kAhead = 0;
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
  // 2^-8 of E4M3 values: their bits are those of a half with fewer of them.
  TANDEM_SIMD V LoadFp8(const uint8_t* p) {
    return Each([&](int i) {
      return HalfToFloat(static_cast<uint16_t>((p[i] & 0x80) << 8 | (p[i] & 0x7F) << 7));
    });
  }
  TANDEM_SIMD V LoadInt8(const int8_t* p) {
    return Each([&](int i) { return static_cast<float>(p[i]); });
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

  // Bytes of a packed panel: lane o has four of output o.
  TANDEM_SIMD I LoadBytes(const std::byte* p) {
    I result;
    std::memcpy(result.lane, p, sizeof(result.lane));
    return result;
  }
  // Bits of every byte, of which those of `mask` << `from` come to bit `to`.
  TANDEM_SIMD I Bits(I v, int from, int to, int mask) {
    const uint32_t every = static_cast<uint32_t>(mask) * 0x01010101U;
    return EachInt([&](int i) {
      const auto word = static_cast<uint32_t>(v.lane[i]);
      return static_cast<int32_t>((word >> from & every) << to);
    });
  }
  TANDEM_SIMD I Or(I a, I b) {
    return EachInt([&](int i) { return a.lane[i] | b.lane[i]; });
  }
  // A byte, without sign, for each lane.
  TANDEM_SIMD V LoadUnsigned(const std::byte* p) {
    return Each([&](int i) { return static_cast<float>(std::to_integer<int>(p[i])); });
  }
  // Two bytes for each lane as two int16, the first in the low half.
  TANDEM_SIMD I LoadPairs(const std::byte* p) {
    return EachInt([&](int i) {
      return Pair(static_cast<int8_t>(p[2 * i]), static_cast<int8_t>(p[2 * i + 1]));
    });
  }
  TANDEM_SIMD I LoadUnsignedPairs(const std::byte* p) {
    return EachInt([&](int i) {
      return Pair(std::to_integer<int>(p[2 * i]), std::to_integer<int>(p[2 * i + 1]));
    });
  }
  // Sums of the products of two int16 each.
  TANDEM_SIMD I DotPairs(I pairs, int32_t other) {
    return EachInt([&](int i) {
      return LowHalf(pairs.lane[i]) * LowHalf(other) + HighHalf(pairs.lane[i]) * HighHalf(other);
    });
  }
  TANDEM_SIMD I SubtractShifted(I a, I b, int shift) {
    return EachInt([&](int i) { return a.lane[i] - b.lane[i] * (1 << shift); });
  }

  // Integer dot products of one block of 32 inputs for G * 16 outputs and R rows of x.
  // quants(g, quad) are unsigned, up to kMost: lane o has those of inputs 4 * quad to 4 * quad + 3.
  template <int R, int G, int kMost, class Load>
  TANDEM_SIMD void DotQuants(Load quants, const int8_t* x, size_t stride, I (&out)[R][G]) {
    for (int g = 0; g < G; ++g) {
      for (int r = 0; r < R; ++r) out[r][g] = I{};
      for (int quad = 0; quad < 8; ++quad) {
        const I w = quants(g, quad);
        for (int r = 0; r < R; ++r) AddFour(w, x + r * stride + 4 * quad, out[r][g]);
      }
    }
  }
  // Inputs 2i and 2i + 1 of the first half of a block, then those of the second: the quads that
  // DotHalves takes.
  TANDEM_SIMD void MixHalves(const int8_t* x, int8_t* mixed) {
    for (int i = 0; i < 32; ++i) mixed[i] = x[i / 4 * 2 + i % 2 + (i % 4 / 2) * 16];
  }
  // The same as DotQuants for mixed rows, both halves' sums weighted by those of factors(g).
  template <int R, int G, int kMost, class Load, class Factors>
  TANDEM_SIMD void DotHalves(Load quants, Factors factors, const int8_t (&mixed)[R][32],
                             I (&out)[R][G]) {
    for (int g = 0; g < G; ++g) {
      const I both = factors(g);
      for (int r = 0; r < R; ++r) out[r][g] = I{};
      for (int quad = 0; quad < 8; ++quad) {
        const I w = quants(g, quad);
        for (int r = 0; r < R; ++r)
          for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 16; ++i) {
              const int32_t factor = j < 2 ? LowHalf(both.lane[i]) : HighHalf(both.lane[i]);
              out[r][g].lane[i] += (w.lane[i] >> (8 * j) & 0xFF) * mixed[r][quad * 4 + j] * factor;
            }
      }
    }
  }
  // DotQuants for signed bytes. `sums` are the sums of the rows of x, for levels whose product
  // needs an offset.
  template <int R, int G, class Load>
  TANDEM_SIMD void DotBytes(Load bytes, const int8_t* x, size_t stride, const int32_t* /*sums*/,
                            size_t /*sums_stride*/, I (&out)[R][G]) {
    for (int g = 0; g < G; ++g) {
      for (int r = 0; r < R; ++r) out[r][g] = I{};
      for (int quad = 0; quad < 8; ++quad) {
        const I w = bytes(g, quad);
        for (int r = 0; r < R; ++r)
          for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 16; ++i)
              out[r][g].lane[i] +=
                  static_cast<int8_t>(w.lane[i] >> (8 * j) & 0xFF) * x[r * stride + quad * 4 + j];
      }
    }
  }

 private:
  template <class F>
  TANDEM_SIMD V Each(F value) {
    V result;
    for (int i = 0; i < 16; ++i) result.lane[i] = value(i);
    return result;
  }
  template <class F>
  TANDEM_SIMD I EachInt(F value) {
    I result;
    for (int i = 0; i < 16; ++i) result.lane[i] = value(i);
    return result;
  }
  TANDEM_SIMD int32_t Pair(int low, int high) { return (low & 0xFFFF) | high * 0x10000; }
  TANDEM_SIMD int32_t LowHalf(int32_t pair) { return static_cast<int16_t>(pair & 0xFFFF); }
  TANDEM_SIMD int32_t HighHalf(int32_t pair) { return pair >> 16; }
  TANDEM_SIMD void AddFour(I w, const int8_t* x, I& sum) {
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 16; ++i) sum.lane[i] += (w.lane[i] >> (8 * j) & 0xFF) * x[j];
  }
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SIMD_PLAIN_H_
