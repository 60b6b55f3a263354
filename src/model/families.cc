#include "model/families.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

const std::array kFamilies = {
    Family{"llama", "llama", ReadLlamaHf, ReadLlamaGguf, {}},
    Family{"mistral", "", ReadMistralHf, nullptr, {}},
    Family{"mixtral", "", ReadMixtralHf, nullptr, kMixtralAliases},
    Family{"qwen2", "qwen2", ReadQwen2Hf, ReadQwen2Gguf, {}},
    Family{"qwen2_moe", "qwen2moe", ReadQwen2MoeHf, ReadQwen2MoeGguf, {}},
    Family{"qwen3", "qwen3", ReadQwen3Hf, ReadQwen3Gguf, {}},
    Family{"qwen3_moe", "qwen3moe", ReadQwen3MoeHf, ReadQwen3Gguf, {}},
    Family{"gemma2", "gemma2", ReadGemma2Hf, ReadGemma2Gguf, kGemmaAliases},
    Family{"gemma3_text", "gemma3", ReadGemma3Hf, ReadGemma3Gguf, kGemmaAliases},
    Family{"phi3", "phi3", ReadPhi3Hf, ReadPhi3Gguf, {}},
    Family{"olmo2", "olmo2", ReadOlmo2Hf, ReadOlmo2Gguf, kPostNormAliases},
    Family{"granite", "granite", ReadGraniteHf, ReadGraniteGguf, {}},
    Family{"deepseek_v3", "deepseek2", ReadDeepseekHf, ReadDeepseekGguf, {}},
    Family{"deepseek_v2", "", ReadDeepseekHf, nullptr, {}},
};

constexpr TensorAlias kUsualAliases[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_gate_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
};

struct WholeName {
  std::string_view hf;
  std::string_view gguf;
};
constexpr WholeName kWholeNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

std::string_view TakeNumber(std::string_view& text) {
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0)
    ++digits;
  const std::string_view number = text.substr(0, digits);
  text.remove_prefix(digits);
  return number;
}

}  // namespace

std::span<const Family> Families() { return kFamilies; }

std::string SupportedFamilies() {
  std::string list;
  for (const Family& family : kFamilies) {
    if (!list.empty()) list += ", ";
    list += family.model_type;
  }
  return list;
}

Result<const Family*> FindHfFamily(const HfConfig& config) {
  TRY_ASSIGN(const std::string type, config.String("model_type"));
  for (const Family& family : kFamilies)
    if (family.model_type == type) return &family;
  return Err(Code::kUnsupported,
             "{}: model type '{}' is not supported by the native engine (supported: {})",
             config.label(), Printable(type), SupportedFamilies());
}

Result<const Family*> FindGgufFamily(const GgufConfig& config) {
  std::string list;
  for (const Family& family : kFamilies) {
    if (family.architecture.empty()) continue;
    if (family.architecture == config.architecture()) return &family;
    list += list.empty() ? "" : ", ";
    list += family.architecture;
  }
  return Err(Code::kUnsupported,
             "{}: architecture '{}' is not supported by the native engine (supported: {})",
             config.label(), config.architecture(), list);
}

Status CheckConfig(const ModelConfig& config, const std::string& label) {
  constexpr int kMaxHeads = 4096;
  constexpr int kMaxHeadDim = 4096;
  constexpr int kMaxExperts = 4096;
  const MoeConfig& moe = config.moe;
  const MlaConfig& mla = config.mla;
  const int turned_of = mla.latent > 0 ? mla.rope_dim : config.head_dim;
  for (const RopeConfig& rope : {config.rope, config.local_rope})
    if (rope.dims % 2 != 0 || rope.dims < 0 || rope.dims > turned_of)
      return Err(Code::kCorrupt,
                 "{}: {} dimensions of a head are turned: it must be even and at most its {}",
                 label, rope.dims, turned_of);
  if (config.heads > kMaxHeads || config.head_dim > kMaxHeadDim ||
      mla.latent + mla.rope_dim > kMaxHeadDim)
    return Err(Code::kUnsupported, "{}: {} heads of {} (latent {}) are more than {} of {}", label,
               config.heads, config.head_dim, mla.latent, kMaxHeads, kMaxHeadDim);
  if (moe.experts > kMaxExperts || (moe.experts > 0 && moe.used > moe.experts))
    return Err(Code::kCorrupt, "{}: a token goes to {} of {} experts, possible are up to {}", label,
               moe.used, moe.experts, kMaxExperts);
  const bool even_groups = moe.groups >= 1 && moe.experts % moe.groups == 0;
  if (moe.experts > 0 && (!even_groups || moe.groups_used > moe.groups ||
                          moe.used > moe.experts / moe.groups * moe.groups_used))
    return Err(Code::kCorrupt, "{}: {} of {} experts cannot be chosen from {} of {} groups", label,
               moe.used, moe.experts, moe.groups_used, moe.groups);
  for (const LayerConfig& layer : config.layers)
    if (layer.experts && moe.experts == 0)
      return Err(Code::kCorrupt, "{}: layers have experts, but no number of them is given", label);
  return {};
}

std::string GgufNameOf(const Family& family, std::string_view hf_name) {
  for (const WholeName& whole : kWholeNames)
    if (whole.hf == hf_name) return std::string(whole.gguf);
  constexpr std::string_view kLayers = "model.layers.";
  if (!hf_name.starts_with(kLayers)) return std::string(hf_name);
  std::string_view rest = hf_name.substr(kLayers.size());
  const std::string_view layer = TakeNumber(rest);
  if (layer.empty() || !rest.starts_with('.')) return std::string(hf_name);
  rest.remove_prefix(1);
  // The one bias that is no module's own.
  if (rest == "mlp.gate.e_score_correction_bias")
    return fmt::format("blk.{}.exp_probs_b.bias", layer);
  std::string module(rest.substr(0, rest.rfind('.')));
  const std::string_view kind = rest.substr(std::min(module.size() + 1, rest.size()));
  std::string expert;
  constexpr std::string_view kExperts = ".experts.";
  if (const size_t at = module.find(kExperts); at != std::string::npos) {
    std::string_view after = std::string_view(module).substr(at + kExperts.size());
    expert = TakeNumber(after);
    if (!expert.empty()) {
      expert.insert(expert.begin(), '.');
      module = module.substr(0, at + kExperts.size() - 1) + std::string(after);
    }
  }
  for (const std::span<const TensorAlias> aliases :
       {family.aliases, std::span<const TensorAlias>(kUsualAliases)})
    for (const TensorAlias& alias : aliases)
      if (alias.hf == module) return fmt::format("blk.{}.{}{}.{}", layer, alias.gguf, expert, kind);
  return std::string(hf_name);
}

}  // namespace tandem::model
