// The generation settings that a model ships, as the reference takes them: sampling defaults for
// requests and tokens that end an answer.
#ifndef TANDEM_ENGINE_GENERATION_CONFIG_H_
#define TANDEM_ENGINE_GENERATION_CONFIG_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/json.h"
#include "wire/messages.h"

namespace tandem::engine {

// A JSON object from a small file; nothing where the file is absent. kCorrupt, with the path, for
// anything else in it.
Result<std::optional<wire::Json>> ReadJsonObject(const std::string& path);

struct GenerationSources {
  std::string choice = "auto";  // --generation-config: auto, vllm, or a folder
  std::string overrides;        // --override-generation-config: JSON text, "" for none
  std::string model_folder;     // in Hugging Face layout; "" where the model is a single file
};

struct GenerationConfig {
  // JSON object with temperature, top_p, top_k, min_p, repetition_penalty and max_new_tokens, as
  // far as they are set: what a frontend applies where a request leaves them out. "" for none.
  std::string defaults;
  // eos_token_id, one or a list, of generation_config.json, else of config.json; unchecked.
  std::vector<int64_t> eos_ids;
};

// auto: the settings of the model's folder. vllm: none, but its ends of answers still. A folder:
// that one's, which must have the file. The overrides win over either.
Result<GenerationConfig> ReadGenerationConfig(const GenerationSources& sources);

// --override-generation-config: an object whose settings that this engine knows are numbers.
Status CheckGenerationOverrides(std::string_view json);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_GENERATION_CONFIG_H_
