#include "model/pack.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "model/dequant.h"
#include "model/pack_rows.h"

namespace tandem::model {
namespace {

constexpr size_t kSuperBlock = 256;

PanelRows RowsOf(const PackSource& source, size_t p) {
  const Tensor& tensor = *source.tensor;
  const size_t row_bytes = RowBytes(tensor.type, tensor.Inputs());
  PanelRows result{};
  for (size_t o = 0; o < kPanel; ++o) {
    const size_t output = p * kPanel + o;
    if (output >= source.outputs) continue;
    const int64_t row =
        source.rows.empty() ? source.first_row + static_cast<int64_t>(output) : source.rows[output];
    if (row >= 0) result.row[o] = tensor.bytes.data() + static_cast<size_t>(row) * row_bytes;
  }
  return result;
}

// Columns become outputs: each row is widened whole for the few that a panel takes of it, which
// only small matrices go through.
void PackTransposed(const PackSource& source, size_t p, std::byte* out) {
  const Tensor& tensor = *source.tensor;
  const size_t row_bytes = RowBytes(tensor.type, tensor.Inputs());
  std::vector<float> values(static_cast<size_t>(tensor.Inputs()));
  const size_t first = p * kPanel;
  const size_t count = std::min<size_t>(kPanel, source.outputs - first);
  for (size_t k = 0; k < source.transposed_rows; ++k) {
    const size_t row = static_cast<size_t>(source.first_row) + k;
    DequantizeRow(tensor.type, tensor.bytes.data() + row * row_bytes, values);
    std::memcpy(out + k * kPanel * sizeof(float), values.data() + first, count * sizeof(float));
  }
}

// Rows of any type as float32.
void PackWidened(const PackSource& source, size_t p, std::byte* out) {
  const PanelRows rows = RowsOf(source, p);
  std::vector<float> values(static_cast<size_t>(source.tensor->Inputs()));
  for (size_t o = 0; o < kPanel; ++o) {
    if (rows.row[o] == nullptr) continue;
    DequantizeRow(source.tensor->type, rows.row[o], values);
    for (size_t k = 0; k < values.size(); ++k)
      std::memcpy(out + (k * kPanel + o) * sizeof(float), &values[k], sizeof(float));
  }
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

PackSource WholeTensor(const Tensor& tensor) {
  const auto inputs = static_cast<size_t>(tensor.Inputs());
  return {.tensor = &tensor,
          .format = FormatOf(tensor.type),
          .inputs = (inputs + kBlock - 1) / kBlock * kBlock,
          .outputs = static_cast<size_t>(tensor.Rows())};
}

void PackPanel(const PackSource& source, size_t p, std::byte* out) {
  const TensorType type = source.tensor->type;
  const auto inputs = static_cast<size_t>(source.tensor->Inputs());
  const bool as_it_is = source.transposed_rows == 0 && source.format == FormatOf(type);
  if (!as_it_is || inputs != source.inputs)
    std::fill_n(out, PanelBytes(source.format, source.inputs), std::byte{0});
  if (source.transposed_rows > 0)
    PackTransposed(source, p, out);
  else if (!as_it_is)
    PackWidened(source, p, out);
  else
    PackRows(type, RowsOf(source, p), inputs, out);
}

}  // namespace tandem::model
