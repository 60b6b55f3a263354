// Qwen2 and 2.5 (biases of queries, keys and values), Qwen3 (norms of query and key heads instead),
// and their mixtures of experts.
#include <algorithm>

#include "model/families.h"

namespace tandem::model {
namespace {

// Windows where "layer_types" does not say: of the layers from max_window_layers on.
Status ReadWindows(const HfConfig& file, ModelConfig& config) {
  TRY_ASSIGN(const bool slides, file.Bool("use_sliding_window", false));
  if (!slides || file.Has("layer_types")) return {};
  TRY_ASSIGN(const int window, HfWindow(file));
  TRY_ASSIGN(const int64_t first, file.Int("max_window_layers", 0, 1 << 20, 28));
  for (size_t i = static_cast<size_t>(first); i < config.layers.size(); ++i)
    config.layers[i].window = window;
  return {};
}

// Which layers have experts: every step-th, but those listed.
Status ReadExperts(const HfConfig& file, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  TRY_ASSIGN(moe.experts, file.Size("num_experts"));
  TRY_ASSIGN(moe.used, file.Size("num_experts_per_tok"));
  TRY_ASSIGN(moe.inner, file.Size("moe_intermediate_size"));
  TRY_ASSIGN(moe.normalize, file.Bool("norm_topk_prob", false));
  TRY_ASSIGN(const int step, file.Size("decoder_sparse_step", 1));
  for (size_t i = 0; i < config.layers.size(); ++i)
    config.layers[i].experts = (i + 1) % static_cast<size_t>(step) == 0;
  const wire::Json* plain = file.Find("mlp_only_layers");
  if (plain == nullptr) return {};
  if (!plain->IsArray())
    return Err(Code::kCorrupt, "{}: 'mlp_only_layers' is not a list", file.label());
  for (const wire::Json& layer : plain->AsArray())
    if (layer.IsInt() && layer.AsInt() >= 0 &&
        static_cast<size_t>(layer.AsInt()) < config.layers.size())
      config.layers[static_cast<size_t>(layer.AsInt())].experts = false;
  return {};
}

}  // namespace

Status ReadQwen2Hf(const HfConfig& file, ModelConfig& config) { return ReadWindows(file, config); }

Status ReadQwen2MoeHf(const HfConfig& file, ModelConfig& config) {
  TRY(ReadWindows(file, config));
  TRY(ReadExperts(file, config));
  TRY_ASSIGN(config.moe.shared_inner, file.Size("shared_expert_intermediate_size"));
  config.moe.shared_gate = true;
  return {};
}

Status ReadQwen3Hf(const HfConfig& file, ModelConfig& config) {
  config.qk_norm = QkNorm::kHead;
  return ReadWindows(file, config);
}

Status ReadQwen3MoeHf(const HfConfig& file, ModelConfig& config) {
  TRY(ReadQwen3Hf(file, config));
  return ReadExperts(file, config);
}

Status ReadQwen2Gguf(const GgufConfig&, ModelConfig& config) {
  config.stored.half_split_rope = true;
  return {};
}

Status ReadQwen2MoeGguf(const GgufConfig& file, ModelConfig& config) {
  config.stored.half_split_rope = true;
  TRY_ASSIGN(config.moe.shared_inner,
             file.Size("expert_shared_feed_forward_length", config.feed_forward));
  config.moe.shared_gate = true;
  return {};
}

Status ReadQwen3Gguf(const GgufConfig&, ModelConfig& config) {
  config.stored.half_split_rope = true;
  config.qk_norm = QkNorm::kHead;
  config.moe.normalize = true;
  return {};
}

}  // namespace tandem::model
