// DeepSeek-V2 and V3 (and R1): multi-head latent attention, shared and routed experts
// (arXiv 2405.04434, 2412.19437).
#include <algorithm>
#include <cmath>

#include "model/families.h"

namespace tandem::model {
namespace {

constexpr int64_t kMaxDim = 1 << 14;

// YaRN lets scores grow with the factor: by the square of this.
void ScaleScores(double weight, ModelConfig& config) {
  const MlaConfig& mla = config.mla;
  double scale = 1.0 / std::sqrt(static_cast<double>(mla.plain_dim + mla.rope_dim));
  if (config.rope.factor > 1 && weight > 0) {
    const double grown = 0.1 * weight * std::log(config.rope.factor) + 1.0;
    scale *= grown * grown;
  }
  config.attention_scale = static_cast<float>(scale);
}

Result<int> Dim(const HfConfig& file, std::string_view key, std::optional<int64_t> fallback = {}) {
  TRY_ASSIGN(const int64_t dim, file.Int(key, 1, kMaxDim, fallback));
  return static_cast<int>(dim);
}

Status ReadLatent(const HfConfig& file, ModelConfig& config) {
  MlaConfig& mla = config.mla;
  TRY_ASSIGN(mla.latent, Dim(file, "kv_lora_rank"));
  TRY_ASSIGN(const int64_t query, file.Int("q_lora_rank", 0, kMaxDim, 0));
  mla.query_latent = static_cast<int>(query);
  TRY_ASSIGN(mla.plain_dim, Dim(file, "qk_nope_head_dim"));
  TRY_ASSIGN(mla.rope_dim, Dim(file, "qk_rope_head_dim"));
  TRY_ASSIGN(mla.value_dim, Dim(file, "v_head_dim"));
  config.rope.dims = mla.rope_dim;
  TRY_ASSIGN(const bool interleaved, file.Bool("rope_interleave", true));
  config.stored.half_split_rope = !interleaved;
  double weight = 0;
  if (const wire::Json* rope = file.Find("rope_scaling"); rope != nullptr) {
    TRY_ASSIGN(weight, HfConfig(*rope, file.label()).Float("mscale_all_dim", 0, 1e3, 0.0));
  }
  ScaleScores(weight, config);
  return {};
}

Status ReadExperts(const HfConfig& file, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  TRY_ASSIGN(const int64_t experts, file.Int("n_routed_experts", 0, kMaxDim, 0));
  if (experts == 0) return {};
  moe.experts = static_cast<int>(experts);
  TRY_ASSIGN(moe.used, file.Size("num_experts_per_tok"));
  TRY_ASSIGN(moe.inner, file.Size("moe_intermediate_size"));
  TRY_ASSIGN(const int64_t shared, file.Int("n_shared_experts", 0, 1024, 0));
  moe.shared_inner = static_cast<int>(shared) * moe.inner;
  TRY_ASSIGN(const double scale, file.Float("routed_scaling_factor", 0, 1e6, 1.0));
  moe.scale = static_cast<float>(scale);
  TRY_ASSIGN(moe.groups, file.Size("n_group", 1));
  TRY_ASSIGN(moe.groups_used, file.Size("topk_group", 1));
  const bool third = config.architecture == "deepseek_v3";
  TRY_ASSIGN(moe.normalize, file.Bool("norm_topk_prob", third));
  TRY_ASSIGN(const std::string scores, file.String("scoring_func", third ? "sigmoid" : "softmax"));
  moe.sigmoid = scores == "sigmoid";
  TRY_ASSIGN(const std::string method, file.String("topk_method", third ? "noaux_tc" : "greedy"));
  moe.choice_bias = moe.group_by_two_best = method == "noaux_tc";
  if (method == "greedy") moe.groups = moe.groups_used = 1;
  TRY_ASSIGN(const int64_t dense, file.Int("first_k_dense_replace", 0, kMaxDim, 0));
  TRY_ASSIGN(const int step, file.Size("moe_layer_freq", 1));
  for (size_t i = static_cast<size_t>(dense); i < config.layers.size(); ++i)
    config.layers[i].experts = i % static_cast<size_t>(step) == 0;
  return {};
}

}  // namespace

Status ReadDeepseekHf(const HfConfig& file, ModelConfig& config) {
  TRY(ReadLatent(file, config));
  return ReadExperts(file, config);
}

Status ReadDeepseekGguf(const GgufConfig& file, ModelConfig& config) {
  MlaConfig& mla = config.mla;
  TRY_ASSIGN(mla.latent, file.Size("attention.kv_lora_rank"));
  TRY_ASSIGN(const int64_t query, file.Int("attention.q_lora_rank", 0, kMaxDim, 0));
  mla.query_latent = static_cast<int>(query);
  // Newer files describe the latent form in key_length and the heads in key_length_mla.
  TRY_ASSIGN(const int key, file.Size("attention.key_length_mla", config.head_dim));
  TRY_ASSIGN(const int value, file.Size("attention.value_length", config.head_dim));
  TRY_ASSIGN(mla.value_dim, file.Size("attention.value_length_mla", value));
  mla.rope_dim = config.rope.dims;
  mla.plain_dim = key - mla.rope_dim;
  if (mla.plain_dim < 1)
    return Err(Code::kCorrupt, "{}: a key of {} dimensions has {} that turn", file.label(), key,
               mla.rope_dim);
  TRY_ASSIGN(const double tenth, file.Float("rope.scaling.yarn_log_multiplier", 0, 1e3, 0.0));
  ScaleScores(10.0 * tenth, config);
  config.rope.attention_factor = 1.0;
  MoeConfig& moe = config.moe;
  TRY_ASSIGN(const int64_t shared, file.Int("expert_shared_count", 0, 1024, 0));
  moe.shared_inner = static_cast<int>(shared) * moe.inner;
  TRY_ASSIGN(moe.groups, file.Size("expert_group_count", 1));
  TRY_ASSIGN(moe.groups_used, file.Size("expert_group_used_count", 1));
  moe.choice_bias = moe.sigmoid;
  moe.group_by_two_best = moe.sigmoid;
  return {};
}

}  // namespace tandem::model
