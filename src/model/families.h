// The model families of the native engine. A family is a file that says how its config.json and its
// GGUF metadata become a ModelConfig, and a row of the table in families.cc; what it computes is
// put together from blocks that all families share (transformer.h).
#ifndef TANDEM_MODEL_FAMILIES_H_
#define TANDEM_MODEL_FAMILIES_H_

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/model_config.h"

namespace tandem::model {

// A module of a Hugging Face checkpoint, without "model.layers.N.", and the GGUF name of the same,
// without "blk.N.".
struct TensorAlias {
  std::string_view hf;
  std::string_view gguf;
};

struct Family {
  std::string_view model_type;    // in config.json
  std::string_view architecture;  // in GGUF; empty: none
  // Adjust what was read from the members that all families share.
  Status (*read_hf)(const HfConfig&, ModelConfig&);
  Status (*read_gguf)(const GgufConfig&, ModelConfig&);
  std::span<const TensorAlias> aliases;  // beside, and before, the usual names
};

std::span<const Family> Families();
// "llama, mistral, ...": for messages.
std::string SupportedFamilies();
// Of config.json and of GGUF metadata. kUnsupported names the family and lists those supported.
Result<const Family*> FindHfFamily(const HfConfig& config);
Result<const Family*> FindGgufFamily(const GgufConfig& config);

// What no family may leave contradictory, whatever the file says; `label` names the file.
Status CheckConfig(const ModelConfig& config, const std::string& label);

// The name that GGUF gives to a tensor of a Hugging Face checkpoint ("blk.3.attn_q.weight"; an
// expert's is "blk.3.ffn_up_exps.7.weight"), or the name itself where no alias is known.
std::string GgufNameOf(const Family& family, std::string_view hf_name);

// family_*.cc
Status ReadLlamaHf(const HfConfig& file, ModelConfig& config);
Status ReadLlamaGguf(const GgufConfig& file, ModelConfig& config);
Status ReadMistralHf(const HfConfig& file, ModelConfig& config);
Status ReadMixtralHf(const HfConfig& file, ModelConfig& config);
Status ReadQwen2Hf(const HfConfig& file, ModelConfig& config);
Status ReadQwen2MoeHf(const HfConfig& file, ModelConfig& config);
Status ReadQwen3Hf(const HfConfig& file, ModelConfig& config);
Status ReadQwen3MoeHf(const HfConfig& file, ModelConfig& config);
Status ReadQwen2Gguf(const GgufConfig& file, ModelConfig& config);
Status ReadQwen2MoeGguf(const GgufConfig& file, ModelConfig& config);
Status ReadQwen3Gguf(const GgufConfig& file, ModelConfig& config);
Status ReadGemma2Hf(const HfConfig& file, ModelConfig& config);
Status ReadGemma3Hf(const HfConfig& file, ModelConfig& config);
Status ReadGemma2Gguf(const GgufConfig& file, ModelConfig& config);
Status ReadGemma3Gguf(const GgufConfig& file, ModelConfig& config);
Status ReadPhi3Hf(const HfConfig& file, ModelConfig& config);
Status ReadPhi3Gguf(const GgufConfig& file, ModelConfig& config);
Status ReadOlmo2Hf(const HfConfig& file, ModelConfig& config);
Status ReadOlmo2Gguf(const GgufConfig& file, ModelConfig& config);
Status ReadGraniteHf(const HfConfig& file, ModelConfig& config);
Status ReadGraniteGguf(const GgufConfig& file, ModelConfig& config);
Status ReadDeepseekHf(const HfConfig& file, ModelConfig& config);
Status ReadDeepseekGguf(const GgufConfig& file, ModelConfig& config);
extern const std::span<const TensorAlias> kGemmaAliases;
extern const std::span<const TensorAlias> kMixtralAliases;
extern const std::span<const TensorAlias> kPostNormAliases;

}  // namespace tandem::model

#endif  // TANDEM_MODEL_FAMILIES_H_
