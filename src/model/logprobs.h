// Log probabilities of the model's own distribution: log-softmax of the logits before any sampling
// parameter touches them.
#ifndef TANDEM_MODEL_LOGPROBS_H_
#define TANDEM_MODEL_LOGPROBS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"

namespace tandem::model {

// Stands for minus infinity, which JSON cannot say.
inline constexpr float kLogprobFloor = -9999.0F;

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;  // at least kLogprobFloor
  int32_t rank = 0;      // how many tokens are at least as likely: 1 is the likeliest
};

struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // likeliest first, equals by id; may contain the chosen one
};

// `chosen` lies inside the logits; the `top` likeliest are added, fewer if there are fewer tokens.
Logprobs ComputeLogprobs(std::span<const float> logits, TokenId chosen, int32_t top);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_LOGPROBS_H_
