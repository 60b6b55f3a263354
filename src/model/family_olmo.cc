// OLMo 2: norms after each block instead of before, and over all queries and all keys of a token.
#include "model/families.h"

namespace tandem::model {
namespace {

constexpr TensorAlias kAliases[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

void SetCommon(ModelConfig& config) {
  config.pre_norm = false;
  config.post_norm = true;
  config.qk_norm = QkNorm::kWidth;
}

}  // namespace

const std::span<const TensorAlias> kPostNormAliases = kAliases;

Status ReadOlmo2Hf(const HfConfig&, ModelConfig& config) {
  SetCommon(config);
  return {};
}

Status ReadOlmo2Gguf(const GgufConfig&, ModelConfig& config) {
  SetCommon(config);
  config.stored.half_split_rope = true;
  return {};
}

}  // namespace tandem::model
