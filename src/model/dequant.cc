#include "model/dequant.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "model/float16.h"

namespace tandem::model {
namespace {

uint16_t Load16(const std::byte* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

float LoadHalf(const std::byte* bytes) { return HalfToFloat(Load16(bytes)); }

uint8_t Byte(const std::byte* bytes, int index) { return std::to_integer<uint8_t>(bytes[index]); }

int8_t SignedByte(const std::byte* bytes, int index) {
  return static_cast<int8_t>(Byte(bytes, index));
}

// Scale, then 32 signed bytes.
void Q8_0Block(const std::byte* block, float* values) {
  const float scale = LoadHalf(block);
  for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(SignedByte(block + 2, i)) * scale;
}

// Scale, then 16 bytes: low nibbles are values 0-15, high nibbles 16-31, all offset by 8.
void Q4_0Block(const std::byte* block, float* values) {
  const float scale = LoadHalf(block);
  for (int i = 0; i < 16; ++i) {
    const int packed = Byte(block + 2, i);
    values[i] = static_cast<float>((packed & 15) - 8) * scale;
    values[i + 16] = static_cast<float>((packed >> 4) - 8) * scale;
  }
}

// Scale, minimum, then nibbles as in Q4_0 without the offset.
void Q4_1Block(const std::byte* block, float* values) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int packed = Byte(block + 4, i);
    values[i] = static_cast<float>(packed & 15) * scale + minimum;
    values[i + 16] = static_cast<float>(packed >> 4) * scale + minimum;
  }
}

// Two halves of 128 values. Each has 64 bytes of low nibbles and 32 bytes of high bit pairs, four
// planes to a byte; a signed scale per 16 values and one scale for the block.
void Q6_KBlock(const std::byte* block, float* values) {
  constexpr int kScales = 128 + 64;
  constexpr int kBlockScale = kScales + 16;
  const float scale = LoadHalf(block + kBlockScale);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + 64 * half;
    const std::byte* high = block + 128 + 32 * half;
    for (int plane = 0; plane < 4; ++plane) {
      for (int i = 0; i < 32; ++i) {
        const int packed = Byte(low, (plane & 1) * 32 + i);
        const int nibble = plane < 2 ? packed & 15 : packed >> 4;
        const int bits = (Byte(high, i) >> (2 * plane)) & 3;
        const int group = half * 8 + plane * 2 + i / 16;
        const float sub_scale = scale * static_cast<float>(SignedByte(block + kScales, group));
        values[half * 128 + plane * 32 + i] =
            sub_scale * static_cast<float>((nibble | (bits << 4)) - 32);
      }
    }
  }
}

}  // namespace

void DequantizeRow(TensorType type, const std::byte* row, std::span<float> values) {
  const TensorTypeInfo& info = InfoOf(type);
  CHECK(values.size() % static_cast<size_t>(info.block_elements) == 0);
  float* out = values.data();
  const size_t blocks = values.size() / static_cast<size_t>(info.block_elements);
  const auto for_each_block = [&](auto block_function) {
    for (size_t i = 0; i < blocks; ++i)
      block_function(row + i * static_cast<size_t>(info.block_bytes),
                     out + i * static_cast<size_t>(info.block_elements));
  };
  switch (type) {
    case TensorType::kF32:
      if (!values.empty()) std::memcpy(out, row, values.size_bytes());
      return;
    case TensorType::kF16:
      return for_each_block([](const std::byte* at, float* value) { *value = LoadHalf(at); });
    case TensorType::kBF16:
      return for_each_block(
          [](const std::byte* at, float* value) { *value = Bfloat16ToFloat(Load16(at)); });
    case TensorType::kQ8_0:
      return for_each_block(Q8_0Block);
    case TensorType::kQ4_0:
      return for_each_block(Q4_0Block);
    case TensorType::kQ4_1:
      return for_each_block(Q4_1Block);
    case TensorType::kQ6_K:
      return for_each_block(Q6_KBlock);
  }
}

}  // namespace tandem::model
