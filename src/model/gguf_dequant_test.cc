#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "model/dequant.h"
#include "model/float16.h"
#include "model/golden_file.h"

namespace tandem::model {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(Dequantize, BitsEqualTheReferencePackage) {
  int types = 0;
  for (const GoldenCase& golden : ReadGoldens("tiny/dequant.txt")) {
    SCOPED_TRACE(golden.Word("type"));
    const TensorTypeInfo* info = nullptr;
    for (uint32_t id = 0; id < 64; ++id)
      if (TensorTypeName(id) == golden.Word("type")) info = FindTensorType(id);
    ASSERT_NE(info, nullptr);
    const std::vector<std::byte> bytes = FromHex(golden.Word("bytes"));
    const std::vector<std::string>& bits = golden.lines.at("bits");
    ASSERT_EQ(bytes.size(), RowBytes(info->type, static_cast<int64_t>(bits.size())));
    std::vector<float> values(bits.size());
    DequantizeRow(info->type, bytes.data(), values);
    for (size_t i = 0; i < bits.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::stoul(bits[i], nullptr, 16))
          << "value " << i;
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(Float16, EveryHalfSurvivesARoundTrip) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
      continue;
    }
    ASSERT_EQ(FloatToHalf(value), half);
  }
}

TEST(Float16, RoundsToNearestEven) {
  // Between each pair of neighbouring halves: just below, at, and just above the middle.
  for (uint16_t half = 0; half < 0x7BFF; ++half) {
    const float low = HalfToFloat(half);
    const float high = HalfToFloat(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    const uint16_t even = (half & 1) == 0 ? half : static_cast<uint16_t>(half + 1);
    ASSERT_EQ(FloatToHalf(middle), even) << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0F)), half) << half;
    ASSERT_EQ(FloatToHalf(-std::nextafter(middle, high)), 0x8000 | (half + 1)) << half;
  }
  EXPECT_EQ(FloatToHalf(65519.0F), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7C00);
}

}  // namespace
}  // namespace tandem::model
