// Matrix products of every weight format on every instruction level: near a plain double-precision
// reference, equal bit for bit to a model of the contract's roundings (tests/tools/
// make_panel_goldens.py) and to each other.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "model/activations.h"
#include "model/dequant.h"
#include "model/golden_file.h"
#include "model/pack.h"
#include "model/pack_rows.h"
#include "model/test_levels.h"

namespace tandem::model {
namespace {

// 64-byte aligned storage.
struct Aligned {
  explicit Aligned(size_t bytes) : storage(bytes + 64) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    data = storage.data() + (64 - address % 64) % 64;
  }
  std::vector<std::byte> storage;
  std::byte* data;
};

constexpr size_t kInputs = 512;
constexpr size_t kOutputs = 70;  // the third panel is padded
constexpr size_t kPanels = 3;
constexpr size_t kRows = kMaxTileRows;

// What an E4M3 byte means, from the format's description.
float Fp8Value(int byte) {
  const int exponent = byte >> 3 & 15;
  const float mantissa = static_cast<float>(byte & 7) / 8.0F;
  const float value =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1.0F + mantissa, exponent - 7);
  return (byte & 0x80) != 0 ? -value : value;
}

// A matrix of one format, packed, and rows of activations to multiply it by.
struct MatrixCase {
  explicit MatrixCase(TensorType type)
      : format(FormatOf(type)), name(InfoOf(type).name), row_bytes(RowBytes(type, kInputs)) {
    RandomBytes random(static_cast<uint32_t>(type) + 7);
    for (size_t row = 0; row < kOutputs; ++row) random.AppendRow(type, kInputs, 0.1F, bytes);
    Pack(type);
    FillRows(random);
  }

  struct Fp8 {
    size_t inputs;  // at most kInputs
  };
  // With a number of inputs that need not fill the last block.
  explicit MatrixCase(Fp8 fp8)
      : inputs(fp8.inputs), format(WeightFormat::kF8), name("F8"), row_bytes(fp8.inputs) {
    RandomBytes random(5);
    for (size_t i = 0; i < kOutputs * inputs; ++i)
      bytes.push_back(static_cast<char>(random.Integer(0, 126) | random.Integer(0, 1) << 7));
    bytes[0] = 0x01;  // the smallest subnormal, and the largest value
    bytes[1] = 0x7E;
    const size_t blocks = (inputs + kFp8Block - 1) / kFp8Block;
    const std::vector<float> scales = RandomFloats(random, kOutputs * blocks, 1e-3F);
    for (size_t o = 0; o < kOutputs; ++o)
      for (size_t k = 0; k < inputs; ++k)
        weights.push_back(Fp8Value(static_cast<uint8_t>(bytes[o * inputs + k])) *
                          scales[o * blocks + k / kFp8Block]);
    for (size_t p = 0; p < kPanels; ++p)
      PackFp8Panel(
          RowsOf(p), inputs,
          [&](size_t o, size_t block) { return scales[(p * kPanel + o) * blocks + block]; },
          packed.emplace_back(PanelBytes(format, inputs)).data);
    FillRows(random);
  }

  static std::vector<MatrixCase> All() {
    std::vector<MatrixCase> cases;
    for (const TensorType type : kAllTypes) cases.emplace_back(type);
    cases.emplace_back(Fp8{kInputs});
    cases.emplace_back(Fp8{160});
    return cases;
  }

  PanelRows RowsOf(size_t p) const {
    PanelRows result{};
    for (size_t o = 0; o < kPanel && p * kPanel + o < kOutputs; ++o)
      result.row[o] =
          reinterpret_cast<const std::byte*>(bytes.data()) + (p * kPanel + o) * row_bytes;
    return result;
  }

  // From `bytes`.
  void Pack(TensorType type) {
    Tensor tensor;
    tensor.type = type;
    tensor.dims = {kInputs, kOutputs};
    tensor.bytes = std::as_bytes(std::span(bytes));
    packed.clear();
    for (size_t p = 0; p < kPanels; ++p)
      PackPanel(WholeTensor(tensor), p, packed.emplace_back(PanelBytes(format, kInputs)).data);
    weights.resize(kOutputs * kInputs);
    for (size_t o = 0; o < kOutputs; ++o)
      DequantizeRow(type, tensor.bytes.data() + o * row_bytes,
                    std::span(weights).subspan(o * kInputs, kInputs));
  }

  void FillRows(RandomBytes& random) {
    std::vector<float> x = RandomFloats(random, kRows * inputs, 3.0F);
    // Blocks that are all zero, and extreme ones.
    std::fill_n(x.begin(), 32, 0.0F);
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(inputs), 32, 1000.0F);
    rows = Activations(memory.data, kRows, inputs).WithWidth(inputs);
    for (size_t r = 0; r < kRows; ++r) SetRow(r, x.data() + r * inputs);
  }
  void SetRow(size_t r, const float* x) {
    std::memcpy(rows.Values(r), x, inputs * sizeof(float));
    PlainOps().quantize(x, inputs, rows.Quantized(r));
  }

  std::vector<float> Run(const Ops& ops, size_t p, size_t first, size_t count) const {
    std::vector<float> out(count * kPanel);
    ops.panel[static_cast<int>(format)][count - 1](packed[p].data, inputs / kBlock,
                                                   rows.View(first), out.data(), kPanel);
    return out;
  }

  // What the product should be, given activations as the contract rounds them.
  double Expected(size_t row, size_t output, double* magnitude) const {
    const QuantizedRow q = rows.Quantized(row);
    double sum = 0;
    *magnitude = 0;
    for (size_t k = 0; k < inputs; ++k) {
      const double value = format < WeightFormat::kQ4_0
                               ? static_cast<double>(rows.Values(row)[k])
                               : static_cast<double>(q.q[k]) * static_cast<double>(q.scale[k / 32]);
      const double product = value * static_cast<double>(weights[output * inputs + k]);
      sum += product;
      *magnitude += std::fabs(product);
    }
    return sum;
  }

  size_t inputs = kInputs;
  WeightFormat format;
  std::string name;
  size_t row_bytes;
  std::string bytes;
  std::vector<float> weights;  // [output][input]
  std::vector<Aligned> packed;
  Aligned memory{Activations::Bytes(kRows, kInputs)};
  Activations rows;
};

TEST_F(KernelsTest, PanelsMatchTheReferenceOnEveryLevel) {
  for (const MatrixCase& c : MatrixCase::All())
    for (const Ops* ops : Levels())
      for (size_t p = 0; p < kPanels; ++p) {
        const std::vector<float> out = c.Run(*ops, p, 1, 1);
        for (size_t o = 0; o < kPanel; ++o) {
          if (p * kPanel + o >= kOutputs) {
            EXPECT_EQ(out[o], 0.0F);
            continue;
          }
          double magnitude;
          const double expected = c.Expected(1, p * kPanel + o, &magnitude);
          ASSERT_NEAR(static_cast<double>(out[o]), expected, magnitude * 2e-6)
              << ops->name << " " << c.name << " output " << p * kPanel + o;
        }
      }
}

TEST_F(KernelsTest, PanelsGiveTheSameBitsForAnyNumberOfRowsAndLevel) {
  for (const MatrixCase& c : MatrixCase::All()) {
    std::vector<float> expected;
    for (size_t r = 0; r < kRows; ++r) {
      const std::vector<float> row = c.Run(PlainOps(), 0, r, 1);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    for (const Ops* ops : Levels())
      for (size_t count = 1; count <= static_cast<size_t>(ops->max_rows); ++count)
        for (size_t first = 0; first + count <= kRows; first += count) {
          const std::vector<float> out = c.Run(*ops, 0, first, count);
          ASSERT_EQ(0, std::memcmp(out.data(), expected.data() + first * kPanel,
                                   out.size() * sizeof(float)))
              << ops->name << " " << c.name << " rows " << count << " from " << first;
        }
  }
}

uint32_t BitsOf(const std::string& hex) {
  return static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
}

TEST_F(KernelsTest, PanelsRoundAsTheContractSays) {
  std::vector<float> x;
  int types = 0;
  for (const GoldenCase& golden : ReadGoldens("tiny/panels.txt")) {
    if (golden.Has("x")) {
      for (const std::string& hex : golden.lines.at("x"))
        x.push_back(std::bit_cast<float>(BitsOf(hex)));
      ASSERT_EQ(x.size(), kInputs);
      continue;
    }
    const std::string name = golden.Word("type");
    const std::string hex = golden.Word("bytes");
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    std::vector<float> scales;
    if (golden.Has("scales"))
      for (const std::string& scale : golden.lines.at("scales"))
        scales.push_back(std::bit_cast<float>(BitsOf(scale)));
    const std::vector<std::string>& expected = golden.lines.at("bits");
    PanelRows rows{};
    for (size_t o = 0; o < expected.size(); ++o)
      rows.row[o] =
          reinterpret_cast<const std::byte*>(bytes.data()) + o * (bytes.size() / expected.size());
    const auto scale = [&](size_t o, size_t block) { return scales.at(o * 4 + block); };
    MatrixCase c(MatrixCase::Fp8{kInputs});
    for (const TensorType type : kAllTypes)
      if (InfoOf(type).name == name) c = MatrixCase(type);
    c.SetRow(0, x.data());
    if (name == "F8") {
      PackFp8Panel(rows, kInputs, scale, c.packed[0].data);
    } else {
      ASSERT_EQ(c.name, name);
      for (const TensorType type : kAllTypes)
        if (InfoOf(type).name == name) PackRows(type, rows, kInputs, c.packed[0].data);
    }
    for (const Ops* ops : Levels()) {
      const std::vector<float> out = c.Run(*ops, 0, 0, 1);
      for (size_t o = 0; o < expected.size(); ++o)
        EXPECT_EQ(std::bit_cast<uint32_t>(out[o]), BitsOf(expected[o]))
            << ops->name << " " << name << " output " << o;
    }
    ++types;
  }
  EXPECT_EQ(types, 14);
}

// Where the halves of a quantised type's block lie.
std::vector<size_t> HalvesOf(TensorType type) {
  switch (type) {
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    default:
      return {0};
  }
}

// The largest sums that the integer paths must hold: all quants, factors and activations at an
// extreme.
TEST_F(KernelsTest, ExtremeQuantsDoNotOverflow) {
  for (const TensorType type : kAllTypes) {
    if (FormatOf(type) < WeightFormat::kQ4_0) continue;
    MatrixCase c(type);
    for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
      std::memset(c.bytes.data(), fill, c.bytes.size());
      const uint16_t one = FloatToHalf(1.0F);
      const auto block_bytes = static_cast<size_t>(InfoOf(type).block_bytes);
      for (size_t b = 0; b < c.bytes.size(); b += block_bytes)
        for (const size_t at : HalvesOf(type)) std::memcpy(c.bytes.data() + b + at, &one, 2);
      c.Pack(type);
      for (const bool alternating : {false, true}) {
        std::vector<float> x(kInputs, 1.0F);
        if (alternating)
          for (size_t i = 0; i < kInputs; ++i) x[i] = i % 3 == 0 ? -1.0F : 1.0F;
        c.SetRow(0, x.data());
        for (const Ops* ops : Levels()) {
          double magnitude;
          const double expected = c.Expected(0, 0, &magnitude);
          ASSERT_NEAR(static_cast<double>(c.Run(*ops, 0, 0, 1)[0]), expected,
                      magnitude * 2e-6 + 1e-9)
              << ops->name << " " << c.name << " fill " << fill;
        }
      }
    }
  }
}

TEST(Fp8, ANanIsFound) {
  std::vector<std::byte> bytes(100, std::byte{0x7E});
  bytes[50] = std::byte{0xFE};
  EXPECT_FALSE(HasFp8Nan(bytes));
  for (const int nan : {0x7F, 0xFF}) {
    bytes[99] = static_cast<std::byte>(nan);
    EXPECT_TRUE(HasFp8Nan(bytes));
  }
}

}  // namespace
}  // namespace tandem::model
