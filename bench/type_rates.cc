#include "type_rates.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "memory_rate.h"
#include "model/activations.h"
#include "model/matmul.h"
#include "model/memory.h"
#include "model/ops.h"
#include "model/pack.h"
#include "model/pack_rows.h"
#include "model/tiny_gguf.h"

namespace tandem::model {
namespace {

constexpr size_t kInputs = 2048;
constexpr size_t kFileBytes = size_t{400} << 20;
constexpr size_t kTileRows = 8;

struct Weights {
  std::string name;
  PackedMatrix matrix;
  double file_bytes;
  Mapping image;
};

// Random rows of one panel, repeated: speed does not depend on the values.
Weights Generate(const std::string& name, WeightFormat format, size_t row_bytes,
                 const PanelRows& rows, TensorType type) {
  const size_t panels = kFileBytes / (row_bytes * kPanel);
  const size_t stride = PanelBytes(format, kInputs);
  Weights result{name,
                 {},
                 static_cast<double>(panels * row_bytes * kPanel),
                 std::move(*Mapping::Anonymous(panels * stride))};
  std::byte* out = result.image.data();
  if (format == WeightFormat::kF8)
    PackFp8Panel(rows, kInputs, [](size_t, size_t) { return 0.01F; }, out);
  else
    PackRows(type, rows, kInputs, out);
  for (size_t p = 1; p < panels; ++p) std::memcpy(out + p * stride, out, stride);
  result.matrix = {format, panels * kPanel, kInputs, out, 0, stride};
  return result;
}

double MedianSeconds(const Ops& ops, const Weights& weights, const Activations& x, size_t rows,
                     Team& team, int runs) {
  std::vector<double> seconds;
  float sums[64] = {};
  for (int i = 0; i <= runs; ++i) {  // the first one warms up
    const double start = Seconds();
    team.Run([&](TeamMember& member) {
      MultiplyPanels(
          ops, weights.matrix, PartOf(member, weights.matrix.panels()), x, rows,
          [&](size_t, size_t, const float* out) { sums[member.index() % 64] += out[0]; });
    });
    if (i > 0) seconds.push_back(Seconds() - start);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void Print(const Ops& ops, const Weights& weights, const Activations& x, Team& team, int runs) {
  const double memory = StreamedGigabytes(team);
  const double one = MedianSeconds(ops, weights, x, 1, team, runs);
  const double eight = MedianSeconds(ops, weights, x, kTileRows, team, runs);
  const double rate = weights.file_bytes / 1e9 / one;
  const double products = static_cast<double>(weights.matrix.outputs * kInputs * kTileRows);
  std::printf("%-5s one row %5.1f GB/s of %5.1f, share %3.0f %%   eight rows %6.1f GMAC/s\n",
              weights.name.c_str(), rate, memory, 100 * rate / memory, products / 1e9 / eight);
  std::fflush(stdout);
}

}  // namespace

int PrintTypeRates(Team& team, const std::string& isa, int runs, const std::string& only) {
  const Result<const Ops*> ops = ChooseOps(isa);
  if (!ops) {
    std::fprintf(stderr, "error: %s\n", ops.error().message.c_str());
    return 1;
  }
  RandomBytes random(1);
  const Mapping memory = std::move(*Mapping::Anonymous(Activations::Bytes(kTileRows, kInputs)));
  const Activations x = Activations(memory.data(), kTileRows, kInputs).WithWidth(kInputs);
  for (size_t r = 0; r < kTileRows; ++r) {
    for (size_t i = 0; i < kInputs; ++i) x.Values(r)[i] = random.Uniform(-1, 1);
    (*ops)->quantize(x.Values(r), kInputs, x.Quantized(r));
  }
  const auto print = [&](const std::string& name, WeightFormat format, size_t row_bytes,
                         TensorType type, const std::string& bytes) {
    if (!only.empty() && !("," + only + ",").contains("," + name + ",")) return;
    PanelRows rows;
    for (size_t o = 0; o < kPanel; ++o)
      rows.row[o] = reinterpret_cast<const std::byte*>(bytes.data()) + o * row_bytes;
    Print(**ops, Generate(name, format, row_bytes, rows, type), x, team, runs);
  };
  for (const TensorType type : kAllTypes) {
    std::string bytes;
    for (size_t o = 0; o < kPanel; ++o) random.AppendRow(type, kInputs, 0.1F, bytes);
    print(std::string(InfoOf(type).name), FormatOf(type), RowBytes(type, kInputs), type, bytes);
  }
  print("F8", WeightFormat::kF8, kInputs, TensorType::kF32, std::string(kPanel * kInputs, '8'));
  return 0;
}

}  // namespace tandem::model
