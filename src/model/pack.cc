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

// The tensor's row of an output; -1: zeros.
int64_t RowOf(const PackSource& source, size_t output) {
  if (output >= source.outputs) return -1;
  return source.rows.empty() ? source.first_row + static_cast<int64_t>(output)
                             : source.rows[output];
}

PanelRows RowsOf(const PackSource& source, size_t p) {
  const Tensor& tensor = *source.tensor;
  const size_t row_bytes = RowBytes(tensor.type, tensor.Inputs());
  PanelRows result{};
  for (size_t o = 0; o < kPanel; ++o) {
    const int64_t row = RowOf(source, p * kPanel + o);
    if (row >= 0) result.row[o] = tensor.bytes.data() + static_cast<size_t>(row) * row_bytes;
  }
  return result;
}

// A row of the tensor as float32.
void Widen(const PackSource& source, size_t row, std::vector<float>& values) {
  const Tensor& tensor = *source.tensor;
  values.resize(static_cast<size_t>(tensor.Inputs()));
  DequantizeRow(tensor.type, tensor.bytes.data() + row * RowBytes(tensor.type, tensor.Inputs()),
                values);
  if (source.scales == nullptr) return;
  for (size_t k = 0; k < values.size(); ++k) values[k] *= source.scales->At(row, k / kFp8Block);
}

// Columns become outputs: each row is widened whole for the few that a panel takes of it, which
// only small matrices go through.
void PackTransposed(const PackSource& source, size_t p, std::byte* out) {
  std::vector<float> values;
  const size_t first = p * kPanel;
  const size_t count = std::min<size_t>(kPanel, source.outputs - first);
  for (size_t k = 0; k < source.transposed_rows; ++k) {
    Widen(source, static_cast<size_t>(source.first_row) + k, values);
    std::memcpy(out + k * kPanel * sizeof(float), values.data() + first, count * sizeof(float));
  }
}

// Rows of any type as float32.
void PackWidened(const PackSource& source, size_t p, std::byte* out) {
  std::vector<float> values;
  for (size_t o = 0; o < kPanel; ++o) {
    const int64_t row = RowOf(source, p * kPanel + o);
    if (row < 0) continue;
    Widen(source, static_cast<size_t>(row), values);
    for (size_t k = 0; k < values.size(); ++k)
      std::memcpy(out + (k * kPanel + o) * sizeof(float), &values[k], sizeof(float));
  }
}

void PackFp8(const PackSource& source, size_t p, std::byte* out) {
  const auto scale = [&](size_t o, size_t block) {
    return source.scales->At(static_cast<size_t>(RowOf(source, p * kPanel + o)), block);
  };
  PackFp8Panel(RowsOf(source, p), source.inputs, scale, out);
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
    case TensorType::kF8_E4M3:
      return WeightFormat::kF8;
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
  else if (source.scales != nullptr)
    PackFp8(source, p, out);
  else
    PackRows(type, RowsOf(source, p), inputs, out);
}

}  // namespace tandem::model
