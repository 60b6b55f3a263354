// What each KV dtype costs on the demo model: its logits along recorded greedy runs against those
// of a float32 cache. docs/performance.md has the table that this prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/golden_file.h"
#include "model/sampler.h"
#include "model/test_model.h"

namespace tandem::model {
namespace {

constexpr char kDemoModel[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

struct Loss {
  double squares = 0;
  double largest = 0;
  size_t logits = 0;
  int steps = 0;
  int other_best = 0;     // steps whose best token is another
  double divergence = 0;  // of the distributions, in nats, summed over the steps

  double Rms() const { return std::sqrt(squares / static_cast<double>(logits)); }
};

// The logits before each recorded token.
std::vector<float> LogitsAlong(const GoldenCase& golden, Model& model, Team& team) {
  std::vector<TokenId> tokens = golden.Numbers<TokenId>("prompt");
  const std::vector<TokenId> ids = golden.Numbers<TokenId>("ids");
  tokens.insert(tokens.end(), ids.begin(), ids.end() - 1);
  TestSequence sequence(model, team, static_cast<int64_t>(tokens.size()), 128);
  return sequence.Append(tokens, static_cast<int64_t>(ids.size()));
}

std::vector<double> Probabilities(std::span<const float> logits) {
  const double largest = double{*std::ranges::max_element(logits)};
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += p.emplace_back(std::exp(double{x} - largest));
  for (double& x : p) x /= sum;
  return p;
}

void Compare(std::span<const float> exact, std::span<const float> ours, Loss& loss) {
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = double{ours[i]} - double{exact[i]};
    loss.squares += error * error;
    loss.largest = std::max(loss.largest, std::abs(error));
  }
  loss.logits += exact.size();
  ++loss.steps;
  loss.other_best += Argmax(exact) != Argmax(ours) ? 1 : 0;
  const std::vector<double> p = Probabilities(exact);
  const std::vector<double> q = Probabilities(ours);
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] > 1e-12 && q[i] > 0) loss.divergence += p[i] * std::log(p[i] / q[i]);
}

TEST(KvDtypes, CostLittleOnTheDemoModel) {
  SerialTeam team;
  const auto exact_model = LoadCached(kDemoModel, KvDtype::kFloat32, team);
  ASSERT_NE(exact_model, nullptr);
  const auto vocab = static_cast<size_t>(exact_model->config().vocab);
  struct Case {
    KvDtype dtype;
    double most_rms;
    double most_divergence;  // per step
    Loss loss{};
    std::unique_ptr<Model> model{};
  };
  Case cases[] = {{KvDtype::kFloat16, 0.25, 0.003},
                  {KvDtype::kBfloat16, 0.26, 0.003},
                  {KvDtype::kInt8, 0.33, 0.0045}};
  for (Case& c : cases) c.model = LoadCached(kDemoModel, c.dtype, team);
  int runs = 0;
  for (const GoldenCase& golden : ReadGoldens("greedy/greedy.txt")) {
    // Every fourth run: four models go along each.
    if (golden.Has("bound") || runs++ % 4 != 0) continue;
    const std::vector<float> exact = LogitsAlong(golden, *exact_model, team);
    for (Case& c : cases) {
      const std::vector<float> ours = LogitsAlong(golden, *c.model, team);
      ASSERT_EQ(ours.size(), exact.size());
      for (size_t at = 0; at < exact.size(); at += vocab)
        Compare(std::span(exact).subspan(at, vocab), std::span(ours).subspan(at, vocab), c.loss);
    }
  }
  for (const Case& c : cases) {
    EXPECT_EQ(c.loss.steps, 5 * 64);
    EXPECT_LE(c.loss.Rms(), c.most_rms) << KvDtypeName(c.dtype);
    EXPECT_LE(c.loss.divergence / c.loss.steps, c.most_divergence) << KvDtypeName(c.dtype);
    std::printf("%s: logits differ by %.4f (rms), %.3f (most); %d of %d best tokens; %.6f nats\n",
                std::string(KvDtypeName(c.dtype)).c_str(), c.loss.Rms(), c.loss.largest,
                c.loss.other_best, c.loss.steps, c.loss.divergence / c.loss.steps);
  }
}

}  // namespace
}  // namespace tandem::model
