#include "model/sampling_params.h"

#include <cmath>
#include <span>
#include <string_view>

namespace tandem::model {
namespace {

Status CheckRange(std::string_view field, float value, float least, float most) {
  if (value >= least && value <= most) return {};
  return FieldErr(field, "{} is {}: it must be from {} to {}", field, value, least, most);
}

Status CheckIds(std::string_view field, std::span<const TokenId> ids, int32_t vocab) {
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab)
      return FieldErr(field, "{} contains {}: token ids are from 0 to {}", field, id, vocab - 1);
  return {};
}

Status CheckNumbers(const SamplingParams& params) {
  constexpr float kMaxTemperature = 1e4F;
  TRY(CheckRange("temperature", params.temperature, 0.0F, kMaxTemperature));
  TRY(CheckRange("top_p", params.top_p, 0.0F, 1.0F));
  if (params.top_p <= 0.0F) return FieldErr("top_p", "top_p is 0: it must be above 0, up to 1");
  if (params.top_k < -1)
    return FieldErr("top_k", "top_k is {}: it must be -1 or 0 (all), or at least 1", params.top_k);
  TRY(CheckRange("min_p", params.min_p, 0.0F, 1.0F));
  if (!(params.repetition_penalty > 0.0F) || !std::isfinite(params.repetition_penalty))
    return FieldErr("repetition_penalty", "repetition_penalty is {}: it must be above 0",
                    params.repetition_penalty);
  TRY(CheckRange("presence_penalty", params.presence_penalty, -2.0F, 2.0F));
  TRY(CheckRange("frequency_penalty", params.frequency_penalty, -2.0F, 2.0F));
  if (params.min_tokens < 0)
    return FieldErr("min_tokens", "min_tokens is {}: it must not be negative", params.min_tokens);
  if (params.logprobs && (*params.logprobs < 0 || *params.logprobs > kMaxLogprobs))
    return FieldErr("logprobs", "logprobs is {}: it must be from 0 to {}", *params.logprobs,
                    kMaxLogprobs);
  return {};
}

}  // namespace

Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab) {
  TRY(CheckNumbers(params));
  TRY(CheckIds("allowed_token_ids", params.allowed_token_ids, vocab));
  TRY(CheckIds("stop_token_ids", params.stop_token_ids, vocab));
  TRY(CheckIds("eos_token_ids", params.eos_token_ids, vocab));
  for (const auto& [token, bias] : params.logit_bias) {
    TRY(CheckIds("logit_bias", {&token, 1}, vocab));
    if (!std::isfinite(bias))
      return FieldErr("logit_bias", "logit_bias of token {} is not a finite number", token);
  }
  for (const std::vector<TokenId>& word : params.bad_words_token_ids) {
    if (word.empty()) return FieldErr("bad_words", "bad_words contains an empty sequence");
    TRY(CheckIds("bad_words", word, vocab));
  }
  return {};
}

}  // namespace tandem::model
