#include "model/pack.h"

#include "base/check.h"
#include "model/pack_rows.h"

namespace tandem::model {
namespace {

constexpr size_t kSuperBlock = 256;

PanelRows RowsOf(const Tensor& tensor, size_t p) {
  const size_t row_bytes = RowBytes(tensor.type, tensor.Inputs());
  const auto rows = static_cast<size_t>(tensor.Rows());
  PanelRows result{};
  for (size_t o = 0; o < kPanel; ++o) {
    const size_t row = p * kPanel + o;
    result.row[o] = row < rows ? tensor.bytes.data() + row * row_bytes : nullptr;
  }
  return result;
}

}  // namespace

WeightFormat FormatOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return WeightFormat::kF32;
    case TensorType::kF16:
      return WeightFormat::kF16;
    case TensorType::kBF16:
      return WeightFormat::kBF16;
    case TensorType::kQ4_0:
      return WeightFormat::kQ4_0;
    case TensorType::kQ4_1:
      return WeightFormat::kQ4_1;
    case TensorType::kQ5_0:
      return WeightFormat::kQ5_0;
    case TensorType::kQ5_1:
      return WeightFormat::kQ5_1;
    case TensorType::kQ8_0:
      return WeightFormat::kQ8_0;
    case TensorType::kQ2_K:
      return WeightFormat::kQ2_K;
    case TensorType::kQ3_K:
      return WeightFormat::kQ3_K;
    case TensorType::kQ4_K:
      return WeightFormat::kQ4_K;
    case TensorType::kQ5_K:
      return WeightFormat::kQ5_K;
    case TensorType::kQ6_K:
      return WeightFormat::kQ6_K;
  }
  CHECK(false);
}

size_t PanelBytes(WeightFormat format, size_t inputs) {
  const size_t blocks = inputs / kBlock * kPanel;
  const size_t super_blocks = inputs / kSuperBlock * kPanel;
  switch (format) {
    case WeightFormat::kF32:
      return inputs * kPanel * 4;
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return inputs * kPanel * 2;
    case WeightFormat::kF8:
      return inputs * kPanel + (inputs + kFp8Block - 1) / kFp8Block * kPanel * 4;
    case WeightFormat::kQ4_0:
      return blocks * 18;
    case WeightFormat::kQ4_1:
      return blocks * 20;
    case WeightFormat::kQ5_0:
      return blocks * 22;
    case WeightFormat::kQ5_1:
      return blocks * 24;
    case WeightFormat::kQ8_0:
      return blocks * 34;
    case WeightFormat::kQ2_K:
      return super_blocks * 84;
    case WeightFormat::kQ3_K:
      return super_blocks * 114;
    case WeightFormat::kQ4_K:
      return super_blocks * 148;
    case WeightFormat::kQ5_K:
      return super_blocks * 180;
    case WeightFormat::kQ6_K:
      return super_blocks * 210;
  }
  CHECK(false);
}

void PackPanel(const Tensor& tensor, size_t p, std::byte* out) {
  PackRows(tensor.type, RowsOf(tensor, p), static_cast<size_t>(tensor.Inputs()), out);
}

}  // namespace tandem::model
