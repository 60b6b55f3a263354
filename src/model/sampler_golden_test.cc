// The sampler against recorded steps of vLLM's own.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/golden_file.h"
#include "model/sampler.h"

namespace tandem::model {
namespace {

SamplingParams ParamsOf(const GoldenCase& golden) {
  SamplingParams params;
  params.temperature = static_cast<float>(golden.Number("temperature", 1.0));
  params.top_p = static_cast<float>(golden.Number("top_p", 1.0));
  params.top_k = static_cast<int32_t>(golden.Number("top_k"));
  params.min_p = static_cast<float>(golden.Number("min_p"));
  params.repetition_penalty = static_cast<float>(golden.Number("repetition_penalty", 1.0));
  params.presence_penalty = static_cast<float>(golden.Number("presence_penalty"));
  params.frequency_penalty = static_cast<float>(golden.Number("frequency_penalty"));
  params.min_tokens = static_cast<int32_t>(golden.Number("min_tokens"));
  params.ignore_eos = golden.Number("ignore_eos") != 0.0;
  params.stop_token_ids = golden.Numbers<TokenId>("stop_token_ids");
  params.allowed_token_ids = golden.Numbers<TokenId>("allowed_token_ids");
  params.eos_token_ids = golden.Numbers<TokenId>("eos");
  const std::vector<float> bias = golden.Numbers<float>("logit_bias");
  for (size_t i = 0; i + 1 < bias.size(); i += 2)
    params.logit_bias.emplace_back(static_cast<TokenId>(bias[i]), bias[i + 1]);
  std::vector<TokenId> word;
  for (const TokenId token : golden.Numbers<TokenId>("bad_words")) {
    if (token >= 0) {
      word.push_back(token);
    } else {
      params.bad_words_token_ids.push_back(word);
      word.clear();
    }
  }
  return params;
}

// Recorded parameters that name fields this sampler does not read would go unnoticed otherwise.
void CheckKnownKeys(const GoldenCase& golden) {
  static const std::set<std::string> kKnown = {"id",
                                               "logits",
                                               "eos",
                                               "prompt",
                                               "output",
                                               "temperature",
                                               "top_p",
                                               "top_k",
                                               "min_p",
                                               "min_tokens",
                                               "ignore_eos",
                                               "stop_token_ids",
                                               "logit_bias",
                                               "bad_words",
                                               "allowed_token_ids",
                                               "repetition_penalty",
                                               "presence_penalty",
                                               "frequency_penalty",
                                               "expect_greedy",
                                               "expect_argmax",
                                               "expect_argmax_logprob",
                                               "expect_ties",
                                               "expect_n_kept",
                                               "expect_kept",
                                               "expect_listed",
                                               "expect_probs"};
  for (const auto& [key, values] : golden.lines)
    EXPECT_TRUE(kKnown.contains(key)) << "the recorded case has '" << key << "'";
}

void CheckDistribution(const GoldenCase& golden, std::span<const TokenProbability> distribution) {
  EXPECT_EQ(distribution.size(), static_cast<size_t>(golden.Number("expect_n_kept")));
  std::map<TokenId, double> probability;
  for (const TokenProbability& entry : distribution) probability[entry.token] = entry.probability;
  const bool ties = golden.Number("expect_ties") != 0.0;
  if (!ties)
    for (const TokenId token : golden.Numbers<TokenId>("expect_kept"))
      EXPECT_TRUE(probability.contains(token)) << "token " << token << " was cut";
  const std::vector<TokenId> listed = golden.Numbers<TokenId>("expect_listed");
  const std::vector<double> expected = golden.Numbers<double>("expect_probs");
  ASSERT_EQ(listed.size(), expected.size());
  for (size_t i = 0; i < listed.size(); ++i) {
    // Where the cut goes through equal values, another one of them may have been kept.
    if (ties && !probability.contains(listed[i])) continue;
    EXPECT_NEAR(probability[listed[i]], expected[i], 2e-6) << "token " << listed[i];
  }
}

TEST(SamplerGolden, EveryRecordedCase) {
  std::map<std::string, std::vector<float>> vectors;
  int checked = 0;
  for (const GoldenCase& golden : ReadGoldens("sampling/sampling.txt")) {
    if (golden.Has("vector")) {
      vectors[golden.Word("vector")] = golden.Numbers<float>("values");
      continue;
    }
    SCOPED_TRACE("case " + golden.Word("id"));
    CheckKnownKeys(golden);
    const std::vector<float>& logits = vectors.at(golden.Word("logits"));
    const SamplingParams params = ParamsOf(golden);
    ASSERT_TRUE(ValidateSamplingParams(params, static_cast<int32_t>(logits.size())));
    const std::vector<TokenId> prompt = golden.Numbers<TokenId>("prompt");
    const std::vector<TokenId> output = golden.Numbers<TokenId>("output");
    SamplingContext context;
    context.prompt = prompt;
    context.output = output;
    Sampler sampler(static_cast<int32_t>(logits.size()));
    CheckDistribution(golden, sampler.Distribution(params, context, logits));

    SamplingParams greedy = params;
    greedy.temperature = 0.0F;
    greedy.logprobs = 0;
    const SampledToken best = sampler.Sample(greedy, context, logits);
    EXPECT_EQ(best.token, static_cast<TokenId>(golden.Number("expect_argmax")));
    EXPECT_NEAR(best.logprobs->chosen.logprob, golden.Number("expect_argmax_logprob"), 2e-4);
    ++checked;
  }
  EXPECT_EQ(checked, 79);
}

}  // namespace
}  // namespace tandem::model
