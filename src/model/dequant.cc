#include "model/dequant.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "model/float16.h"
#include "model/quant_blocks.h"

namespace tandem::model {
namespace {

uint16_t Load16(const std::byte* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

void DequantizeBlocks(TensorType type, const std::byte* row, std::span<float> values) {
  const TensorTypeInfo& info = InfoOf(type);
  const QuantTraits traits = TraitsOf(type);
  QuantBlock block;
  float* out = values.data();
  for (float* end = out + values.size(); out < end; row += info.block_bytes) {
    ReadQuantBlock(type, row, block);
    const float scale = HalfToFloat(block.scale);
    for (int i = 0; i < info.block_elements; ++i) {
      const int group = i / traits.group;
      const int quant = type == TensorType::kQ8_0 ? static_cast<int8_t>(block.quants[i])
                                                  : block.quants[i] - traits.offset;
      float value = scale * static_cast<float>(block.scales[group]) * static_cast<float>(quant);
      if (traits.minimum) value += HalfToFloat(block.minimum);
      if (traits.group_minima)
        value -= HalfToFloat(block.minimum) * static_cast<float>(block.minima[group]);
      *out++ = value;
    }
  }
}

}  // namespace

void DequantizeRow(TensorType type, const std::byte* row, std::span<float> values) {
  CHECK(values.size() % static_cast<size_t>(InfoOf(type).block_elements) == 0);
  switch (type) {
    case TensorType::kF32:
      if (!values.empty()) std::memcpy(values.data(), row, values.size_bytes());
      return;
    case TensorType::kF16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = HalfToFloat(Load16(row + 2 * i));
      return;
    case TensorType::kBF16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = Bfloat16ToFloat(Load16(row + 2 * i));
      return;
    case TensorType::kF8_E4M3:
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = Fp8ToFloat(static_cast<uint8_t>(row[i]));
      return;
    default:
      return DequantizeBlocks(type, row, values);
  }
}

}  // namespace tandem::model
