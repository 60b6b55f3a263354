#include "model/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "model/scalar_math.h"
#include "model/selection.h"

namespace tandem::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomLogits(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(ScalarMath, AgreesWithTheLibrary) {
  for (float x = -86.9F; x <= 0.0F; x += 0.00371F) {
    const double expected = std::exp(double{x});
    EXPECT_NEAR(ExpOfNegative(x) / expected, 1.0, 2.5e-7) << x;
    EXPECT_NEAR(Log(expected), double{x}, 1e-13) << x;
  }
  EXPECT_EQ(ExpOfNegative(0.0F), 1.0F);
  EXPECT_EQ(ExpOfNegative(-90.0F), 0.0F);
  EXPECT_EQ(ExpOfNegative(-kInfinity), 0.0F);
  EXPECT_EQ(ExpOfNegative(kNan), 0.0F);
  EXPECT_EQ(Log(1.0), 0.0);
}

TEST(Selection, KthLargestEqualsSorting) {
  for (const size_t size : {1U, 7U, 300U, 5000U}) {
    std::vector<float> values = RandomLogits(size, 5);
    for (float& value : values) value = std::round(value * 8.0F) / 8.0F;
    std::vector<float> sorted = values;
    std::ranges::sort(sorted, std::greater<>());
    std::vector<float> scratch;
    for (const size_t k : {1U, 2U, 5U, 50U, 299U, 4999U, 6000U}) {
      const float expected = k <= size ? sorted[k - 1] : -kInfinity;
      EXPECT_EQ(KthLargest(values, k, scratch), expected) << size << " " << k;
    }
  }
}

TEST(Selection, AllFiniteSeesInfinitiesAndNaN) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::vector<float> values(1000, -3.5F);
  values[7] = kLargest;
  values[8] = -kLargest;
  values[9] = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(AllFinite(values));
  for (const float odd :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    values[999] = odd;
    EXPECT_FALSE(AllFinite(values)) << odd;
  }
}

TEST(Argmax, TiesGoToTheLowestId) {
  EXPECT_EQ(Argmax(std::vector<float>{1.0F, 3.0F, 3.0F, 2.0F}), 1);
  EXPECT_EQ(Argmax(std::vector<float>{}), 0);
  EXPECT_EQ(Argmax(std::vector<float>{kNan, kNan}), 0);
  EXPECT_EQ(Argmax(std::vector<float>{kNan, -kInfinity, -4.0F, kNan}), 2);
  std::vector<float> many(2000, 1.5F);
  many[700] = many[1300] = 2.0F;
  EXPECT_EQ(Argmax(many), 700);
}

TEST(UniformDraw, IsAFixedFunctionOfItsArguments) {
  // The published test vector of Philox4x32-10 for an all-zero counter and key starts with these
  // words.
  const uint64_t words = uint64_t{0x6627e8d5} << 32 | 0xe169c58d;
  EXPECT_EQ(UniformDraw(0, 0, 0), static_cast<double>(words >> 11) * 0x1p-53);
  EXPECT_NE(UniformDraw(1, 0, 7), UniformDraw(2, 0, 7));
  EXPECT_NE(UniformDraw(1, 0, 7), UniformDraw(1, 1, 7));
  EXPECT_NE(UniformDraw(1, 0, 7), UniformDraw(1, 0, 8));
  double sum = 0.0;
  for (uint64_t i = 0; i < 10000; ++i) sum += UniformDraw(42, 0, i);
  EXPECT_NEAR(sum / 10000.0, 0.5, 0.01);
}

// How often each token is drawn over many positions, against its probability.
void CheckFrequencies(const SamplingParams& params, std::span<const float> logits) {
  constexpr int kDraws = 20000;
  Sampler sampler(static_cast<int32_t>(logits.size()));
  const std::vector<TokenProbability> expected = sampler.Distribution(params, {}, logits);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    SamplingContext context;
    context.seed = 99;
    context.position = static_cast<uint64_t>(i);
    ++counts[static_cast<size_t>(sampler.Sample(params, context, logits).token)];
  }
  int seen = 0;
  for (const TokenProbability& entry : expected) {
    const double mean = entry.probability * kDraws;
    EXPECT_NEAR(counts[static_cast<size_t>(entry.token)], mean, 5.0 * std::sqrt(mean) + 1.0)
        << "token " << entry.token;
    seen += counts[static_cast<size_t>(entry.token)];
  }
  EXPECT_EQ(seen, kDraws) << "a token outside the distribution was drawn";
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = RandomLogits(60, 1);
  SamplingParams params;
  CheckFrequencies(params, logits);
  params.top_k = 7;
  CheckFrequencies(params, logits);
  params.top_p = 0.8F;
  CheckFrequencies(params, logits);
  params.top_k = 0;
  params.temperature = 1.4F;
  CheckFrequencies(params, logits);
}

TEST(Sampler, TopPWithoutTopKEqualsTheFullSort) {
  // A large vocabulary takes the path that looks only at the likely tokens; top_k of one less than
  // everything takes the one that sorts.
  const std::vector<float> logits = RandomLogits(20000, 3);
  Sampler sampler(20000);
  for (const float temperature : {0.4F, 1.0F, 3.0F}) {
    for (const float top_p : {0.1F, 0.5F, 0.9F, 0.999F}) {
      SamplingParams params;
      params.temperature = temperature;
      params.top_p = top_p;
      const auto quick = sampler.Distribution(params, {}, logits);
      params.top_k = 19999;
      const auto full = sampler.Distribution(params, {}, logits);
      ASSERT_EQ(quick.size(), full.size()) << temperature << " " << top_p;
      for (size_t i = 0; i < quick.size(); ++i) EXPECT_EQ(quick[i].token, full[i].token);
    }
  }
}

TEST(Sampler, DependsOnSeedChoiceAndPositionOnly) {
  const std::vector<float> logits = RandomLogits(1000, 2);
  SamplingParams params;
  params.temperature = 2.0F;
  const auto draw = [&](Sampler& sampler, uint64_t seed, uint32_t choice, uint64_t position) {
    SamplingContext context;
    context.seed = seed;
    context.choice = choice;
    context.position = position;
    return sampler.Sample(params, context, logits).token;
  };
  Sampler one(1000);
  std::vector<TokenId> forward;
  for (uint64_t i = 0; i < 20; ++i) forward.push_back(draw(one, 7, 0, i));
  Sampler other(1000);
  for (uint64_t i = 20; i-- > 0;) EXPECT_EQ(draw(other, 7, 0, i), forward[i]);
  int same = 0;
  for (uint64_t i = 0; i < 20; ++i) same += draw(other, 7, 1, i) == forward[i] ? 1 : 0;
  EXPECT_LT(same, 10);
}

TEST(Sampler, OddLogitsDoNotEscape) {
  Sampler sampler(4);
  SamplingParams params;
  const std::vector<float> odd = {kNan, kInfinity, -kInfinity, 1.0F};
  for (const float top_p : {1.0F, 0.9F}) {
    params.top_p = top_p;
    EXPECT_EQ(sampler.Sample(params, {}, odd).token, 1);
  }
  const std::vector<float> nothing(4, kNan);
  EXPECT_EQ(sampler.Sample(params, {}, nothing).token, 0);
}

TEST(Sampler, WhenEverythingIsMaskedTheLikeliestAllowedIsTaken) {
  Sampler sampler(4);
  SamplingParams params;
  params.allowed_token_ids = {1, 2};
  params.eos_token_ids = {1};
  params.stop_token_ids = {2};
  params.min_tokens = 1;
  const std::vector<float> logits = {9.0F, 1.0F, 2.0F, 8.0F};
  for (const float temperature : {0.0F, 1.0F}) {
    params.temperature = temperature;
    EXPECT_EQ(sampler.Sample(params, {}, logits).token, 2);
  }
  // The scratch that marks allowed ids is clean again.
  EXPECT_EQ(sampler.Sample(SamplingParams{.temperature = 0.0F}, {}, logits).token, 0);
}

TEST(Sampler, PenaltiesIgnoreIdsOutsideTheVocabulary) {
  Sampler sampler(3);
  SamplingParams params;
  params.temperature = 0.0F;
  params.repetition_penalty = 2.0F;
  params.frequency_penalty = 1.0F;
  const std::vector<TokenId> prompt = {-5, 1000000, 0};
  const std::vector<TokenId> output = {0, 7, -1, 0};
  SamplingContext context;
  context.prompt = prompt;
  context.output = output;
  const std::vector<float> logits = {8.0F, 2.5F, -1.0F};
  // 8 / 2 - 2 * 1 = 2 for token 0.
  EXPECT_EQ(sampler.Sample(params, context, logits).token, 1);
}

TEST(Logprobs, TopAndRank) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 3.0F, -kInfinity};
  const double sum = std::exp(-2.0) + 1.0 + std::exp(-1.0) + 1.0;
  const Logprobs result = ComputeLogprobs(logits, 2, 3);
  EXPECT_EQ(result.chosen.token, 2);
  EXPECT_EQ(result.chosen.rank, 3);
  EXPECT_NEAR(result.chosen.logprob, -1.0 - std::log(sum), 1e-6);
  ASSERT_EQ(result.top.size(), 3U);
  EXPECT_EQ(result.top[0].token, 1);
  EXPECT_EQ(result.top[1].token, 3);
  EXPECT_EQ(result.top[2].token, 2);
  EXPECT_EQ(ComputeLogprobs(logits, 4, 0).chosen.logprob, kLogprobFloor);
  EXPECT_TRUE(ComputeLogprobs(logits, 4, 0).top.empty());
  EXPECT_EQ(ComputeLogprobs(logits, 0, 20).top.size(), 5U);
}

TEST(SamplingParams, RangesAreChecked) {
  const auto param_of = [](const SamplingParams& params) {
    const Status status = ValidateSamplingParams(params, 100);
    return status ? std::string() : status.error().param;
  };
  EXPECT_EQ(param_of({}), "");
  EXPECT_EQ(param_of({.temperature = -0.1F}), "temperature");
  EXPECT_EQ(param_of({.temperature = kNan}), "temperature");
  EXPECT_EQ(param_of({.top_p = 0.0F}), "top_p");
  EXPECT_EQ(param_of({.top_p = 1.1F}), "top_p");
  EXPECT_EQ(param_of({.top_k = -2}), "top_k");
  EXPECT_EQ(param_of({.min_p = 2.0F}), "min_p");
  EXPECT_EQ(param_of({.repetition_penalty = 0.0F}), "repetition_penalty");
  EXPECT_EQ(param_of({.presence_penalty = 2.5F}), "presence_penalty");
  EXPECT_EQ(param_of({.frequency_penalty = -2.5F}), "frequency_penalty");
  EXPECT_EQ(param_of({.logit_bias = {{100, 1.0F}}}), "logit_bias");
  EXPECT_EQ(param_of({.logit_bias = {{1, kInfinity}}}), "logit_bias");
  EXPECT_EQ(param_of({.allowed_token_ids = {-1}}), "allowed_token_ids");
  EXPECT_EQ(param_of({.bad_words_token_ids = {{}}}), "bad_words");
  EXPECT_EQ(param_of({.min_tokens = -1}), "min_tokens");
  EXPECT_EQ(param_of({.stop_token_ids = {100}}), "stop_token_ids");
  EXPECT_EQ(param_of({.logprobs = 21}), "logprobs");
}

}  // namespace
}  // namespace tandem::model
