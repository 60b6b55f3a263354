// What a frontend needs of a model besides its weights: tokeniser, chat template, generation
// settings, end tokens. Read from the model's files, or made up for a mock engine without any.
#ifndef TANDEM_ENGINE_ARTIFACTS_H_
#define TANDEM_ENGINE_ARTIFACTS_H_

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/worker_options.h"
#include "wire/messages.h"

namespace tandem::engine {

struct ModelArtifacts {
  std::string tokenizer_digest;
  std::string template_digest;                   // "" without a template
  std::string generation_digest;                 // "" without settings
  std::map<std::string, std::string> by_digest;  // what kMethodArtifact serves
  int32_t vocab = 0;
  std::vector<wire::TokenId> eos_ids;
  std::vector<wire::TokenId> text_ids;  // ordinary tokens: what a mock engine may say
  std::string name;                     // of the model's file or folder
};

// Reads options.model_path (tokenizer and template of another place or text where the options say
// so), no weights. kCorrupt, with both numbers, if the tokenizer has more tokens than the
// embedding has rows. Fails, with the reason, if a frontend could not build the tokenizer or the
// chat template. Without a model, for the mock engine: a byte-level vocabulary of
// options.mock.vocab tokens (at least 300) with a ChatML template.
Result<ModelArtifacts> ReadArtifacts(const WorkerOptions& options);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_ARTIFACTS_H_
