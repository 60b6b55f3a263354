// What a frontend needs of a model besides its weights: tokeniser, chat template, end tokens. Read
// from the model file, or made up for a mock engine without one.
#ifndef TANDEM_ENGINE_ARTIFACTS_H_
#define TANDEM_ENGINE_ARTIFACTS_H_

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"
#include "wire/messages.h"

namespace tandem::engine {

struct ModelArtifacts {
  std::string tokenizer_digest;
  std::string template_digest;                   // "" without a template
  std::map<std::string, std::string> by_digest;  // what kMethodArtifact serves
  int32_t vocab = 0;
  std::vector<wire::TokenId> eos_ids;
  std::vector<wire::TokenId> text_ids;  // ordinary tokens: what a mock engine may say
  std::string name;                     // general.name of the file, or its file name
  int64_t context_length = 0;           // 0: unknown
};

// Reads the metadata of a .gguf file only. kCorrupt, with both numbers, if the tokenizer has more
// tokens than the embedding has rows. Fails, with the reason, if a frontend could not build the
// tokenizer or the chat template.
Result<ModelArtifacts> ReadArtifacts(const std::string& gguf_path);

// A byte-level vocabulary of `vocab` tokens (at least 300) with a ChatML template.
Result<ModelArtifacts> BuiltInArtifacts(int32_t vocab);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_ARTIFACTS_H_
