// Gemma 2 and 3 text models: norms before and after each block, embeddings scaled by the root of
// their width, every second (Gemma 2) or five of six (Gemma 3) layers with a window; Gemma 2 caps
// scores and logits, Gemma 3 normalises query and key heads and has a second rope for its windows.
#include <cmath>

#include "model/families.h"

namespace tandem::model {
namespace {

constexpr TensorAlias kGemma[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};
constexpr double kLocalBase = 10000.0;

void SetCommon(ModelConfig& config) {
  config.activation = Activation::kGeluTanh;
  config.post_norm = true;
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding));
}

// All layers have the window but every `period`-th.
void SlideAllBut(int period, int window, ModelConfig& config) {
  for (size_t i = 0; i < config.layers.size(); ++i)
    config.layers[i].window = (i + 1) % static_cast<size_t>(period) == 0 ? 0 : window;
}

// Layers with a window turn by unscaled frequencies of their own base.
void SetLocalRope(double base, ModelConfig& config) {
  config.local_rope.base = base;
  config.local_rope.dims = config.rope.dims;
  for (LayerConfig& layer : config.layers) layer.local_rope = layer.window > 0;
}

Status ReadHf(const HfConfig& file, int period, ModelConfig& config) {
  SetCommon(config);
  config.stored.norms_minus_one = true;
  TRY_ASSIGN(config.tied_head, file.Bool("tie_word_embeddings", true));
  TRY_ASSIGN(const double scalar, file.Float("query_pre_attn_scalar", 1e-6, 1e9, 256.0));
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  TRY_ASSIGN(const double logits, file.Float("final_logit_softcapping", 0, 1e6, 0.0));
  config.logit_softcap = static_cast<float>(logits);
  TRY_ASSIGN(const double scores, file.Float("attn_logit_softcapping", 0, 1e6, 0.0));
  config.attention_softcap = static_cast<float>(scores);
  if (file.Has("layer_types")) return {};
  TRY_ASSIGN(const int window, HfWindow(file));
  if (window > 0) SlideAllBut(period, window, config);
  return {};
}

}  // namespace

const std::span<const TensorAlias> kGemmaAliases = kGemma;

Status ReadGemma2Hf(const HfConfig& file, ModelConfig& config) { return ReadHf(file, 2, config); }

Status ReadGemma3Hf(const HfConfig& file, ModelConfig& config) {
  TRY_ASSIGN(const int period, file.Size("sliding_window_pattern", 6));
  TRY(ReadHf(file, period, config));
  config.qk_norm = QkNorm::kHead;
  TRY_ASSIGN(double base, file.Float("rope_local_base_freq", 1.0, 1e12, kLocalBase));
  if (const wire::Json* kinds = file.Find("rope_parameters"); kinds != nullptr) {
    if (const wire::Json* local = kinds->Find("sliding_attention"); local != nullptr) {
      TRY_ASSIGN(base, HfConfig(*local, file.label()).Float("rope_theta", 1.0, 1e12, base));
    }
  }
  SetLocalRope(base, config);
  return {};
}

Status ReadGemma2Gguf(const GgufConfig& file, ModelConfig& config) {
  SetCommon(config);
  config.stored.half_split_rope = true;
  TRY_ASSIGN(const double logits, file.Float("final_logit_softcapping", 0, 1e6, 30.0));
  config.logit_softcap = static_cast<float>(logits);
  TRY_ASSIGN(const double scores, file.Float("attn_logit_softcapping", 0, 1e6, 50.0));
  config.attention_softcap = static_cast<float>(scores);
  // The 27B model alone scales by its width over heads; its file does not say so.
  if (config.layers.size() == 46)
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.embedding / config.heads));
  TRY_ASSIGN(const int window, GgufWindow(file));
  SlideAllBut(2, window, config);
  return {};
}

Status ReadGemma3Gguf(const GgufConfig& file, ModelConfig& config) {
  SetCommon(config);
  config.stored.half_split_rope = true;
  config.qk_norm = QkNorm::kHead;
  if (config.layers.size() == 62)  // 27B, as above
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.embedding / config.heads));
  TRY_ASSIGN(const double cap, file.Float("final_logit_softcapping", 0, 1e6, 0.0));
  config.logit_softcap = static_cast<float>(cap);
  TRY_ASSIGN(const int window, GgufWindow(file));
  SlideAllBut(6, window, config);
  TRY_ASSIGN(const double base, file.Float("rope.freq_base_swa", 1.0, 1e12, kLocalBase));
  SetLocalRope(base, config);
  return {};
}

}  // namespace tandem::model
