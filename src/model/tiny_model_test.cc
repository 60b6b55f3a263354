// The forward pass on the tiny models against the independent numpy reference
// (tests/tools/reference_llama.py), for every tensor type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "model/golden_file.h"
#include "model/test_model.h"

namespace tandem::model {
namespace {

struct Difference {
  double rms = 0.0;
  double largest = 0.0;
};

// Our logits at the recorded positions against the recorded float32 ones.
Difference Compare(const GoldenCase& golden, KvDtype kv_dtype) {
  Difference difference;
  SerialTeam team;
  const std::unique_ptr<Model> model = LoadCached(golden.Word("model"), kv_dtype, team);
  if (model == nullptr) return difference;
  const std::vector<TokenId> ids = golden.Numbers<TokenId>("ids");
  const int64_t count = static_cast<int64_t>(ids.size());
  TestSequence sequence(*model, team, count, 64);
  const std::vector<float> logits = sequence.Append(ids, count);
  const size_t vocab = static_cast<size_t>(model->config().vocab);
  double sum = 0.0;
  size_t compared = 0;
  for (const size_t position : golden.Numbers<size_t>("positions")) {
    const std::vector<double> expected =
        golden.Numbers<double>("logits_" + std::to_string(position));
    EXPECT_EQ(expected.size(), vocab);
    for (size_t i = 0; i < std::min(vocab, expected.size()); ++i) {
      const double error = double{logits[position * vocab + i]} - expected[i];
      difference.largest = std::max(difference.largest, std::abs(error));
      sum += error * error;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
  difference.rms = std::sqrt(sum / static_cast<double>(compared));
  return difference;
}

std::string DigestOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return Hex(Sha256(bytes));
}

TEST(TinyModel, EveryTensorTypeEqualsTheReference) {
  int models = 0;
  for (const GoldenCase& golden : ReadGoldens("tiny/logits.txt")) {
    const std::string name = golden.Word("model");
    SCOPED_TRACE(name);
    EXPECT_EQ(DigestOf(CachedModel(name)), golden.Word("sha256"))
        << "not the file that the goldens were made from: run tests/tools/prepare_test_data.py";
    const Difference difference = Compare(golden, KvDtype::kFloat16);
    EXPECT_LE(difference.rms, 1.25 * golden.Number("rounding_rms"));
    // An activation that lies between two integers may fall to the other side here: that hardly
    // shows in the mean, but decides which of some 2,000 differences is the largest.
    EXPECT_LE(difference.largest, 1.5 * golden.Number("rounding_max"));
    std::printf("%s: rms %.5f (declared roundings %.5f), largest %.5f (%.5f)\n", name.c_str(),
                difference.rms, golden.Number("rounding_rms"), difference.largest,
                golden.Number("rounding_max"));
    ++models;
  }
  EXPECT_EQ(models, 13);
}

TEST(TinyModel, Float32EqualsTheReferenceClosely) {
  int models = 0;
  for (const GoldenCase& golden : ReadGoldens("tiny/logits.txt")) {
    const std::string name = golden.Word("model");
    if (name != "tiny-f32.gguf" && name != "tiny-f16.gguf" && name != "tiny-bf16.gguf") continue;
    SCOPED_TRACE(name);
    EXPECT_LE(Compare(golden, KvDtype::kFloat32).largest, 1e-3);
    ++models;
  }
  EXPECT_EQ(models, 3);
}

}  // namespace
}  // namespace tandem::model
