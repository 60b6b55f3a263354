// Quality on real models: forced along recorded greedy runs of llama.cpp, our best token may
// differ only where theirs was nearly a tie, or where a float32 reference agrees with us.
#include <gtest/gtest.h>

#include <span>

#include "model/golden_file.h"
#include "model/sampler.h"
#include "model/test_model.h"

namespace tandem::model {
namespace {

struct Tally {
  int steps = 0;
  int differ = 0;           // our best token is not the recorded one
  int float32_steps = 0;    // steps with a float32 reference
  int float32_differ = 0;   // ours is not the float32 reference's
  int recorded_differ = 0;  // the recorded one is not
};

// Our best token before each recorded one.
std::vector<TokenId> BestTokens(Model& model, Team& team, const GoldenCase& golden) {
  std::vector<TokenId> tokens = golden.Numbers<TokenId>("prompt");
  const std::vector<TokenId> ids = golden.Numbers<TokenId>("ids");
  tokens.insert(tokens.end(), ids.begin(), ids.end() - 1);
  TestSequence sequence(model, team, static_cast<int64_t>(tokens.size()), 128);
  const std::vector<float> logits = sequence.Append(tokens, static_cast<int64_t>(ids.size()));
  const size_t vocab = static_cast<size_t>(model.config().vocab);
  std::vector<TokenId> best;
  for (size_t i = 0; i < ids.size(); ++i)
    best.push_back(Argmax(std::span(logits).subspan(i * vocab, vocab)));
  return best;
}

void Count(const GoldenCase& golden, std::span<const TokenId> best, double bound, Tally& tally) {
  const std::vector<TokenId> ids = golden.Numbers<TokenId>("ids");
  const std::vector<double> gaps = golden.Numbers<double>("gaps");
  const std::vector<TokenId> exact = golden.Numbers<TokenId>("float32_ids");
  for (size_t i = 0; i < ids.size(); ++i) {
    ++tally.steps;
    const bool has_exact = i < exact.size();
    if (has_exact) {
      ++tally.float32_steps;
      tally.float32_differ += best[i] != exact[i] ? 1 : 0;
      tally.recorded_differ += ids[i] != exact[i] ? 1 : 0;
    }
    if (best[i] == ids[i]) continue;
    ++tally.differ;
    EXPECT_TRUE(gaps[i] <= bound || (has_exact && best[i] == exact[i]))
        << "step " << i << ": recorded " << ids[i] << " with gap " << gaps[i] << ", ours "
        << best[i];
  }
}

// `bound`: the gap up to which llama.cpp's own settings change its best token.
Tally RunAll(const std::string& name, const std::string& goldens, double bound) {
  SerialTeam team;
  Tally tally;
  const std::unique_ptr<Model> model = LoadCached(name, KvDtype::kFloat16, team);
  if (model == nullptr) return tally;
  for (const GoldenCase& golden : ReadGoldens(goldens)) {
    if (golden.Has("bound")) continue;
    SCOPED_TRACE(golden.Word("name") + " " + golden.Word("prompt"));
    Count(golden, BestTokens(*model, team, golden), bound, tally);
  }
  std::printf(
      "%d steps: %d differ from llama.cpp; of %d with a float32 reference, %d differ from it "
      "(llama.cpp: %d)\n",
      tally.steps, tally.differ, tally.float32_steps, tally.float32_differ, tally.recorded_differ);
  EXPECT_LE(tally.differ, tally.steps * 4 / 100);
  EXPECT_LE(tally.float32_differ, 1.25 * tally.recorded_differ + 3);
  return tally;
}

TEST(GreedyGolden, DemoModelForcedAlongRecordedRuns) {
  EXPECT_EQ(RunAll("SmolLM2-135M-Instruct.Q4_1.gguf", "greedy/greedy.txt", 0.5).steps, 20 * 64);
}

// Norms on both sides, windows shorter than two of the prompts, Q5_0 and K types.
TEST(GreedyGolden, GemmaForcedAlongRecordedRuns) {
  EXPECT_EQ(RunAll("gemma-3-270m-q4_k_m.gguf", "greedy/gemma3.txt", 0.25).steps, 8 * 48);
}

}  // namespace
}  // namespace tandem::model
