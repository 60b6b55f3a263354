// Llama 2 and 3, and what shares their form (SmolLM2, TinyLlama, ...); Mistral and Mixtral, which
// GGUF files call "llama" too.
#include "model/families.h"

namespace tandem::model {
namespace {

constexpr TensorAlias kMixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.w2", "ffn_down_exps"},
};

}  // namespace

const std::span<const TensorAlias> kMixtralAliases = kMixtral;

Status ReadLlamaHf(const HfConfig&, ModelConfig&) { return {}; }

Status ReadLlamaGguf(const GgufConfig& file, ModelConfig& config) {
  // Converters turned the rows of queries and keys so that pairs lie together.
  config.stored.half_split_rope = false;
  config.moe.normalize = true;  // Mixtral's, which has no key for it
  TRY_ASSIGN(const int window, GgufWindow(file));
  for (LayerConfig& layer : config.layers) layer.window = window;
  return {};
}

Status ReadMistralHf(const HfConfig& file, ModelConfig& config) {
  if (file.Has("layer_types")) return {};
  TRY_ASSIGN(const int window, HfWindow(file));
  for (LayerConfig& layer : config.layers) layer.window = window;
  return {};
}

Status ReadMixtralHf(const HfConfig& file, ModelConfig& config) {
  TRY(ReadMistralHf(file, config));
  TRY_ASSIGN(config.moe.experts, file.Size("num_local_experts", 8));
  TRY_ASSIGN(config.moe.used, file.Size("num_experts_per_tok", 2));
  config.moe.inner = config.feed_forward;
  config.moe.normalize = true;
  for (LayerConfig& layer : config.layers) layer.experts = true;
  return {};
}

}  // namespace tandem::model
