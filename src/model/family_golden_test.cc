// Every family of tests/goldens/families against logits that transformers recorded in float32, and
// against itself on every path.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "model/golden_file.h"
#include "model/ops.h"
#include "model/test_model.h"
#include "model/test_team.h"

namespace tandem::model {
namespace {

// The reference's float32 differs from float64 by up to 3e-5.
constexpr double kBound = 1e-3;

std::string FamilyFolder(const std::string& name) { return CachedModel("families/" + name); }

std::vector<GoldenCase> Cases() { return ReadGoldenFile(CachedModel("families/logits.txt")); }

std::unique_ptr<Model> LoadFamily(const std::string& name, const std::string& isa, Team& team) {
  LoadOptions options{.path = FamilyFolder(name), .kv_dtype = KvDtype::kFloat32};
  options.force_isa = isa;
  auto model = Model::Load(options, team);
  EXPECT_TRUE(model) << model.error().message << " (run tests/tools/prepare_test_data.py)";
  return model ? *std::move(model) : nullptr;
}

double LargestDifference(std::span<const float> logits, const std::vector<double>& expected) {
  EXPECT_EQ(logits.size(), expected.size());
  double largest = 0.0;
  for (size_t i = 0; i < std::min(logits.size(), expected.size()); ++i) {
    const double difference = std::abs(double{logits[i]} - expected[i]);
    largest = std::max(largest, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return largest;
}

// The prompt at once, then the recorded continuation token by token.
double Compare(const GoldenCase& golden, Model& model, Team& team) {
  const auto ids = golden.Numbers<TokenId>("ids");
  const auto greedy = golden.Numbers<TokenId>("greedy_ids");
  const auto count = static_cast<int64_t>(ids.size());
  const auto vocab = static_cast<size_t>(model.config().vocab);
  TestSequence sequence(model, team, count + static_cast<int64_t>(greedy.size()), 256);
  const std::vector<float> logits = sequence.Append(ids, count);
  const std::span<const float> all = logits;
  double largest = LargestDifference(all.last(vocab), golden.Numbers<double>("logits_last"));
  if (golden.Has("logits_pos0"))
    largest = std::max(largest,
                       LargestDifference(all.first(vocab), golden.Numbers<double>("logits_pos0")));
  const auto argmax = golden.Numbers<int64_t>("argmax");
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<const float> row = all.subspan(i * vocab, vocab);
    // Two logits closer than the bound may change places.
    EXPECT_GE(row[static_cast<size_t>(argmax[i])], *std::ranges::max_element(row) - 2 * kBound)
        << "at position " << i;
  }
  std::vector<float> last;
  for (const TokenId token : greedy) last = sequence.Append({&token, 1}, 1);
  return std::max(largest, LargestDifference(last, golden.Numbers<double>("logits_after_greedy")));
}

TEST(Families, EveryModelEqualsTheReference) {
  std::map<std::string, double> largest;
  SerialTeam team;
  for (const GoldenCase& golden : Cases()) {
    const std::string name = golden.Word("model");
    SCOPED_TRACE(name);
    const auto model = LoadFamily(name, "", team);
    ASSERT_NE(model, nullptr);
    double& worst = largest[name];
    worst = std::max(worst, Compare(golden, *model, team));
  }
  EXPECT_EQ(largest.size(), 24U);
  for (const auto& [name, difference] : largest) {
    EXPECT_LE(difference, kBound) << name;
    std::printf("%s: largest difference %.2g\n", name.c_str(), difference);
  }
}

// The same weights as GGUF, which names, orders and describes them otherwise.
TEST(Families, GgufFormsEqualTheReference) {
  std::set<std::string> names;
  SerialTeam team;
  for (const GoldenCase& golden : Cases()) {
    const std::string name = golden.Word("model") + ".gguf";
    if (!std::ifstream(FamilyFolder(name))) continue;
    SCOPED_TRACE(name);
    const auto model = LoadFamily(name, "", team);
    ASSERT_NE(model, nullptr);
    EXPECT_LE(Compare(golden, *model, team), kBound);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 18U);
}

// Weights of eight bits with scales for blocks or channels, and the same numbers in float32.
TEST(Families, Fp8EqualsItsTwin) {
  SerialTeam team;
  const std::vector<TokenId> ids = {5, 17, 260, 33, 101, 7, 7, 288, 0, 64, 12, 200};
  for (const std::string name : {"fp8-llama-block", "fp8-llama-channel", "fp8-deepseek-block"}) {
    SCOPED_TRACE(name);
    const auto run = [&](const std::string& folder) {
      const auto model = LoadFamily(folder, "", team);
      if (model == nullptr) return std::vector<float>();
      const auto count = static_cast<int64_t>(ids.size());
      return TestSequence(*model, team, count, 64).Append(ids, count);
    };
    const std::vector<float> found = run(name);
    const std::vector<float> twin = run(name + "-twin");
    EXPECT_LE(LargestDifference(found, {twin.begin(), twin.end()}), 1e-4);
    EXPECT_GT(*std::ranges::max_element(found), 0.5F);
  }
}

TEST(Families, SameBitsOnEveryPath) {
  std::map<std::string, std::vector<TokenId>> longest;
  for (const GoldenCase& golden : Cases()) {
    const auto ids = golden.Numbers<TokenId>("ids");
    std::vector<TokenId>& kept = longest[golden.Word("model")];
    if (ids.size() > kept.size()) kept = ids;
  }
  EXPECT_EQ(longest.size(), 24U);
  for (const auto& [name, ids] : longest) {
    const auto run = [&](const std::string& isa, int threads, int chunk) {
      TestTeam team(threads);
      const auto model = LoadFamily(name, isa, team);
      if (model == nullptr) return std::vector<float>();
      const auto count = static_cast<int64_t>(ids.size());
      return TestSequence(*model, team, count, chunk).Append(ids, count);
    };
    const std::vector<float> expected = run("plain", 1, 256);
    const OpsList list = AvailableOps();
    for (int level = 0; level < list.count; ++level)
      for (const int threads : {1, 2})
        for (const int chunk : {1, 7, 256}) {
          const std::vector<float> found =
              run(std::string(list.levels[level]->name), threads, chunk);
          EXPECT_TRUE(found.size() == expected.size() &&
                      std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) ==
                          0)
              << name << " " << list.levels[level]->name << " threads " << threads << " chunk "
              << chunk;
        }
  }
}

}  // namespace
}  // namespace tandem::model
