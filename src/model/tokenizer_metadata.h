// The tokenizer.* keys of a GGUF file as plain data, for whoever builds a tokeniser from them.
#ifndef TANDEM_MODEL_TOKENIZER_METADATA_H_
#define TANDEM_MODEL_TOKENIZER_METADATA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace tandem::model {

struct TokenizerMetadata {
  std::string model;  // "gpt2" is byte-level BPE, "llama" is SentencePiece-like
  std::string pre;    // which pre-tokeniser splits the text; empty when the file does not say
  std::vector<std::string> tokens;  // by id; of gpt2 in the printable byte alphabet
  std::vector<int32_t>
      token_types;            // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<float> scores;  // empty for gpt2
  std::vector<std::string> merges;  // "left right", by rank
  std::string charsmap;             // tokenizer.ggml.precompiled_charsmap; empty: none
  std::string name, architecture;   // general.name, general.architecture
  std::optional<int32_t> bos, eos, eot, eom, unknown, padding, separator, mask;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // unset: the model's own default
  std::optional<bool> remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;             // of bert
  std::string chat_template;                                // empty: none
  std::map<std::string, std::string> named_chat_templates;  // tokenizer.chat_template.NAME
};

// Arrays that belong together have the same length, ids lie inside the vocabulary, strings are
// UTF-8; a violation is an error that names the key. All strings are copies.
Result<TokenizerMetadata> ReadTokenizerMetadata(const GgufView& file);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TOKENIZER_METADATA_H_
