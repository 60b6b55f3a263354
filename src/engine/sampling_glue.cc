#include "engine/sampling_glue.h"

namespace tandem::engine {

model::SamplingParams ToSamplingParams(const wire::GenerateRequest& request,
                                       std::span<const wire::TokenId> eos_ids) {
  const wire::Sampling& from = request.sampling;
  model::SamplingParams to;
  to.temperature = static_cast<float>(from.temperature);
  to.top_p = static_cast<float>(from.top_p);
  to.top_k = from.top_k;
  to.min_p = static_cast<float>(from.min_p);
  to.repetition_penalty = static_cast<float>(from.repetition_penalty);
  to.presence_penalty = static_cast<float>(from.presence_penalty);
  to.frequency_penalty = static_cast<float>(from.frequency_penalty);
  if (from.seed) to.seed = static_cast<uint64_t>(*from.seed);
  for (const auto& [token, bias] : from.logit_bias)
    to.logit_bias.emplace_back(token, static_cast<float>(bias));
  to.allowed_token_ids = from.allowed_token_ids;
  to.bad_words_token_ids = from.bad_words;
  to.min_tokens = request.min_tokens;
  to.stop_token_ids = request.stop_token_ids;
  to.eos_token_ids.assign(eos_ids.begin(), eos_ids.end());
  to.ignore_eos = request.ignore_eos;
  if (request.logprobs >= 0) to.logprobs = request.logprobs;
  return to;
}

wire::TokenLogprob ToWire(const model::Logprobs& logprobs) {
  wire::TokenLogprob to;
  to.token = logprobs.chosen.token;
  to.logprob = logprobs.chosen.logprob;
  to.rank = logprobs.chosen.rank;
  to.top.reserve(logprobs.top.size());
  for (const auto& top : logprobs.top) to.top.emplace_back(top.token, top.logprob);
  return to;
}

}  // namespace tandem::engine
