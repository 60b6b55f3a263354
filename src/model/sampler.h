// Chooses the next token of a sequence from its logits. The choice depends on the logits, the
// parameters, the tokens so far and (seed, choice, position) alone: not on the batch, the worker,
// or anything sampled before. Steps, in this order: allowed ids, bad words, min_tokens, logit bias,
// repetition, frequency and presence penalties, greedy choice; else temperature, min_p, top_k,
// top_p, draw.
#ifndef TANDEM_MODEL_SAMPLER_H_
#define TANDEM_MODEL_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/logprobs.h"
#include "model/model.h"
#include "model/sampling_params.h"

namespace tandem::model {

// What the sequence looks like where a token is wanted. The spans are used during the call only.
struct SamplingContext {
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;  // generated so far
  uint64_t seed = 0;
  uint32_t choice = 0;  // which of the n choices of a request
  // The drawn token's position in the sequence; prompt.size() + output.size() for a sequence that
  // keeps both.
  uint64_t position = 0;
};

struct SampledToken {
  TokenId token = 0;
  std::optional<Logprobs> logprobs;  // when the parameters ask for them
};

struct TokenProbability {
  TokenId token = 0;
  float logit = 0.0F;  // after all steps before the draw
  double probability = 0.0;
};

// Parameters must have passed ValidateSamplingParams. One thread at a time; use one sampler per
// thread. Owns scratch memory of about 28 bytes per vocabulary entry.
class Sampler {
 public:
  explicit Sampler(int32_t vocab);

  // `logits` has vocab entries. NaN counts as minus infinity. If the parameters leave no token, the
  // likeliest of the allowed ids is taken.
  SampledToken Sample(const SamplingParams& params, const SamplingContext& context,
                      std::span<const float> logits);

  // The distribution that Sample draws from, by ascending id: what is left after every step. For
  // greedy parameters: every token that is not masked, at temperature 1.
  std::vector<TokenProbability> Distribution(const SamplingParams& params,
                                             const SamplingContext& context,
                                             std::span<const float> logits);

 private:
  struct Candidate {
    TokenId token;
    float logit;
    float weight;  // exp(logit - largest logit)
  };

  TokenId Choose(const SamplingParams& params, const SamplingContext& context,
                 std::span<const float> logits);
  // Fills work_ with the logits after every step up to the penalties.
  void Process(const SamplingParams& params, const SamplingContext& context,
               std::span<const float> logits);
  void KeepAllowed(const SamplingParams& params);
  void MaskBadWords(const SamplingParams& params, const SamplingContext& context);
  void Penalize(const SamplingParams& params, const SamplingContext& context);
  // Temperature, min_p, top_k and top_p on work_: leaves candidates_, or, where nothing but the
  // temperature applies, weights_ with all_ set. False if no token is left.
  bool Filter(const SamplingParams& params);
  // Candidates at or above a threshold, by ascending id.
  void Collect(float largest, float threshold);
  void KeepTopP(float top_p, float largest, float threshold);
  TokenId Draw(double uniform) const;
  TokenId DrawFromAll(double uniform) const;

  std::vector<float> work_;            // logits while they are processed
  std::vector<float> weights_;         // exp of all of them, where needed
  std::vector<uint32_t> counts_;       // all zero between calls
  std::vector<float> values_;          // selection scratch
  std::vector<Candidate> candidates_;  // what is left, in a fixed order
  bool all_ = false;
};

// A uniform number in [0, 1) with 53 bits, a pure function of its arguments (Philox4x32-10).
double UniformDraw(uint64_t seed, uint32_t choice, uint64_t position);

// The index of the largest value, the lowest among equals; NaN is never chosen before a number.
// Zero for no values.
TokenId Argmax(std::span<const float> values);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SAMPLER_H_
