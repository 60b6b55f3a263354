#include "model/logprobs.h"

#include <algorithm>

#include "base/check.h"
#include "model/scalar_math.h"
#include "model/selection.h"

namespace tandem::model {

Logprobs ComputeLogprobs(std::span<const float> logits, TokenId chosen, int32_t top) {
  CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size());
  const float largest = LargestOf(logits);
  std::vector<float> weights(logits.size());
  const double log_sum = Log(std::max(ExpAll(logits, largest, weights), 1e-300));
  const auto logprob = [&](float logit) {
    const float value = static_cast<float>((double{logit} - double{largest}) - log_sum);
    return value > kLogprobFloor ? value : kLogprobFloor;
  };

  Logprobs result;
  const float own = logits[static_cast<size_t>(chosen)];
  int32_t rank = 0;
  for (const float logit : logits) rank += logit >= own ? 1 : 0;
  result.chosen = {chosen, logprob(own), std::max(rank, 1)};
  if (top <= 0) return result;

  const size_t wanted = std::min(static_cast<size_t>(top), logits.size());
  std::vector<float> scratch;
  const float bar = KthLargest(logits, wanted, scratch);
  std::vector<TokenId> ids;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= bar) ids.push_back(static_cast<TokenId>(i));
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const float left = logits[static_cast<size_t>(a)];
    const float right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  ids.resize(std::min(ids.size(), wanted));
  for (const TokenId id : ids)
    result.top.push_back({id, logprob(logits[static_cast<size_t>(id)]),
                          static_cast<int32_t>(result.top.size()) + 1});
  return result;
}

}  // namespace tandem::model
