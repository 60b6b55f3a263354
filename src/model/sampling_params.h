// How one request wants its tokens chosen. Plain data; ValidateSamplingParams states the ranges.
#ifndef TANDEM_MODEL_SAMPLING_PARAMS_H_
#define TANDEM_MODEL_SAMPLING_PARAMS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace tandem::model {

struct SamplingParams {
  float temperature = 1.0F;         // 0: greedy; above 0 and below 0.01 counts as 0.01
  float top_p = 1.0F;               // (0, 1]
  int32_t top_k = 0;                // 0 or -1: all
  float min_p = 0.0F;               // [0, 1]
  float repetition_penalty = 1.0F;  // above 0; prompt and output
  float presence_penalty = 0.0F;    // [-2, 2]; output only
  float frequency_penalty = 0.0F;   // [-2, 2]; output only, times the count
  // Unset: whoever accepts the request draws one, once, so that all workers use the same.
  std::optional<uint64_t> seed = std::nullopt;
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // added; clipped to +-100
  std::vector<TokenId> allowed_token_ids = {};             // empty: all
  std::vector<std::vector<TokenId>> bad_words_token_ids =
      {};                  // sequences that must not be completed
  int32_t min_tokens = 0;  // before so many output tokens, end and stop ids cannot be chosen
  std::vector<TokenId> stop_token_ids = {};
  std::vector<TokenId> eos_token_ids = {};  // the model's own end tokens
  bool ignore_eos = false;  // an end token does not end the output; min_tokens still masks it
  std::optional<int32_t> logprobs =
      std::nullopt;  // unset: none; n: the chosen token and the n likeliest
};

// The most log probabilities that a request may ask for at each position.
inline constexpr int32_t kMaxLogprobs = 20;

// Every number in its range and every id inside the vocabulary; the error's param is the field.
Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SAMPLING_PARAMS_H_
