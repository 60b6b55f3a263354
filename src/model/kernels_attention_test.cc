// The attention kernels of every instruction level: near a plain double-precision reference, and
// equal to the other levels bit for bit however the vectors are grouped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "model/kv_writer.h"
#include "model/ops.h"
#include "model/test_kv.h"
#include "model/test_levels.h"
#include "model/tiny_gguf.h"

namespace tandem::model {
namespace {

constexpr int kVectors = 60;

struct Shape {
  int k_dim;
  int v_dim;
  int window = 0;
  float softcap = 0;
};

// One head's keys and values of a span, and vectors of which three at a time see five keys more.
// What none of the attending vectors sees is NaN.
class SpanCase {
 public:
  SpanCase(KvDtype dtype, const Shape& shape)
      : dtype_(dtype),
        shape_(shape),
        k_dim_(static_cast<size_t>(shape.k_dim)),
        v_dim_(static_cast<size_t>(shape.v_dim)) {
    RandomBytes random(11);
    q_ = RandomFloats(random, kVectors * k_dim_, 3.0F / std::sqrt(static_cast<float>(k_dim_)));
    k_ = RandomFloats(random, kSpanKeys * k_dim_, 2.0F);
    v_ = RandomFloats(random, kSpanKeys * v_dim_, 2.0F);
  }

  static int End(int vector) { return 150 + vector / 3 * 5; }
  int Begin(int vector) const {
    return shape_.window == 0 ? 0 : std::max(End(vector) - shape_.window, 0);
  }

  // Attends vectors [begin, end) and appends max, sum and out of each.
  void Attend(const Ops& ops, int begin, int end, std::vector<float>& results) const {
    const int first_key = Begin(begin);
    const int last_key = End(end - 1);
    const KvLayout layout = {.layers = 1,
                             .kv_heads = 1,
                             .k_dim = shape_.k_dim,
                             .v_dim = shape_.v_dim,
                             .block_tokens = kTileKeys,
                             .dtype = dtype_};
    constexpr int kTiles = kSpanKeys / kTileKeys;
    std::vector<std::byte> arena(layout.BlockBytes() * kTiles, std::byte{0xFF});
    KvWriter writer(layout, PlainOps());
    writer.SetArena({arena.data(), kTiles});
    for (int key = first_key; key < last_key; ++key)
      writer.Store({.block = key / kTileKeys, .slot = key % kTileKeys}, 0, 0,
                   k_.data() + static_cast<size_t>(key) * k_dim_,
                   v_.data() + static_cast<size_t>(key) * v_dim_);
    const KvAddress address(layout, {arena.data(), kTiles});
    const std::byte* k_tiles[kTiles] = {};
    const std::byte* v_tiles[kTiles] = {};
    const float* k_scales[kTiles] = {};
    const float* v_scales[kTiles] = {};
    for (int tile = first_key / kTileKeys; tile * kTileKeys < last_key; ++tile) {
      k_tiles[tile] = address.K(tile, 0, 0);
      v_tiles[tile] = address.V(tile, 0, 0);
      if (!layout.HasScales()) continue;
      k_scales[tile] = address.KScales(tile, 0, 0);
      v_scales[tile] = address.VScales(tile, 0, 0);
    }
    const auto n = static_cast<size_t>(end - begin);
    std::vector<int32_t> begins, ends;
    for (int i = begin; i < end; ++i) begins.push_back(Begin(i));
    for (int i = begin; i < end; ++i) ends.push_back(End(i));
    std::vector<float> scratch(AttentionScratch(n, k_dim_, v_dim_), NAN);
    std::vector<float> max(n), sum(n), out(n * v_dim_);
    SpanArgs args;
    args.q = q_.data() + static_cast<size_t>(begin) * k_dim_;
    args.vectors = end - begin;
    args.k_dim = shape_.k_dim;
    args.v_dim = shape_.v_dim;
    args.begins = begins.data();
    args.ends = ends.data();
    args.k_tiles = k_tiles;
    args.v_tiles = v_tiles;
    args.k_stride = kTileKeys;
    args.k_scales = k_scales;
    args.v_scales = v_scales;
    args.dtype = dtype_;
    args.softcap = shape_.softcap;
    args.scratch = scratch.data();
    args.max = max.data();
    args.sum = sum.data();
    args.out = out.data();
    ops.attend_span(args);
    for (size_t i = 0; i < n; ++i) {
      results.push_back(max[i]);
      results.push_back(sum[i]);
      results.insert(results.end(), out.begin() + static_cast<std::ptrdiff_t>(i * v_dim_),
                     out.begin() + static_cast<std::ptrdiff_t>((i + 1) * v_dim_));
    }
  }

  // The output of a vector, divided by the sum, from the definition.
  std::vector<double> Reference(int vector) const {
    std::vector<double> out(v_dim_);
    double total = 0;
    for (int key = Begin(vector); key < End(vector); ++key) {
      const auto at = static_cast<size_t>(key);
      const std::vector<double> k = KeptHead(k_.data() + at * k_dim_, k_dim_, dtype_);
      const std::vector<double> v = KeptHead(v_.data() + at * v_dim_, v_dim_, dtype_);
      double score = 0;
      for (size_t i = 0; i < k_dim_; ++i)
        score += double{q_[static_cast<size_t>(vector) * k_dim_ + i]} * k[i];
      const double cap = static_cast<double>(shape_.softcap);
      if (cap > 0) score = cap * std::tanh(score / cap);
      const double p = std::exp(score);
      total += p;
      for (size_t i = 0; i < v_dim_; ++i) out[i] += p * v[i];
    }
    for (double& x : out) x /= total;
    return out;
  }

 private:
  KvDtype dtype_;
  Shape shape_;
  size_t k_dim_;
  size_t v_dim_;
  std::vector<float> q_, k_, v_;
};

std::string Describe(KvDtype dtype, const Shape& shape) {
  return std::string(KvDtypeName(dtype)) + " k_dim " + std::to_string(shape.k_dim) + " v_dim " +
         std::to_string(shape.v_dim) + " window " + std::to_string(shape.window) + " softcap " +
         std::to_string(shape.softcap);
}

// Windows: within a tile, shorter than what a group of vectors spans, and one that begins inside.
const Shape kShapes[] = {{16, 16},           {48, 48},           {64, 64},      {80, 48},
                         {48, 144},          {48, 48, 3},        {48, 32, 40},  {64, 64, 200},
                         {48, 48, 0, 2.0F},  {32, 48, 40, 5.0F}, {64, 64, 151}, {16, 16, 100},
                         {48, 48, 7, 50.0F}, {192, 128, 0, 0.5F}};

TEST_F(KernelsTest, AttentionMatchesTheReference) {
  for (const KvDtype dtype : kAllKvDtypes)
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(Describe(dtype, shape));
      const SpanCase c(dtype, shape);
      std::vector<float> results;
      c.Attend(*Levels().back(), 0, kVectors, results);
      const auto stride = static_cast<size_t>(shape.v_dim) + 2;
      for (size_t vector = 0; vector < kVectors; vector += 7) {
        const std::vector<double> expected = c.Reference(static_cast<int>(vector));
        const float* result = results.data() + vector * stride;
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(double{result[2 + i]} / double{result[1]}, expected[i], 2e-5)
              << "vector " << vector;
      }
    }
}

TEST_F(KernelsTest, AttentionGivesTheSameBitsHoweverVectorsAreGrouped) {
  for (const KvDtype dtype : kAllKvDtypes)
    for (const Shape& shape : kShapes) {
      const SpanCase c(dtype, shape);
      std::vector<float> expected;
      for (int i = 0; i < kVectors; ++i) c.Attend(PlainOps(), i, i + 1, expected);
      for (const float value : expected) ASSERT_TRUE(std::isfinite(value));
      for (const Ops* ops : Levels())
        for (const int size : {1, 3, 7, 48, 60}) {
          // Emulated instructions are slow: two groups' worth, and enough that tiles are widened.
          if (ops == &EmulatedAvx512Ops() && size != 7 && size != 60) continue;
          std::vector<float> results;
          for (int i = 0; i < kVectors; i += size)
            c.Attend(*ops, i, std::min(i + size, kVectors), results);
          ASSERT_EQ(results.size(), expected.size());
          ASSERT_EQ(0,
                    std::memcmp(results.data(), expected.data(), expected.size() * sizeof(float)))
              << ops->name << " groups of " << size << " " << Describe(dtype, shape);
        }
    }
}

TEST_F(KernelsTest, MergingSpansGivesTheWholeOnEveryLevel) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<float> first;
  for (const Ops* ops : Levels()) {
    std::vector<float> out = a;
    float max = 1.5F;
    float sum = 2.0F;
    ops->merge_span(3.0F, 4.0F, a.data(), 16, &max, &sum, out.data());
    EXPECT_EQ(max, 3.0F);
    EXPECT_NEAR(sum, 4.0F + 2.0F * std::exp(-1.5F), 1e-6);
    EXPECT_NEAR(out[3], 4.0F + 4.0F * std::exp(-1.5F), 1e-6);
    out.push_back(sum);
    if (first.empty()) first = out;
    EXPECT_EQ(0, std::memcmp(out.data(), first.data(), out.size() * sizeof(float))) << ops->name;
  }
}

TEST_F(KernelsTest, SoftCapIsTheHyperbolicTangentOnEveryLevel) {
  std::vector<float> x;
  for (int i = -4000; i < 4000; ++i) x.push_back(static_cast<float>(i) * 0.11F);
  for (const float edge : {0.625F, 0.62499994F, -0.625F, 0.0F, 1e-20F, 1e30F, -1e30F, INFINITY,
                           1e-6F, -3e-4F, 31.2F, -31.25F, 31.25F, 31.26F, 1.0F, -0.0F})
    x.push_back(edge);
  for (const float cap : {1.0F, 30.0F, 50.0F}) {
    std::vector<float> first;
    for (const Ops* ops : Levels()) {
      std::vector<float> y = x;
      ops->soft_cap(cap, y.size(), y.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = double{cap} * std::tanh(double{x[i]} / double{cap});
        ASSERT_NEAR(y[i], expected, 4e-7 * std::abs(expected)) << ops->name << " " << x[i];
      }
      if (first.empty()) first = y;
      EXPECT_EQ(0, std::memcmp(y.data(), first.data(), y.size() * sizeof(float))) << ops->name;
    }
  }
}

}  // namespace
}  // namespace tandem::model
