// Matrix kernels: a tile of R rows times one packed panel of 32 outputs (pack.h), for a SIMD level
// S. Each output is one chain of fma in the order of K (docs/contracts/numerics.md), whatever R is.
#ifndef TANDEM_MODEL_KERNELS_PANEL_H_
#define TANDEM_MODEL_KERNELS_PANEL_H_

#include "model/ops.h"
#include "model/simd_common.h"

namespace tandem::model {

// Vectors in a panel's width, and how many of them a tile of R rows works on at a time: as many as
// leave the integer accumulators in registers.
template <class S>
inline constexpr int kGroups = kPanel / S::kLanes;
template <class S, int R>
inline constexpr int kTileGroups = kGroups<S> <= 2 ? kGroups<S> : (R <= 1 ? 4 : (R <= 4 ? 2 : 1));

// How each quantised format lies in a panel block and contributes to the accumulators.
template <class S>
struct Nibbles {
  static constexpr size_t kBytes = 16 * kPanel;
  // How far ahead of a lone row's stream weights are fetched; the hardware alone keeps up with the
  // denser traffic of bytes, and is only disturbed there (measured).
  static constexpr size_t kAhead = S::kNibblesAhead;
  template <int R, int G>
  TANDEM_SIMD void Dot(const std::byte* w, int group, const RowsView& x, size_t block,
                       typename S::I (&out)[R][G]) {
    S::template DotNibbles<R, G>(w + group * S::kLanes * 4, x.q + block * kBlock, x.stride, out);
  }
};

template <class S>
struct Q4_0 : Nibbles<S> {
  static constexpr size_t kBlockBytes = Nibbles<S>::kBytes + 2 * kPanel;
  // The weights' offset of 8, as a correction of the integer sum.
  TANDEM_SIMD typename S::V Correct(typename S::I sum, const RowsView& x, size_t index) {
    return S::Sub(S::FromInt(sum), S::Set1(static_cast<float>(8 * x.sum[index])));
  }
  static constexpr bool kMinimum = false;
};

template <class S>
struct Q4_1 : Nibbles<S> {
  static constexpr size_t kBlockBytes = Nibbles<S>::kBytes + 4 * kPanel;
  TANDEM_SIMD typename S::V Correct(typename S::I sum, const RowsView&, size_t) {
    return S::FromInt(sum);
  }
  static constexpr bool kMinimum = true;
};

template <class S>
struct Q8_0 {
  static constexpr size_t kBytes = 32 * kPanel;
  static constexpr size_t kAhead = 0;
  static constexpr size_t kBlockBytes = kBytes + 2 * kPanel;
  template <int R, int G>
  TANDEM_SIMD void Dot(const std::byte* w, int group, const RowsView& x, size_t block,
                       typename S::I (&out)[R][G]) {
    S::template DotBytes<R, G>(w + group * S::kLanes * 4, x.q + block * kBlock, x.stride,
                               x.sum + block, x.blocks, out);
  }
  TANDEM_SIMD typename S::V Correct(typename S::I sum, const RowsView&, size_t) {
    return S::FromInt(sum);
  }
  static constexpr bool kMinimum = false;
};

// One step: adds a block's products for G vectors of outputs, the first of which is `group`.
// Sixteen-bit scales (and minima) follow the quants of each block.
template <class S, class Format, int R, int G>
TANDEM_SIMD void AddBlock(const std::byte* w, int group, const RowsView& x, size_t block,
                          typename S::V (&acc)[R][G]) {
  const auto* scales = reinterpret_cast<const uint16_t*>(w + Format::kBytes) + group * S::kLanes;
  typename S::I sum[R][G];
  Format::template Dot<R, G>(w, group, x, block, sum);
  TANDEM_UNROLL
  for (int g = 0; g < G; ++g) {
    const typename S::V d = S::LoadHalf(scales + g * S::kLanes);
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      const size_t index = r * x.blocks + block;
      acc[r][g] = S::Fma(Format::Correct(sum[r][g], x, index), S::Mul(d, S::Set1(x.scale[index])),
                         acc[r][g]);
    }
    if constexpr (Format::kMinimum) {
      const typename S::V m = S::LoadHalf(scales + kPanel + g * S::kLanes);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r)
        acc[r][g] = S::Fma(m, S::Set1(x.scaled_sum[r * x.blocks + block]), acc[r][g]);
    }
  }
}

// Few rows stream once through the panel; with many, the sums of all outputs would not stay in
// registers, so the (then cached) panel is gone through once for every kTileGroups vectors.
template <class S, class Format, int R>
void QuantizedPanel(const std::byte* panel, size_t blocks, const RowsView& x, float* out,
                    size_t out_stride) {
  constexpr int kG = kTileGroups<S, R>;
  for (int group = 0; group < kGroups<S>; group += kG) {
    typename S::V acc[R][kG];
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < kG; ++g) acc[r][g] = S::Zero();
    }
    for (size_t block = 0; block < blocks; ++block) {
      const std::byte* w = panel + block * Format::kBlockBytes;
      if constexpr (R == 1)
        for (size_t line = 0; line < Format::kBlockBytes; line += 64)
          if (Format::kAhead > 0) S::Prefetch(w + Format::kAhead + line);
      AddBlock<S, Format, R, kG>(w, group, x, block, acc);
    }
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < kG; ++g)
        S::Store(out + r * out_stride + (group + g) * S::kLanes, acc[r][g]);
    }
  }
}

// Super-blocks of 256: the 32 scales of the super-block, then eight blocks of 832 bytes.
template <class S, int R>
void SixBitPanel(const std::byte* panel, size_t blocks, const RowsView& x, float* out,
                 size_t out_stride) {
  constexpr int kN = kGroups<S>;
  typename S::V acc[R][kN];
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int g = 0; g < kN; ++g) acc[r][g] = S::Zero();
  }
  const std::byte* scales = panel;
  for (size_t block = 0; block < blocks; ++block) {
    if (block % 8 == 0) {
      scales = panel;
      panel += 2 * kPanel;
    }
    TANDEM_UNROLL
    for (int n = 0; n < kN; ++n) {
      typename S::I sum[R][1];
      S::template DotSixBits<R, 1>(panel, n, x.q + block * kBlock, x.stride, x.half_sums + block,
                                   x.blocks, sum);
      const typename S::V d =
          S::LoadHalf(reinterpret_cast<const uint16_t*>(scales) + n * S::kLanes);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r)
        acc[r][n] = S::Fma(S::FromInt(sum[r][0]), S::Mul(d, S::Set1(x.scale[r * x.blocks + block])),
                           acc[r][n]);
    }
    panel += kSixBitScales + 2 * kPanel;
  }
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int g = 0; g < kN; ++g) S::Store(out + r * out_stride + g * S::kLanes, acc[r][g]);
  }
}

template <class S>
struct F32 {
  using Element = float;
  TANDEM_SIMD typename S::V Load(const float* p) { return S::Load(p); }
};
template <class S>
struct F16 {
  using Element = uint16_t;
  TANDEM_SIMD typename S::V Load(const uint16_t* p) { return S::LoadHalf(p); }
};
template <class S>
struct BF16 {
  using Element = uint16_t;
  TANDEM_SIMD typename S::V Load(const uint16_t* p) { return S::LoadBfloat16(p); }
};

template <class S, class Format, int R>
void FloatPanel(const std::byte* panel, size_t blocks, const RowsView& x, float* out,
                size_t out_stride) {
  constexpr int kN = kGroups<S>;
  // Float accumulators stay in registers over the whole of K: many rows go over the panel more than
  // once, and too many are taken as two tiles.
  constexpr int kRoom = S::kLanes == 16 ? 24 : 12;
  if constexpr (R * 2 > kRoom) {
    constexpr int kFirst = R / 2;
    FloatPanel<S, Format, kFirst>(panel, blocks, x, out, out_stride);
    RowsView rest = x;
    rest.values += kFirst * x.stride;
    FloatPanel<S, Format, R - kFirst>(panel, blocks, rest, out + kFirst * out_stride, out_stride);
    return;
  }
  constexpr int kG = kN * R <= 8 ? kN : 2;
  const size_t inputs = blocks * kBlock;
  for (int group = 0; group < kN; group += kG) {
    typename S::V acc[R][kG];
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < kG; ++g) acc[r][g] = S::Zero();
    }
    const auto* w = reinterpret_cast<const typename Format::Element*>(panel) + group * S::kLanes;
    for (size_t k = 0; k < inputs; ++k, w += kPanel) {
      typename S::V weights[kG];
      TANDEM_UNROLL
      for (int g = 0; g < kG; ++g) weights[g] = Format::Load(w + g * S::kLanes);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const typename S::V value = S::Set1(x.values[r * x.stride + k]);
        TANDEM_UNROLL
        for (int g = 0; g < kG; ++g) acc[r][g] = S::Fma(value, weights[g], acc[r][g]);
      }
    }
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int g = 0; g < kG; ++g)
        S::Store(out + r * out_stride + (group + g) * S::kLanes, acc[r][g]);
    }
  }
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KERNELS_PANEL_H_
