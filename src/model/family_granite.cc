// Granite: Llama with four multipliers.
#include "model/families.h"

namespace tandem::model {
namespace {

struct Multipliers {
  double embedding;
  double residual;
  double attention;
  double logits;  // what logits are divided by
};

void Apply(const Multipliers& by, ModelConfig& config) {
  config.embedding_scale = static_cast<float>(by.embedding);
  config.residual_scale = static_cast<float>(by.residual);
  if (by.attention > 0) config.attention_scale = static_cast<float>(by.attention);
  config.logit_scale = static_cast<float>(1.0 / by.logits);
}

}  // namespace

Status ReadGraniteHf(const HfConfig& file, ModelConfig& config) {
  Multipliers by{};
  TRY_ASSIGN(by.embedding, file.Float("embedding_multiplier", 1e-9, 1e9, 1.0));
  TRY_ASSIGN(by.residual, file.Float("residual_multiplier", 1e-9, 1e9, 1.0));
  TRY_ASSIGN(by.attention, file.Float("attention_multiplier", 1e-9, 1e9, 1.0));
  TRY_ASSIGN(by.logits, file.Float("logits_scaling", 1e-9, 1e9, 1.0));
  Apply(by, config);
  return {};
}

Status ReadGraniteGguf(const GgufConfig& file, ModelConfig& config) {
  config.stored.half_split_rope = false;
  Multipliers by{};
  TRY_ASSIGN(by.embedding, file.Float("embedding_scale", 1e-9, 1e9, 1.0));
  TRY_ASSIGN(by.residual, file.Float("residual_scale", 1e-9, 1e9, 1.0));
  TRY_ASSIGN(by.attention, file.Float("attention.scale", 0, 1e9, 0.0));
  TRY_ASSIGN(by.logits, file.Float("logit_scale", 1e-9, 1e9, 1.0));
  Apply(by, config);
  return {};
}

}  // namespace tandem::model
