#include "model/pack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tandem::model {
namespace {

// Where the parts of one block of a row lie in the file.
struct FileBlock {
  size_t bytes;
  size_t scale;   // offset of the fp16 scale
  size_t quants;  // offset of the quants
};

constexpr FileBlock kQ4_0Block{18, 0, 2};
constexpr FileBlock kQ4_1Block{20, 0, 4};
constexpr FileBlock kQ8_0Block{34, 0, 2};
constexpr size_t kSuperBlock = 256;
constexpr size_t kSuperBlockBytes = 210;

// The 32 rows of a panel; rows beyond the matrix are null.
struct PanelRows {
  const std::byte* row[kPanel];
};

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

void PackElements(const PanelRows& rows, size_t inputs, size_t width, std::byte* out) {
  for (size_t o = 0; o < kPanel; ++o) {
    if (rows.row[o] == nullptr) continue;
    for (size_t k = 0; k < inputs; ++k)
      std::memcpy(out + (k * kPanel + o) * width, rows.row[o] + k * width, width);
  }
}

// Sixteen bytes of nibbles of one output: the file pairs input i with i + 16, as the panel does.
void SpreadNibbles(const std::byte* nibbles, size_t o, std::byte* out) {
  for (size_t quad = 0; quad < 4; ++quad)
    std::memcpy(out + quad * 4 * kPanel + o * 4, nibbles + quad * 4, 4);
}

void PackQ4(const PanelRows& rows, size_t inputs, const FileBlock& block, bool minimum,
            std::byte* out) {
  const size_t quants = 16 * kPanel;
  const size_t stride = quants + (minimum ? 4 : 2) * kPanel;
  for (size_t o = 0; o < kPanel; ++o) {
    const std::byte* from = rows.row[o];
    if (from == nullptr) continue;
    std::byte* to = out;
    for (size_t b = 0; b < inputs / kBlock; ++b, from += block.bytes, to += stride) {
      SpreadNibbles(from + block.quants, o, to);
      std::memcpy(to + quants + 2 * o, from + block.scale, 2);
      if (minimum) std::memcpy(to + quants + 2 * kPanel + 2 * o, from + block.scale + 2, 2);
    }
  }
}

void PackQ8(const PanelRows& rows, size_t inputs, std::byte* out) {
  const size_t quants = 32 * kPanel;
  for (size_t o = 0; o < kPanel; ++o) {
    const std::byte* from = rows.row[o];
    if (from == nullptr) continue;
    std::byte* to = out;
    for (size_t b = 0; b < inputs / kBlock; ++b) {
      for (size_t quad = 0; quad < 8; ++quad)
        std::memcpy(to + quad * 4 * kPanel + o * 4, from + kQ8_0Block.quants + quad * 4, 4);
      std::memcpy(to + quants + 2 * o, from + kQ8_0Block.scale, 2);
      from += kQ8_0Block.bytes;
      to += quants + 2 * kPanel;
    }
  }
}

// The six bits of value i (0..255) of a super-block: per 128 values 64 bytes of nibbles (low
// nibbles are values 0..63) and 32 bytes of two-bit planes, one plane per 32 values.
int SixBitsOf(const std::byte* super, size_t i) {
  const size_t half = i / 128;
  const size_t in_half = i % 128;
  const auto nibbles = static_cast<int>(super[half * 64 + in_half % 64]);
  const auto planes = static_cast<int>(super[128 + half * 32 + in_half % 32]);
  const int low = in_half < 64 ? nibbles & 15 : nibbles >> 4;
  return low | (((planes >> (2 * (in_half / 32))) & 3) << 4);
}

void PackSixBits(const std::byte* super, size_t sub, size_t o, std::byte* out) {
  std::byte* high = out + 16 * kPanel;
  for (size_t i = 0; i < kBlock; ++i) {
    const int value = SixBitsOf(super, sub * kBlock + i);
    const size_t quad = i / 4;
    out[quad % 4 * 4 * kPanel + o * 4 + i % 4] |=
        static_cast<std::byte>((value & 15) << (quad < 4 ? 0 : 4));
    high[quad % 2 * 4 * kPanel + o * 4 + i % 4] |=
        static_cast<std::byte>((value >> 4) << (2 * (quad / 2)));
  }
  std::byte* scales = high + 8 * kPanel;
  scales[o] = super[192 + sub * 2];
  scales[kPanel + o] = super[192 + sub * 2 + 1];
}

void PackQ6(const PanelRows& rows, size_t inputs, std::byte* out) {
  constexpr size_t kPart = 16 * kPanel + 8 * kPanel + 2 * kPanel;
  for (size_t o = 0; o < kPanel; ++o) {
    const std::byte* super = rows.row[o];
    if (super == nullptr) continue;
    std::byte* to = out;
    for (size_t b = 0; b < inputs / kSuperBlock; ++b, super += kSuperBlockBytes) {
      std::memcpy(to + 2 * o, super + 208, 2);
      to += 2 * kPanel;
      for (size_t sub = 0; sub < 8; ++sub, to += kPart) PackSixBits(super, sub, o, to);
    }
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
    case TensorType::kQ8_0:
      return WeightFormat::kQ8_0;
    case TensorType::kQ6_K:
      return WeightFormat::kQ6_K;
  }
  CHECK(false);
}

size_t PanelBytes(WeightFormat format, size_t inputs) {
  switch (format) {
    case WeightFormat::kF32:
      return inputs * kPanel * 4;
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return inputs * kPanel * 2;
    case WeightFormat::kQ4_0:
      return inputs / kBlock * kPanel * kQ4_0Block.bytes;
    case WeightFormat::kQ4_1:
      return inputs / kBlock * kPanel * kQ4_1Block.bytes;
    case WeightFormat::kQ8_0:
      return inputs / kBlock * kPanel * kQ8_0Block.bytes;
    case WeightFormat::kQ6_K:
      return inputs / kSuperBlock * kPanel * kSuperBlockBytes;
  }
  CHECK(false);
}

void PackPanel(const Tensor& tensor, size_t p, std::byte* out) {
  const WeightFormat format = FormatOf(tensor.type);
  const auto inputs = static_cast<size_t>(tensor.Inputs());
  const PanelRows rows = RowsOf(tensor, p);
  std::fill_n(out, PanelBytes(format, inputs), std::byte{0});
  switch (format) {
    case WeightFormat::kF32:
      return PackElements(rows, inputs, 4, out);
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return PackElements(rows, inputs, 2, out);
    case WeightFormat::kQ4_0:
      return PackQ4(rows, inputs, kQ4_0Block, false, out);
    case WeightFormat::kQ4_1:
      return PackQ4(rows, inputs, kQ4_1Block, true, out);
    case WeightFormat::kQ8_0:
      return PackQ8(rows, inputs, out);
    case WeightFormat::kQ6_K:
      return PackQ6(rows, inputs, out);
  }
}

}  // namespace tandem::model
