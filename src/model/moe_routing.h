// Which experts a token goes to, and with what weights: the routing of Mixtral, Qwen and DeepSeek
// (softmax or sigmoid scores, group-limited choice, a bias for the choice alone).
#ifndef TANDEM_MODEL_MOE_ROUTING_H_
#define TANDEM_MODEL_MOE_ROUTING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_config.h"

namespace tandem::model {

struct ExpertChoice {
  int32_t expert;
  float weight;
};

// `logits`: one per expert; changed. `bias`: as many, or empty. Fills config.used choices, by
// ascending expert. Ties go to the lower expert. Plain arithmetic in a fixed order.
void RouteToken(const MoeConfig& config, std::span<float> logits, std::span<const float> bias,
                std::span<ExpertChoice> choices);

// 1 / (1 + e^-x), without the C library.
float Sigmoid(float x);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MOE_ROUTING_H_
