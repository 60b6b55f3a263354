// Row operations and the exponential, for a SIMD level S. A row has virtual lanes of 16: kWide<S>
// vectors. What each computes is written down in docs/contracts/numerics.md.
#ifndef TANDEM_MODEL_KERNELS_ROWS_H_
#define TANDEM_MODEL_KERNELS_ROWS_H_

#include "model/ops.h"
#include "model/simd_common.h"

namespace tandem::model {

template <class S>
inline constexpr int kWide = 16 / S::kLanes;

// e^x for x clamped to [-87, 88]. With n = rint(x / ln 2) and r = x - n ln 2 (ln 2 in two parts):
// a polynomial in r, |r| <= 0.35, then n goes to the exponent. Relative error below 2e-7.
template <class S>
TANDEM_SIMD typename S::V Exp(typename S::V x) {
  x = S::Min(S::Max(x, S::Set1(-87.0F)), S::Set1(88.0F));
  const typename S::V shifted = S::Fma(x, S::Set1(1.44269504F), S::Set1(kRound));
  const typename S::V n = S::Sub(shifted, S::Set1(kRound));
  typename S::V r = S::Fma(n, S::Set1(-0.693145752F), x);
  r = S::Fma(n, S::Set1(-1.42860677e-6F), r);
  typename S::V p = S::Set1(1.0F / 720.0F);
  p = S::Fma(p, r, S::Set1(1.0F / 120.0F));
  p = S::Fma(p, r, S::Set1(1.0F / 24.0F));
  p = S::Fma(p, r, S::Set1(1.0F / 6.0F));
  p = S::Fma(p, r, S::Set1(0.5F));
  p = S::Fma(p, r, S::Set1(1.0F));
  p = S::Fma(p, r, S::Set1(1.0F));
  return S::AddToExponent(p, shifted);
}

// tanh. Near zero an odd polynomial (relative error below 2e-7), from 0.625 on 1 - 2 / (e^2x + 1).
template <class S>
TANDEM_SIMD typename S::V Tanh(typename S::V x) {
  const typename S::V edge = S::Set1(0.625F);
  const typename S::V size = S::Abs(x);
  const typename S::V power = Exp<S>(S::Add(x, x));
  const typename S::V one = S::Set1(1.0F);
  const typename S::V far = S::Sub(one, S::Div(S::Set1(2.0F), S::Add(power, one)));
  // Kept inside of its range, so that what is not chosen is finite.
  const typename S::V near = S::Min(S::Max(x, S::Set1(-0.625F)), edge);
  const typename S::V square = S::Mul(near, near);
  typename S::V p = S::Set1(-5.70498872745e-3F);
  p = S::Fma(p, square, S::Set1(2.06390887954e-2F));
  p = S::Fma(p, square, S::Set1(-5.37397155531e-2F));
  p = S::Fma(p, square, S::Set1(1.33314422036e-1F));
  p = S::Fma(p, square, S::Set1(-3.33332819422e-1F));
  p = S::Fma(S::Mul(p, square), near, near);
  // One of the two sums' parts is zero.
  const typename S::V dropped = S::ZeroWhereLess(size, edge, p);
  return S::Add(S::ZeroWhereLess(size, edge, far), S::Sub(p, dropped));
}

template <class S>
void RmsNorm(const float* x, const float* weight, size_t n, float epsilon, float* y) {
  constexpr int kW = kWide<S>;
  typename S::V squares[kW];
  TANDEM_UNROLL
  for (int w = 0; w < kW; ++w) squares[w] = S::Zero();
  for (size_t i = 0; i < n; i += 16) {
    TANDEM_UNROLL
    for (int w = 0; w < kW; ++w) {
      const typename S::V v = S::Load(x + i + w * S::kLanes);
      squares[w] = S::Fma(v, v, squares[w]);
    }
  }
  const float mean = S::ReduceAdd(squares) / static_cast<float>(n);
  const typename S::V factor = S::Set1(1.0F / S::SquareRoot(mean + epsilon));
  for (size_t i = 0; i < n; i += S::kLanes)
    S::Store(y + i, S::Mul(S::Mul(S::Load(x + i), factor), S::Load(weight + i)));
}

template <class S>
void Quantize(const float* x, size_t n, const QuantizedRow& row) {
  constexpr int kW = kWide<S>;
  for (size_t block = 0; block < n / kBlock; ++block, x += kBlock) {
    typename S::V largest[kW];
    TANDEM_UNROLL
    for (int w = 0; w < kW; ++w)
      largest[w] =
          S::Max(S::Abs(S::Load(x + w * S::kLanes)), S::Abs(S::Load(x + 16 + w * S::kLanes)));
    const float a = S::ReduceMax(largest);
    const bool zero = !(a >= 1e-30F);
    const float d = zero ? 0.0F : a / 127.0F;
    const float inverse = zero ? 0.0F : 127.0F / a;
    typename S::V rounded[2 * kW];
    TANDEM_UNROLL
    for (int w = 0; w < 2 * kW; ++w)
      rounded[w] = S::Add(S::Mul(S::Load(x + w * S::kLanes), S::Set1(inverse)), S::Set1(kRound));
    int32_t sums[2];
    S::StoreBlock(row.q + block * kBlock, rounded, sums);
    row.scale[block] = d;
    row.scaled_sum[block] = d * static_cast<float>(sums[0] + sums[1]);
    row.sum[block] = sums[0] + sums[1];
    row.half_sums[block] =
        (sums[0] & 0xFFFF) | static_cast<int32_t>(static_cast<uint32_t>(sums[1]) << 16);
  }
}

template <class S>
void SwiGlu(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; i += S::kLanes) {
    const typename S::V g = S::Load(gate + i);
    const typename S::V e = Exp<S>(S::Sub(S::Zero(), g));
    const typename S::V silu = S::Div(g, S::Add(S::Set1(1.0F), e));
    S::Store(y + i, S::Mul(silu, S::Load(up + i)));
  }
}

// x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), written as x / (1 + e^-2u).
template <class S>
void GeGlu(const float* gate, const float* up, size_t n, float* y) {
  for (size_t i = 0; i < n; i += S::kLanes) {
    const typename S::V g = S::Load(gate + i);
    const typename S::V cubic = S::Fma(S::Mul(g, g), S::Set1(0.044715F), S::Set1(1.0F));
    const typename S::V u = S::Mul(S::Mul(g, cubic), S::Set1(-1.5957691216F));
    const typename S::V gelu = S::Div(g, S::Add(S::Set1(1.0F), Exp<S>(u)));
    S::Store(y + i, S::Mul(gelu, S::Load(up + i)));
  }
}

template <class S>
void AddScaled(float factor, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; i += S::kLanes)
    S::Store(y + i, S::Fma(S::Load(x + i), S::Set1(factor), S::Load(y + i)));
}

template <class S>
void AddTo(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; i += S::kLanes) S::Store(y + i, S::Add(S::Load(y + i), S::Load(x + i)));
}

template <class S>
void Scale(float factor, size_t n, float* y) {
  for (size_t i = 0; i < n; i += S::kLanes)
    S::Store(y + i, S::Mul(S::Load(y + i), S::Set1(factor)));
}

template <class S>
void SoftCap(float cap, size_t n, float* y) {
  const typename S::V wide = S::Set1(cap);
  for (size_t i = 0; i < n; i += S::kLanes)
    S::Store(y + i, S::Mul(wide, Tanh<S>(S::Div(S::Load(y + i), wide))));
}

template <class S>
void Rope(const float* cosine, const float* sine, size_t n, float* y) {
  for (size_t i = 0; i < n; i += S::kLanes) {
    const typename S::V v = S::Load(y + i);
    const typename S::V turned = S::Mul(S::SwapPairs(v), S::Load(sine + i));
    S::Store(y + i, S::Fma(v, S::Load(cosine + i), turned));
  }
}

template <class S>
void Narrow(const float* x, size_t n, uint16_t* y) {
  for (size_t i = 0; i < n; i += S::kLanes) {
    const typename S::V v = S::Min(S::Max(S::Load(x + i), S::Set1(-65504.0F)), S::Set1(65504.0F));
    S::StoreHalf(y + i, v);
  }
}

// The largest finite number keeps what would round to infinity.
template <class S>
void NarrowBfloat16(const float* x, size_t n, uint16_t* y) {
  constexpr float kLargest = 0x1.FEp127F;
  for (size_t i = 0; i < n; i += 16) {
    uint32_t bits[16];
    for (int w = 0; w < kWide<S>; ++w) {
      float kept[S::kLanes];
      S::Store(kept, S::Min(S::Max(S::Load(x + i + w * S::kLanes), S::Set1(-kLargest)),
                            S::Set1(kLargest)));
      __builtin_memcpy(bits + w * S::kLanes, kept, sizeof(kept));
    }
    // To nearest, ties to even: half a unit less a bit, and that bit if the last place is odd.
    for (int j = 0; j < 16; ++j)
      y[i + j] = static_cast<uint16_t>((bits[j] + 0x7FFFU + ((bits[j] >> 16) & 1U)) >> 16);
  }
}

template <class S>
float QuantizeHead(const float* x, size_t n, int8_t* q, size_t stride) {
  constexpr int kW = kWide<S>;
  typename S::V largest[kW];
  TANDEM_UNROLL
  for (int w = 0; w < kW; ++w) largest[w] = S::Zero();
  for (size_t i = 0; i < n; i += 16) {
    TANDEM_UNROLL
    for (int w = 0; w < kW; ++w)
      largest[w] = S::Max(largest[w], S::Abs(S::Load(x + i + w * S::kLanes)));
  }
  const float a = S::ReduceMax(largest);
  const bool zero = !(a >= 1e-30F);
  const typename S::V inverse = S::Set1(zero ? 0.0F : 127.0F / a);
  for (size_t i = 0; i < n; i += S::kLanes) {
    float rounded[S::kLanes];
    S::Store(rounded, S::Add(S::Mul(S::Load(x + i), inverse), S::Set1(kRound)));
    for (int j = 0; j < S::kLanes; ++j) {
      uint32_t bits;
      __builtin_memcpy(&bits, rounded + j, sizeof(bits));
      q[(i + static_cast<size_t>(j)) * stride] = static_cast<int8_t>(bits & 0xFFU);
    }
  }
  return zero ? 0.0F : a / 127.0F;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KERNELS_ROWS_H_
