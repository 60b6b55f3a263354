// Rows of activations on their way into a matrix product, as floats and quantised.
#ifndef TANDEM_MODEL_ACTIVATIONS_H_
#define TANDEM_MODEL_ACTIVATIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "model/ops.h"

namespace tandem::model {

// Room for `rows` rows of up to `width` values in memory that belongs to somebody else.
class Activations {
 public:
  static constexpr size_t Bytes(size_t rows, size_t width) {
    return rows * (width * (sizeof(float) + 1) + width / kBlock * 16) + 6 * kAlign;
  }

  Activations() = default;
  // `memory` holds Bytes(rows, width), or is null while its size is still being counted.
  Activations(std::byte* memory, size_t rows, size_t width) {
    if (memory == nullptr) return;
    const auto take = [&memory](size_t bytes) {
      std::byte* part = memory;
      memory += (bytes + kAlign - 1) / kAlign * kAlign;
      return part;
    };
    values_ = reinterpret_cast<float*>(take(rows * width * sizeof(float)));
    q_ = reinterpret_cast<int8_t*>(take(rows * width));
    scale_ = reinterpret_cast<float*>(take(rows * width / kBlock * 4));
    scaled_sum_ = reinterpret_cast<float*>(take(rows * width / kBlock * 4));
    sum_ = reinterpret_cast<int32_t*>(take(rows * width / kBlock * 4));
    half_sums_ = reinterpret_cast<int32_t*>(take(rows * width / kBlock * 4));
  }

  // The same memory as rows of `width` values, a multiple of 32.
  Activations WithWidth(size_t width) const {
    Activations result = *this;
    result.width_ = width;
    return result;
  }

  // The rows from `row` on, of rows with the present width.
  Activations From(size_t row) const {
    Activations result = *this;
    const QuantizedRow first = Quantized(row);
    result.values_ = Values(row);
    result.q_ = first.q;
    result.scale_ = first.scale;
    result.scaled_sum_ = first.scaled_sum;
    result.sum_ = first.sum;
    result.half_sums_ = first.half_sums;
    return result;
  }
  // Copies a row with all its forms from rows of the same width.
  void CopyRow(size_t to, const Activations& from, size_t row, bool floats, bool quantized) const {
    if (floats) std::memcpy(Values(to), from.Values(row), width_ * sizeof(float));
    if (!quantized) return;
    const QuantizedRow a = from.Quantized(row);
    const QuantizedRow b = Quantized(to);
    const size_t blocks = width_ / kBlock;
    std::memcpy(b.q, a.q, width_);
    std::memcpy(b.scale, a.scale, blocks * sizeof(float));
    std::memcpy(b.scaled_sum, a.scaled_sum, blocks * sizeof(float));
    std::memcpy(b.sum, a.sum, blocks * sizeof(int32_t));
    std::memcpy(b.half_sums, a.half_sums, blocks * sizeof(int32_t));
  }

  size_t width() const { return width_; }
  float* Values(size_t row) const { return values_ + row * width_; }
  QuantizedRow Quantized(size_t row) const {
    const size_t block = row * (width_ / kBlock);
    return {q_ + row * width_, scale_ + block, scaled_sum_ + block, sum_ + block,
            half_sums_ + block};
  }
  // The rows from `first` on.
  RowsView View(size_t first) const {
    const QuantizedRow row = Quantized(first);
    return {Values(first), row.q,         row.scale, row.scaled_sum,
            row.sum,       row.half_sums, width_,    width_ / kBlock};
  }

 private:
  static constexpr size_t kAlign = 64;
  float* values_ = nullptr;
  int8_t* q_ = nullptr;
  float* scale_ = nullptr;
  float* scaled_sum_ = nullptr;
  int32_t* sum_ = nullptr;
  int32_t* half_sums_ = nullptr;
  size_t width_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_ACTIVATIONS_H_
