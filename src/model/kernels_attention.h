// Attention of some query vectors over one span of keys, for a SIMD level S. Every score,
// probability and output is computed by the same chain whether a vector comes alone (decode) or
// with many (prefill); only the grouping differs.
#ifndef TANDEM_MODEL_KERNELS_ATTENTION_H_
#define TANDEM_MODEL_KERNELS_ATTENTION_H_

#include <type_traits>

#include "model/kernels_panel.h"
#include "model/kernels_rows.h"
#include "model/ops.h"

namespace tandem::model {

// int8 with a scale for each key, which is applied to scores and probabilities. (The other formats
// are those of weights, kernels_panel.h.)
template <class S>
struct I8 {
  using Element = int8_t;
  TANDEM_SIMD typename S::V Load(const int8_t* p) { return S::LoadInt8(p); }
};
template <class S, class Format>
inline constexpr bool kHasScales = std::is_same_v<Format, I8<S>>;

// Vectors that go through a tile together, and from how many on a tile is widened to floats once
// instead of at each use.
inline constexpr int kVectorGroup = 6;
inline constexpr int kWidenFrom = 2 * kVectorGroup;

// Tiles of keys, or sixteens of columns, that R vectors take at a time: enough chains of fma to
// hide its latency, few enough to stay in registers. Wide vectors need twice as many.
template <class S, int R>
inline constexpr int kTogether = (R <= kVectorGroup / 2 ? 2 : 1) * (S::kLanes == 16 ? 2 : 1);
// Tiles that are widened at a time; AttentionScratch has room for two.
template <class S>
inline constexpr int kWidenedTiles = kTogether<S, kVectorGroup>;
static_assert(AttentionScratch(0, 1, 1) == 2 * kTileKeys);

// scores[r * kSpanKeys + tile * 16 + key] for T tiles that follow each other. Fetches `next`
// meanwhile: tiles lie in different blocks, where the hardware cannot foresee them.
template <class S, class Format, int R, int T>
TANDEM_SIMD void ScoreTiles(const float* q, size_t k_dim, const std::byte* const* tiles,
                            const std::byte* const* next, size_t k_stride, float* scores) {
  constexpr int kW = kWide<S>;
  const typename Format::Element* k[T];
  typename S::V acc[R][T][kW];
  TANDEM_UNROLL
  for (int t = 0; t < T; ++t) {
    k[t] = reinterpret_cast<const typename Format::Element*>(tiles[t]);
    TANDEM_UNROLL
    for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL
      for (int w = 0; w < kW; ++w) acc[r][t][w] = S::Zero();
    }
  }
  for (size_t d = 0; d < k_dim; ++d) {
    TANDEM_UNROLL
    for (int t = 0; t < T; ++t) {
      typename S::V keys[kW];
      TANDEM_UNROLL
      for (int w = 0; w < kW; ++w) keys[w] = Format::Load(k[t] + d * k_stride + w * S::kLanes);
      S::Prefetch(next[t] + d * k_stride * sizeof(typename Format::Element));
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const typename S::V value = S::Set1(q[r * k_dim + d]);
        TANDEM_UNROLL
        for (int w = 0; w < kW; ++w) acc[r][t][w] = S::Fma(value, keys[w], acc[r][t][w]);
      }
    }
  }
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL
      for (int w = 0; w < kW; ++w)
        S::Store(scores + r * kSpanKeys + t * kTileKeys + w * S::kLanes, acc[r][t][w]);
    }
  }
}

// out[r][0 .. 16 C) += the sum over keys [begin, end) of p[r][key] * v[key], in key order.
template <class S, class Format, int R, int C>
TANDEM_SIMD void WeighColumns(const float* p, const std::byte* const* tiles, int begin, int end,
                              size_t v_dim, size_t column, float* out) {
  constexpr int kN = C * kWide<S>;
  typename S::V acc[R][kN];
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int n = 0; n < kN; ++n) acc[r][n] = S::Load(out + r * v_dim + column + n * S::kLanes);
  }
  for (int key = begin; key < end;) {
    const int stop = key / kTileKeys * kTileKeys + kTileKeys < end
                         ? key / kTileKeys * kTileKeys + kTileKeys
                         : end;
    const size_t at = static_cast<size_t>(key % kTileKeys) * v_dim + column;
    const auto* v = reinterpret_cast<const typename Format::Element*>(tiles[key / kTileKeys]) + at;
    const auto* next = reinterpret_cast<const typename Format::Element*>(
                           tiles[stop < end ? stop / kTileKeys : key / kTileKeys]) +
                       at;
    for (; key < stop; ++key, v += v_dim, next += v_dim) {
      S::Prefetch(next);
      // Whichever of weights and values are fewer stay in registers.
      if constexpr (R < kN) {
        typename S::V weights[R];
        TANDEM_UNROLL
        for (int r = 0; r < R; ++r) weights[r] = S::Set1(p[r * kSpanKeys + key]);
        TANDEM_UNROLL
        for (int n = 0; n < kN; ++n) {
          const typename S::V value = Format::Load(v + n * S::kLanes);
          TANDEM_UNROLL
          for (int r = 0; r < R; ++r) acc[r][n] = S::Fma(weights[r], value, acc[r][n]);
        }
      } else {
        typename S::V values[kN];
        TANDEM_UNROLL
        for (int n = 0; n < kN; ++n) values[n] = Format::Load(v + n * S::kLanes);
        TANDEM_UNROLL
        for (int r = 0; r < R; ++r) {
          const typename S::V weight = S::Set1(p[r * kSpanKeys + key]);
          TANDEM_UNROLL
          for (int n = 0; n < kN; ++n) acc[r][n] = S::Fma(weight, values[n], acc[r][n]);
        }
      }
    }
  }
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int n = 0; n < kN; ++n) S::Store(out + r * v_dim + column + n * S::kLanes, acc[r][n]);
  }
}

// All tiles from `tile` on: T at a time, what is left by halves of that.
template <class S, class Format, int R, int T>
TANDEM_SIMD void ScoreRest(const float* q, size_t k_dim, const std::byte* const* tiles, int tile,
                           int count, size_t k_stride, float* scores) {
  for (; tile + T <= count; tile += T) {
    const int next = tile + 2 * T <= count ? tile + T : tile;
    ScoreTiles<S, Format, R, T>(q, k_dim, tiles + tile, tiles + next, k_stride,
                                scores + tile * kTileKeys);
  }
  if constexpr (T > 1)
    ScoreRest<S, Format, R, T / 2>(q, k_dim, tiles, tile, count, k_stride, scores);
}

template <class S, class Format, int R>
void Scores(const float* q, size_t k_dim, const std::byte* const* tiles, int count, size_t k_stride,
            float* scores) {
  ScoreRest<S, Format, R, kTogether<S, R>>(q, k_dim, tiles, 0, count, k_stride, scores);
}

// All columns from `column` on, in the same way.
template <class S, class Format, int R, int C>
TANDEM_SIMD void WeighRest(const float* p, const std::byte* const* tiles, int begin, int end,
                           size_t v_dim, size_t column, float* out) {
  for (; column + 16 * C <= v_dim; column += 16 * C)
    WeighColumns<S, Format, R, C>(p, tiles, begin, end, v_dim, column, out);
  if constexpr (C > 1) WeighRest<S, Format, R, C / 2>(p, tiles, begin, end, v_dim, column, out);
}

template <class S, class Format, int R>
void Weigh(const float* p, const std::byte* const* tiles, int begin, int end, size_t v_dim,
           float* out) {
  WeighRest<S, Format, R, kTogether<S, R>>(p, tiles, begin, end, v_dim, 0, out);
}

// Picks the instance for a number of vectors from 1 to kVectorGroup.
template <class S, class Format>
struct ByVectors {
  static constexpr decltype(&Scores<S, Format, 1>) kScores[kVectorGroup] = {
      Scores<S, Format, 1>, Scores<S, Format, 2>, Scores<S, Format, 3>,
      Scores<S, Format, 4>, Scores<S, Format, 5>, Scores<S, Format, 6>};
  static constexpr decltype(&Weigh<S, Format, 1>) kWeigh[kVectorGroup] = {
      Weigh<S, Format, 1>, Weigh<S, Format, 2>, Weigh<S, Format, 3>,
      Weigh<S, Format, 4>, Weigh<S, Format, 5>, Weigh<S, Format, 6>};
};

// Turns the scores [begin, end) into e^(score - max) in place; the others of their tiles become 0.
template <class S>
TANDEM_SIMD void Softmax(float* scores, int begin, int end, float* max, float* sum) {
  constexpr int kW = kWide<S>;
  const int from = begin / kTileKeys * kTileKeys;
  const int to = (end + kTileKeys - 1) / kTileKeys * kTileKeys;
  for (int i = from; i < begin; ++i) scores[i] = -__builtin_inff();
  for (int i = end; i < to; ++i) scores[i] = -__builtin_inff();
  typename S::V largest[kW];
  TANDEM_UNROLL
  for (int w = 0; w < kW; ++w) largest[w] = S::Load(scores + from + w * S::kLanes);
  for (int i = from + 16; i < to; i += 16) {
    TANDEM_UNROLL
    for (int w = 0; w < kW; ++w)
      largest[w] = S::Max(largest[w], S::Load(scores + i + w * S::kLanes));
  }
  *max = S::ReduceMax(largest);
  const typename S::V top = S::Set1(*max);
  typename S::V total[kW];
  TANDEM_UNROLL
  for (int w = 0; w < kW; ++w) total[w] = S::Zero();
  for (int i = from; i < to; i += 16) {
    TANDEM_UNROLL
    for (int w = 0; w < kW; ++w) {
      float* at = scores + i + w * S::kLanes;
      const typename S::V below = S::Sub(S::Load(at), top);
      const typename S::V p = S::ZeroWhereLess(below, S::Set1(-87.0F), Exp<S>(below));
      S::Store(at, p);
      total[w] = S::Add(total[w], p);
    }
  }
  *sum = S::ReduceAdd(total);
}

template <class S, class Format>
struct Span {
  using Floats = ByVectors<S, F32<S>>;
  using Stored = ByVectors<S, Format>;

  // All scores that some vector needs; what lies outside of a vector's own keys is never read.
  static void AllScores(const SpanArgs& a, float* widened) {
    const auto k_dim = static_cast<size_t>(a.k_dim);
    if (a.vectors < kWidenFrom) {
      for (int v = 0; v < a.vectors; v += kVectorGroup) {
        const int size = GroupSize(v, a.vectors);
        const int tile = a.begins[v] / kTileKeys;
        Stored::kScores[size - 1](a.q + v * k_dim, k_dim, a.k_tiles + tile,
                                  TilesTo(a.ends[v + size - 1]) - tile, a.k_stride,
                                  a.scratch + v * kSpanKeys + tile * kTileKeys);
      }
      return;
    }
    const int tiles = TilesTo(a.ends[a.vectors - 1]);
    int first = 0;
    int last = 0;
    for (int tile = a.begins[0] / kTileKeys; tile < tiles; tile += kWidenedTiles<S>) {
      const std::byte* wide[kWidenedTiles<S>];
      const int count = WidenKeys(a, tile, tiles, widened, wide);
      // Only vectors that see some of these tiles.
      while (a.ends[first] <= tile * kTileKeys) ++first;
      while (last < a.vectors && a.begins[last] < (tile + count) * kTileKeys) ++last;
      for (int v = first; v < last; v += kVectorGroup)
        Floats::kScores[GroupSize(v, last) - 1](a.q + v * k_dim, k_dim, wide, count, kTileKeys,
                                                a.scratch + v * kSpanKeys + tile * kTileKeys);
    }
  }

  // Tiles from `tile` on, as many as fit, to floats; their number.
  static int WidenKeys(const SpanArgs& a, int tile, int tiles, float* widened,
                       const std::byte* (&wide)[kWidenedTiles<S>]) {
    const auto k_dim = static_cast<size_t>(a.k_dim);
    int count = 0;
    for (; count < kWidenedTiles<S> && tile + count < tiles; ++count) {
      float* to = widened + static_cast<size_t>(count * kTileKeys) * k_dim;
      wide[count] = reinterpret_cast<const std::byte*>(to);
      const auto* k = reinterpret_cast<const typename Format::Element*>(a.k_tiles[tile + count]);
      for (size_t d = 0; d < k_dim; ++d)
        for (int i = 0; i < kTileKeys; i += S::kLanes)
          S::Store(to + d * kTileKeys + i, Format::Load(k + d * a.k_stride + i));
    }
    return count;
  }

  static void AllOutputs(const SpanArgs& a, float* widened) {
    const auto v_dim = static_cast<size_t>(a.v_dim);
    for (size_t i = 0; i < static_cast<size_t>(a.vectors) * v_dim; i += S::kLanes)
      S::Store(a.out + i, S::Zero());
    if (a.vectors < kWidenFrom) {
      for (int v = 0; v < a.vectors; v += kVectorGroup)
        WeighGroup<Stored>(a, v, GroupSize(v, a.vectors), 0, kSpanKeys, a.v_tiles);
      return;
    }
    const int tiles = TilesTo(a.ends[a.vectors - 1]);
    int first = 0;
    int last = 0;
    for (int tile = a.begins[0] / kTileKeys; tile < tiles; ++tile) {
      const int begin = tile * kTileKeys;
      const int end = begin + kTileKeys;
      while (a.ends[first] <= begin) ++first;
      while (last < a.vectors && a.begins[last] < end) ++last;
      WidenValues(a, tile, first, widened);
      const std::byte* all[kSpanKeys / kTileKeys];
      all[tile] = reinterpret_cast<const std::byte*>(widened);
      for (int v = first; v < last; v += kVectorGroup)
        WeighGroup<Floats>(a, v, GroupSize(v, last), begin, end, all);
    }
  }

  // Only the keys of the tile that some vector sees, of which `first` is the first: the others may
  // be anything.
  static void WidenValues(const SpanArgs& a, int tile, int first, float* widened) {
    const auto v_dim = static_cast<size_t>(a.v_dim);
    const int begin = a.begins[first] - tile * kTileKeys;
    const int end = a.ends[a.vectors - 1] - tile * kTileKeys;
    const auto* v = reinterpret_cast<const typename Format::Element*>(a.v_tiles[tile]);
    const size_t to = static_cast<size_t>(end < kTileKeys ? end : kTileKeys) * v_dim;
    for (size_t i = static_cast<size_t>(begin > 0 ? begin : 0) * v_dim; i < to; i += S::kLanes)
      S::Store(widened + i, Format::Load(v + i));
  }

  // Keys [begin, end) cut to what each vector of the group sees: those that all see together, what
  // comes before and after for each alone.
  template <class Kernels>
  static void WeighGroup(const SpanArgs& a, int v, int size, int begin, int end,
                         const std::byte* const* tiles) {
    int from = Larger(a.begins[v + size - 1], begin);
    int to = Smaller(a.ends[v], end);
    if (from >= to) from = to = end;
    for (int i = v; i < v + size; ++i)
      WeighKeys<Kernels>(a, i, 1, Larger(a.begins[i], begin), Smaller(a.ends[i], from), tiles);
    WeighKeys<Kernels>(a, v, size, from, to, tiles);
    for (int i = v; i < v + size; ++i)
      WeighKeys<Kernels>(a, i, 1, to, Smaller(a.ends[i], end), tiles);
  }
  template <class Kernels>
  static void WeighKeys(const SpanArgs& a, int v, int size, int begin, int end,
                        const std::byte* const* tiles) {
    const auto v_dim = static_cast<size_t>(a.v_dim);
    if (begin < end)
      Kernels::kWeigh[size - 1](a.scratch + v * kSpanKeys, tiles, begin, end, v_dim,
                                a.out + v * v_dim);
  }

  static int GroupSize(int v, int last) { return Smaller(last - v, kVectorGroup); }
  static int TilesTo(int key) { return (key + kTileKeys - 1) / kTileKeys; }
  static int Smaller(int a, int b) { return a < b ? a : b; }
  static int Larger(int a, int b) { return a > b ? a : b; }

  static void Attend(const SpanArgs& a) {
    float* widened = a.scratch + static_cast<size_t>(a.vectors) * kSpanKeys;
    AllScores(a, widened);
    for (int v = 0; v < a.vectors; ++v) {
      float* scores = a.scratch + v * kSpanKeys;
      if constexpr (kHasScales<S, Format>) MultiplyKeys(a, v, a.k_scales, scores);
      if (a.softcap > 0) CapScores(a, v, scores);
      Softmax<S>(scores, a.begins[v], a.ends[v], a.max + v, a.sum + v);
      if constexpr (kHasScales<S, Format>) MultiplyKeys(a, v, a.v_scales, scores);
    }
    AllOutputs(a, widened);
  }

  // Whole tiles, whose other keys' numbers are never read.
  static void MultiplyKeys(const SpanArgs& a, int v, const float* const* scales, float* scores) {
    for (int tile = a.begins[v] / kTileKeys; tile < TilesTo(a.ends[v]); ++tile)
      for (int i = 0; i < kTileKeys; i += S::kLanes) {
        float* at = scores + tile * kTileKeys + i;
        S::Store(at, S::Mul(S::Load(at), S::Load(scales[tile] + i)));
      }
  }

  static void CapScores(const SpanArgs& a, int v, float* scores) {
    const int from = a.begins[v] / kTileKeys * kTileKeys;
    SoftCap<S>(a.softcap, static_cast<size_t>(TilesTo(a.ends[v]) * kTileKeys - from),
               scores + from);
  }
};

template <class S>
void AttendSpan(const SpanArgs& args) {
  switch (args.dtype) {
    case KvDtype::kFloat16:
      return Span<S, F16<S>>::Attend(args);
    case KvDtype::kFloat32:
      return Span<S, F32<S>>::Attend(args);
    case KvDtype::kBfloat16:
      return Span<S, BF16<S>>::Attend(args);
    case KvDtype::kInt8:
      return Span<S, I8<S>>::Attend(args);
  }
}

// e^x of one number, by the same steps as a vector's.
template <class S>
TANDEM_SIMD float ExpOne(float x) {
  float lanes[16];
  S::Store(lanes, S::ZeroWhereLess(S::Set1(x), S::Set1(-87.0F), Exp<S>(S::Set1(x))));
  return lanes[0];
}

template <class S>
void MergeSpan(float span_max, float span_sum, const float* span_out, size_t v_dim, float* max,
               float* sum, float* out) {
  const float top = *max > span_max ? *max : span_max;
  const float keep = ExpOne<S>(*max - top);
  const float take = ExpOne<S>(span_max - top);
  float total[16];
  S::Store(total, S::Fma(S::Set1(span_sum), S::Set1(take), S::Set1(*sum * keep)));
  *sum = total[0];
  *max = top;
  for (size_t i = 0; i < v_dim; i += S::kLanes) {
    const typename S::V kept = S::Mul(S::Load(out + i), S::Set1(keep));
    S::Store(out + i, S::Fma(S::Load(span_out + i), S::Set1(take), kept));
  }
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KERNELS_ATTENTION_H_
