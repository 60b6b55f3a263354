#include "model/quant_blocks.h"

#include <cstring>

#include "base/check.h"

namespace tandem::model {
namespace {

uint16_t Load16(const std::byte* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint8_t Byte(std::byte b) { return std::to_integer<uint8_t>(b); }
uint8_t Byte(unsigned value) { return static_cast<uint8_t>(value); }

// `count` fields of `bits` bits: plane p of the bytes holds values p * count to p * count + count
// - 1. They are put at bit `to` of what is there already.
void ReadPlanes(const std::byte* bytes, int count, int bits, int planes, int to, uint8_t* quants) {
  const unsigned mask = (1U << bits) - 1;
  for (int plane = 0; plane < planes; ++plane)
    for (int i = 0; i < count; ++i) {
      uint8_t& quant = quants[plane * count + i];
      quant = Byte(quant | ((Byte(bytes[i]) >> (bits * plane) & mask) << to));
    }
}

// Sixteen bytes: low nibbles are values 0-15, high nibbles 16-31.
void ReadNibbles(const std::byte* bytes, uint8_t* quants) {
  ReadPlanes(bytes, 16, 4, 2, 0, quants);
}

// Bit i of four bytes is the fifth bit of value i.
void ReadFifthBits(const std::byte* bytes, uint8_t* quants) {
  for (int i = 0; i < 32; ++i)
    quants[i] = Byte(quants[i] | ((Byte(bytes[i / 8]) >> (i % 8) & 1U) << 4));
}

// Two-bit planes: each half of 128 values has 32 bytes.
void ReadTwoBits(const std::byte* bytes, int to, uint8_t* quants) {
  for (int half = 0; half < 2; ++half)
    ReadPlanes(bytes + 32 * half, 32, 2, 4, to, quants + 128 * half);
}

// Nibbles of Q4_K and Q5_K: each 64 values have 32 bytes.
void ReadLongNibbles(const std::byte* bytes, uint8_t* quants) {
  for (int part = 0; part < 4; ++part)
    ReadPlanes(bytes + 32 * part, 32, 4, 2, 0, quants + 64 * part);
}

// Eight scales and eight minima of six bits in twelve bytes: the low bits of the first four of
// each fill the low six bits of bytes 0-3 and 4-7, the others are split between the nibbles of
// bytes 8-11 and what is left of the first eight.
void ReadSixBitPairs(const std::byte* bytes, QuantBlock& block) {
  for (int i = 0; i < 4; ++i) {
    const unsigned first = Byte(bytes[i]);
    const unsigned second = Byte(bytes[i + 4]);
    const unsigned third = Byte(bytes[i + 8]);
    block.scales[i] = static_cast<int8_t>(first & 63);
    block.minima[i] = Byte(second & 63);
    block.scales[i + 4] = static_cast<int8_t>((third & 15) | (first >> 6 << 4));
    block.minima[i + 4] = Byte((third >> 4) | (second >> 6 << 4));
  }
}

void ReadQ2_K(const std::byte* bytes, QuantBlock& block) {
  for (int i = 0; i < 16; ++i) {
    block.scales[i] = static_cast<int8_t>(Byte(bytes[i]) & 15);
    block.minima[i] = Byte(Byte(bytes[i]) >> 4U);
  }
  ReadTwoBits(bytes + 16, 0, block.quants);
  block.scale = Load16(bytes + 80);
  block.minimum = Load16(bytes + 82);
}

// The third bits come first, one plane for every 32 values; then the low bits and sixteen scales
// of six bits, less 32: nibbles of eight bytes, top pairs in four more.
void ReadQ3_K(const std::byte* bytes, QuantBlock& block) {
  ReadTwoBits(bytes + 32, 0, block.quants);
  ReadPlanes(bytes, 32, 1, 8, 2, block.quants);
  const std::byte* scales = bytes + 96;
  for (int i = 0; i < 16; ++i) {
    const int low = Byte(scales[i % 8]) >> (i < 8 ? 0 : 4) & 15;
    const int high = Byte(scales[8 + i % 4]) >> (2 * (i / 4)) & 3;
    block.scales[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
  block.scale = Load16(bytes + 108);
}

// Two halves of 128 values: nibbles as two planes of 64, then all the top pairs, then the scales.
void ReadQ6_K(const std::byte* bytes, QuantBlock& block) {
  for (int half = 0; half < 2; ++half)
    ReadPlanes(bytes + 64 * half, 64, 4, 2, 0, block.quants + 128 * half);
  ReadTwoBits(bytes + 128, 4, block.quants);
  std::memcpy(block.scales, bytes + 192, 16);
  block.scale = Load16(bytes + 208);
}

}  // namespace

QuantTraits TraitsOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return {32, 8, false, false};
    case TensorType::kQ5_0:
      return {32, 16, false, false};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
      return {32, 0, true, false};
    case TensorType::kQ8_0:
      return {32, 0, false, false};
    case TensorType::kQ2_K:
      return {16, 0, false, true};
    case TensorType::kQ3_K:
      return {16, 4, false, false};
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {32, 0, false, true};
    case TensorType::kQ6_K:
      return {16, 32, false, false};
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kF8_E4M3:
      break;
  }
  CHECK(false);
}

void ReadQuantBlock(TensorType type, const std::byte* bytes, QuantBlock& block) {
  std::memset(block.quants, 0, static_cast<size_t>(InfoOf(type).block_elements));
  block.scales[0] = 1;
  block.scale = Load16(bytes);
  switch (type) {
    case TensorType::kQ4_0:
      return ReadNibbles(bytes + 2, block.quants);
    case TensorType::kQ4_1:
      block.minimum = Load16(bytes + 2);
      return ReadNibbles(bytes + 4, block.quants);
    case TensorType::kQ5_0:
      ReadNibbles(bytes + 6, block.quants);
      return ReadFifthBits(bytes + 2, block.quants);
    case TensorType::kQ5_1:
      block.minimum = Load16(bytes + 2);
      ReadNibbles(bytes + 8, block.quants);
      return ReadFifthBits(bytes + 4, block.quants);
    case TensorType::kQ8_0:
      std::memcpy(block.quants, bytes + 2, 32);
      return;
    case TensorType::kQ2_K:
      return ReadQ2_K(bytes, block);
    case TensorType::kQ3_K:
      return ReadQ3_K(bytes, block);
    case TensorType::kQ4_K:
    case TensorType::kQ5_K: {
      const bool five = type == TensorType::kQ5_K;
      block.minimum = Load16(bytes + 2);
      ReadSixBitPairs(bytes + 4, block);
      ReadLongNibbles(bytes + (five ? 48 : 16), block.quants);
      if (five) ReadPlanes(bytes + 16, 32, 1, 8, 4, block.quants);
      return;
    }
    case TensorType::kQ6_K:
      return ReadQ6_K(bytes, block);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kF8_E4M3:
      break;
  }
  CHECK(false);
}

}  // namespace tandem::model
