// Sampling as it travels to sampling as the model's sampler takes it.
#ifndef TANDEM_ENGINE_SAMPLING_GLUE_H_
#define TANDEM_ENGINE_SAMPLING_GLUE_H_

#include <span>

#include "model/logprobs.h"
#include "model/sampling_params.h"
#include "wire/messages.h"

namespace tandem::engine {

// Ranges are not checked here (model::ValidateSamplingParams does).
model::SamplingParams ToSamplingParams(const wire::GenerateRequest& request,
                                       std::span<const wire::TokenId> eos_ids);

wire::TokenLogprob ToWire(const model::Logprobs& logprobs);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_SAMPLING_GLUE_H_
