// Makes a tokenizer from the tokenizer.ggml.* keys of a GGUF file, with llama.cpp's meaning.
#ifndef TANDEM_TEXT_GGUF_VOCABULARY_H_
#define TANDEM_TEXT_GGUF_VOCABULARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

struct GgufVocabulary {
  std::string model;         // tokenizer.ggml.model: gpt2, llama, bert, t5, gemma4
  std::string pre;           // tokenizer.ggml.pre, for gpt2
  std::string name;          // general.name
  std::string architecture;  // general.architecture
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  // empty or as many as tokens
  std::vector<float> scores;         // empty or as many as tokens
  std::vector<std::string> merges;   // "left right", by rank
  std::string charsmap;              // tokenizer.ggml.precompiled_charsmap
  std::optional<int32_t> bos, eos, eot, unknown, padding, separator;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;  // tokenizer.ggml.normalizer.*
  std::string chat_template;
  std::map<std::string, std::string> named_templates;
};

// kUnsupported for a model or a pre-tokeniser that is not known (the message lists those that
// are), kCorrupt for merges that name symbols outside the vocabulary.
Result<TokenizerSpec> ReadGgufVocabulary(GgufVocabulary vocabulary);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_GGUF_VOCABULARY_H_
