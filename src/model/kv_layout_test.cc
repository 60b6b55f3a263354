// The bytes of a block are a contract between workers (docs/contracts/kv-layout.md): each number is
// looked for where that page says, and read as it says.
#include "model/kv_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "model/float16.h"
#include "model/kv_writer.h"
#include "model/test_kv.h"
#include "model/test_levels.h"

namespace tandem::model {
namespace {

constexpr int kLayers = 3;
constexpr int kHeads = 2;
constexpr size_t kKDim = 80;
constexpr size_t kVDim = 32;

KvLayout Layout(KvDtype dtype, int block_tokens) {
  return {.layers = kLayers,
          .kv_heads = kHeads,
          .k_dim = static_cast<int>(kKDim),
          .v_dim = static_cast<int>(kVDim),
          .block_tokens = block_tokens,
          .dtype = dtype};
}

template <class T>
T ReadAt(const std::vector<std::byte>& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

double NumberAt(const std::vector<std::byte>& bytes, size_t at, KvDtype dtype, float scale) {
  switch (dtype) {
    case KvDtype::kFloat16:
      return double{HalfToFloat(ReadAt<uint16_t>(bytes, at))};
    case KvDtype::kFloat32:
      return double{ReadAt<float>(bytes, at)};
    case KvDtype::kBfloat16:
      return double{Bfloat16ToFloat(ReadAt<uint16_t>(bytes, at))};
    case KvDtype::kInt8:
      return static_cast<double>(ReadAt<int8_t>(bytes, at)) * double{scale};
  }
  return NAN;
}

TEST(KvLayout, IdsAndSizes) {
  const auto expect = [](KvDtype dtype, int block_tokens, const std::string& id, size_t bytes) {
    EXPECT_EQ(Layout(dtype, block_tokens).Id(), id);
    EXPECT_EQ(Layout(dtype, block_tokens).BlockBytes(), bytes);
  };
  expect(KvDtype::kFloat16, 16, "kv2-f16-l3-h2-k80-v32-b16", 3 * 2 * 112 * 16 * 2);
  expect(KvDtype::kBfloat16, 5, "kv2-bf16-l3-h2-k80-v32-b5", 3 * 2 * 112 * 5 * 2);
  expect(KvDtype::kFloat32, 16, "kv2-f32-l3-h2-k80-v32-b16", 3 * 2 * 112 * 16 * 4);
  expect(KvDtype::kInt8, 16, "kv2-i8-l3-h2-k80-v32-b16", 3 * 2 * (112 + 2 * 4) * 16);
}

TEST(KvLayout, FlagsNameTheDtypes) {
  EXPECT_EQ(KvDtypeOfFlag("float16"), KvDtype::kFloat16);
  EXPECT_EQ(KvDtypeOfFlag("float32"), KvDtype::kFloat32);
  EXPECT_EQ(KvDtypeOfFlag("bfloat16"), KvDtype::kBfloat16);
  EXPECT_EQ(KvDtypeOfFlag("int8_per_token_head"), KvDtype::kInt8);
  EXPECT_EQ(KvDtypeOfFlag("auto"), std::nullopt);
  EXPECT_EQ(KvDtypeOfFlag("fp8"), std::nullopt);
}

TEST_F(KernelsTest, KeysAndValuesLieWhereTheContractSays) {
  for (const KvDtype dtype : kAllKvDtypes)
    for (const size_t block_tokens : {size_t{16}, size_t{5}}) {
      const KvLayout layout = Layout(dtype, static_cast<int>(block_tokens));
      RandomBytes random(3);
      const std::vector<float> k = RandomFloats(random, kKDim, 3.0F);
      const std::vector<float> v = RandomFloats(random, kVDim, 3.0F);
      constexpr size_t kBlock2 = 2, kSlot = 3, kLayer = 1, kHead = 1;
      std::vector<std::byte> first;
      for (const Ops* ops : Levels()) {
        std::vector<std::byte> arena(layout.BlockBytes() * 3);
        KvWriter writer(layout, *ops);
        writer.SetArena({arena.data(), 3});
        writer.Store({.block = kBlock2, .slot = kSlot}, kLayer, kHead, k.data(), v.data());
        if (first.empty()) first = arena;
        ASSERT_EQ(arena, first) << ops->name << " " << KvDtypeName(dtype);
      }
      const size_t element = dtype == KvDtype::kInt8 ? 1 : dtype == KvDtype::kFloat32 ? 4 : 2;
      const size_t scale = dtype == KvDtype::kInt8 ? 4 : 0;
      const size_t k_part = block_tokens * (kKDim * element + scale);
      const size_t v_part = block_tokens * (kVDim * element + scale);
      const size_t layer_at = kBlock2 * layout.BlockBytes() + kLayer * kHeads * (k_part + v_part);
      const size_t k_at = layer_at + kHead * k_part;
      const size_t v_at = layer_at + kHeads * k_part + kHead * v_part;
      float k_scale = 1;
      float v_scale = 1;
      if (scale > 0) {
        k_scale = ReadAt<float>(first, k_at + block_tokens * kKDim + kSlot * 4);
        v_scale = ReadAt<float>(first, v_at + block_tokens * kVDim + kSlot * 4);
      }
      const std::vector<double> kept_k = KeptHead(k.data(), kKDim, dtype);
      const std::vector<double> kept_v = KeptHead(v.data(), kVDim, dtype);
      for (size_t d = 0; d < kKDim; ++d)
        ASSERT_EQ(NumberAt(first, k_at + (d * block_tokens + kSlot) * element, dtype, k_scale),
                  kept_k[d])
            << KvDtypeName(dtype) << " key " << d;
      for (size_t d = 0; d < kVDim; ++d)
        ASSERT_EQ(NumberAt(first, v_at + (kSlot * kVDim + d) * element, dtype, v_scale), kept_v[d])
            << KvDtypeName(dtype) << " value " << d;
    }
}

TEST_F(KernelsTest, Bfloat16RoundsToNearestEvenAndStaysFinite) {
  const std::vector<std::pair<float, uint16_t>> cases = {
      {0.0F, 0x0000},           {-0.0F, 0x8000},         {1.0F, 0x3F80},
      {-1.0F, 0xBF80},          {0x1.01p0F, 0x3F80},     {0x1.03p0F, 0x3F82},
      {0x1.010002p0F, 0x3F81},  {0x1.02FFFEp0F, 0x3F81}, {-0x1.01p1F, 0xC000},
      {0x1p-120F, 0x0380},      {0.1F, 0x3DCD},          {INFINITY, 0x7F7F},
      {-INFINITY, 0xFF7F},      {3.0e38F, 0x7F62},       {0x1.FEp127F, 0x7F7F},
      {0x1.FFFFFEp127F, 0x7F7F}};
  std::vector<float> x;
  std::vector<uint16_t> expected;
  for (const auto& [number, bits] : cases) {
    x.push_back(number);
    expected.push_back(bits);
  }
  for (const Ops* ops : Levels()) {
    std::vector<uint16_t> y(16);
    ops->narrow_bfloat16(x.data(), 16, y.data());
    EXPECT_EQ(y, expected) << ops->name;
  }
}

TEST_F(KernelsTest, Int8HeadsAreScaledByTheirLargestNumber) {
  std::vector<float> x(48, 0.5F);
  x[7] = -127.0F;
  x[8] = 126.5F;
  x[9] = 125.5F;
  x[40] = 127.0F;
  for (const Ops* ops : Levels()) {
    std::vector<int8_t> q(48 * 3, 99);
    EXPECT_EQ(ops->quantize_head(x.data(), 48, q.data(), 3), 1.0F);
    EXPECT_EQ(q[0], 0);
    EXPECT_EQ(q[1], 99);
    EXPECT_EQ(q[7 * 3], -127);
    EXPECT_EQ(q[8 * 3], 126);
    EXPECT_EQ(q[9 * 3], 126);
    EXPECT_EQ(q[40 * 3], 127);
    const std::vector<float> zeros(16, 0.0F);
    EXPECT_EQ(ops->quantize_head(zeros.data(), 16, q.data(), 1), 0.0F);
    EXPECT_EQ(q[15], 0);
  }
}

}  // namespace
}  // namespace tandem::model
