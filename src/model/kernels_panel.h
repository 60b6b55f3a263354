// Matrix kernels: a tile of R rows times one packed panel of 32 outputs (pack.h), for a SIMD level
// S. Each output is one chain of fma in the order of K (docs/contracts/numerics.md), whatever R is.
#ifndef TANDEM_MODEL_KERNELS_PANEL_H_
#define TANDEM_MODEL_KERNELS_PANEL_H_

#include "model/ops.h"
#include "model/quant_layout.h"
#include "model/simd_common.h"

namespace tandem::model {

// Vectors in a panel's width, and how many of them a tile of R rows works on at a time: as many as
// leave the integer accumulators in registers.
template <class S>
inline constexpr int kGroups = kPanel / S::kLanes;
template <class S, int R>
inline constexpr int kTileGroups = kGroups<S> <= 2 ? kGroups<S> : (R <= 1 ? 4 : (R <= 4 ? 2 : 1));

template <class S, int R, int G>
TANDEM_SIMD void Clear(typename S::V (&acc)[R][G]) {
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) acc[r][g] = S::Zero();
  }
}

template <class S, int R, int G>
TANDEM_SIMD void StoreSums(const typename S::V (&acc)[R][G], int group, float* out,
                           size_t out_stride) {
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) S::Store(out + r * out_stride + (group + g) * S::kLanes, acc[r][g]);
  }
}

// The quants of 32 inputs.
template <class S, int kBits>
struct Quants {
  static constexpr int kArray = 4 * kPanel;
  static constexpr size_t kBytes = kBits * kArray;
  static constexpr int kMost = (1 << kBits) - 1;
  // Those of a quad for one vector of outputs, whose first is at w.
  TANDEM_SIMD typename S::I Load(const std::byte* w, int quad) {
    const QuantParts& parts = kLayout[quad];
    typename S::I quants = LoadPart(w, parts.part[0]);
    TANDEM_UNROLL
    for (int i = 1; i < 3; ++i)
      if (i < parts.count) quants = S::Or(quants, LoadPart(w, parts.part[i]));
    return quants;
  }

 private:
  static constexpr QuantLayout kLayout = QuantLayoutOf(kBits);
  TANDEM_SIMD typename S::I LoadPart(const std::byte* w, const QuantPart& part) {
    return S::Bits(S::LoadBytes(w + part.array * kArray), part.at, part.to, (1 << part.count) - 1);
  }
};

// The half-precision numbers of a vector of outputs.
template <class S>
TANDEM_SIMD typename S::V HalfAt(const std::byte* halves, int group) {
  return S::LoadHalf(reinterpret_cast<const uint16_t*>(halves) + group * S::kLanes);
}

// A lone row's weights come from memory: each quad fetches its share of the block's lines, some way
// ahead (measured: all lines at once are slower than none for some types).
template <class S, size_t kBlockBytes>
TANDEM_SIMD void FetchAhead(const std::byte* w, int quad) {
  constexpr size_t kLines = kBlockBytes / 64;
  const auto step = static_cast<size_t>(quad);
  for (size_t line = step * kLines / 8; line < (step + 1) * kLines / 8; ++line)
    S::Prefetch(w + S::kAhead + line * 64);
}

// Sums over the 32 inputs of a block, for G vectors of outputs from `group` on.
template <class S, class Format, int R, int G>
TANDEM_SIMD void SumQuants(const std::byte* w, int group, const RowsView& x, size_t block,
                           typename S::I (&sum)[R][G]) {
  S::template DotQuants<R, G, Format::Q::kMost>(
      [w, group](int g, int quad) TANDEM_INLINE_LAMBDA {
        if (R == 1 && g == 0) FetchAhead<S, Format::kBlockBytes>(w, quad);
        return Format::Q::Load(w + (group + g) * S::kLanes * 4, quad);
      },
      x.q + block * kBlock, x.stride, sum);
}

// Sums over both halves of a block times their factors(g), for G vectors of outputs from `group`
// on.
template <class S, class Format, int R, int G, class Factors>
TANDEM_SIMD void SumHalves(Factors factors, const std::byte* w, int group, const RowsView& x,
                           size_t block, typename S::I (&sum)[R][G]) {
  alignas(64) int8_t mixed[R][kBlock];
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) S::MixHalves(x.q + r * x.stride + block * kBlock, mixed[r]);
  S::template DotHalves<R, G, Format::Q::kMost>(
      [w, group](int g, int quad) TANDEM_INLINE_LAMBDA {
        if (R == 1 && g == 0) FetchAhead<S, Format::kBlockBytes>(w, quad);
        return Format::Q::Load(w + (group + g) * S::kLanes * 4, quad);
      },
      factors, mixed, sum);
}

// The numbers in front of every 256 inputs: 32 scales and, with kMinimum, 32 minima.
template <class S, int G, bool kMinimum>
struct Head {
  static constexpr size_t kBytes = (kMinimum ? 4 : 2) * kPanel;
  typename S::V scale[G];
  typename S::V minimum[kMinimum ? G : 1];
  [[gnu::always_inline]] inline void Load(const std::byte* from, int group) {
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) {
      scale[g] = HalfAt<S>(from, group + g);
      if constexpr (kMinimum) minimum[g] = HalfAt<S>(from + 2 * kPanel, group + g);
    }
  }
};
struct NoHead {
  static constexpr size_t kBytes = 0;
  [[gnu::always_inline]] inline void Load(const std::byte*, int) {}
};

// A format says how the 32 inputs of a block contribute to the accumulators of G vectors of outputs
// from `group` on: `head` is what lies in front of every 256 inputs, `w` the block, g a vector.
//   Sums: integer sums of products
//   Scale: D of the contract, as far as it is the same for every row
//   Minimum: see kMinimum

enum class MinimumOf { kNone, kBlock, kHalves };

// Sixteen-bit scales (and minima) follow the quants of each block.
template <class S, int kBits, int kOffset, bool kHasMinimum>
struct BlockScales {
  using Self = BlockScales<S, kBits, kOffset, kHasMinimum>;
  using Q = Quants<S, kBits>;
  template <int G>
  using Front = NoHead;
  static constexpr size_t kBlockBytes = Q::kBytes + (kHasMinimum ? 4 : 2) * kPanel;
  static constexpr MinimumOf kMinimum = kHasMinimum ? MinimumOf::kBlock : MinimumOf::kNone;
  template <int R, int G>
  TANDEM_SIMD void Sums(const std::byte* w, int group, const RowsView& x, size_t block,
                        typename S::I (&sum)[R][G]) {
    SumQuants<S, Self, R, G>(w, group, x, block, sum);
  }
  // The quants' offset, as a correction of the integer sum.
  TANDEM_SIMD typename S::V ToFloat(typename S::I sum, const RowsView& x, size_t index) {
    if constexpr (kOffset == 0) return S::FromInt(sum);
    return S::Sub(S::FromInt(sum), S::Set1(static_cast<float>(kOffset * x.sum[index])));
  }
  template <int G>
  TANDEM_SIMD typename S::V Scale(NoHead, const std::byte* w, int group, int g) {
    return HalfAt<S>(w + Q::kBytes, group + g);
  }
  template <int G>
  TANDEM_SIMD typename S::V Minimum(NoHead, const std::byte* w, int group, int g) {
    return HalfAt<S>(w + Q::kBytes + 2 * kPanel, group + g);
  }
};
template <class S>
using Q4_0 = BlockScales<S, 4, 8, false>;
template <class S>
using Q4_1 = BlockScales<S, 4, 0, true>;
template <class S>
using Q5_0 = BlockScales<S, 5, 16, false>;
template <class S>
using Q5_1 = BlockScales<S, 5, 0, true>;

template <class S>
struct Q8_0 {
  static constexpr size_t kBytes = 32 * kPanel;
  template <int G>
  using Front = NoHead;
  static constexpr size_t kBlockBytes = kBytes + 2 * kPanel;
  static constexpr MinimumOf kMinimum = MinimumOf::kNone;
  template <int R, int G>
  TANDEM_SIMD void Sums(const std::byte* w, int group, const RowsView& x, size_t block,
                        typename S::I (&sum)[R][G]) {
    S::template DotBytes<R, G>(
        [w, group](int g, int quad) TANDEM_INLINE_LAMBDA {
          if (R == 1 && g == 0) FetchAhead<S, kBlockBytes>(w, quad);
          return S::LoadBytes(w + quad * 4 * kPanel + (group + g) * S::kLanes * 4);
        },
        x.q + block * kBlock, x.stride, x.sum + block, x.blocks, sum);
  }
  TANDEM_SIMD typename S::V ToFloat(typename S::I sum, const RowsView&, size_t) {
    return S::FromInt(sum);
  }
  template <int G>
  TANDEM_SIMD typename S::V Scale(NoHead, const std::byte* w, int group, int g) {
    return HalfAt<S>(w + kBytes, group + g);
  }
};

// A byte for each block and output: its factor of the scale and of the minimum in front.
template <class S, int kBits>
struct ByteScales {
  using Self = ByteScales<S, kBits>;
  using Q = Quants<S, kBits>;
  template <int G>
  using Front = Head<S, G, true>;
  static constexpr size_t kBlockBytes = Q::kBytes + 2 * kPanel;
  static constexpr MinimumOf kMinimum = MinimumOf::kBlock;
  template <int R, int G>
  TANDEM_SIMD void Sums(const std::byte* w, int group, const RowsView& x, size_t block,
                        typename S::I (&sum)[R][G]) {
    SumQuants<S, Self, R, G>(w, group, x, block, sum);
  }
  TANDEM_SIMD typename S::V ToFloat(typename S::I sum, const RowsView&, size_t) {
    return S::FromInt(sum);
  }
  template <int G>
  TANDEM_SIMD typename S::V Scale(const Front<G>& head, const std::byte* w, int group, int g) {
    return S::Mul(head.scale[g], S::LoadUnsigned(w + Q::kBytes + (group + g) * S::kLanes));
  }
  template <int G>
  TANDEM_SIMD typename S::V Minimum(const Front<G>& head, const std::byte* w, int group, int g) {
    return S::Mul(head.minimum[g],
                  S::LoadUnsigned(w + Q::kBytes + kPanel + (group + g) * S::kLanes));
  }
};
template <class S>
using Q4_K = ByteScales<S, 4>;
template <class S>
using Q5_K = ByteScales<S, 5>;

// Factors for halves of 16 inputs, which weight the integer sums. Quants are offset by half of
// their range.
template <class S, int kBits>
struct HalfScales {
  using Self = HalfScales<S, kBits>;
  using Q = Quants<S, kBits>;
  template <int G>
  using Front = Head<S, G, false>;
  static constexpr size_t kBlockBytes = Q::kBytes + 2 * kPanel;
  static constexpr MinimumOf kMinimum = MinimumOf::kNone;
  template <int R, int G>
  TANDEM_SIMD void Sums(const std::byte* w, int group, const RowsView& x, size_t block,
                        typename S::I (&sum)[R][G]) {
    const auto factors = [w, group](int g) TANDEM_INLINE_LAMBDA {
      return S::LoadPairs(w + Q::kBytes + (group + g) * S::kLanes * 2);
    };
    SumHalves<S, Self, R, G>(factors, w, group, x, block, sum);
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) {
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r)
        sum[r][g] = S::SubtractShifted(
            sum[r][g], S::DotPairs(factors(g), x.half_sums[r * x.blocks + block]), kBits - 1);
    }
  }
  TANDEM_SIMD typename S::V ToFloat(typename S::I sum, const RowsView&, size_t) {
    return S::FromInt(sum);
  }
  template <int G>
  TANDEM_SIMD typename S::V Scale(const Front<G>& head, const std::byte*, int, int g) {
    return head.scale[g];
  }
};
template <class S>
using Q3_K = HalfScales<S, 3>;
template <class S>
using Q6_K = HalfScales<S, 6>;

// The same with factors for minima; both are nibbles of one byte.
template <class S>
struct Q2_K {
  using Self = Q2_K<S>;
  using Q = Quants<S, 2>;
  template <int G>
  using Front = Head<S, G, true>;
  static constexpr size_t kBlockBytes = Q::kBytes + 2 * kPanel;
  static constexpr MinimumOf kMinimum = MinimumOf::kHalves;
  template <int R, int G>
  TANDEM_SIMD void Sums(const std::byte* w, int group, const RowsView& x, size_t block,
                        typename S::I (&sum)[R][G]) {
    const auto factors = [w, group](int g) TANDEM_INLINE_LAMBDA {
      return S::Bits(Pairs(w, group + g), 0, 0, 15);
    };
    SumHalves<S, Self, R, G>(factors, w, group, x, block, sum);
  }
  TANDEM_SIMD typename S::V ToFloat(typename S::I sum, const RowsView&, size_t) {
    return S::FromInt(sum);
  }
  template <int G>
  TANDEM_SIMD typename S::V Scale(const Front<G>& head, const std::byte*, int, int g) {
    return head.scale[g];
  }
  template <int G>
  TANDEM_SIMD typename S::V Minimum(const Front<G>& head, const std::byte*, int, int g) {
    return head.minimum[g];
  }
  TANDEM_SIMD typename S::I MinimumFactors(const std::byte* w, int group) {
    return S::Bits(Pairs(w, group), 4, 0, 15);
  }

 private:
  TANDEM_SIMD typename S::I Pairs(const std::byte* w, int group) {
    return S::LoadUnsignedPairs(w + Q::kBytes + group * S::kLanes * 2);
  }
};

// One step: adds a block's products for G vectors of outputs, the first of which is `group`.
template <class S, class Format, int R, int G>
TANDEM_SIMD void AddBlock(const typename Format::template Front<G>& head, const std::byte* w,
                          int group, const RowsView& x, size_t block, typename S::V (&acc)[R][G]) {
  typename S::I sum[R][G];
  Format::template Sums<R, G>(w, group, x, block, sum);
  TANDEM_UNROLL
  for (int g = 0; g < G; ++g) {
    const typename S::V d = Format::template Scale<G>(head, w, group, g);
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      const size_t index = r * x.blocks + block;
      acc[r][g] = S::Fma(Format::ToFloat(sum[r][g], x, index), S::Mul(d, S::Set1(x.scale[index])),
                         acc[r][g]);
    }
    if constexpr (Format::kMinimum == MinimumOf::kBlock) {
      const typename S::V m = Format::template Minimum<G>(head, w, group, g);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r)
        acc[r][g] = S::Fma(m, S::Set1(x.scaled_sum[r * x.blocks + block]), acc[r][g]);
    } else if constexpr (Format::kMinimum == MinimumOf::kHalves) {
      const typename S::V m = Format::template Minimum<G>(head, w, group, g);
      const typename S::I factors = Format::MinimumFactors(w, group + g);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const size_t index = r * x.blocks + block;
        acc[r][g] = S::Fma(S::FromInt(S::DotPairs(factors, x.half_sums[index])),
                           S::Mul(m, S::Set1(x.scale[index])), acc[r][g]);
      }
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
    Clear<S>(acc);
    typename Format::template Front<kG> head;
    const std::byte* w = panel;
    for (size_t block = 0; block < blocks; ++block, w += Format::kBlockBytes) {
      if (head.kBytes > 0 && block % 8 == 0) {
        head.Load(w, group);
        w += head.kBytes;
      }
      AddBlock<S, Format, R, kG>(head, w, group, x, block, acc);
    }
    StoreSums<S>(acc, group, out, out_stride);
  }
}

template <class S>
struct F32 {
  using Element = float;
  static constexpr bool kScaled = false;
  TANDEM_SIMD typename S::V Load(const float* p) { return S::Load(p); }
};
template <class S>
struct F16 {
  using Element = uint16_t;
  static constexpr bool kScaled = false;
  TANDEM_SIMD typename S::V Load(const uint16_t* p) { return S::LoadHalf(p); }
};
template <class S>
struct BF16 {
  using Element = uint16_t;
  static constexpr bool kScaled = false;
  TANDEM_SIMD typename S::V Load(const uint16_t* p) { return S::LoadBfloat16(p); }
};
template <class S>
struct F8 {
  using Element = uint8_t;
  static constexpr bool kScaled = true;  // every kFp8Block inputs
  TANDEM_SIMD typename S::V Load(const uint8_t* p) { return S::LoadFp8(p); }
};

// Adds the products of `count` inputs from input `first` on, whose elements start at w.
template <class S, class Format, int R, int G>
TANDEM_SIMD void AddInputs(const typename Format::Element* w, const RowsView& x, size_t first,
                           size_t count, typename S::V (&acc)[R][G]) {
  for (size_t k = first; k < first + count; ++k, w += kPanel) {
    if constexpr (R == 1)
      for (size_t at = 0; at < kPanel * sizeof(*w); at += 64)
        S::Prefetch(reinterpret_cast<const std::byte*>(w) + S::kAhead + at);
    typename S::V weights[G];
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) weights[g] = Format::Load(w + g * S::kLanes);
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename S::V value = S::Set1(x.values[r * x.stride + k]);
      TANDEM_UNROLL
      for (int g = 0; g < G; ++g) acc[r][g] = S::Fma(value, weights[g], acc[r][g]);
    }
  }
}

// The same in blocks with a scale for each output.
template <class S, class Format, int R, int G>
TANDEM_SIMD void AddScaledInputs(const std::byte* panel, const RowsView& x, int group,
                                 size_t inputs, typename S::V (&acc)[R][G]) {
  for (size_t first = 0; first < inputs; first += kFp8Block) {
    const auto* scales = reinterpret_cast<const float*>(panel) + group * S::kLanes;
    const auto* w = reinterpret_cast<const typename Format::Element*>(panel + 4 * kPanel);
    const size_t count = inputs - first < kFp8Block ? inputs - first : kFp8Block;
    typename S::V part[R][G];
    Clear<S>(part);
    AddInputs<S, Format>(w + group * S::kLanes, x, first, count, part);
    TANDEM_UNROLL
    for (int g = 0; g < G; ++g) {
      const typename S::V scale = S::Load(scales + g * S::kLanes);
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) acc[r][g] = S::Fma(part[r][g], scale, acc[r][g]);
    }
    panel += (4 + count) * kPanel;
  }
}

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
    Clear<S>(acc);
    if constexpr (Format::kScaled) {
      AddScaledInputs<S, Format>(panel, x, group, inputs, acc);
    } else {
      const auto* w = reinterpret_cast<const typename Format::Element*>(panel);
      AddInputs<S, Format>(w + group * S::kLanes, x, 0, inputs, acc);
    }
    StoreSums<S>(acc, group, out, out_stride);
  }
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KERNELS_PANEL_H_
