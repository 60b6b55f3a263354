// Attention of some query vectors over one span of keys, for a SIMD level S. Every score,
// probability and output is computed by the same chain whether a vector comes alone (decode) or
// with many (prefill); only the grouping differs.
#ifndef TANDEM_MODEL_KERNELS_ATTENTION_H_
#define TANDEM_MODEL_KERNELS_ATTENTION_H_

#include "model/kernels_panel.h"
#include "model/kernels_rows.h"
#include "model/ops.h"

namespace tandem::model {

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
static_assert(AttentionScratch(0, 1) == 2 * kTileKeys);

// scores[r * kSpanKeys + tile * 16 + key] for T tiles that follow each other. Fetches `next`
// meanwhile: tiles lie in different blocks, where the hardware cannot foresee them.
template <class S, class Format, int R, int T>
TANDEM_SIMD void ScoreTiles(const float* q, size_t head_dim, const std::byte* const* tiles,
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
  for (size_t d = 0; d < head_dim; ++d) {
    TANDEM_UNROLL
    for (int t = 0; t < T; ++t) {
      typename S::V keys[kW];
      TANDEM_UNROLL
      for (int w = 0; w < kW; ++w) keys[w] = Format::Load(k[t] + d * k_stride + w * S::kLanes);
      S::Prefetch(next[t] + d * k_stride * sizeof(typename Format::Element));
      TANDEM_UNROLL
      for (int r = 0; r < R; ++r) {
        const typename S::V value = S::Set1(q[r * head_dim + d]);
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
                              size_t head_dim, size_t column, float* out) {
  constexpr int kN = C * kWide<S>;
  typename S::V acc[R][kN];
  TANDEM_UNROLL
  for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL
    for (int n = 0; n < kN; ++n) acc[r][n] = S::Load(out + r * head_dim + column + n * S::kLanes);
  }
  for (int key = begin; key < end;) {
    const int stop = key / kTileKeys * kTileKeys + kTileKeys < end
                         ? key / kTileKeys * kTileKeys + kTileKeys
                         : end;
    const size_t at = static_cast<size_t>(key % kTileKeys) * head_dim + column;
    const auto* v = reinterpret_cast<const typename Format::Element*>(tiles[key / kTileKeys]) + at;
    const auto* next = reinterpret_cast<const typename Format::Element*>(
                           tiles[stop < end ? stop / kTileKeys : key / kTileKeys]) +
                       at;
    for (; key < stop; ++key, v += head_dim, next += head_dim) {
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
    for (int n = 0; n < kN; ++n) S::Store(out + r * head_dim + column + n * S::kLanes, acc[r][n]);
  }
}

// All tiles from `tile` on: T at a time, what is left by halves of that.
template <class S, class Format, int R, int T>
TANDEM_SIMD void ScoreRest(const float* q, size_t head_dim, const std::byte* const* tiles, int tile,
                           int count, size_t k_stride, float* scores) {
  for (; tile + T <= count; tile += T) {
    const int next = tile + 2 * T <= count ? tile + T : tile;
    ScoreTiles<S, Format, R, T>(q, head_dim, tiles + tile, tiles + next, k_stride,
                                scores + tile * kTileKeys);
  }
  if constexpr (T > 1)
    ScoreRest<S, Format, R, T / 2>(q, head_dim, tiles, tile, count, k_stride, scores);
}

template <class S, class Format, int R>
void Scores(const float* q, size_t head_dim, const std::byte* const* tiles, int count,
            size_t k_stride, float* scores) {
  ScoreRest<S, Format, R, kTogether<S, R>>(q, head_dim, tiles, 0, count, k_stride, scores);
}

// All columns from `column` on, in the same way.
template <class S, class Format, int R, int C>
TANDEM_SIMD void WeighRest(const float* p, const std::byte* const* tiles, int begin, int end,
                           size_t head_dim, size_t column, float* out) {
  for (; column + 16 * C <= head_dim; column += 16 * C)
    WeighColumns<S, Format, R, C>(p, tiles, begin, end, head_dim, column, out);
  if constexpr (C > 1) WeighRest<S, Format, R, C / 2>(p, tiles, begin, end, head_dim, column, out);
}

template <class S, class Format, int R>
void Weigh(const float* p, const std::byte* const* tiles, int begin, int end, size_t head_dim,
           float* out) {
  WeighRest<S, Format, R, kTogether<S, R>>(p, tiles, begin, end, head_dim, 0, out);
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

// Turns `count` scores into e^(score - max) in place; what follows up to the end of the tile is 0.
template <class S>
TANDEM_SIMD void Softmax(float* scores, int count, float* max, float* sum) {
  constexpr int kW = kWide<S>;
  const int padded = (count + 15) / 16 * 16;
  for (int i = count; i < padded; ++i) scores[i] = -__builtin_inff();
  typename S::V largest[kW];
  TANDEM_UNROLL
  for (int w = 0; w < kW; ++w) largest[w] = S::Load(scores + w * S::kLanes);
  for (int i = 16; i < padded; i += 16) {
    TANDEM_UNROLL
    for (int w = 0; w < kW; ++w)
      largest[w] = S::Max(largest[w], S::Load(scores + i + w * S::kLanes));
  }
  *max = S::ReduceMax(largest);
  const typename S::V top = S::Set1(*max);
  typename S::V total[kW];
  TANDEM_UNROLL
  for (int w = 0; w < kW; ++w) total[w] = S::Zero();
  for (int i = 0; i < padded; i += 16) {
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

  // All scores that some vector needs; what lies beyond a vector's own limit is never read.
  static void AllScores(const SpanArgs& a, float* widened) {
    const auto head_dim = static_cast<size_t>(a.head_dim);
    const int tiles = (a.limits[a.vectors - 1] + kTileKeys - 1) / kTileKeys;
    if (a.vectors < kWidenFrom) {
      for (int v = 0; v < a.vectors; v += kVectorGroup)
        Stored::kScores[GroupSize(a, v) - 1](a.q + v * head_dim, head_dim, a.k_tiles, tiles,
                                             a.k_stride, a.scratch + v * kSpanKeys);
      return;
    }
    int first = 0;
    for (int tile = 0; tile < tiles; tile += kWidenedTiles<S>) {
      while (a.limits[first] <= tile * kTileKeys) ++first;
      const std::byte* wide[kWidenedTiles<S>];
      int count = 0;
      for (; count < kWidenedTiles<S> && tile + count < tiles; ++count) {
        float* to = widened + static_cast<size_t>(count * kTileKeys) * head_dim;
        wide[count] = reinterpret_cast<const std::byte*>(to);
        const auto* k = reinterpret_cast<const typename Format::Element*>(a.k_tiles[tile + count]);
        for (size_t d = 0; d < head_dim; ++d)
          for (int i = 0; i < kTileKeys; i += S::kLanes)
            S::Store(to + d * kTileKeys + i, Format::Load(k + d * a.k_stride + i));
      }
      for (int v = first; v < a.vectors; v += kVectorGroup)
        Floats::kScores[GroupSize(a, v) - 1](a.q + v * head_dim, head_dim, wide, count, kTileKeys,
                                             a.scratch + v * kSpanKeys + tile * kTileKeys);
    }
  }

  static void AllOutputs(const SpanArgs& a, float* widened) {
    const auto head_dim = static_cast<size_t>(a.head_dim);
    for (size_t i = 0; i < static_cast<size_t>(a.vectors) * head_dim; i += S::kLanes)
      S::Store(a.out + i, S::Zero());
    if (a.vectors < kWidenFrom) {
      for (int v = 0; v < a.vectors; v += kVectorGroup)
        WeighGroup<Stored>(a, v, 0, kSpanKeys, a.v_tiles);
      return;
    }
    const int tiles = (a.limits[a.vectors - 1] + kTileKeys - 1) / kTileKeys;
    int first = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      while (a.limits[first] <= tile * kTileKeys) ++first;
      // Only keys that some vector sees: the others may be anything.
      const int keys = a.limits[a.vectors - 1] - tile * kTileKeys;
      const auto* v = reinterpret_cast<const typename Format::Element*>(a.v_tiles[tile]);
      const size_t wanted = static_cast<size_t>(keys < kTileKeys ? keys : kTileKeys) * head_dim;
      for (size_t i = 0; i < wanted; i += S::kLanes) S::Store(widened + i, Format::Load(v + i));
      const std::byte* all[kSpanKeys / kTileKeys];
      all[tile] = reinterpret_cast<const std::byte*>(widened);
      for (int group = first; group < a.vectors; group += kVectorGroup)
        WeighGroup<Floats>(a, group, tile * kTileKeys, (tile + 1) * kTileKeys, all);
    }
  }

  // Keys [begin, end) cut to what each vector of the group sees: together as far as all see, then
  // each alone.
  template <class Kernels>
  static void WeighGroup(const SpanArgs& a, int v, int begin, int end,
                         const std::byte* const* tiles) {
    const auto head_dim = static_cast<size_t>(a.head_dim);
    const int size = GroupSize(a, v);
    const int common = a.limits[v] < end ? a.limits[v] : end;
    if (common > begin)
      Kernels::kWeigh[size - 1](a.scratch + v * kSpanKeys, tiles, begin, common, head_dim,
                                a.out + v * head_dim);
    const int from = common > begin ? common : begin;
    for (int i = v; i < v + size; ++i) {
      const int limit = a.limits[i] < end ? a.limits[i] : end;
      if (limit > from)
        Kernels::kWeigh[0](a.scratch + i * kSpanKeys, tiles, from, limit, head_dim,
                           a.out + i * head_dim);
    }
  }

  static int GroupSize(const SpanArgs& a, int v) {
    return a.vectors - v < kVectorGroup ? a.vectors - v : kVectorGroup;
  }

  static void Attend(const SpanArgs& a) {
    float* widened = a.scratch + static_cast<size_t>(a.vectors) * kSpanKeys;
    AllScores(a, widened);
    for (int v = 0; v < a.vectors; ++v)
      Softmax<S>(a.scratch + v * kSpanKeys, a.limits[v], a.max + v, a.sum + v);
    AllOutputs(a, widened);
  }
};

template <class S>
void AttendSpan(const SpanArgs& args) {
  if (args.dtype == KvDtype::kFloat16)
    Span<S, F16<S>>::Attend(args);
  else
    Span<S, F32<S>>::Attend(args);
}

// e^x of one number, by the same steps as a vector's.
template <class S>
TANDEM_SIMD float ExpOne(float x) {
  float lanes[16];
  S::Store(lanes, S::ZeroWhereLess(S::Set1(x), S::Set1(-87.0F), Exp<S>(S::Set1(x))));
  return lanes[0];
}

template <class S>
void MergeSpan(float span_max, float span_sum, const float* span_out, size_t head_dim, float* max,
               float* sum, float* out) {
  const float top = *max > span_max ? *max : span_max;
  const float keep = ExpOne<S>(*max - top);
  const float take = ExpOne<S>(span_max - top);
  float total[16];
  S::Store(total, S::Fma(S::Set1(span_sum), S::Set1(take), S::Set1(*sum * keep)));
  *sum = total[0];
  *max = top;
  for (size_t i = 0; i < head_dim; i += S::kLanes) {
    const typename S::V kept = S::Mul(S::Load(out + i), S::Set1(keep));
    S::Store(out + i, S::Fma(S::Load(span_out + i), S::Set1(take), kept));
  }
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KERNELS_ATTENTION_H_
