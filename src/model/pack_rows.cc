#include "model/pack_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "model/pack.h"
#include "model/quant_blocks.h"
#include "model/quant_layout.h"

namespace tandem::model {
namespace {

constexpr size_t kArray = 4 * kPanel;  // four bytes of every output

void PackElements(const PanelRows& rows, size_t inputs, size_t width, std::byte* out) {
  for (size_t o = 0; o < kPanel; ++o) {
    if (rows.row[o] == nullptr) continue;
    for (size_t k = 0; k < inputs; ++k)
      std::memcpy(out + (k * kPanel + o) * width, rows.row[o] + k * width, width);
  }
}

constexpr auto kLayouts = std::to_array<QuantLayout>({{},
                                                      {},
                                                      QuantLayoutOf(2),
                                                      QuantLayoutOf(3),
                                                      QuantLayoutOf(4),
                                                      QuantLayoutOf(5),
                                                      QuantLayoutOf(6),
                                                      {},
                                                      QuantLayoutOf(8)});

// Quants of `bits` bits of output o: eight quads, in the order of K.
void PutQuants(const uint8_t* quants, size_t bits, size_t o, std::byte* out) {
  for (const QuantParts& parts : kLayouts[bits]) {
    uint32_t four;
    std::memcpy(&four, quants, 4);
    quants += 4;
    for (int i = 0; i < parts.count; ++i) {
      const QuantPart& part = parts.part[i];
      const uint32_t mask = ((1U << part.count) - 1) * 0x01010101U;
      std::byte* to = out + static_cast<size_t>(part.array) * kArray + 4 * o;
      uint32_t there;
      std::memcpy(&there, to, 4);
      there |= (four >> part.to & mask) << part.at;
      std::memcpy(to, &there, 4);
    }
  }
}

// Quads of two inputs of a block's first half and two of its second.
std::array<uint8_t, kBlock> MixHalves(const uint8_t* quants) {
  std::array<uint8_t, kBlock> mixed;
  for (size_t i = 0; i < kBlock; ++i) mixed[i] = quants[i / 4 * 2 + i % 2 + i % 4 / 2 * 16];
  return mixed;
}

void Put16(uint16_t value, std::byte* out) { std::memcpy(out, &value, 2); }

// The parts of a panel block of 32 inputs, after the quants: see pack.h.
enum class Tail { kScale, kScaleAndMinimum, kBytePairs, kScaleBytes, kNibblePairs };

struct Layout {
  size_t bits;
  Tail tail;
};

Layout LayoutOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return {4, Tail::kScale};
    case TensorType::kQ4_1:
      return {4, Tail::kScaleAndMinimum};
    case TensorType::kQ5_0:
      return {5, Tail::kScale};
    case TensorType::kQ5_1:
      return {5, Tail::kScaleAndMinimum};
    case TensorType::kQ8_0:
      return {8, Tail::kScale};
    case TensorType::kQ2_K:
      return {2, Tail::kNibblePairs};
    case TensorType::kQ3_K:
      return {3, Tail::kBytePairs};
    case TensorType::kQ4_K:
      return {4, Tail::kScaleBytes};
    case TensorType::kQ5_K:
      return {5, Tail::kScaleBytes};
    case TensorType::kQ6_K:
      return {6, Tail::kBytePairs};
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kF8_E4M3:
      break;
  }
  CHECK(false);
}

// The numbers that follow the quants of the 32 inputs `part` (0..7) of a block; returns its bytes.
size_t PutTail(const QuantBlock& block, Tail tail, size_t part, size_t o, std::byte* out) {
  switch (tail) {
    case Tail::kScale:
    case Tail::kScaleAndMinimum:
      Put16(block.scale, out + 2 * o);
      if (tail == Tail::kScale) return 2 * kPanel;
      Put16(block.minimum, out + 2 * kPanel + 2 * o);
      return 4 * kPanel;
    case Tail::kBytePairs:
      std::memcpy(out + 2 * o, block.scales + 2 * part, 2);
      return 2 * kPanel;
    case Tail::kScaleBytes:
      out[o] = static_cast<std::byte>(block.scales[part]);
      out[kPanel + o] = static_cast<std::byte>(block.minima[part]);
      return 2 * kPanel;
    case Tail::kNibblePairs:
      for (size_t half = 0; half < 2; ++half)
        out[2 * o + half] = static_cast<std::byte>(block.scales[2 * part + half] |
                                                   block.minima[2 * part + half] << 4);
      return 2 * kPanel;
  }
  CHECK(false);
}

// Scales (and minima, negated) of a super-block; returns their bytes.
size_t PutHead(const QuantBlock& block, bool minimum, size_t o, std::byte* out) {
  Put16(block.scale, out + 2 * o);
  if (!minimum) return 2 * kPanel;
  Put16(block.minimum ^ 0x8000U, out + 2 * kPanel + 2 * o);
  return 4 * kPanel;
}

void PackQuants(TensorType type, const PanelRows& rows, size_t inputs, std::byte* out) {
  const TensorTypeInfo& info = InfoOf(type);
  const Layout layout = LayoutOf(type);
  const bool group_minima = TraitsOf(type).group_minima;
  const bool mix = TraitsOf(type).group < kBlock;
  const auto parts = static_cast<size_t>(info.block_elements) / kBlock;
  const size_t blocks = inputs / static_cast<size_t>(info.block_elements);
  QuantBlock block;
  for (size_t o = 0; o < kPanel; ++o) {
    const std::byte* from = rows.row[o];
    if (from == nullptr) continue;
    std::byte* to = out;
    for (size_t b = 0; b < blocks; ++b, from += info.block_bytes) {
      ReadQuantBlock(type, from, block);
      if (parts > 1) to += PutHead(block, group_minima, o, to);
      for (size_t part = 0; part < parts; ++part) {
        const uint8_t* quants = block.quants + part * kBlock;
        if (mix)
          PutQuants(MixHalves(quants).data(), layout.bits, o, to);
        else
          PutQuants(quants, layout.bits, o, to);
        to += layout.bits * kArray;
        to += PutTail(block, layout.tail, part, o, to);
      }
    }
  }
}

}  // namespace

void PackRows(TensorType type, const PanelRows& rows, size_t inputs, std::byte* out) {
  std::fill_n(out, PanelBytes(FormatOf(type), inputs), std::byte{0});
  switch (type) {
    case TensorType::kF32:
      return PackElements(rows, inputs, 4, out);
    case TensorType::kF16:
    case TensorType::kBF16:
      return PackElements(rows, inputs, 2, out);
    default:
      return PackQuants(type, rows, inputs, out);
  }
}

void PackFp8Panel(const PanelRows& rows, size_t inputs, FunctionRef<float(size_t, size_t)> scale,
                  std::byte* out) {
  std::fill_n(out, PanelBytes(WeightFormat::kF8, inputs), std::byte{0});
  for (size_t o = 0; o < kPanel; ++o) {
    if (rows.row[o] == nullptr) continue;
    std::byte* to = out;
    for (size_t first = 0; first < inputs; first += kFp8Block) {
      // Kernels take the bits for those of a half, which means 2^-8 of the value.
      const float folded = scale(o, first / kFp8Block) * 256.0F;
      std::memcpy(to + 4 * o, &folded, 4);
      to += 4 * kPanel;
      for (size_t k = first; k < std::min(first + kFp8Block, inputs); ++k, to += kPanel)
        to[o] = rows.row[o][k];
    }
  }
}

bool HasFp8Nan(std::span<const std::byte> bytes) {
  return std::ranges::any_of(bytes,
                             [](std::byte b) { return (b & std::byte{0x7F}) == std::byte{0x7F}; });
}

}  // namespace tandem::model
